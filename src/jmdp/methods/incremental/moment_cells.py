"""Coordinates of the paper's M = (M_μ, M_Σ), Eq. (12), with their cells, and samples of one step of one branch or two.

A coordinate is written as two numbers (`jmdp.methods.kernels.coordinates`). The index set I_2 of Eq. (24) consists of
(x, μ), (x, x, Σ) and (x, y, Σ); here (x, y) and (y, x) are the same.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers, cumulative_rows
from jmdp.methods.kernels.coordinates import ENDED
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


class PairSource(Protocol):
    """Sampler of one step of one branch or of two distinct ones: the 1- and 2-JSTM, all that learning needs.

    The distributions are Eq. (15) for one branch, Eq. (17) for two in different states, Eq. (18) for two in one state.
    """

    def draw(self, rng: np.random.Generator, one: Integers, other: Integers) -> tuple[Floats, Integers]:
        """Rewards [2, n], and next coordinates of the branches [2, n], or `ENDED`.

        Branches start on `one` and `other`. If `other` < 0 there is only one branch, whose outcome is the first.
        """


class TablePairs:
    """Sampler of steps from a table."""

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
        """Draw one step of each; see `PairSource`."""
        from jmdp.methods.kernels.moment_updates import draw_outcomes

        gains, ahead = np.zeros((2, one.size)), np.zeros((2, one.size), np.int64)
        draw_outcomes(rng.random((4, one.size)), self._tables, one, other, gains, ahead)
        return gains, ahead
