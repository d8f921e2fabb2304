"""`jmdp compare`: the library's comparison, wherever the simulator comes from."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import gymnasium
import numpy as np
import pytest
from cli_runs import SHOP, empty_model, run

import jmdp
from jmdp.cli.environments import environment
from jmdp.cli.loading import Loader, attribute

LAKE = "jmdp compare FrozenLake-v1 --discount 0.9 --horizon 20 --max-samples 64"
CLIFF = "jmdp compare CliffWalking-v1 --discount 0.9 --horizon 4 --max-samples 64 --json"

NOISY = """
import warnings

import gymnasium

print("imported")


class Loud(gymnasium.Wrapper):
    def step(self, action):
        print("stepping")
        return self.env.step(action)


def env():
    print("made")
    warnings.warn("mind the step", stacklevel=1)
    return Loud(gymnasium.make("FrozenLake-v1"))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of the user's, from which nothing stays imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("shop", "noisy", "till", "file json", "file json'"):
        sys.modules.pop(name, None)


def test_prints_as_the_library_does(capsys):
    best = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]
    env = gymnasium.make("FrozenLake-v1")
    env.reset(seed=5)
    env.unwrapped.s = 4
    expected = jmdp.compare(env, policy=best, discount=0.9, horizon=20, max_samples=64, seed=5)
    found = run(capsys, f"{LAKE} --state 4 --seed 5 --policy {','.join(map(str, best))}")
    assert found.out == f"{expected}\n"
    assert found.code == 1
    assert expected.outcome is jmdp.results.Outcome.BUDGET_EXHAUSTED


def test_json_has_every_interval_and_what_it_rests_on(capsys):
    line = "jmdp compare world:anti_correlated_bandit --seed 3 --max-samples 100 --confidence 0.9 --policy first"
    found = run(capsys, f"{line} --coupling local --policy-luck shared --json")
    record, model = found.json, jmdp.worlds.anti_correlated_bandit().model
    truth = jmdp.compare(
        model, policy=[0], seed=3, max_samples=100, confidence=0.9, coupling=jmdp.Local(policy_luck="shared")
    )
    assert record["seed"] == 3
    assert record["samples"] == truth.samples == 100
    assert record["confidence"] == 0.9
    assert record["coupling"] == {"name": "Local", "policy_luck": "shared"}
    assert (record["outcome"], record["decided"], record["best"]) == ("BUDGET_EXHAUSTED", False, None)
    assert found.code == 1
    for row in record["actions"]:
        for name, value in truth.beside(row["action"]).items():
            finite = [x if np.isfinite(x) else None for x in (float(value), value.low, value.high)]
            assert [row[name][part] for part in ("value", "low", "high")] == finite
        assert row["regret"]["mean"]["value"] == truth.regret(row["action"]).mean


def test_precision_decides(capsys):
    found = run(capsys, "jmdp compare world:anti_correlated_bandit --precision 5 --json")
    assert (found.code, found.json["outcome"]) == (0, "PRECISE")


def test_after_goes_where_the_actions_lead(capsys):
    """No luck on the cliff: one step up from the start, 36, is 24."""
    walked, put, elsewhere = (
        run(capsys, f"{CLIFF} {where}").json for where in ("--after up", "--state 24", "--state 25")
    )
    assert walked["after"] == ["up"]
    assert walked["actions"] == put["actions"] != elsewhere["actions"]


def test_episodes_begin_by_the_reset_seed(capsys):
    def mean(options):
        line = f"jmdp compare CartPole-v1 --discount 0.9 --horizon 9 --max-samples 64 --policy left --json {options}"
        return run(capsys, line).json["actions"]

    assert mean("--seed 1") == mean("--seed 1 --reset-seed 1") != mean("--seed 1 --reset-seed 2")


def test_tables_have_states_actions_and_policies_by_name(capsys):
    line = "jmdp compare world:inventory --state 3 --actions 'order 3' 0 --policy base_stock --max-samples 64 --json"
    record = run(capsys, line).json
    world = jmdp.worlds.inventory()
    truth = jmdp.compare(world.model, world.policies["base_stock"], state=3, actions=[3, 0], seed=0, max_samples=64)
    assert [row["action"] for row in record["actions"]] == ["order 3", "order 0"]
    assert [row["mean"]["value"] for row in record["actions"]] == [truth.mean_of("order 3"), truth.mean_of("order 0")]


def test_actions_without_numbers_are_written_out(capsys):
    line = "jmdp compare Pendulum-v1 --discount 0.9 --horizon 3 --max-samples 64 --actions -1.5 1 --policy 0.5 --json"
    record = run(capsys, line).json
    assert [row["action"] for row in record["actions"]] == ["-1.5", "1"]
    assert record["policy"] == "function always 0.5"


