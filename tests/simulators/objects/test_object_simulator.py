"""Rollouts of ordinary objects: equal to a loop by hand, with the right distribution, in copies that are exact."""

from __future__ import annotations

import copy
import math
import pickle
import random

import numpy as np
import pytest
from sound_objects import (
    SOUND,
    DataShop,
    DrawnStartShop,
    FixedShop,
    GlobalShop,
    LambdaShop,
    LockedShop,
    LoggingShop,
    NestedShop,
    OldShop,
    PythonShop,
    SavingShop,
    Shop,
    ShopWithEntities,
)

import jmdp
from jmdp.base.luck import Shock, Usage
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import ObjectSimulator
from jmdp.simulators.checking.probe import SavedGenerator
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws

pytestmark = pytest.mark.filterwarnings("ignore:ShopWithEntities.demand makes a generator of its own")

ROOT = Shock.of_sample(3, 1)


def up_to_six(stock):
    return min(3, max(0, 6 - int(np.ravel(stock)[0])))


def simulator_of(kind, **settings):
    return ObjectSimulator(kind, actions=4, observe=lambda shop: shop.stock, **settings)


def returns(simulator, horizon=12, samples=8, coupling=jmdp.Synchronous()):  # noqa: B008 (immutable)
    plan = BranchPlan.of_actions(
        as_policy(up_to_six, simulator.actions),
        state=simulator.start(Shock.of_sample(0, 0)),
        actions=[0, 1, 2, 3],
        coupling=coupling,
        discount=0.9,
        horizon=horizon,
        seed=5,
    )
    return paired_draws(simulator, plan, 0, samples).returns


def by_hand(kind, set_key, horizon=12, samples=8):
    """The same rollouts, as one would write them for this class."""
    table = np.zeros((samples, 4))
    for i in range(samples):
        for action in range(4):
            shop = kind()
            getattr(shop, "reset", lambda: None)()
            order = action
            for t in range(horizon):
                set_key(shop, jmdp.Synchronous().environment_shock(Shock.of_sample(5, i), t, b"", 0))
                returned = shop.step(order)
                reward = returned[1] if isinstance(returned, tuple) else returned
                table[i, action] += 0.9**t * reward
                order = up_to_six(shop.stock)
    return table


def new_generator(shop, shock):
    shop.rng = shock.generator()


def seeded_in_place(shop, shock):
    if isinstance(shop.rng, random.Random):
        shop.rng.seed(int.from_bytes(shock.words, "little"))
    else:
        shop.rng.seed(np.frombuffer(shock.words, np.uint32))


@pytest.mark.parametrize("kind", [Shop, SavingShop, LambdaShop, LockedShop, DataShop, LoggingShop])
def test_returns_are_those_of_a_loop_by_hand(kind):
    assert returns(simulator_of(kind)) == pytest.approx(by_hand(kind, new_generator), rel=1e-12)


@pytest.mark.parametrize("kind", [OldShop, PythonShop])
def test_returns_with_old_and_python_generators(kind):
    assert returns(simulator_of(kind)) == pytest.approx(by_hand(kind, seeded_in_place), rel=1e-12)


@pytest.mark.parametrize("coupling", [jmdp.Synchronous(), jmdp.Local(), jmdp.Independent()])
@pytest.mark.parametrize("kind", [Shop, NestedShop])
def test_returns_do_not_depend_on_the_way_of_copying(kind, coupling):
    found = [returns(simulator_of(kind, snapshot=way), 6, 4, coupling) for way in ("pickle", "deepcopy", "replay")]
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_a_shared_log_changes_nothing_and_does_not_grow():
    simulator = simulator_of(LoggingShop, shared=("log",))
    assert (returns(simulator) == returns(simulator_of(LoggingShop))).all()
    assert simulator._steps.shared.values["log"] == []


@pytest.mark.parametrize("kind", SOUND)
def test_branches_leave_the_original_untouched(kind):
    """The same step again after other branches, and the digest of the state."""
    simulator = simulator_of(kind)
    state = simulator.start(ROOT)
    for t in range(3):
        state = simulator.step(state, t, ROOT.derived(b"to", t)).state
    digest, first = simulator.digest(state), simulator.step(state, 1, ROOT)
    branch = simulator.step(state, 2, ROOT.derived(b"other")).state
    for t in range(4):
        branch = simulator.advance(branch, 3, ROOT.derived(b"on", t)).state
    again = simulator.step(state, 1, ROOT)
    assert simulator.digest(state) == digest
    assert again.reward == first.reward
    assert simulator.digest(again.state) == simulator.digest(first.state)
    assert simulator.advance(state, 1, ROOT).reward == first.reward


