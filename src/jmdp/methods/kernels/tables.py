"""Named tuples of the arrays that kernels take, which numba unpacks at no cost. Does not import numba.

Encoding of the coordinates of moments.

`one` is x = state × A + action. `other` is y ≥ x for the product of two branches at x and y, or MEAN or SQUARE for a
moment of one branch.

Discounted visitation of a policy: mass pushed along its Markov chain from states whose tables are known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers, cumulative_rows
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

MEAN, SQUARE = -1, -2

ENDED = -1
"""Coordinate of a branch that has reached a terminal state."""


Unsigned = np.typing.NDArray[np.uint64]

ROWS = 8
"""Rows of a table of pairs that are processed together."""


class BranchTables(NamedTuple):
    """Model, policy and coupling as arrays, for `branches`."""

    cumulative_prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    next_state: Integers  # [S, K, A]
    terminal: Booleans  # [S]
    cumulative_policy: Floats  # [S, A]
    in_state: bool  # branches in one state share its scenario
    between_states: bool  # branches in different states also share their scenario
    shared_policy_luck: bool

    @classmethod
    def of(cls, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, reward: Floats) -> BranchTables:
        """Tables with these rewards [S, K, A] instead of the model's."""
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
    """Model, several policies, start states and coupling as arrays, for `policy_returns`."""

    cumulative_prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    next_state: Integers  # [S, K, A]
    terminal: Booleans  # [S]
    cumulative_policy: Floats  # [P, S, A]
    start_state: Integers  # [starts]
    cumulative_start: Floats  # [starts]
    in_state: bool  # branches in one state share its scenario
    between_states: bool  # branches in different states also share their scenario
    shared_policy_luck: bool


class Branches(NamedTuple):
    """Coordinates of branches after a step, and its rewards and scenarios; [branches] each."""

    state: Integers
    action: Integers
    gained: Floats
    scenario: Integers  # −1 in a terminal state
    shared: Booleans  # True if merged with an earlier branch before the step


class SampledReturns(NamedTuple):
    """Output of `sample_returns`; [samples, branches] each, and totals of all rows."""

    returns: Floats
    ends: Integers
    gains: Integers
    exact: Booleans  # True if the return was summed without rounding
    totals: Floats  # [3], updated: steps simulated, steps of branches merged with another, largest |reward|


class Chain(NamedTuple):
    """Markov chain of a policy on states whose tables are known, for `push`."""

    prob: Floats  # [S, K]
    next_state: Integers  # [S, K, A]
    policy: Floats  # [S, A]
    known: Booleans  # [S]; mass that reaches other states stays there
    terminal: Booleans  # [S]


Singles = np.typing.NDArray[np.float32]


class PairStep(NamedTuple):
    """weight × (td tdᵀ + square × Q H Qᵀ) for `pair_product`: a step of two branches given their shared randomness."""

    starts: Unsigned  # [S + 1], Q in compressed rows
    columns: Unsigned
    values: Floats
    td: Floats  # [S]
    weight: float
    square: float
    mirror: float  # 1 if H is symmetric, −1 if it is antisymmetric


