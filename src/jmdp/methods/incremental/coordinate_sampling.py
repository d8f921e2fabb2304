"""Rules that select the coordinates of the moments to update, and their order.

These are the indices I_k of Eq. (28). For every rule, the random numbers that choose a coordinate are independent of
those that update it, so the noise of an update has mean 0 (Lemma A.3, Eq. (46)). The choice is then independent of the
errors made so far, and no step size makes the expected iterates converge to another point.

Coordinates of the paper's M = (M_μ, M_Σ), Eq. (12), with their cells, and samples of one step of one branch or two.

A coordinate is written as two numbers (`jmdp.methods.kernels.tables`). The index set I_2 of Eq. (24) consists of
(x, μ), (x, x, Σ) and (x, y, Σ); here (x, y) and (y, x) are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers, cumulative_rows
from jmdp.base.settings import nonnegative, probability
from jmdp.errors import SettingsError
from jmdp.methods.kernels.tables import ENDED, MEAN, SQUARE
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

BLOCKS = ("mean", "diagonal", "same state", "cross")
"""The paper's four kinds of coordinates: μ, and products Σ on the diagonal, in one state, in different states."""


class MomentCells:
    """Index of the cell of each coordinate: means, then squares, then products of two branches."""

    def __init__(self, model: TabularJMDP, coupling: Coupling) -> None:
        S, _, A = model.shape
        self.actions = A
        self.coordinates = X = S * A
        self.live: Integers = np.flatnonzero(~model.terminal)
        self.state_of: Integers = np.repeat(np.arange(S), A)
        self.is_live: Booleans = np.repeat(~model.terminal, A)
        self.branches_merge = coupling.shared_in_a_state  # branches on the same coordinate merge
        self.size = 2 * X + X * (X + 1) // 2
        L, same = self.live.size, A * (A - 1) // 2 if self.branches_merge else A * (A + 1) // 2
        self.block_sizes = np.array([L * A, L * A, L * same, L * (L - 1) // 2 * A * A], np.float64)  # of `BLOCKS`
        self.mean: Integers = self.live[:, None] * A + np.arange(A)  # [live, A], cells
        products = self.product(self.mean[:, :, None], self.mean[:, None, :])
        own = np.arange(A)
        products[:, own, own] = X + self.mean
        self.products: Integers = products  # [live, A, A], cells

    def product(self, x: Integers, y: Integers) -> Integers:
        """Cells of products of two distinct branches."""
        high = np.maximum(x, y)
        return np.asarray(2 * self.coordinates + high * (high + 1) // 2 + np.minimum(x, y))


class TablePairs:
    """Sampler of one step of one branch or of two distinct ones, from a table: the 1- and 2-JSTM.

    The distributions are Eq. (15) for one branch, Eq. (17) for two in different states, Eq. (18) for two in one state.
    """

    def __init__(
        self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, cells: MomentCells, reward: Floats
    ) -> None:
        from jmdp.methods.kernels.moment_updates import StepTables

        self._tables = StepTables(
            cumulative_prob=cumulative_rows(model.prob),
            reward=reward,
            successor=np.where(model.terminal[model.next_state], ENDED, model.next_state),
            cumulative_policy=cumulative_rows(policy.probs),
            shared_in_a_state=coupling.shared_in_a_state,
            shared_between_states=coupling.shared_between_states,
            shared_policy_luck=coupling.policy_luck == "shared",
            state_of=cells.state_of,
        )

    def draw(self, rng: np.random.Generator, one: Integers, other: Integers) -> tuple[Floats, Integers]:
        """Rewards [2, n], and next coordinates of the branches [2, n], or `ENDED`.

        Branches start on `one` and `other`. If `other` < 0 there is only one branch, whose outcome is the first.
        """
        from jmdp.methods.kernels.moment_updates import draw_outcomes

        gains, ahead = np.zeros((2, one.size)), np.zeros((2, one.size), np.int64)
        draw_outcomes(rng.random((4, one.size)), self._tables, one, other, gains, ahead)
        return gains, ahead


_WALKERS = 1024
"""Rollouts that are simulated in parallel."""


class CoordinateSampling(ABC):
    """Base class of rules that select the coordinates to update. Subclass it to define another rule.

    Every coordinate of interest, and every one reachable from it by samples, must receive a share of the updates that
    tends to a positive number. Infinitely many updates are not enough for averages: they do not converge if the
    intervals between updates grow in proportion to time, as with updates at k = 2, 4, 8, … (docs/mathematics.md).
    """

    def begin(self, cells: MomentCells) -> Integers:
        """Initial state of the rule, an array that `draw` may change in place; empty by default."""
        return np.zeros(0, np.int64)

    def accepts(self, memory: Integers, cells: MomentCells) -> bool:
        """Whether a state read from a checkpoint is valid. Indices must be checked, as a file may be damaged."""
        return True

    @abstractmethod
    def draw(
        self, rng: np.random.Generator, size: int, cells: MomentCells, source: TablePairs, memory: Integers
    ) -> tuple[Integers, Integers]:
        """Next coordinates as pairs (one, other), both [size]; see `jmdp.methods.kernels.tables`."""


class _ByBlocks(CoordinateSampling):
    """Draws a block in proportion to its share, then a coordinate of the block uniformly."""

    @abstractmethod
    def shares(self, sizes: Floats) -> Floats:
        """Shares of blocks of these sizes, [4]."""

    def draw(
        self, rng: np.random.Generator, size: int, cells: MomentCells, source: TablePairs, memory: Integers
    ) -> tuple[Integers, Integers]:
        """Next coordinates as pairs (one, other), both [size]."""
        from jmdp.methods.kernels.moment_updates import RUN, draw_blocks

        shares = np.where(cells.block_sizes > 0, self.shares(cells.block_sizes), 0.0)
        if not shares.any():
            raise SettingsError(f"{self!r} has shares only for blocks that are empty in this model. Use others.")
        cumulative = np.cumsum(shares / shares.max() / np.count_nonzero(shares))
        cumulative /= cumulative[-1]
        cumulative[np.flatnonzero(shares)[-1] :] = 1.0
        one, other = np.empty((2, size), np.int64)
        runs = rng.random(-(-size // RUN))
        draw_blocks(rng.random(size), runs, cumulative, cells.live, cells.actions, cells.branches_merge, one, other)
        return one, other


@dataclass(frozen=True)
class BlockSampling(_ByBlocks):
    """Draws a block in proportion to its share, then a coordinate uniformly. Blocks alternate in runs of 16 updates.

    Parameters
    ----------
    mean, diagonal, same_state, cross
        Shares of the paper's four kinds of coordinates; empty blocks are skipped.
    """

    mean: float = 1.0
    diagonal: float = 1.0
    same_state: float = 1.0
    cross: float = 1.0

    def __post_init__(self) -> None:
        for name in ("mean", "diagonal", "same_state", "cross"):
            nonnegative(self, name)
        if self.mean == self.diagonal == self.same_state == self.cross == 0:
            raise SettingsError("All shares are 0. Set at least one of mean, diagonal, same_state and cross above 0.")

    def shares(self, sizes: Floats) -> Floats:
        """Shares as given, [4]."""
        return np.array([self.mean, self.diagonal, self.same_state, self.cross])


@dataclass(frozen=True)
class UniformSampling(_ByBlocks):
    """Draws all coordinates uniformly, so most updates go to pairs in different states."""

    def shares(self, sizes: Floats) -> Floats:
        """Shares equal to the numbers of coordinates, [4]."""
        return sizes


@dataclass(frozen=True)
class TrajectorySampling(CoordinateSampling):
    """Draws coordinates along rollouts of two branches that start in one state with different actions.

    Only pairs that a comparison can reach are drawn, as often as it reaches them under the coupling. A rollout restarts
    when its branches merge or one ends, and also with probability `restart` at each step. At each step one coordinate
    is updated: the pair's product, or with probability ¼ each the mean or the square of one of its branches.
    """

    restart: float = 0.1

    def __post_init__(self) -> None:
        probability(self, "restart")

    def begin(self, cells: MomentCells) -> Integers:
        """Coordinates of both branches of each rollout, [2, rollouts]; −1 for rollouts that have not started."""
        return np.full((2, _WALKERS), -1, np.int64)

    def accepts(self, memory: Integers, cells: MomentCells) -> bool:
        """Whether all rollouts are at valid coordinates, or have not started."""
        return bool(np.isin(memory, np.append(cells.mean, -1)).all())

    def draw(
        self, rng: np.random.Generator, size: int, cells: MomentCells, source: TablePairs, memory: Integers
    ) -> tuple[Integers, Integers]:
        """Next coordinates as pairs (one, other), both [size]."""
        parts = [self._step(rng, cells, source, memory) for _ in range(-(-size // _WALKERS))]
        one, other = np.concatenate(parts, axis=1)[:, :size]
        return one, other

    def _step(self, rng: np.random.Generator, cells: MomentCells, source: TablePairs, walkers: Integers) -> Integers:
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
            ahead[1, ahead[0] == ahead[1]] = ENDED  # they have merged
        walkers[...] = ahead
        return chosen

    def _starts(self, rng: np.random.Generator, cells: MomentCells, count: int) -> Integers:
        """Start pairs in one state, [2, count]; with a single action, in any two states."""
        A = cells.actions
        state = cells.live[rng.integers(cells.live.size, size=count)]
        x = state * A + rng.integers(A, size=count)
        if A == 1:
            return np.stack([x, cells.live[rng.integers(cells.live.size, size=count)]])
        b = rng.integers(A - 1, size=count)
        return np.stack([x, state * A + b + (b >= x - state * A)])
