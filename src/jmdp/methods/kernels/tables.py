"""The arrays that kernels take, grouped: numba unpacks named tuples at no cost. Loads no compiler."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers, cumulative_rows
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

Unsigned = np.typing.NDArray[np.uint64]


class BranchTables(NamedTuple):
    """What moves branches: a model, a policy and a coupling, for `branches`."""

    cumulative_prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    next_state: Integers  # [S, K, A]
    terminal: Booleans  # [S]
    cumulative_policy: Floats  # [S, A]
    in_state: bool  # branches in one state share its scenario
    between_states: bool  # so do branches in different states
    shared_policy_luck: bool

    @classmethod
    def of(cls, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, reward: Floats) -> BranchTables:
        """For these rewards [S, K, A] in place of the model's."""
        return cls(
            cumulative_rows(model.prob),
            reward,
            model.next_state,
            model.terminal,
            cumulative_rows(policy.probs),
            coupling.shared_in_a_state,
            coupling.shared_between_states,
            coupling.policy_luck == "shared",
        )


class PolicyTables(NamedTuple):
    """What moves branches of several policies, for `policy_returns`."""

    cumulative_prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    next_state: Integers  # [S, K, A]
    terminal: Booleans  # [S]
    cumulative_policy: Floats  # [P, S, A]
    start_state: Integers  # [starts]
    cumulative_start: Floats  # [starts]
    in_state: bool  # branches in one state share its scenario
    between_states: bool  # so do branches in different states
    shared_policy_luck: bool


class Branches(NamedTuple):
    """Where branches stand after a step, and what happened to them on it; [branches] each."""

    state: Integers
    action: Integers
    gained: Floats
    scenario: Integers  # −1 in a terminal state
    shared: Booleans  # another branch before it stood on its coordinate


class SampledReturns(NamedTuple):
    """What `sample_returns` fills; [samples, branches] each, and totals of all rows."""

    returns: Floats
    ends: Integers
    gains: Integers
    exact: Booleans  # whether the return was added up without rounding
    totals: Floats  # [3], added to: steps taken, steps of branches that had met another, and the largest |reward|


class Chain(NamedTuple):
    """The steps of a policy from states whose tables are known, for `push`."""

    prob: Floats  # [S, K]
    next_state: Integers  # [S, K, A]
    policy: Floats  # [S, A]
    known: Booleans  # [S]; mass that gets to other states stays there
    terminal: Booleans  # [S]


Singles = np.typing.NDArray[np.float32]


class PairStep(NamedTuple):
    """weight × (td tdᵀ + square × Q H Qᵀ) for `pair_product`: a step of two branches, given what they share."""

    starts: Unsigned  # [S + 1], Q in compressed rows
    columns: Unsigned
    values: Floats
    td: Floats  # [S]
    weight: float
    square: float
    mirror: float  # 1 where H is symmetric, −1 where it is antisymmetric


class PairLayout(NamedTuple):
    """Which part of a table is swept, by groups of eight rows, and where it is recorded."""

    reach: Unsigned  # [groups], columns 0, …, reach − 1 of a group's rows are computed, the rest follows by symmetry
    mirrored: bool  # whether that rest is stored too; between blocks nothing reads it
    begin: Unsigned  # [groups], where a group's changes begin: row after row, each reach rounded up to eights
    block: np.uint64  # columns between places of policies; see `same`
    same: Floats  # [lags, S], entries (s, s − (lag + 1) × block) that are known otherwise; none where there are no lags

    @classmethod
    def lower_triangle(cls, S: int) -> PairLayout:
        """All pairs of states."""
        return cls._of(S, np.minimum(8 * np.arange(1, -(-S // 8) + 1), S), True, S)

    @classmethod
    def between_blocks(cls, S: int, block: int) -> PairLayout:
        """Pairs of states of different blocks only."""
        return cls._of(S, 8 * np.arange(S // 8) // block * block, False, block)

    @classmethod
    def _of(cls, S: int, reach: Integers, mirrored: bool, block: int) -> PairLayout:
        sizes = 8 * (-(-reach // 8) * 8)
        begin = np.cumsum(sizes) - sizes
        return cls(reach.astype(np.uint64), mirrored, begin.astype(np.uint64), np.uint64(block), np.zeros((0, S)))

    @property
    def recorded(self) -> int:
        """Numbers in the record of one change."""
        return int(self.begin[-1]) + 8 * (-(-int(self.reach[-1]) // 8) * 8)


class PairOutput(NamedTuple):
    """What `pair_product` fills."""

    table: Floats  # [S, S]
    change: Singles  # table − H, or empty
    add: bool  # to what stands in the table, or replace it
    measure: bool


class Cells(NamedTuple):
    """Distributions in cells, a row each. See `distributions`."""

    mass: Floats  # [rows, 1 + 2 cells]: what is exactly 0, what else is in each cell, the heaviest atom of each
    low: Floats
    high: Floats
    mean: Floats

    @classmethod
    def empty(cls, rows: int, cells: int) -> Cells:
        """Room for so many."""
        return cls(*np.empty((4, rows, 1 + 2 * cells)))

    def widths(self) -> tuple[Floats, Floats]:
        """Widths of all intervals, as the table has them, and their mean in each distribution."""
        widths = np.where(self.mass > 0, self.high - self.low, 0.0)
        widths[:, 0] = 0.0
        return widths, np.einsum("ic,ic->i", self.mass, widths)


class OutcomeLists(NamedTuple):
    """How distributions follow from one another in one step: each row is a list of outcomes."""

    starts: Integers  # [rows + 1]; the outcomes of row i are starts[i] … starts[i + 1] − 1
    chance: Floats  # [outcomes]
    gain: Floats  # [outcomes]
    source: Integers  # [outcomes], the row of the distribution that follows
    factor: Floats  # [outcomes], γ, or −γ where that distribution is of the gap the other way round


class CellLayout(NamedTuple):
    """Where the cells of new rows are."""

    per_width: Floats  # [rows], how many cells there are to a unit, far from zero
    first_cell: Integers  # [rows], its number; what is below is put in it, what is beyond the last in that
    bits: int
    narrow: float  # an interval up to this wide is an atom