@pytest.mark.parametrize("kind", [Shop, SavingShop, LockedShop, GlobalShop, NestedShop, ShopWithEntities])
def test_no_fault_is_found(kind):
    found = jmdp.testing.check_simulator(simulator_of(kind), steps=10)
    assert not [finding for finding in found if finding.fault]


class Uneven(Shop):
    """Ordering draws a lead time before the demand, so that actions get different demands."""

    def step(self, order):
        if order:
            self.rng.random()
        return super().step(order)


def test_actions_that_draw_differently_are_refused():
    """The draws of the object's own generator are logged."""
    with pytest.raises(jmdp.errors.SimulatorError, match="out of step"):
        jmdp.compare(simulator_of(Uneven), policy=up_to_six, discount=0.9, seed=0, max_samples=32)


def test_global_generators_are_as_before():
    np.random.seed(1), random.seed(1)  # noqa: NPY002
    before = np.random.random(), random.random()  # noqa: NPY002
    np.random.seed(1), random.seed(1)  # noqa: NPY002
    returns(simulator_of(GlobalShop), 4, 2)
    assert (np.random.random(), random.random()) == before  # noqa: NPY002


class Newsvendor:
    """Orders are sold or lost; all periods are alike."""

    def __init__(self):
        self.rng = random.Random(3)

    def step(self, order):
        demand = self.rng.randrange(7)
        return 3.0 * min(order, demand) - order


def test_mean_and_variance_of_a_gap_are_those_of_the_closed_form():
    """D uniform on 0 … 6, ten periods: gap per period 3(min(4, D) − min(2, D)) − 2. False alarms: 1 in 10⁵."""
    gaps = [3 * (min(4, d) - min(2, d)) - 2 for d in range(7)]
    mean, variance, n = 10 * float(np.mean(gaps)), 10 * float(np.var(gaps)), 800
    simulator = ObjectSimulator(Newsvendor, actions=7, observe=lambda shop: 0)
    rules = {"four": lambda seen: 4, "two": lambda seen: 2}
    found = jmdp.compare_policies(simulator, rules, seed=0, discount=1.0, horizon=10, samples=n, progress=False)
    gap = found.gap("four", "two")
    assert abs(gap.mean - mean) < 4.5 * math.sqrt(variance / n)
    assert abs(gap.std**2 / variance - 1) < 4.5 * math.sqrt(2 / n)  # kurtosis of a sum of ten is below 3


def test_starts_are_drawn_by_the_key_of_the_episode():
    simulator = ObjectSimulator(DrawnStartShop, actions=4)
    stocks = [int(simulator.observe(simulator.start(Shock.of_sample(0, i)))[0]) for i in range(300)]
    assert set(stocks) == set(range(10))
    again = [int(simulator.observe(simulator.start(Shock.of_sample(0, i)))[0]) for i in range(300)]
    assert stocks == again


def test_a_deterministic_object_needs_one_rollout():
    found = jmdp.compare(ObjectSimulator(FixedShop, actions=3), policy=lambda stock: 1, discount=0.9, seed=0)
    assert found.samples == 1


def test_values_of_actions():
    named = ObjectSimulator(Shop, actions={"none": 0, "many": 3})
    free = ObjectSimulator(Shop)
    rules = {"policy": up_to_six, "discount": 0.9, "seed": 0, "max_samples": 32, "horizon": 5}
    one = jmdp.compare(free, actions={"none": 0, "many": 3}, **rules)
    other = jmdp.compare(named, **rules | {"policy": lambda stock: "many" if stock < 6 else "none"})
    assert "copied by pickle" in repr(free)
    assert list(one.alternatives) == list(other.alternatives) == ["none", "many"]


