"""Generators that are made after the first step, and bit generators, are keyed or refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sound_objects import LambdaShop, Shop

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators import ObjectSimulator
from jmdp.simulators.checking.probe import SavedGenerator

ROOT = Shock.of_sample(3, 1)
MADE_IN_STEP = pytest.mark.filterwarnings("ignore:.* makes a generator of its own")


class MadeByAnAction:
    """One action makes a generator, from which all later rewards are drawn."""

    maker = 1

    def __init__(self):
        self.rng, self.extra = np.random.default_rng(0), None

    def step(self, action):
        if action == self.maker and self.extra is None:
            self.extra = np.random.default_rng(7)
            return 0.0
        return float((self.extra or self.rng).normal())


@MADE_IN_STEP
def test_all_actions_are_tried():
    """The mean of 400 × 4 standard normal rewards; false alarms: 1 in 10⁵."""
    simulator = ObjectSimulator(MadeByAnAction, actions=32)
    rewards = []
    for i in range(400):
        root = Shock.of_sample(0, i)
        state = simulator.start(root)
        for t in range(5):
            reward, state, _ = simulator.advance(state, 1, root.derived(b"step", t))
            rewards.append(reward)
    drawn = np.reshape(rewards, (400, 5))[:, 1:]
    assert abs(drawn.mean()) < 4.5 / 40
    assert np.unique(drawn).size == 1600
    assert "32 steps" in ObjectSimulator(type("Fixed", (), {"step": lambda self, action: 1.0}), actions=32).report


class MadeByAnotherAction(MadeByAnAction):
    maker = 91


@MADE_IN_STEP
def test_a_generator_made_by_an_action_that_was_not_tried_is_refused_at_once():
    simulator = ObjectSimulator(MadeByAnotherAction, actions=200)
    state = simulator.start(ROOT)
    for t in range(200):
        state = simulator.advance(state, t % 5, ROOT.derived(b"step", t)).state
    with pytest.raises(SimulatorError, match=r"it did not have at first: extra\. Make all generators in __init__"):
        simulator.step(state, 91, ROOT)


class Customer:
    def __init__(self, number):
        self.rng = np.random.default_rng(number)


class GrowingShop(Shop):
    """A customer with a generator of its own comes in a certain step, or at random."""

    first, chance = 22, 0.0

    def __init__(self):
        super().__init__()
        self.customers, self.t = [], 0

    def step(self, order):
        self.t += 1
        if self.t == self.first or self.rng.random() < self.chance:
            self.customers.append(Customer(self.t))
        return super().step(order)


class RarelyGrowingShop(GrowingShop):
    first, chance = 0, 0.0005


def test_a_generator_made_after_the_trial_is_refused():
    """In the list of an attribute, whose type does not change."""
    rules = {"a": lambda stock: 0, "b": lambda stock: 1}
    settings = {"seed": 1, "discount": 1.0, "horizon": 30, "samples": 200, "progress": False}
    with pytest.raises(SimulatorError, match=r"After 22 steps GrowingShop .*: customers\[0\]\.rng"):
        jmdp.compare_policies(ObjectSimulator(GrowingShop, actions=2), rules, **settings)
    with pytest.raises(SimulatorError, match=r"RarelyGrowingShop .*: customers\[0\]\.rng"):
        jmdp.compare_policies(ObjectSimulator(RarelyGrowingShop, actions=2), rules, **settings)


class TurningShop(Shop):
    """Refers to its generator by other names from step 25 on, also by one that is shorter than the first."""

    def __init__(self):
        super().__init__()
        self.part, self.rng, self.t, self.a = Customer(0), None, 0, None

    def demand(self):
        self.t += 1
        if self.t == 25:
            self.a = self.part.rng
        return int(self.part.rng.poisson(3))


def test_new_names_of_a_keyed_generator_are_no_fault():
    simulator = ObjectSimulator(TurningShop, actions=2)
    state = simulator.start(ROOT)
    for t in range(40):
        state = simulator.advance(state, 1, ROOT.derived(b"step", t)).state


class BitShop(Shop):
    """A bit generator, wrapped where it is used."""

    def __init__(self):
        super().__init__()
        self.bits = np.random.PCG64(1)

    def demand(self):
        return int(np.random.Generator(self.bits).poisson(2)) + int(self.rng.integers(2))


class NestedBitShop(BitShop):
    """Bit generators of other kinds in a tuple and in a list."""

    def __init__(self):
        super().__init__()
        self.bits, self.sources = None, ([np.random.MT19937(1)], np.random.SFC64(2))

    def demand(self):
        found = (np.random.Generator(bits).poisson(1) for bits in (self.sources[0][0], self.sources[1]))
        return int(sum(found)) + int(self.rng.integers(2))


class BitLambdaShop(LambdaShop, BitShop):
    """Copied by deepcopy."""


@pytest.mark.parametrize("kind", [BitShop, NestedBitShop, BitLambdaShop])
def test_bit_generators_are_keyed(kind):
    """Demands of 1000 samples have the mean and the variance of their law; false alarms: 1 in 10⁵."""
    simulator = ObjectSimulator(kind, actions=4, observe=lambda shop: shop.stock)
    assert ("bits" if hasattr(kind().bits, "state") else "sources[0][0]") in simulator.report
    demands = np.array([kind.demand(simulator._thing(_set(simulator, i))) for i in range(1000)])
    assert abs(demands.mean() - 2.5) < 4.5 * np.sqrt(2.25 / 1000)
    assert abs(demands.var() / 2.25 - 1) < 4.5 * np.sqrt(2.5 / 1000)  # kurtosis below 3.5
    state = simulator.start(ROOT)
    first = simulator.step(state, 1, ROOT)
    simulator.step(state, 2, ROOT.derived(b"other"))
    assert simulator.step(state, 1, ROOT).reward == first.reward
    assert not [finding for finding in jmdp.testing.check_simulator(simulator, steps=5) if finding.fault]


def _set(simulator, i):
    state = simulator.start(Shock.of_sample(0, i))
    simulator._steps.keys.set(simulator._thing(state), Shock.of_sample(1, i))
    return state


def test_a_bit_generator_that_the_factory_gives_to_all_objects_is_left_alone():
    own = np.random.PCG64(3)

    def shop():
        made = BitShop()
        made.bits = own
        return made

    before = SavedGenerator.of(own)
    simulator = ObjectSimulator(shop, actions=4)
    simulator.step(simulator.start(ROOT), 1, ROOT)
    assert SavedGenerator.of(own) == before


class GlobalBits(Shop):
    """The bit generator of NumPy's global generator counts as global."""

    def __init__(self):
        super().__init__()
        self.bits = np.random.get_bit_generator()

    def demand(self):
        return int(np.random.Generator(self.bits).poisson(2))