class PairLayout(NamedTuple):
    """Part of a table that is swept, by groups of eight rows, and positions in the record of changes."""

    reach: Unsigned  # [groups], columns 0, …, reach − 1 of a group's rows are computed, the rest follows by symmetry
    near: Unsigned  # [groups], columns from `near` on are stored on both sides of the diagonal: those that are read
    begin: Unsigned  # [groups], start of a group's changes: row by row, each reach rounded up to a multiple of 8
    block: np.uint64  # columns between copies of a state under two policies; see `same`
    same: Floats  # [lags, S], entries (s, s − (lag + 1) × block) computed separately; empty if unused

    @classmethod
    def lower_triangle(cls, S: int, band: int) -> PairLayout:
        """All pairs of states; sweeps read entries above the diagonal up to this distance from it."""
        top = ROWS * np.arange(-(-S // ROWS))
        return cls._of(S, np.minimum(top + ROWS, S), np.maximum(top - band, 0), S)

    @classmethod
    def between_blocks(cls, S: int, block: int) -> PairLayout:
        """Pairs of states of different blocks only."""
        reach = 8 * np.arange(S // 8) // block * block
        return cls._of(S, reach, reach, block)

    @classmethod
    def _of(cls, S: int, reach: Integers, near: Integers, block: int) -> PairLayout:
        sizes = 8 * (-(-reach // 8) * 8)
        begin = np.cumsum(sizes) - sizes
        whole = np.uint64
        return cls(reach.astype(whole), near.astype(whole), begin.astype(whole), whole(block), np.zeros((0, S)))

    @property
    def recorded(self) -> int:
        """Number of entries in the record of one change."""
        return int(self.begin[-1]) + 8 * (-(-int(self.reach[-1]) // 8) * 8)


class PairWaves(NamedTuple):
    """Groups of eight rows in waves, and entries (s, s), for `ordered_product`. The first group may have fewer rows."""

    starts: Unsigned  # [waves + 1], the first group of each wave, and the end
    coupled: Booleans  # [groups], True if a likely step leads from one state of the group to another
    up: np.uint64  # largest number of states by which a step goes up
    fixed: Floats  # [S], known terms of (s, s)
    entry: Unsigned  # [terms, S], the others: row × S + column, row ≤ column
    weight: Floats  # [terms, S]


class PairOutput(NamedTuple):
    """Output of `pair_product`."""

    table: Floats  # [S, S]
    change: Singles  # table − H, or empty
    add: bool  # add to the table instead of replacing it
    measure: bool


class Atoms(NamedTuple):
    """Masses at points that are known up to rounding."""

    used: Integers  # [rows], number of cells in use
    mass: Floats  # [rows, cells]
    low: Floats
    high: Floats


class Bounds(NamedTuple):
    """Masses at points below the true ones: those of −G are above those of G, with the sign reversed."""

    used: Integers  # [2, rows], number of cells in use: of G and of −G
    mass: Floats  # [2, rows, cells]
    point: Floats  # [2, rows, cells], ascending


class Cells(NamedTuple):
    """Distributions, one per row. See `distributions`."""

    zero: Floats  # [rows], mass at exactly 0
    atoms: Atoms
    bounds: Bounds  # of all other mass
    bulk: Floats  # [2, 2, rows], most of the points of G and of −G, without 0, lie between these

    @classmethod
    def empty(cls, rows: int, cells: int) -> Cells:
        """Rows without mass, with room for this many cells; memory is used as far as cells are occupied."""
        atoms = Atoms(np.zeros(rows, np.int64), *(np.zeros((rows, cells)) for _ in range(3)))
        bounds = Bounds(np.zeros((2, rows), np.int64), *(np.zeros((2, rows, cells)) for _ in range(2)))
        return cls(np.zeros(rows), atoms, bounds, np.zeros((2, 2, rows)))

    def rows_from(self, first: int) -> Cells:
        """The rows first, first + 1, …"""
        atoms, bounds = self.atoms, self.bounds
        return Cells(
            self.zero[first:],
            Atoms(atoms.used[first:], atoms.mass[first:], atoms.low[first:], atoms.high[first:]),
            Bounds(bounds.used[:, first:], bounds.mass[:, first:], bounds.point[:, first:]),
            self.bulk[:, :, first:],
        )

    def atoms_in_use(self) -> tuple[Floats, Floats, Floats]:
        """Masses and ends of atoms [rows, cells]; masses are 0 where there is none."""
        columns = int(self.atoms.used.max(initial=0))
        mass, low, high = (part[:, :columns] for part in self.atoms[1:])
        return np.where(np.arange(columns) < self.atoms.used[:, None], mass, 0.0), low, high

    def bounds_in_use(self) -> tuple[Floats, Floats]:
        """Masses and points of both lists [2, rows, cells]; masses are 0 where there is none."""
        columns = int(self.bounds.used.max(initial=0))
        mass, point = (part[:, :, :columns] for part in self.bounds[1:])
        return np.where(np.arange(columns) < self.bounds.used[:, :, None], mass, 0.0), point


class OutcomeLists(NamedTuple):
    """One-step recursion between distributions: each row has a list of outcomes."""

    starts: Integers  # [rows + 1]; the outcomes of row i are starts[i] … starts[i + 1] − 1
    chance: Floats  # [outcomes]
    gain: Floats  # [outcomes]
    source: Integers  # [outcomes], row of the following distribution
    factor: Floats  # [outcomes], γ, or −γ if the following distribution is of the gap with opposite sign


class CellLayout(NamedTuple):
    """Cells of new rows."""

    bulk: Floats  # [2, 2, rows], ends of the part of equal cells; beside it cells become wider with the distance
    cells: int
    bits: int
    narrow: float  # intervals up to this width are atoms
