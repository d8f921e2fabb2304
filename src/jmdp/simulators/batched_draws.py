"""Sums of rollouts simulated as arrays, and samples that are drawn ahead.

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
from jmdp.simulators.draws import ENDED, Draws, exact_gains

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

    def draw(self, first: int, count: int) -> BatchedDraws:
        """Samples first … first + count − 1."""
        goes_on = first == self._next
        parts = [self._kept] if goes_on and self._kept is not None else []
        missing = count - sum(map(len, parts))
        if missing > 0:
            more = max(missing, self._ahead) if goes_on else missing
            begin = time.perf_counter()
            parts += self._blocks(first + count - missing, more)
            self._ahead = int(min(_MOST, more * _SECONDS / (time.perf_counter() - begin)))
        drawn = BatchedDraws.joined(parts)
        self._next = first + count
        self._kept = drawn.rows(count, len(drawn)) if len(drawn) > count else None
        return drawn.rows(0, count)
