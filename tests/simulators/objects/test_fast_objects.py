"""Shortcuts in steps and starts of objects: results are those of the long ways, and of any number of workers."""

from __future__ import annotations

import pickle
import random
from functools import partial
from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.base import global_generators
from jmdp.distribute import ProcessPool
from jmdp.simulators.adapters.objects import object_simulator, object_steps
from jmdp.simulators.adapters.objects.copies import ObjectEpisode, PickledCopies, SharedAttributes
from jmdp.simulators.adapters.objects.generators import GeneratorKeys
from jmdp.simulators.adapters.objects.object_simulator import ObjectSimulator
from jmdp.simulators.object_graph import visible_attributes
from jmdp.simulators.simulator import Episode, Simulator

pytestmark = pytest.mark.filterwarnings("ignore:Shop.step makes a generator")


class Shop:
    """Inventory with two generators; the second one is replaced in some steps."""

    def __init__(self) -> None:
        self.rng, self.other = np.random.default_rng(1), np.random.default_rng(2)
        self.stock, self.days = 3, 0

    def reset(self) -> int:
        return self.stock

    def step(self, order: int) -> tuple[int, float, bool, dict[str, Any]]:
        self.days += 1
        if self.days % 7 == 0:
            self.other = np.random.default_rng(self.rng.integers(2**32))
        full = min(self.stock + order, 10)
        sold = min(full, int(self.rng.random() * 7))
        self.stock = full - sold
        return self.stock, 4.0 * sold - order - self.other.random(), self.days == 15, {}


class Opened(Shop):
    """A shop whose first stock is drawn."""

    def reset(self) -> int:
        self.stock = int(self.rng.integers(5))
        return self.stock


class Global(Shop):
    """A shop whose first stock is drawn from the global generators."""

    def reset(self) -> int:
        self.stock = random.randrange(5) + int(np.random.standard_normal() < 0.5)  # noqa: NPY002
        return self.stock


def rule(stock: int) -> int:
    return 2 if stock < 4 else 0


def always(order: int, stock: int) -> int:
    return order


GIVEN: dict[str, Any] = {"seed": 4, "samples": 40, "horizon": 20, "discount": 0.9, "progress": False}
RULES: dict[str, Any] = {"some": rule, "none": partial(always, 0), "one": partial(always, 1)}


def drawn(kind: type, **options: Any) -> list[Any]:
    """All samples of a comparison of actions and of one of policies."""
    simulator = ObjectSimulator(kind, actions=3)
    calls = partial(jmdp.compare, simulator, rule), partial(jmdp.compare_policies, simulator, RULES)
    found = []
    for call in calls:
        draws = call(**GIVEN, **options).summary.samples.complete
        found.append((draws.returns.tolist(), draws.ends.tolist(), draws.steps, draws.shared_steps, draws.drew))
    return found


@pytest.mark.parametrize("kind", [Shop, Opened, Global])
@pytest.mark.parametrize("coupling", [jmdp.Synchronous(), jmdp.Local()])
def test_results_are_those_without_shortcuts(
    kind: type, coupling: jmdp.Coupling, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = drawn(kind, coupling=coupling)
    monkeypatch.setattr(GeneratorKeys, "attributes", lambda self: None)
    monkeypatch.setattr(ObjectSimulator, "_start_without_draws", lambda self, copies: None)
    monkeypatch.setattr(object_steps, "global_state", lambda: None)
    monkeypatch.setattr(ObjectEpisode, "play", Episode.play)
    monkeypatch.setattr(ObjectSimulator, "same_state", Simulator.same_state)
    monkeypatch.setattr(ObjectSimulator, "advance_all", Simulator.advance_all)
    monkeypatch.setattr(ObjectSimulator, "observe_all", Simulator.observe_all)
    monkeypatch.setattr(PickledCopies, "_is_plain", lambda self, thing: False)
    monkeypatch.setattr(object_simulator, "_MANY", Simulator.lanes)
    assert drawn(kind, coupling=coupling) == found


class Plain:
    """Numbers and text."""

    def __init__(self) -> None:
        self.number, self.text = 1, "one"


class Listed(Plain):
    """A list, which copies must not share."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []


class Chosen(Plain):
    """A class that chooses what is copied."""

    def __getstate__(self) -> dict[str, Any]:
        return {"number": 2}


class Slotted(Plain):
    """An attribute in a slot."""

    __slots__ = ("other",)

    def __init__(self) -> None:
        super().__init__()
        self.other = 3


@pytest.mark.parametrize("kind", [Plain, Listed, Chosen, Slotted])
def test_repeated_copies_are_those_of_pickle(kind: type) -> None:
    thing = kind()
    copies = PickledCopies(SharedAttributes((), thing), GeneratorKeys(thing, ()))
    frozen, expected = copies.freeze(thing, None), pickle.loads(pickle.dumps(thing))
    for _ in range(3):
        copied = copies.thaw(frozen)
        assert type(copied) is kind
        assert dict(visible_attributes(copied)) == dict(visible_attributes(expected))
        copied.number = 5
        if isinstance(copied, Listed):
            copied.seen.append(4)


@pytest.mark.parametrize("kind", [Shop, Opened])
def test_workers_draw_the_same_samples(kind: type, two_workers: ProcessPool) -> None:
    assert drawn(kind) == drawn(kind, pool=1) == drawn(kind, pool=two_workers)


def test_a_start_that_draws_is_made_anew() -> None:
    starts = {kind: ObjectSimulator(kind, actions=3)._same_start for kind in (Shop, Opened, Global)}
    assert [kind for kind, start in starts.items() if start is not None] == [Shop]


def test_starts_leave_the_global_generators_as_they_were() -> None:
    before = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002
    simulator = ObjectSimulator(Global, actions=3)
    states = [simulator.start(jmdp.Shock.of_sample(0, n)).live.stock for n in range(20)]
    after = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002
    assert str(after) == str(before)
    assert len(set(states)) > 1


DRAWS = [
    random.random,
    partial(random.gauss, 0, 1),
    partial(random.seed, 1),
    np.random.random,
    np.random.standard_normal,
    partial(np.random.seed, 1),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_the_state_of_the_global_generators_shows_draws_and_restores_them(draw: Any) -> None:
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = global_generators.global_state()
    assert before is not None
    assert global_generators.global_state() == before
    numbers = random.random(), np.random.random()  # noqa: NPY002
    global_generators.restore_global_state(before)
    draw()
    assert global_generators.global_state() != before
    global_generators.restore_global_state(before)
    assert (random.random(), np.random.random()) == numbers  # noqa: NPY002
