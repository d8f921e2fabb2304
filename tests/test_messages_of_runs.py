"""Texts of undecided results, and errors of steps, generators and worker processes."""

from __future__ import annotations

import contextlib
import json
import math
import pickle
import re

import numpy as np
import pytest

import jmdp
from jmdp.base.labels import Labels
from jmdp.comparisons.answer import chosen
from jmdp.errors import PolicyError, SettingsError, SimulatorError
from jmdp.simulators import FunctionSimulator, ObjectSimulator

FEW = {"seed": 0, "discount": 0.9, "max_samples": 64, "progress": False}


def later(state, action, u):
    return state + 1


def over(state):
    return state >= 1


def noisy(state, action, u):
    return u


def steady(state, action, u):
    return u + 8.0 * action


NAMES = ["left", "middle", "right"]


def one_step(reward, names):
    return FunctionSimulator(reward, later, names, start=0, terminal=over)


# ------------------------------------------------------------------------------------------------------ results


def test_undecided_texts_name_no_best():
    """8. The text says undecided, and the fields agree."""
    simulator = one_step(noisy, NAMES)
    found = jmdp.compare(simulator, policy="uniform", coupling=jmdp.Independent(), **FEW)
    assert (found.best, chosen(found), found.outcome.successful) == (None, None, False)
    said = f"undecided: 3 of 3 actions may be the best; highest mean so far: {found.leader}; {found.leader} − "
    assert found.answer.startswith(said)
    two = jmdp.compare(simulator, policy="uniform", actions=[0, 1], coupling=jmdp.Independent(), **FEW)
    assert two.best is None
    assert two.answer.startswith("undecided between ")
    assert "is the best" not in repr(found) + repr(two)


def test_a_known_best_with_unknown_precision_is_not_undecided():
    """8. The best is known, but not the gaps to the requested precision."""
    found = jmdp.compare(one_step(steady, 2), policy="uniform", coupling=jmdp.Independent(), precision=0.01, **FEW)
    assert found.best == "1"
    assert "stopped: the budget is used up; the best is known, but not every mean gap" in repr(found)
    assert "confidence or precision is not reached" not in repr(found)


def test_why_a_gap_that_did_not_vary_has_no_interval():
    """9."""
    tenths = one_step(lambda s, a, u: u + 0.1 * a, ["left", "right"])
    found = jmdp.compare(tenths, policy="uniform", **FEW)
    text = " ".join(repr(found).split())
    assert 0 < np.ptp(found.summary.samples.returns[:, 1] - found.summary.samples.returns[:, 0]) < 1e-12  # rounding
    row = next(line for line in repr(found).splitlines() if line.startswith("left "))
    assert "e-" not in row
    assert found.variance_reduction("right", "left") == math.inf
    assert "inf ×" not in text
    assert "the gap to left was the same in all samples: no spread was seen, so there is no interval" in text
    three = " ".join(repr(jmdp.compare(one_step(steady, NAMES), policy="uniform", **FEW)).split())
    assert "the gaps to left, middle were the same" in three
    varied = jmdp.compare(one_step(noisy, 2), policy="uniform", coupling=jmdp.Independent(), **FEW)
    assert "no spread" not in repr(varied)
    runs = jmdp.compare_runs(
        {"a": lambda luck: luck.uniform("x"), "b": lambda luck: luck.uniform("x") + 3},
        seed=0,
        max_samples=64,
        progress=False,
    )
    assert "the gap to a was the same in all samples" in repr(runs)
    assert "inf ×" not in repr(runs)


def test_actions_have_a_length():
    """10."""
    named, numbered = one_step(noisy, NAMES).actions, one_step(noisy, 3).actions
    assert len(named) == len(numbered) == 3
    assert (list(named), list(numbered)) == (NAMES, [0, 1, 2])
    assert (named[2], named[-1], numbered[2]) == ("right", "right", 2)
    assert "left" in named
    assert "up" not in named
    with pytest.raises(IndexError):
        Labels("action", 3)[3]


# -------------------------------------------------------------------------------------------- worker processes


def nearest(luck):
    return 0.0


