"""The trial of an object: what it refuses, with the place named, and what it reports."""

from __future__ import annotations

import numpy as np
import pytest
from faulty_objects import FAULTY
from sound_objects import (
    SOUND,
    DataShop,
    DrawnStartShop,
    FixedShop,
    LoggingShop,
    Shop,
    ShopWithEntities,
    WronglySavingShop,
)

from jmdp.base.luck import Shock
from jmdp.errors import SettingsError, SimulatorError, UnavailableError
from jmdp.simulators import ObjectSimulator

pytestmark = pytest.mark.filterwarnings("ignore:(ShopWithEntities|LateShop).* makes a generator of its own")


def simulator_of(kind, **settings):
    if kind is DataShop:
        settings = {"observe": lambda shop: shop.stock} | settings
    return ObjectSimulator(kind, actions=4, **settings)


@pytest.mark.parametrize("kind", FAULTY)
def test_hidden_randomness_is_refused_by_name(kind):
    pytest.importorskip("torch")
    with pytest.raises(SimulatorError) as error:
        ObjectSimulator(kind, actions=2)
    assert FAULTY[kind] in str(error.value)


@pytest.mark.parametrize("kind", SOUND)
def test_sound_objects_are_accepted(kind):
    assert f"copies      by {SOUND[kind]}\n" in simulator_of(kind).report


def test_report_of_randomness_and_starts():
    assert "randomness  rng, set to the key of each step\nstart       always the same" in simulator_of(Shop).report
    assert "start       drawn by reset" in simulator_of(DrawnStartShop).report
    assert "randomness  none" in simulator_of(FixedShop).report


def test_report_of_a_copy_that_failed():
    assert (
        "not by its methods get_state and set_state: a branch continues differently"
        in simulator_of(WronglySavingShop).report
    )


def test_growth_is_measured_and_named():
    found = simulator_of(LoggingShop)
    assert "growing: log" in repr(found)
    assert 'no step read it: shared=("log",)' in found.report
    assert "growing" not in repr(simulator_of(LoggingShop, shared=("log",)))


class ReadingShop(LoggingShop):
    """Reads its log: the more entries, the dearer."""

    def step(self, order):
        seen, reward, over = super().step(order)
        return seen, reward - len(self.log), over


def test_shared_attributes_that_are_read_are_refused():
    with pytest.raises(SimulatorError, match="a step reads what"):
        simulator_of(ReadingShop, shared=("log",))
    assert "growth      log" in simulator_of(ReadingShop).report
    assert "no step read it" not in simulator_of(ReadingShop).report


class RareShop(Shop):
    """Draws that changed nothing in the trial."""

    def demand(self):
        return 3 + int(self.rng.random() < 1e-9)


def test_draws_without_effect_are_no_fault():
    assert "changed no reward and no state" in simulator_of(RareShop).report


class IdleShop(FixedShop):
    """Deterministic with a generator; the method that makes it is no part of a step."""

    def __init__(self):
        super().__init__()
        self.seed(3)

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)


def test_an_idle_generator_is_no_fault():
    assert "no step draws from rng" in simulator_of(IdleShop).report


class LateShop(Shop):
    """Gets another generator after 40 steps."""

    def __init__(self):
        super().__init__()
        self.t = 0

    def step(self, order):
        self.t += 1
        if self.t == 40:
            self.late = np.random.default_rng(1)
        return super().step(order)


def test_a_generator_that_appears_late_is_refused():
    simulator, root = simulator_of(LateShop), Shock.of_sample(0, 0)
    state = simulator.start(root)
    for t in range(39):
        state = simulator.advance(state, 1, root.derived(b"step", t)).state
    with pytest.raises(SimulatorError, match="it did not have at first: late"):
        simulator.advance(state, 1, root)


def test_places_that_change_are_searched():
    assert simulator_of(ShopWithEntities)._steps.keys.places is None
    assert simulator_of(Shop)._steps.keys.places is not None


class Returning(Shop):
    returned = None

    def step(self, action):
        return self.returned


