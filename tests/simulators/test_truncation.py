"""Truncation: no end by default, an end where the user says so, and a clear error where the data have run out."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import SettingsError, SimulatorError
from jmdp.simulators import GymnasiumSimulator

gym = pytest.importorskip("gymnasium")

DAYS = 30
DEMAND = 1 + np.sin(np.arange(DAYS)) / 2


class DemandTape(gym.Env):
    """Action 1 opens a shop, which sells DEMAND + noise on this and every later day. Then the data run out."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def __init__(self, signals_end: bool = True) -> None:
        self.signals_end = signals_end

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.day, self.shops = 0, 0
        return self.seen(), {}

    def seen(self):
        return np.array([self.day, self.shops], np.float64)

    def step(self, action):
        noise = self.np_random.normal()
        self.shops += int(action)
        reward = self.shops * (DEMAND[self.day] + 0.1 * noise)
        self.day += 1
        return self.seen(), reward, False, self.signals_end and self.day == DAYS, {}


def limited() -> gym.Env:
    """The same, but truncated by Gymnasium's wrapper."""
    return gym.wrappers.TimeLimit(DemandTape(signals_end=False), DAYS)


TAPES = {"its own signal": DemandTape, "TimeLimit": limited}
WAYS = {
    "copied": {},
    "replayed": {"snapshot": "replay"},
    "saved": {
        "save": lambda env: (env.unwrapped.day, env.unwrapped.shops),
        "restore": lambda env, saved: vars(env.unwrapped).update(zip(("day", "shops"), saved, strict=True)),
    },
}


def compared(simulator, **settings):
    given = {"policy": lambda seen: 0, "seed": 0, "discount": 0.9, "samples": 100} | settings
    return jmdp.compare(simulator, **given)


def value_of_a_shop(discount: float, days: int) -> float:
    """E[Z(1) − Z(0)]: with the policy that opens none, the first one sells every day."""
    return float(sum(discount**t * DEMAND[t] for t in range(days)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tape", TAPES)
def test_the_end_of_a_finite_tape_is_an_end(tape, way):
    """100 samples at 95% confidence, anytime: the seed is fixed, so this is no chance event."""
    simulator = GymnasiumSimulator(TAPES[tape](), truncated_ends=True, **WAYS[way])
    found = compared(simulator, state=simulator.reset(0))
    assert value_of_a_shop(0.9, DAYS) in found.gap(1, 0).mean_interval
    assert found.gap(1, 0).mean == pytest.approx(value_of_a_shop(0.9, DAYS), abs=0.1)
    assert not found.summary.samples.complete.open_returns.any()
    assert found.summary.samples.steps == 2 * DAYS * found.samples
    assert found.summary.limits.assumption is None
    assert "truncated_ends=True" in repr(found)


def test_the_whole_tape_without_discount():
    env = DemandTape()
    env.reset(seed=0)
    found = compared(GymnasiumSimulator(env, truncated_ends=True), discount=1.0, horizon=1000)
    assert value_of_a_shop(1.0, DAYS) in found.gap(1, 0).mean_interval


@pytest.mark.parametrize("tape", TAPES)
def test_a_tape_that_runs_out_after_truncation_is_named(tape):
    env = TAPES[tape]()
    env.reset(seed=0)
    says = (
        rf"signalled truncated at step {DAYS} \(.*then raised IndexError: index 30 is out of bounds.*"
        rf"truncated_ends=True.*horizon ≤ {DAYS}"
    )
    with pytest.raises(SimulatorError, match=says) as raised:
        compared(env)
    assert isinstance(raised.value.__cause__, IndexError)
    found = compared(env, horizon=DAYS)
    assert value_of_a_shop(0.9, DAYS) in found.gap(1, 0).mean_interval


def test_errors_that_no_truncation_precedes_are_left_as_they_are():
    env = DemandTape(signals_end=False)
    env.reset(seed=0)
    with pytest.raises(IndexError):
        compared(env)


def test_by_default_rollouts_go_on_after_a_time_limit():
    env = gym.wrappers.TimeLimit(DemandTape(), 5)
    env.reset(seed=0)
    assert value_of_a_shop(0.9, 20) in compared(env, horizon=20).gap(1, 0).mean_interval
    ended = GymnasiumSimulator(env, truncated_ends=True)
    assert value_of_a_shop(0.9, 5) in compared(ended, horizon=20).gap(1, 0).mean_interval


@pytest.mark.parametrize("way", ["copied", "saved"])
def test_the_steps_that_a_time_limit_has_counted_are_state_if_it_is_an_end(way):
    lake = gym.make("FrozenLake-v1", is_slippery=False)
    own = {"save": lambda env: int(env.unwrapped.s), "restore": lambda env, s: setattr(env.unwrapped, "s", s)}
    for truncated_ends in (False, True):
        simulator = GymnasiumSimulator(lake, truncated_ends=truncated_ends, **(own if way == "saved" else {}))
        first = simulator.reset(0)
        second = simulator.step(first, "left", Shock(bytes(16))).state  # against the wall
        third = simulator.step(second, "left", Shock(bytes(16))).state
        assert (simulator.digest(second) == simulator.digest(third)) is not truncated_ends


@pytest.mark.parametrize("truncated_ends", [False, True])
def test_gymnax(truncated_ends):
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make("CartPole-v1")
    simulator = jmdp.simulators.GymnaxSimulator(
        (env, params.replace(max_steps_in_episode=5)), truncated_ends=truncated_ends
    )
    found = jmdp.compare(simulator, policy="uniform", seed=0, discount=0.5, horizon=8, max_samples=64)
    assert float(found.summary.samples.returns.max()) == (sum(0.5**t for t in range(5 if truncated_ends else 8)))
    assert found.summary.samples.complete.open_returns.all() != truncated_ends


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tyro")
    from jmdp.cli.environments import environment
    from jmdp.cli.loading import Loader
    from jmdp.cli.main import main

    (tmp_path / "tape.py").write_text(
        "import gymnasium, numpy\n"
        "class Tape(gymnasium.Env):\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    observation_space = gymnasium.spaces.Discrete(4)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        self.day = 0\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        "        reward = [1.0, 2.0, 3.0][self.day] * (1 + action) + self.np_random.random()\n"
        "        self.day += 1\n"
        "        return self.day, reward, False, self.day == 3, {}\n"
    )
    monkeypatch.chdir(tmp_path)
    line = ["compare", "tape.py:Tape", "--discount", "0.5", "--policy", "0", "--max-samples", "64", "--quiet"]
    assert main([*line, "--truncated-ends"]) == 0
    assert capsys.readouterr().out.startswith("1 earns ")
    assert main(line) == 2
    assert "truncated at step 3" in capsys.readouterr().err
    with pytest.raises(SettingsError, match="--truncated-ends is available for Gymnasium"):
        environment("world:inventory", Loader(safe=False), truncated_ends=True)