def test_what_cannot_be_sent_to_workers_is_the_function_itself():
    """12."""
    simulator = one_step(noisy, 2)
    place = (
        r"^A lambda \(test_messages_of_runs\.py, line \d+\), part of the {}, cannot be sent to worker processes.*def"
    )
    few = FEW | {"pool": 2}
    with pytest.raises(SettingsError, match=place.format("policy")) as refused:
        jmdp.compare_policies(simulator, {"a": lambda x: 0, "b": lambda x: 1}, **few)
    assert "BranchPlan" not in str(refused.value)
    with pytest.raises(SettingsError, match=place.format("policy")):
        jmdp.compare(simulator, policy=lambda x: 0, **few)
    with pytest.raises(SettingsError, match=place.format("simulator")):
        jmdp.compare(one_step(lambda s, a, u: u, 2), policy="uniform", **few)
    with pytest.raises(SettingsError, match=place.format("runs")):
        jmdp.compare_runs({"a": nearest, "b": lambda luck: 1.0}, seed=0, pool=2, progress=False)

    def inner(x):
        return 0

    with pytest.raises(SettingsError, match=r"^The function inner \(test_messages_of_runs.py, line \d+\), part of"):
        jmdp.compare(simulator, policy=inner, **few)


# --------------------------------------------------------------------------------------------------- generators


class Spawner:
    def __init__(self):
        self.rng = np.random.default_rng()

    def step(self, action):
        return self.rng.spawn(1)[0].normal()


def test_spawn_of_a_keyed_generator():
    """13."""
    says = r'no seed for spawn.* use another key for each child: luck\["name", i\]'
    luck, keyed = jmdp.Luck(jmdp.Shock.of_sample(0, 0)), jmdp.Shock.of_sample(0, 0).generator()
    copied = pickle.loads(pickle.dumps(luck))["a"]
    for spawn in (luck["a"].spawn, luck["a"].bit_generator.spawn, keyed.spawn, keyed.bit_generator.spawn, copied.spawn):
        with pytest.raises(SimulatorError, match=says):
            spawn(2)
    with pytest.raises(SimulatorError, match="In a simulator, call spawn in __init__"):
        ObjectSimulator(Spawner, 2)
    assert luck["a", 0].random() != luck["a", 1].random()


# --------------------------------------------------------------------------------------------------------- steps


class Fragile:
    """Raises once its position is above 4."""

    def __init__(self):
        self.rng = np.random.default_rng()
        self.x, self.t = 0.0, 0

    def step(self, action):
        if self.x > 4:
            raise KeyError("stock")
        self.x += action + self.rng.random()
        self.t += 1
        return self.x, self.x, self.t >= 50


@pytest.mark.parametrize("trial", [True, False], ids=["in the trial", "in a rollout"])
def test_what_a_step_of_an_object_raises_comes_out_with_a_note(trial):
    """14."""
    actions = {"stay": 0, "go": 1} if trial else {"stay": -1, "go": 3}
    with pytest.raises(KeyError, match="stock") as raised:
        jmdp.compare(ObjectSimulator(Fragile, actions), policy=lambda x: 1, horizon=9, **FEW)
    (note,) = raised.value.__notes__
    assert re.search(r"Raised in step \d+ of the episode of Fragile, with the action ", note)
    assert "The same call with the same seed raises it again" in note


def test_what_the_functions_of_a_simulator_raise_comes_out_with_a_note():
    """14. The note has the arguments with which the function raises again."""

    def reward(state, action, u):
        return 1 / (state - 3)

    def onwards(state, action, u):
        if state == 1:
            raise KeyError("stock")
        return state + 1

    few = FEW | {"horizon": 9, "actions": [0, 1]}
    with pytest.raises(ZeroDivisionError) as raised:
        jmdp.compare(FunctionSimulator(reward, later, ["a", "b"], start=0), policy=lambda s: 1, **few)
    (note,) = raised.value.__notes__
    assert re.search(r"reward\(s, a, u\) .* s = 3, a = 1 \(action b\), u = 0\.\d+\.", note)
    with pytest.raises(KeyError) as raised:
        jmdp.compare(FunctionSimulator(noisy, onwards, ["a", "b"], start=0), policy=lambda s: 1, **few)
    (note,) = raised.value.__notes__
    assert re.search(r"next_state\(s, a, u\) .* s = 1, a = \d \(action .\), u = 0", note)
    with pytest.raises(KeyError) as raised:
        jmdp.compare_policies(
            FunctionSimulator(noisy, onwards, ["a", "b"], start=0),
            {"x": lambda s: 1, "y": lambda s: 1},
            **FEW | {"horizon": 9},
        )
    (note,) = raised.value.__notes__
    assert re.search(r"next_state\(s, a, u\) .* s = 1, a = 1 \(action b\)", note)