@pytest.mark.parametrize(
    "returned", [None, {"reward": 1.0}, (1.0, 2.0), (0, 1.0, 2.0), (0, 1, False, 2), (1,), "1", True]
)
def test_other_results_of_step_are_refused_with_the_forms(returned):
    kind = type("Returning", (Returning,), {"returned": returned})
    with pytest.raises(SimulatorError, match=r"step of Returning returned .*Return a reward, \(reward, done\)"):
        ObjectSimulator(kind, actions=2)


@pytest.mark.parametrize(
    "returned",
    [
        2,
        2.5,
        np.float32(2),
        np.array(2.0),
        (2.0, False),
        (0, 2, np.False_),
        (0, 2, False, {}),
        (0, 2, False, False, {}),
    ],
)
def test_results_of_step(returned):
    simulator = ObjectSimulator(type("Returning", (Returning,), {"returned": returned}), actions=2)
    step = simulator.step(simulator.start(Shock(bytes(16))), 0, Shock(bytes(16)))
    assert step.reward in (2.0, 2.5)
    assert not step.terminated


def test_wrong_arguments_say_the_fix():
    with pytest.raises(SimulatorError, match=r"ObjectSimulator\(Shop, actions=…\)"):
        ObjectSimulator(Shop(), actions=2)
    shop = Shop()
    with pytest.raises(SimulatorError, match="makes a new object each time"):
        ObjectSimulator(lambda: shop, actions=2)
    with pytest.raises(SimulatorError, match="Give a function without arguments"):
        ObjectSimulator(lambda size: shop, actions=2)
    with pytest.raises(SimulatorError, match="has no method step"):
        ObjectSimulator(dict, actions=2)
    with pytest.raises(SettingsError, match="Give names with values"):
        ObjectSimulator(Shop, actions=[0, 5])
    with pytest.raises(SettingsError, match="no attribute 'diary'"):
        ObjectSimulator(Shop, actions=2, shared=("diary",))
    with pytest.raises(SettingsError, match=r"list of names: \['log'\]"):
        ObjectSimulator(Shop, actions=2, shared="log")
    simulator = ObjectSimulator(DataShop, actions=2)
    state = simulator.start(Shock(bytes(16)))
    with pytest.raises(UnavailableError, match=r"observe=lambda"):
        simulator.observe(state)


class Spawning(Shop):
    def step(self, order):
        self.rng.spawn(1)
        return super().step(order)


def test_spawn_is_explained():
    with pytest.raises(SimulatorError, match="call spawn in __init__"):
        ObjectSimulator(Spawning, actions=2)


class MarketShop(Shop):
    """A part with a generator of its own."""

    def __init__(self):
        super().__init__()
        self.market = OtherShop()

    def demand(self):
        return super().demand() + self.market.demand()


class OtherShop(Shop):
    """Only to be a part."""


def test_generators_in_shared_attributes_are_refused():
    """They are not keyed, so that their draws would be the same in all samples."""
    assert "rng, market.rng" in simulator_of(MarketShop).report
    with pytest.raises(SimulatorError, match=r"self\.market\.rng.*not keyed. Remove this one"):
        simulator_of(MarketShop, shared=("market",))


class OwnSeedShop(Shop):
    """Makes a generator in each step; only the reader can know whether its seed is keyed."""

    def demand(self):
        return super().demand() + int(np.random.default_rng(self.stock).integers(2))


def test_generators_made_in_a_step_are_reported():
    with pytest.warns(UserWarning, match=r"OwnSeedShop.demand makes a generator of its own.*draw the seed from it"):
        found = simulator_of(OwnSeedShop).report
    assert "warning     OwnSeedShop.demand makes a generator of its own" in found


class LeavingOutShop(LoggingShop):
    """Saves the stock only."""

    def save_state(self):
        return self.stock

    def restore_state(self, saved):
        self.stock = saved


def test_own_methods_may_leave_out_a_log():
    found = simulator_of(LeavingOutShop).report
    assert "by its methods save_state and restore_state\n            they do not restore log, which is then no" in found


class Slotted:
    __slots__ = ("rng",)

    def __init__(self):
        self.rng = np.random.default_rng(1)

    def step(self, action):
        return self.rng.normal() + action


def test_objects_without_a_dict():
    assert "randomness  rng" in ObjectSimulator(Slotted, actions=2).report
