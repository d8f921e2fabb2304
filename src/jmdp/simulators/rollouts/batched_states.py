"""States as rows of an array, for `Simulator.step_many`, and checks of what it returns.

Sums of rollouts simulated as arrays, and samples that are drawn ahead.

Steps of small arrays cost almost as much as steps of large ones. So if small batches are asked for one after the other,
more samples are drawn than were asked for, and the rest is kept for the next batch. A sample is a function of the seed
and its number, so this changes no result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.luck_batch import Shocks
from jmdp.errors import SimulatorError
from jmdp.simulators.rollouts.draws import ENDED, Draws, exact_gains
from jmdp.simulators.simulator import Simulator, finite_reward

WALKERS = 16_384
"""Rollouts simulated at once: their arrays fit into the cache."""

_SECONDS, _MOST = 0.2, 4096
"""Samples are drawn ahead as long as this takes at most, and at most so many."""


class Sums(NamedTuple):
    """Sums over the steps so far, of n samples with k branches each."""

    returns: Floats  # [n, k]
    gains: npt.NDArray[np.uint64]  # [n, k], fingerprints of the rewards
    exact: Booleans  # [n, k], True if the return was summed without rounding
    tally: Floats  # [n, 3], simulated steps, steps skipped because branches had merged, and largest |reward|

    @classmethod
    def zeros(cls, n: int, k: int) -> Sums:
        """Sums before the first step."""
        return cls(np.zeros((n, k)), np.zeros((n, k), np.uint64), np.ones((n, k), bool), np.zeros((n, 3)))


@dataclass(frozen=True)
class BatchedDraws:
    """Sums of some samples, and where their branches ended."""

    sums: Sums
    ends: npt.NDArray[np.int32]  # [n, k], as in `Draws`
    drew: bool  # whether any step or policy used its randomness
    starts: Integers  # [n, k], number of the start of an episode; [n, 0] for rollouts

    def __len__(self) -> int:
        return len(self.ends)

    def rows(self, start: int, stop: int) -> BatchedDraws:
        """Some of the samples."""
        parts: list[Any] = [part[start:stop] for part in self.sums]
        return BatchedDraws(Sums(*parts), self.ends[start:stop], self.drew, self.starts[start:stop])

    def in_order(self, order: Integers) -> BatchedDraws:
        """Move column c to column order[c], and number the ends accordingly."""
        if (order == np.arange(order.size)).all():
            return self
        back = np.argsort(order)
        parts: list[Any] = [*(part[:, back] for part in self.sums[:3]), self.sums.tally]
        ends = np.append(order, ENDED).astype(np.int32)[self.ends]  # −1 is the last entry
        return BatchedDraws(Sums(*parts), ends[:, back], self.drew, self.starts)

    @classmethod
    def joined(cls, parts: list[BatchedDraws]) -> BatchedDraws:
        """Concatenate along the sample axis."""
        if len(parts) == 1:
            return parts[0]
        sums: list[Any] = [np.concatenate(arrays) for arrays in zip(*(part.sums for part in parts), strict=True)]
        ends, starts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ends", "starts"))
        return cls(Sums(*sums), ends, any(part.drew for part in parts), starts)

    def draws(self) -> Draws:
        """The samples as `Draws`."""
        returns, gains, exact, tally = self.sums
        steps, shared = int(tally[:, 0].sum()), int(tally[:, 1].sum())
        largest = float(tally[:, 2].max(initial=0.0))
        gains_or_returns = exact_gains(gains.view(np.int64), returns, exact)
        return Draws(returns, self.ends, gains_or_returns, largest, steps, shared, self.drew)


class DrawnAhead:
    """Samples in the order in which they are asked for, some of them drawn ahead."""

    def __init__(self, blocks: Callable[[int, int], Iterable[BatchedDraws]]) -> None:
        self._blocks = blocks  # draws samples (first, count)
        self._kept: BatchedDraws | None = None
        self._next = -1  # number of the next sample, which is the first one kept
        self._ahead = 0  # number of samples that can be drawn in `_SECONDS`; a small number takes longer per sample

    def draw(self, first: int, count: int, most: int) -> BatchedDraws:
        """Samples first … first + count − 1, of `most` that may be asked for."""
        goes_on = first == self._next
        parts = [self._kept] if goes_on and self._kept is not None else []
        missing = count - sum(map(len, parts))
        if missing > 0:
            begin, start = time.perf_counter(), first + count - missing
            ahead = min(self._ahead, most - start) if start < most else self._ahead
            more = max(missing, ahead) if goes_on else missing
            parts += self._blocks(start, more)
            self._ahead = int(min(_MOST, more * _SECONDS / (time.perf_counter() - begin)))
        drawn = BatchedDraws.joined(parts)
        self._next = first + count
        self._kept = drawn.rows(count, len(drawn)) if len(drawn) > count else None
        return drawn.rows(0, count)


States = npt.NDArray[Any]
"""[n] or [n, …], real numbers."""


def has_many_steps(simulator: Simulator) -> bool:
    """True if the simulator defines `step_many`, has a finite list of actions, and no program of its own."""
    kind = type(simulator)
    own = kind.program is not Simulator.program
    return kind.step_many is not Simulator.step_many and simulator.actions is not None and not own


def rows_of(simulator: Simulator, states: list[Any]) -> States:
    """States as rows of one array."""
    try:
        rows = np.asarray(states)
    except ValueError:
        rows = np.array(None)
    if rows.dtype.kind not in "biuf" or type(simulator).digest is not Simulator.digest:
        what = "defines digest" if rows.dtype.kind in "biuf" else f"has the state {states[0]!r}"
        raise SimulatorError(
            f"{type(simulator).__name__} defines step_many and {what}. With step_many a state is a number, or a tuple "
            "or array of numbers of fixed length, and states are equal if their numbers are. Change the state, or "
            "remove digest or step_many."
        )
    return rows


def codes_of(states: States) -> npt.NDArray[np.uint64]:
    """Codes [n, d] that are equal for equal states, as `digest_of`: −0.0 is 0.0, and all NaN are equal."""
    flat = states.reshape(len(states), -1)
    if flat.dtype.kind != "f":
        return np.ascontiguousarray(flat, np.int64).view(np.uint64)
    numbers = flat.astype(np.float64) + 0.0
    unknown = numbers != numbers
    if unknown.any():
        numbers[unknown] = np.nan
    return np.ascontiguousarray(numbers).view(np.uint64)


def state_maker(example: Any) -> Callable[[Any], Any]:
    """Function that converts a row of an array to a state like the example: an array, a tuple, a list or a number."""
    if isinstance(example, np.ndarray):
        return np.array
    if isinstance(example, (tuple, list)):
        whole = [isinstance(entry, (int, np.integer)) for entry in example]  # an array has one dtype for all entries
        kind: Any = type(example)
        make = kind._make if hasattr(kind, "_make") else kind

        def made(row: Any) -> Any:
            if row.ndim == 1 and row.dtype.kind == "f" and any(whole):
                pairs = zip(row.tolist(), whole, strict=True)
                return make([int(x) if integer and x.is_integer() else x for x, integer in pairs])
            return make(row.tolist())

        return made
    return lambda row: row.item()


def many_steps(
    simulator: Simulator, states: States, actions: Integers, shocks: Shocks, t: int
) -> tuple[Floats, States, Booleans]:
    """Call `step_many`; raise unless shapes and dtypes are right and rewards are finite."""
    outcome = simulator.step_many(states, actions, shocks)
    name, n = f"{type(simulator).__name__}.step_many", len(states)
    if not isinstance(outcome, tuple) or len(outcome) != 3:
        what = f"{len(outcome)} values" if isinstance(outcome, tuple) else f"a {type(outcome).__name__}"
        raise SimulatorError(f"{name} returned {what}. Return (rewards, states, terminated).")
    rewards, after, terminated = (np.asarray(part) for part in outcome)
    for what, array, kinds, shape in (
        ("rewards", rewards, "biuf", (n,)),
        ("states", after, "biuf", states.shape),
        ("terminated", terminated, "b", (n,)),
    ):
        if array.shape != shape or array.dtype.kind not in kinds:
            wanted = "True or False" if kinds == "b" else "numbers"
            raise SimulatorError(
                f"{name} returned {what} of shape {array.shape} and dtype {array.dtype} for states of shape "
                f"{states.shape}. Return {wanted} of shape {shape}."
            )
    earned = np.ascontiguousarray(rewards, np.float64)
    bad = np.flatnonzero(~np.isfinite(earned))
    if bad.size:
        finite_reward(rewards[bad[0]].item(), int(actions[bad[0]]), t)
    return earned, after, terminated