@pytest.mark.parametrize("env", ["shop.py:simulator", "shop:simulator"], ids=["file", "module"])
def test_simulators_and_policies_of_ones_own(env, here, capsys):
    (here / "shop.py").write_text(SHOP)
    found = run(
        capsys, f"jmdp compare {env} --discount 0.9 --policy {env.split(':')[0]}:policy --max-samples 64 --json"
    )
    assert found.json["simulator"] == "FunctionSimulator(2 actions)"
    assert found.json["policy"] == "function policy"


def test_what_an_environment_prints_is_not_in_the_answer(here, capsys):
    (here / "noisy.py").write_text(NOISY)
    line = "jmdp compare noisy.py:env --discount 0.9 --horizon 3 --max-samples 64 --json --state 4"
    with pytest.warns(UserWarning, match="mind the step"):
        loud = run(capsys, line)
    assert loud.json["samples"] == 64
    assert [word in loud.err for word in ("imported", "made", "stepping")] == [True, True, True]
    quiet = run(capsys, f"{line} --quiet")
    assert (quiet.out, quiet.err) == (loud.out, "")


def test_saved_models_of_stable_baselines(here, capsys, monkeypatch):
    class PPO:
        @staticmethod
        def load(path, device):
            return lambda observation: 1

    package = ModuleType("stable_baselines3")
    package.PPO, package.__all__ = PPO, ["PPO", "get_system_info"]
    monkeypatch.setitem(sys.modules, "stable_baselines3", package)
    empty_model("model.zip")
    saved = run(capsys, f"{LAKE} --policy PPO:model.zip --json").json
    assert saved["actions"] == run(capsys, f"{LAKE} --policy down --json").json["actions"]
    assert "There is no file 'x.zip'" in run(capsys, f"{LAKE} --policy PPO:x.zip").err
    assert (
        "no algorithm of stable-baselines3 'PPQ'. Did you mean 'PPO'?"
        in run(capsys, f"{LAKE} --policy PPQ:model.zip").err
    )


def test_interrupted_is_130_and_prints_what_is_known(capsys, monkeypatch):
    known = jmdp.compare(jmdp.worlds.anti_correlated_bandit().model, policy=[0], seed=0, max_samples=64)
    known = replace(known, outcome=jmdp.results.Outcome.INTERRUPTED)
    monkeypatch.setattr("jmdp.cli.commands.compare.compare", lambda *args, **settings: known)
    found = run(capsys, "jmdp compare world:anti_correlated_bandit")
    assert (found.code, found.out) == (130, f"{known}\n")


@pytest.mark.parametrize(
    ("text", "simulator"),
    [
        ("ale:pong", "ALESimulator('pong', frame_skip=4, sticky=0.25)"),
        ("gymnax:CartPole-v1", "GymnaxSimulator(CartPole-v1)"),
        ("gymnasium:CartPole-v1", "GymnasiumSimulator(CartPole-v1)"),
        ("jmdp.worlds:anti_correlated_bandit", "table of 1 states × 2 actions"),
    ],
    ids=["ale", "gymnax", "gymnasium's own colon", "a function"],
)
def test_where_environments_come_from(text, simulator):
    assert repr(environment(text, Loader(safe=False)).simulator()).startswith(simulator)


def test_paths_have_no_say_in_names(here):
    (here / "deep").mkdir()
    Path("deep/shop.py").write_text(SHOP)
    assert repr(environment("deep/shop.py:simulator", Loader(safe=False)).simulator()) == "FunctionSimulator(2 actions)"


def test_a_file_is_one_module_however_it_is_reached(here):
    """By its path, from another folder, by name, and from another file of the user's."""
    (here / "shop.py").write_text("class Stock: pass")
    (here / "till.py").write_text("import shop")
    (here / "deep").mkdir()
    texts = ["shop.py:Stock", f"{here}/deep/../shop.py:Stock", "shop:Stock", "till.py:shop.Stock"]
    assert len({attribute(text) for text in texts}) == 1


def test_a_file_takes_no_name_that_is_taken(here):
    source = "from dataclasses import dataclass\n\n\n@dataclass\nclass Stock:\n    n: int = 3"
    (here / "deep").mkdir()
    taken = sys.modules["json"]
    for path in ("json.py", "deep/json.py"):
        (here / path).write_text(source)
        stock = attribute(f"{path}:Stock")
        assert stock is attribute(f"{path}:Stock")
        assert sys.modules[stock.__module__].Stock is stock
    assert sys.modules["json"] is taken
    assert attribute("json.py:Stock") is not attribute("deep/json.py:Stock")