def test_json_of_an_undecided_comparison(capsys):
    """8. The fields of the command line agree with the text."""
    from jmdp.cli.main import main

    with contextlib.suppress(SystemExit):
        main(["compare", "world:inventory", "--samples", "2", "--json", "--quiet"])
    found = json.loads(capsys.readouterr().out)
    assert (found["decided"], found["best"], found["choice"]) == (False, None, None)
    assert found["leader"] in found["survivors"]


# ------------------------------------------------------------------------------------------------ notes


class Broken(jmdp.simulators.Simulator):
    actions = jmdp.simulators.action_labels(["a", "b"])

    def start(self, shock):
        return 0

    def step(self, state, action, shock):
        if state == 3:
            raise KeyError("stock")
        return jmdp.simulators.Step(shock.uniform() + action, state + 1, False)


def environment(**methods):
    gymnasium = pytest.importorskip("gymnasium")

    class Plain(gymnasium.Env):
        action_space = gymnasium.spaces.Discrete(2)
        observation_space = gymnasium.spaces.Discrete(9)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return 0, {}

        def step(self, action):
            self.t += 1
            return min(self.t, 8), float(self.np_random.random()), False, False, {}

    made = type("Plain", (Plain,), methods)()
    made.reset(seed=0)
    return made


def compared(simulator, what):
    settings = FEW | {"horizon": 9}
    if what == "actions":
        return jmdp.compare(simulator, policy=lambda s: 0, **settings)
    return jmdp.compare_policies(simulator, {"x": lambda s: 0, "y": lambda s: 1}, **settings)


def late(self, action):
    self.t += 1
    if self.t > 3:
        raise KeyError("stock")
    return self.t, float(self.np_random.random()), False, False, {}


@pytest.mark.parametrize("kind", ["simulator", "environment"])
@pytest.mark.parametrize("what", ["actions", "policies"])
def test_what_a_step_raises_has_a_note_with_the_step(kind, what):
    simulator = Broken() if kind == "simulator" else environment(step=late)
    with pytest.raises(KeyError, match="stock") as raised:
        compared(simulator, what)
    (note,) = raised.value.__notes__
    assert re.search(r"Raised in step [1-4] of (Broken|GymnasiumSimulator)\(", note)


def test_what_a_reset_raises_has_a_note():
    def reset(self, *, seed=None, options=None):
        if seed != 0:
            raise KeyError("stock")
        self.t = 0
        return 0, {}

    with pytest.raises(KeyError) as raised:
        jmdp.compare_policies(environment(reset=reset), {"x": lambda s: 0, "y": lambda s: 1}, **FEW)
    assert re.search(r"Raised by reset\(seed=\d+\) of Plain", raised.value.__notes__[0])


def test_a_type_error_within_reset_is_not_one_of_its_arguments():
    def reset(self, *, seed=None, options=None):
        return self.build(size=3)

    def build(self):
        return 0, {}

    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        jmdp.compare_policies(
            type("Env", (type(environment()),), {"reset": reset, "build": build})(),
            {"x": lambda s: 0, "y": lambda s: 1}, **FEW,
        )  # fmt: skip


@pytest.mark.parametrize("reward", ["1.5", b"1", None, np.zeros(2), np.complex128(1 + 1j)])
@pytest.mark.parametrize("what", ["actions", "policies"])
def test_rewards_of_an_environment_that_are_no_numbers(reward, what):
    simulator = environment(step=lambda self, action: (0, reward, False, False, {}))
    with pytest.raises(SimulatorError, match="returned the reward"):
        compared(simulator, what)


def test_a_reward_beyond_all_floats():
    simulator = environment(step=lambda self, action: (0, 10**400, False, False, {}))
    with pytest.raises(SimulatorError):
        jmdp.compare_policies(simulator, {"x": lambda s: 0, "y": lambda s: 1}, **FEW)


def test_actions_of_a_simulator_that_are_a_list():
    class Listed(Broken):
        actions = ["a", "b"]  # noqa: RUF012 (the mistake)

    with pytest.raises(SimulatorError, match=r"Use jmdp\.simulators\.action_labels\(\['a', 'b'\]\)"):
        jmdp.compare(Listed(), policy=lambda s: 0, **FEW)
    with pytest.raises(SimulatorError, match=r"This is the class Broken\. Give a simulator: Broken\(…\)"):
        jmdp.compare(Broken, policy=lambda s: 0, **FEW)


def test_a_state_in_the_place_of_the_policy():
    with pytest.raises(PolicyError, match="cannot be used as a policy"):
        jmdp.compare(Broken(), 0, **FEW)
