"""Worker processes and what is sent to them: typed errors or the caller's own, no hang, no process left over."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import Any

import pytest

import jmdp
from jmdp.distribute import process_pool
from jmdp.errors import SettingsError, SimulatorError
from jmdp.simulators import Simulator, Step, action_labels

COMPARED: dict[str, Any] = {"seed": 0, "max_samples": 64, "discount": 0.5, "horizon": 2, "progress": False}


@pytest.fixture(scope="module")
def pool() -> Iterator[jmdp.distribute.ProcessPool]:
    before = set(multiprocessing.active_children())  # of a pool that other tests share
    with jmdp.distribute.ProcessPool(1) as made:
        yield made
    assert set(multiprocessing.active_children()) <= before


class Coin(Simulator):
    """Earns a random number and the action."""

    actions = action_labels(2)
    lanes = 16

    def step(self, state: Any, action: Any, shock: jmdp.Shock) -> Step:
        return Step(shock.uniform() + action, state, False)


class Unsent(Coin):
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise ZeroDivisionError("x" * 100_000)


def _broken() -> Any:
    raise ZeroDivisionError("no such thing")


class Unloaded(Coin):
    """Cannot be unpickled."""

    def __reduce__(self) -> Any:
        return _broken, ()


class InWorker(Coin):
    """Does something in worker processes only."""

    def step(self, state: Any, action: Any, shock: jmdp.Shock) -> Step:
        if multiprocessing.parent_process() is not None:
            self.harm()
        return super().step(state, action, shock)

    def harm(self) -> None:
        raise NotImplementedError


class Leaves(InWorker):
    def harm(self) -> None:
        raise SystemExit(3)


class OddError(Exception):
    """Its constructor takes other arguments than it stores, so that it cannot be unpickled."""

    def __init__(self, code: int, place: str) -> None:
        super().__init__(f"code {code}")
        self.code, self.place = code, place


class Odd(InWorker):
    def harm(self) -> None:
        raise OddError(7, "here")


class Loud(InWorker):
    def harm(self) -> None:
        raise ValueError("x" * 1_000_000)


class Mute(InWorker):
    """Raises an exception without a text, which cannot be pickled either."""

    def harm(self) -> None:
        class SilentError(Exception):
            def __str__(self) -> str:
                raise ZeroDivisionError

        raise SilentError


class Rewards(InWorker):
    """Returns no number as a reward."""

    def step(self, state: Any, action: Any, shock: jmdp.Shock) -> Any:
        return (lambda: 3) if multiprocessing.parent_process() else 0.5, state, False


def zero(observation: Any) -> int:
    return 0


def results(kind: type[Simulator], pool: jmdp.distribute.ProcessPool) -> jmdp.comparisons.Comparison:
    return jmdp.compare(kind(), zero, state=0, pool=pool, **COMPARED)


def test_a_simulator_that_cannot_be_pickled(pool: jmdp.distribute.ProcessPool) -> None:
    with pytest.raises(SettingsError, match="cannot be sent to worker processes") as caught:
        results(Unsent, pool)
    assert len(str(caught.value)) < 1000
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_policy_that_cannot_be_pickled(pool: jmdp.distribute.ProcessPool) -> None:
    with pytest.raises(SettingsError, match="cannot be sent to worker processes"):
        jmdp.compare(Coin(), lambda observation: 0, state=0, pool=pool, **COMPARED)


def test_a_simulator_that_cannot_be_unpickled(pool: jmdp.distribute.ProcessPool) -> None:
    with pytest.raises(SettingsError, match=r"A worker process cannot load .*ZeroDivisionError: no such thing"):
        results(Unloaded, pool)


def test_workers_that_end_are_given_up(pool: jmdp.distribute.ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool, "_MOST_ENDS", 1)
    with pytest.raises(SimulatorError, match="2 workers of a block ended"):
        results(Leaves, pool)
    assert jmdp.compare(Coin(), zero, state=0, pool=pool, **COMPARED).best == "1"  # the pool can be used again


def test_an_exception_that_cannot_be_unpickled(pool: jmdp.distribute.ProcessPool) -> None:
    with pytest.raises(SimulatorError, match="OddError: code 7") as caught:
        results(Odd, pool)
    assert "raise OddError" in str(caught.value.__cause__)


def test_an_exception_with_a_long_text_comes_out_as_it_is(pool: jmdp.distribute.ProcessPool) -> None:
    with pytest.raises(ValueError, match="xxx") as caught:
        results(Loud, pool)
    assert str(caught.value) == "x" * 1_000_000


def test_an_exception_whose_text_raises(pool: jmdp.distribute.ProcessPool) -> None:
    with pytest.raises(SimulatorError, match="SilentError: its text cannot be read"):
        results(Mute, pool)


def test_a_reward_that_is_no_number(pool: jmdp.distribute.ProcessPool) -> None:
    with pytest.raises(SimulatorError, match="returned the reward <function"):
        results(Rewards, pool)


class Unwanted:
    """Can be pickled, but not unpickled."""

    def __reduce__(self) -> Any:
        return _broken, ()


def unloadable(i: int) -> Any:
    return Unwanted()


def test_results_that_cannot_be_loaded(pool: jmdp.distribute.ProcessPool) -> None:
    with pytest.raises(SettingsError, match=r"The result of a block cannot be loaded .*no such thing"):
        list(pool.ordered(unloadable, [(0,)]))


@pytest.mark.parametrize("kind", [jmdp.distribute.SerialPool, lambda: jmdp.distribute.ProcessPool(1)])
def test_work_must_be_a_function(kind: Any) -> None:
    with kind() as pool, pytest.raises(SettingsError, match=r"work is 3\. Give a function"):
        list(pool.ordered(3, [(0,)]))
