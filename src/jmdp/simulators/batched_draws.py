"""Sums of rollouts simulated as arrays, and samples that are drawn ahead.

Steps of small arrays cost almost as much as steps of large ones. So if small batches are asked for one after the other,
more samples are drawn than were asked for, and the rest is kept for the next batch. A sample is a function of the seed
and its number, so this changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import Integers
from jmdp.simulators.simulator import Draws, exact_gains

if TYPE_CHECKING:
    from jmdp.simulators.batched_kernel import Sums

_AHEAD = 1024
"""Largest number of samples drawn ahead."""


def empty_sums(n: int, k: int) -> Sums:
    """Sums of n samples of k branches before the first step."""
    from jmdp.simulators.batched_kernel import Sums

    zeros, counts = np.zeros((n, k)), np.zeros((2, n), np.int64)
    return Sums(zeros, np.zeros((n, k), np.uint64), np.ones((n, k), bool), np.zeros(n), counts[0], counts[1])


@dataclass(frozen=True)
class BatchedDraws:
    """Sums of some samples, and where their branches ended."""

    sums: Sums
    ends: Integers  # [n, k]

    def __len__(self) -> int:
        return len(self.ends)

    def rows(self, start: int, stop: int) -> BatchedDraws:
        """Some of the samples."""
        return BatchedDraws(self.sums._make(part[start:stop] for part in self.sums), self.ends[start:stop])

    @classmethod
    def joined(cls, parts: list[BatchedDraws]) -> BatchedDraws:
        """Concatenate along the sample axis."""
        if len(parts) == 1:
            return parts[0]
        sums = zip(*(part.sums for part in parts), strict=True)
        return cls(
            parts[0].sums._make(np.concatenate(arrays) for arrays in sums), np.concatenate([p.ends for p in parts])
        )

    def draws(self) -> Draws:
        """The samples as `Draws`."""
        sums = self.sums
        gains = exact_gains(sums.gains.view(np.int64), sums.returns, sums.exact)
        counts = int(sums.steps.sum()), int(sums.shared.sum())
        return Draws(sums.returns, self.ends, gains, float(sums.largest.max(initial=0.0)), *counts)


class DrawnAhead:
    """Samples in the order in which they are asked for, some of them drawn ahead."""

    def __init__(self, blocks: Callable[[int, int], Iterable[BatchedDraws]]) -> None:
        self._blocks = blocks  # draws samples (first, count)
        self._kept: BatchedDraws | None = None
        self._next = -1  # number of the next sample, which is the first one kept

    def draw(self, first: int, count: int) -> BatchedDraws:
        """Samples first … first + count − 1."""
        goes_on = first == self._next
        parts = [self._kept] if goes_on and self._kept is not None else []
        missing = count - sum(map(len, parts))
        if missing > 0:
            more = max(missing, min(first, _AHEAD)) if goes_on else missing
            parts += self._blocks(first + count - missing, more)
        drawn = BatchedDraws.joined(parts)
        self._next = first + count
        self._kept = drawn.rows(count, len(drawn)) if len(drawn) > count else None
        return drawn.rows(0, count)
