"""`jmdp check`: faults are a no, notes are not."""

from __future__ import annotations

import sys

import pytest
from cli_runs import run

OUT_OF_STEP = """
import jmdp


class Market(jmdp.simulators.Simulator):
    actions = jmdp.simulators.action_labels(["keep", "sell"])

    def step(self, stock, action, shock):
        rng = shock.generator()
        price = 2 + rng.random() if action == 1 else 0.0
        return jmdp.simulators.Step(price * min(stock, 2), int(max(0, stock - rng.poisson(3)) + 3), False)

    def start(self, shock):
        return 5


def copies():
    reward = [[[0.0, 1.0], [1.0, 0.0]]] * 2
    return jmdp.TabularJMDP([[0.5, 0.5]] * 2, reward, [[[1, 0], [0, 1]]] * 2, 0.9)


def secretive():
    import random

    import gymnasium

    class Secretive(gymnasium.Env):
        action_space, observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(1)

        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 0, random.random() + action, False, False, {}

    return Secretive()
"""


@pytest.fixture
def market(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "market.py").write_text(OUT_OF_STEP)
    yield
    sys.modules.pop("market", None)


@pytest.mark.parametrize("env", ["FrozenLake-v1", "world:inventory"])
def test_nothing_found(env, capsys):
    found = run(capsys, f"jmdp check {env} --steps 4")
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith("no faults, no notes: ")
    assert "states not reached are not checked" in found.out


def test_randomness_of_the_start_alone_is_a_note(capsys):
    found = run(capsys, "jmdp check Pendulum-v1 --steps 4")
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith("note: one future: ")
    assert found.out.splitlines()[-1].startswith("no faults, 1 note: ")


@pytest.mark.parametrize(("name", "kind"), [("Market", "out of step"), ("secretive", "global generator")])
def test_faults_are_a_no(name, kind, market, capsys):
    """Also those for which an environment would not become a simulator."""
    found = run(capsys, f"jmdp check market.py:{name} --steps 4")
    assert found.code == 1
    assert f"fault: {kind}: " in found.out
    assert "1 fault, no notes: " in found.out
    record = run(capsys, f"jmdp check market.py:{name} --steps 4 --json").json
    assert record["faults"] == 1
    assert record["findings"][0]["fault"] is True
    assert record["steps"] == 4


def test_notes_on_a_table_are_not_faults(market, capsys):
    found = run(capsys, "jmdp check market.py:copies --steps 4")
    assert found.code == 0
    assert "note: copies: " in found.out
    assert found.out.splitlines()[-1].startswith("no faults, 1 note: ")