def test_the_global_bit_generator_is_seeded_as_such():
    assert "the global generators" in ObjectSimulator(GlobalBits, actions=2, snapshot="replay").report


class BitsInClass(BitShop):
    source = np.random.PCG64(1)

    def demand(self):
        return int(np.random.Generator(self.source).poisson(2)) + super().demand()


class SpawningSeeds(Shop):
    def __init__(self):
        super().__init__()
        self.seeds = np.random.SeedSequence(1)

    def demand(self):
        return super().demand() + int(np.random.default_rng(self.seeds.spawn(1)[0]).integers(2))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (BitsInClass, r"BitsInClass\.source.*Make the generator in __init__"),
        (SpawningSeeds, r"self\.seeds.*Draw seeds"),
    ],
)
def test_other_bit_generators_and_seed_sequences_are_refused_by_name(kind, says):
    with pytest.raises(SimulatorError, match=says):
        ObjectSimulator(kind, actions=2)


class SeededByTime(Shop):
    def __init__(self):
        super().__init__()
        self.t = 0

    def demand(self):
        self.t += 1
        return super().demand() + int(np.random.Generator(np.random.PCG64(self.t)).integers(2))


class Named(Shop):
    """The words seed and spawn, but no randomness of its own."""

    def __init__(self):
        super().__init__()
        self.seed = 3

    def spawn(self):
        return self.seed

    def demand(self):
        return super().demand() + self.spawn()


def test_a_seed_of_a_step_is_warned_of_where_the_simulator_is_made():
    with pytest.warns(UserWarning, match=r"SeededByTime.demand makes a .*PCG64.* same in all samples") as found:
        ObjectSimulator(SeededByTime, actions=4)
    assert [one.filename for one in found] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "warning" not in ObjectSimulator(Named, actions=2).report