def test_the_current_state_of_an_object_of_your_own():
    for kind in (Shop, SavingShop, LambdaShop):
        simulator, shop = ObjectSimulator(kind, actions=4), kind()
        for order in (3, 1, 2):
            shop.step(order)
        before = copy.deepcopy((shop.stock, shop.rng.bit_generator.state))
        state = simulator.current(shop)
        twin = kind()
        twin.stock, twin.rng = shop.stock, ROOT.generator()
        assert simulator.step(state, 2, ROOT).reward == twin.step(2)[1]
        assert (shop.stock, shop.rng.bit_generator.state) == before
    with pytest.raises(jmdp.errors.SimulatorError, match="cannot be copied"):
        ObjectSimulator(LockedShop, actions=4).current(LockedShop())


@pytest.mark.parametrize("kind", [Shop, SavingShop, LambdaShop, LockedShop])
def test_states_survive_pickling(kind):
    """Objects that cannot be pickled repeat their steps."""
    simulator = ObjectSimulator(kind, actions=4)
    state = simulator.start(ROOT)
    for t in range(3):
        state = simulator.step(state, t, ROOT.derived(b"to", t)).state
    copied, its_state = pickle.loads(pickle.dumps((simulator, state)))
    assert copied.digest(its_state) == simulator.digest(state)
    assert copied.step(its_state, 1, ROOT).reward == simulator.step(state, 1, ROOT).reward


@pytest.mark.long
def test_worker_processes_change_nothing(two_workers):
    for kind in (Shop, LambdaShop):
        simulator = ObjectSimulator(kind, actions=4)
        found = [
            jmdp.compare(simulator, policy=up_to_six, discount=0.9, seed=0, max_samples=64, horizon=8, pool=pool)
            for pool in (None, two_workers)
        ]
        assert str(found[0]) == str(found[1])


def test_a_mesa_model():
    mesa = pytest.importorskip("mesa")

    class Person(mesa.Agent):
        ill = False

        def act(self):
            share = sum(one.ill for one in self.model.agents) / len(self.model.agents)
            self.ill = self.model.rng.random() < (0.9 if self.ill else share * self.model.contacts)

    class Epidemic(mesa.Model):
        def __init__(self):
            super().__init__(rng=0)
            self.contacts = 0.5
            for i in range(12):
                Person(self).ill = i < 3

        def step(self):
            self.agents.do("act")

    def month(model, contacts):
        model.contacts = contacts
        model.step()
        ill = sum(one.ill for one in model.agents)
        return ill, contacts * 9 - ill, False

    simulator = ObjectSimulator(Epidemic, {"open": 0.5, "closed": 0.1}, step=month)
    assert "copies      by pickle" in simulator.report or "copies      by deepcopy" in simulator.report
    found = jmdp.compare(simulator, policy=lambda ill: 0, discount=0.9, seed=0, max_samples=32, horizon=5)
    assert not [finding for finding in jmdp.testing.check_simulator(simulator, steps=1) if finding.fault]
    assert found.gap("open", "closed").correlation > 0.2


@pytest.mark.parametrize("kind", [OldShop, PythonShop])
def test_draws_of_generators_seeded_in_place_are_noted(kind):
    """Otherwise the object would count as deterministic."""
    simulator = simulator_of(kind)
    for step, used in ((lambda shop, order: 1.0, False), (lambda shop, order: shop.step(order), True)):
        simulator._steps._step = step
        usage = Usage()
        state = simulator.start(Shock.of_sample(0, 0))
        simulator.step(state, 1, Shock.of_sample(0, 0, usage))
        assert usage.used is used


@pytest.mark.parametrize("own", [np.random.default_rng(3), np.random.RandomState(3), random.Random(3)])
def test_a_generator_that_the_factory_gives_to_all_objects_is_left_alone(own):
    def shop():
        made = (PythonShop if isinstance(own, random.Random) else Shop)()
        made.rng = own
        return made

    before = SavedGenerator.of(own)
    returns(simulator_of(shop), 4, 2)
    assert SavedGenerator.of(own) == before


def test_local_coupling_of_whole_episodes():
    """Policies that act alike have equal returns under `Local`, which compares digests of states."""
    rules = {"a": up_to_six, "b": lambda stock: up_to_six(stock)}
    found = jmdp.compare_policies(
        simulator_of(Shop), rules, seed=0, discount=0.9, horizon=8, coupling=jmdp.Local(), max_samples=32
    )
    assert found.gap("a", "b").std == 0
