"""P22: seventeen environments, fifteen with a planted fault of their randomness: each is caught or named."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import jmdp
from jmdp.errors import SimulatorError
from jmdp.results.certificate import Outcome
from jmdp.testing import check_simulator

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402


class Tank(gymnasium.Env):
    """A level that leaks, is filled by the action and disturbed by rain."""

    observation_space = spaces.Box(-50, 50, (1,))
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = float(self.np_random.normal())
        return self.seen(), {}

    def seen(self):
        return np.array([self.level], np.float32)

    def step(self, action):
        self.level = 0.5 * self.level + self.rain(action) + action
        return self.seen(), self.level, False, False, {}

    def rain(self, action):
        return self.np_random.normal()


class TailOfOneAction(Tank):
    """Sound: what one action draws more comes after all else."""

    def rain(self, action):
        rain = self.np_random.normal()
        return rain + (0.1 * self.np_random.normal() if action == 1 else 0.0)


class ExtraDraw(Tank):
    def rain(self, action):
        if action == 1:
            self.np_random.random()
        return self.np_random.normal()


class ExtraDrawInRareStates(Tank):
    def rain(self, action):
        if action == 2 and self.level > 6.5:
            self.np_random.random()
        return self.np_random.normal()


class GlobalNumpy(Tank):
    def rain(self, action):
        return np.random.normal()  # noqa: NPY002


class GlobalPython(Tank):
    def rain(self, action):
        return random.gauss(0, 1)


class OwnGenerator(Tank):
    def __init__(self):
        self.weather = np.random.default_rng(1)

    def rain(self, action):
        return self.weather.normal()


class FreshEntropy(Tank):
    def rain(self, action):
        return np.random.default_rng().normal()


class OperatingSystem(Tank):
    def rain(self, action):
        return os.urandom(2)[0] / 256


WEATHER = np.random.default_rng(2)


class ModuleGenerator(Tank):
    def rain(self, action):
        return WEATHER.normal()


class ClassGenerator(Tank):
    weather = np.random.default_rng(3)

    def rain(self, action):
        return self.weather.normal()


class TorchGenerator(Tank):
    def rain(self, action):
        torch = pytest.importorskip("torch")
        return float(torch.randn(()))


class DrawsByState(Tank):
    """As many draws as there are puddles, then the rain."""

    def rain(self, action):
        for _ in range(int(abs(self.level)) % 3):
            self.np_random.random()
        return self.np_random.normal()


class PoissonByAction(Tank):
    """Rejection inside one call uses more numbers for one action than for another."""

    def rain(self, action):
        drops = self.np_random.poisson(20 + 10 * action)
        return self.np_random.normal() + 0.1 * drops


class TapeInReset(Tank):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.tape = 0.0, self.np_random.normal(size=300).tolist()
        return self.seen(), {}

    def rain(self, action):
        return self.tape.pop()


class HoldsAnIterator(Tank):
    def reset(self, *, seed=None, options=None):
        self.seasons = (k % 4 for k in range(10**9))
        return super().reset(seed=seed)

    def rain(self, action):
        return self.np_random.normal() + next(self.seasons)


class SwappedOrder(Tank):
    def rain(self, action):
        if action == 1:
            rain = self.np_random.normal()
            wind = self.np_random.normal()
        else:
            wind = self.np_random.normal()
            rain = self.np_random.normal()
        return rain + 0.1 * wind


# What check_simulator finds first, and what compare does.
SEVENTEEN = {
    Tank: (None, Outcome.BEST_FOUND),
    TailOfOneAction: (None, Outcome.BEST_FOUND),
    ExtraDraw: ("out of step", "out of step"),
    ExtraDrawInRareStates: ("unexplored", Outcome.BEST_FOUND),
    GlobalNumpy: ("global generator", "global generator"),
    GlobalPython: ("global generator", "global generator"),
    OwnGenerator: ("own generator", "own generator"),
    FreshEntropy: ("hidden state", "hidden state"),
    OperatingSystem: ("hidden state", "hidden state"),
    ModuleGenerator: ("hidden state", "hidden state"),
    ClassGenerator: ("hidden state", "hidden state"),
    TorchGenerator: ("hidden state", "hidden state"),
    DrawsByState: ("out of step between states", "out of step between states"),
    PoissonByAction: ("out of step", "out of step"),
    TapeInReset: ("hidden start", Outcome.DETERMINISTIC),
    HoldsAnIterator: ("cannot be copied", "cannot be copied"),
    SwappedOrder: ("swapped draws", "swapped draws"),
}


def standing(kind):
    env = kind()
    env.reset(seed=0)
    return env


def unchecked(kind):
    return jmdp.simulators.GymnasiumSimulator(standing(kind), check=False)


@pytest.mark.parametrize("kind", SEVENTEEN, ids=lambda kind: kind.__name__)
def test_check_simulator(kind):
    expected = SEVENTEEN[kind][0]
    if expected == "cannot be copied":
        with pytest.raises(SimulatorError, match=expected):
            unchecked(kind)
        return
    found = check_simulator(unchecked(kind), steps=25, seed=1)
    assert "distinct states in" in found.explored
    assert found.explored.endswith("states not reached are not checked")
    assert found.explored in str(found)
    if expected in (None, "unexplored"):
        assert found == []
    else:
        assert found[0].kind == expected
        assert found[0].fault == (expected != "hidden start")
        assert {finding.kind for finding in found} <= {expected, "out of step between states"}


@pytest.mark.parametrize("kind", SEVENTEEN, ids=lambda kind: kind.__name__)
def test_compare(kind):
    expected = SEVENTEEN[kind][1]

    def compared():
        return jmdp.compare(standing(kind), policy=lambda seen: 0, discount=0.5, seed=0, max_samples=64, progress=False)

    if isinstance(expected, Outcome):
        assert compared().outcome is expected
    else:
        with pytest.raises(SimulatorError, match=expected):
            compared()


def test_rare_states_are_found_by_a_longer_check():
    found = check_simulator(unchecked(ExtraDrawInRareStates), steps=200)
    assert {finding.kind for finding in found} == {"out of step", "out of step between states"}


def test_compare_says_that_one_future_was_seen():
    found = jmdp.compare(standing(TapeInReset), policy=lambda seen: 0, discount=0.5, seed=0, progress=False)
    assert found.best is None
    assert found.leader == "2"
    text = " ".join(str(found).split())
    assert text.startswith("No random numbers were used, so one rollout of each action is exact for this state: 2 − ")
    assert "confidence)" not in text
    assert "shuffled deck" in text


def test_a_deterministic_environment_has_one_future_and_no_fault():
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    found = jmdp.compare(env, policy=lambda seen: int(seen[2] > 0), discount=0.9, seed=0, progress=False)
    assert found.outcome is Outcome.DETERMINISTIC
    assert found.samples == 1  # it does not go on for what cannot come
    assert "If the simulator is deterministic from this state, the means are exact" in " ".join(str(found).split())
    notes = check_simulator(jmdp.simulators.GymnasiumSimulator(env), steps=5)
    assert [(note.kind, note.fault) for note in notes] == [("one future", False)]


def test_equal_returns_under_a_policy_that_draws_are_not_one_future():
    env = gymnasium.make("MountainCar-v0")
    env.reset(seed=0)
    found = jmdp.compare(env, policy="uniform", discount=0.5, seed=0, max_samples=80, progress=False)
    assert found.summary.samples.complete.one_future  # −1 in every step
    assert found.outcome is Outcome.BUDGET_EXHAUSTED
