"""Lists of outcomes in the order in which a coupling uses them, and the tables of scenarios made of them.

Outcomes as intervals of one uniform number, with exact ends.

Probabilities are integers in units of a power of two, so cumulative sums of them are exact. A row is divided by its
exact sum. The quotient is rounded down to a unit so small that different ends stay different: with probabilities in
units of 2^−q, ends of two rows differ by 0 or by more than 2^−(2q + 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import ROUNDOFF, Booleans, Floats, Integers
from jmdp.errors import MemoryBudgetError
from jmdp.models.marginals.marginals import Marginals

Small = npt.NDArray[np.int32]
"""Indices of states or outcomes, in half the memory."""

_CHUNK = 1 << 18
"""Numbers of a table that are computed at a time."""


class Lists(NamedTuple):
    """Outcomes of all states and actions, row by row as in `Marginals`."""

    first: Integers  # [S·A + 1]
    prob: Floats  # [N]
    reward: Floats  # [N]
    next_state: Integers  # [N]
    shape: tuple[int, int]  # (S, A)


class Scenarios(NamedTuple):
    """A table of scenarios before it is checked."""

    prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    next_state: Integers | Small  # [S, K, A]
    error: float  # largest relative error of the probability of an outcome of an action


def as_given(marginals: Marginals) -> Lists:
    """Outcomes in the order in which they were given."""
    return Lists(marginals.first, marginals.prob, marginals.reward, marginals.next_state, marginals.shape)


def by_reward(marginals: Marginals) -> Lists:
    """Outcomes of each row in order of reward, then of next state."""
    lists = as_given(marginals)
    r, n = lists.reward, lists.next_state
    ordered = (r[1:] > r[:-1]) | ((r[1:] == r[:-1]) & (n[1:] >= n[:-1]))
    ordered[lists.first[1:-1] - 1] = True
    if ordered.all():
        return lists
    order = np.lexsort((n, r, row_of(lists)))
    return _taken(lists, lists.first, order)


def row_of(lists: Lists) -> Integers:
    """Row s·A + a of each outcome."""
    return np.repeat(np.arange(lists.first.size - 1), np.diff(lists.first))


def group_ends(lists: Lists) -> Booleans:
    """Whether an outcome differs from the next one of its row; the last of a row does."""
    r, n = lists.reward, lists.next_state
    ends = np.ones(r.size, bool)
    ends[:-1] = (r[1:] != r[:-1]) | (n[1:] != n[:-1])
    ends[lists.first[1:] - 1] = True
    return ends


def kept(lists: Lists, some: Booleans) -> Lists:
    """Lists of these outcomes only; every row must keep one."""
    if some.all():
        return lists
    first = np.zeros_like(lists.first)
    np.cumsum(np.add.reduceat(some, lists.first[:-1], dtype=np.int64), out=first[1:])
    return _taken(lists, first, some)


def _taken(lists: Lists, first: Integers, at: Integers | Booleans) -> Lists:
    return Lists(first, lists.prob[at], lists.reward[at], lists.next_state[at], lists.shape)


def largest_error(prob: Floats, error: Floats, outcome: Integers, usual: float = ROUNDOFF) -> float:
    """Largest relative error of the probability of an outcome of an action, if rows are divided by their sums.

    `error` are relative errors of prob [S, K], and `outcome` [S · A · K] is the outcome of each state, action and
    scenario. Only probabilities near the smallest float have larger errors than usual ones. The outcome that such a
    scenario is part of may be far more likely.
    """
    worst = float(error.max())
    if worst > usual:
        A = outcome.size // prob.size
        large = np.ldexp(prob, 900)
        mass, off = (np.bincount(outcome, np.repeat(x, A, axis=0).ravel()) for x in (large, large * error))
        worst = float(np.divide(off, mass, out=np.zeros_like(mass), where=mass > 0).max())
    of_sum = float(((prob * error).sum(axis=1) / prob.sum(axis=1)).max())
    return (worst + 2 * of_sum) * (1 + 2.0**-20)


def plan(states: int, scenarios: float, actions: int, fix: str) -> None:
    """Raise before anything is allocated if the table and its checked copy do not fit into memory."""
    numbers = states * scenarios * (1.0 + 2 * actions)
    what = f"The table of {states:,} states, {scenarios:,.10g} scenarios and {actions} actions"
    try:
        arrays.refuse_large(what, 20.0 * numbers)
    except MemoryBudgetError as error:
        raise MemoryBudgetError(f"{error} {fix}") from None


def parts_of(states: int, each: int) -> Iterator[slice]:
    """Consecutive parts of the states, if a state needs so many numbers."""
    step = max(1, _CHUNK // max(each, 1))
    return (slice(s, min(s + step, states)) for s in range(0, states, step))


def index_type(states: int) -> type[np.signedinteger]:
    """Smallest type for indices of states: a table is copied when it is checked."""
    return np.int32 if states < 2**31 else np.int64


_SPARE = 160
"""Bits of an end beyond those that tell it from others: lengths are accurate to 2⁻¹⁵⁰ of any probability."""


class Intervals(NamedTuple):
    """Intervals of the outcomes of all states and actions, row by row, from 0 to the end of the state.

    An outcome may have several.
    """

    first: Integers  # [S·A + 1]
    end: list[int]  # [N], upper ends, in units of 2**-bits; every row of a state has the same last one
    outcome: Integers  # [N], number of the outcome in the lists
    reward: Floats  # [N]
    next_state: Integers  # [N]
    shape: tuple[int, int]  # (S, A)
    bits: int
    exact: bool  # whether no end was rounded


class ExactRows:
    """Probabilities of all rows in integers."""

    def __init__(self, lists: Lists) -> None:
        fraction, exponent = np.frexp(lists.prob)
        unit = 53 - int(exponent.min())
        self.one, self.bits, self.exact = 1 << unit, 2 * unit + _SPARE, True
        self._finer = self.bits - unit
        self._digits = np.ldexp(fraction, 53).astype(np.int64).tolist()
        self._shift = (exponent + (unit - 53)).tolist()
        self._lists, self._bounds = lists, lists.first.tolist()
        self._sums: dict[bytes, list[int]] = {}

    def part(self, i: int) -> slice:
        """Outcomes of a row."""
        return slice(self._bounds[i], self._bounds[i + 1])

    def key(self, i: int) -> bytes:
        """Equal for rows of equal probabilities."""
        return self._lists.prob[self.part(i)].tobytes()

    def row(self, i: int) -> list[int]:
        """Probabilities of a row, in units of 1/one."""
        at = self.part(i)
        return [digits << shift for digits, shift in zip(self._digits[at], self._shift[at], strict=True)]

    def sums(self, i: int) -> list[int]:
        """Cumulative sums of a row, in the same units."""
        key = self.key(i)
        if key not in self._sums:
            self._sums[key] = list(accumulate(self.row(i)))
        return self._sums[key]

    def whole(self, rows: Iterable[int]) -> int:
        """Sum to which these rows are scaled: that of the first with several outcomes, which is then not rounded.

        It is 1 if that sum differs from 1 by more than rounding.
        """
        for i in rows:
            sums = self.sums(i)
            if len(sums) > 1:
                return sums[-1] if abs(sums[-1] - self.one) << 52 <= len(sums) * self.one else self.one
        return self.one

    def scaled(self, value: int, whole: int, total: int) -> int:
        """value · whole / total, in units of 2**-bits."""
        if total == whole:
            return value << self._finer
        found, rest = divmod(value * whole << self._finer, total)
        self.exact = self.exact and not rest
        return found


def by_rows(lists: Lists, *, common: bool = False) -> Intervals:
    """Intervals in the order of the lists; adjacent equal outcomes are one. `common`: all states have the same end."""
    S, A = lists.shape
    rows = ExactRows(lists)
    states = [range(s * A, (s + 1) * A) for s in range(S)]
    wholes = [rows.whole(range(S * A))] * S if common else [rows.whole(actions) for actions in states]
    differs = group_ends(lists)
    kept = differs.tolist()
    end: list[int] = []
    known: dict[tuple[bytes, int], list[int]] = {}
    for i in range(S * A):
        whole = wholes[i // A]
        key = rows.key(i), whole
        if key not in known:
            sums = rows.sums(i)
            known[key] = [rows.scaled(value, whole, sums[-1]) for value in sums]
        end.extend(compress(known[key], kept[rows.part(i)]))
    first = np.concatenate([[0], np.cumsum(np.add.reduceat(differs, lists.first[:-1], dtype=np.int64))])
    outcome = np.flatnonzero(differs)
    reward, next_state = lists.reward[outcome], lists.next_state[outcome]
    return Intervals(first, end, outcome, reward, next_state, lists.shape, rows.bits, rows.exact)
