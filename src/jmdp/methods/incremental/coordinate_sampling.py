"""Which coordinates of the moments are updated, and in what order.

Whatever the rule, the luck that chooses a coordinate is not the luck that updates it. So the choice says nothing of
errors made so far, and no step size makes the expected iterates converge to another point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.settings import nonnegative, probability
from jmdp.errors import SettingsError
from jmdp.methods.incremental.moment_cells import MomentCells, PairSource
from jmdp.methods.kernels.coordinates import ENDED, MEAN, SQUARE

_WALKERS = 1024
"""Walks that go on side by side."""


class CoordinateSampling(ABC):
    """A rule that says which coordinates are updated. Subclass it for one's own.

    Every coordinate that one cares about, and every one its samples lead to, must be drawn in a share of the updates
    that tends to a positive number. Infinitely often is not enough for averages: they do not converge if the gaps
    between updates grow like time itself, as with updates at k = 2, 4, 8, … (docs/mathematics.md).
    """

    def begin(self, cells: MomentCells) -> Integers:
        """What the rule remembers between calls, as an array it may change in place; nothing by default."""
        return np.zeros(0, np.int64)

    def accepts(self, memory: Integers, cells: MomentCells) -> bool:
        """Whether the rule can go on from what a file says it remembered. Indices must be checked: files can lie."""
        return True

    @abstractmethod
    def draw(
        self, rng: np.random.Generator, size: int, cells: MomentCells, source: PairSource, memory: Integers
    ) -> tuple[Integers, Integers]:
        """[size] and [size], the next coordinates as pairs (one, other); see `jmdp.methods.kernels.coordinates`."""


class _ByBlocks(CoordinateSampling):
    """A block by its share, then all its coordinates alike."""

    @abstractmethod
    def shares(self, sizes: Floats) -> Floats:
        """[4], shares of blocks of these sizes."""

    def draw(
        self, rng: np.random.Generator, size: int, cells: MomentCells, source: PairSource, memory: Integers
    ) -> tuple[Integers, Integers]:
        """[size] and [size], coordinates."""
        from jmdp.methods.kernels.moment_updates import RUN, draw_blocks

        shares = np.where(cells.block_sizes > 0, self.shares(cells.block_sizes), 0.0)
        if not shares.any():
            raise SettingsError(f"{self!r} has shares only for kinds of coordinates that this model has none of.")
        cumulative = np.cumsum(shares / shares.max() / np.count_nonzero(shares))
        cumulative /= cumulative[-1]
        cumulative[np.flatnonzero(shares)[-1] :] = 1.0
        one, other = np.empty((2, size), np.int64)
        runs = rng.random(-(-size // RUN))
        draw_blocks(rng.random(size), runs, cumulative, cells.live, cells.actions, cells.branches_merge, one, other)
        return one, other


@dataclass(frozen=True)
class BlockSampling(_ByBlocks):
    """A block by its share, then all its coordinates alike. Blocks take turns in runs of 16 updates.

    Parameters
    ----------
    mean, diagonal, same_state, cross
        Shares of the paper's four kinds of coordinates; a block that is empty has none.
    """

    mean: float = 1.0
    diagonal: float = 1.0
    same_state: float = 1.0
    cross: float = 1.0

    def __post_init__(self) -> None:
        for name in ("mean", "diagonal", "same_state", "cross"):
            nonnegative(self, name)
        if self.mean == self.diagonal == self.same_state == self.cross == 0:
            raise SettingsError("All shares are 0. Give one of mean, diagonal, same_state and cross a share.")

    def shares(self, sizes: Floats) -> Floats:
        """[4], as they were given."""
        return np.array([self.mean, self.diagonal, self.same_state, self.cross])


@dataclass(frozen=True)
class UniformSampling(_ByBlocks):
    """All coordinates alike, so most updates go to pairs in different states."""

    def shares(self, sizes: Floats) -> Floats:
        """[4], as many as there are."""
        return sizes


@dataclass(frozen=True)
class TrajectorySampling(CoordinateSampling):
    """Along walks of two branches that start in one state with different actions, under the model's coupling.

    Only pairs that a comparison can lead to come up, and they come up as often as it leads there. A walk begins anew
    where its branches meet or one ends, and besides with chance `restart` at each step. At each step one coordinate is
    updated: the pair's product, or with chance ¼ each the mean or the square of one of its branches.
    """

    restart: float = 0.1

    def __post_init__(self) -> None:
        probability(self, "restart")

    def begin(self, cells: MomentCells) -> Integers:
        """[2, walkers], coordinates of branches; −1 for walks that are to begin."""
        return np.full((2, _WALKERS), -1, np.int64)

    def accepts(self, memory: Integers, cells: MomentCells) -> bool:
        """Whether all walkers stand where one can, or are to begin."""
        return bool(np.isin(memory, np.append(cells.mean, -1)).all())

    def draw(
        self, rng: np.random.Generator, size: int, cells: MomentCells, source: PairSource, memory: Integers
    ) -> tuple[Integers, Integers]:
        """[size] and [size], coordinates."""
        parts = [self._step(rng, cells, source, memory) for _ in range(-(-size // _WALKERS))]
        one, other = np.concatenate(parts, axis=1)[:, :size]
        return one, other

    def _step(self, rng: np.random.Generator, cells: MomentCells, source: PairSource, walkers: Integers) -> Integers:
        begins = np.flatnonzero((walkers < 0).any(axis=0) | (rng.random(_WALKERS) < self.restart))
        walkers[:, begins] = self._starts(rng, cells, begins.size)
        x, y = walkers
        alone = y == x if cells.branches_merge else np.zeros(_WALKERS, bool)
        kind, swap = rng.random(_WALKERS), rng.random(_WALKERS) < 0.5
        single = np.where(swap, x, y)
        one = np.where(kind < 0.5, single, np.minimum(x, y))
        other = np.where(kind < 0.25, MEAN, np.where((kind < 0.5) | alone, SQUARE, np.maximum(x, y)))
        chosen = np.stack([one, other])
        ahead = source.draw(rng, np.minimum(x, y), np.where(alone, SQUARE, np.maximum(x, y)))[1]
        ahead[1, alone] = ENDED
        if cells.branches_merge:
            ahead[1, ahead[0] == ahead[1]] = ENDED  # they have met
        walkers[...] = ahead
        return chosen

    def _starts(self, rng: np.random.Generator, cells: MomentCells, count: int) -> Integers:
        """[2, count], pairs in one state; with one action only, in any two states."""
        A = cells.actions
        state = cells.live[rng.integers(cells.live.size, size=count)]
        x = state * A + rng.integers(A, size=count)
        if A == 1:
            return np.stack([x, cells.live[rng.integers(cells.live.size, size=count)]])
        b = rng.integers(A - 1, size=count)
        return np.stack([x, state * A + b + (b >= x - state * A)])
