"""Lists of outcomes in the order in which a coupling uses them, and the tables of scenarios made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
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


def cumulative(lists: Lists) -> Floats:
    """Cumulative sums of each row from left to right, as NumPy's cumsum of the row, and 1.0 at its end."""
    sums, length = lists.prob.copy(), np.diff(lists.first)
    begin = lists.first[:-1][np.argsort(-length, kind="stable")]
    longer = length.size - np.cumsum(np.bincount(length))  # [j]: rows with more than j outcomes
    for j in range(1, longer.size - 1):
        at = begin[: longer[j]] + j
        sums[at] += sums[at - 1]
    np.minimum(sums, 1.0, out=sums)
    sums[lists.first[1:] - 1] = 1.0
    return sums


def kept(lists: Lists, some: Booleans) -> Lists:
    """Lists of these outcomes only; every row must keep one."""
    if some.all():
        return lists
    first = np.zeros_like(lists.first)
    np.cumsum(np.add.reduceat(some, lists.first[:-1], dtype=np.int64), out=first[1:])
    return _taken(lists, first, some)


def _taken(lists: Lists, first: Integers, at: Integers | Booleans) -> Lists:
    return Lists(first, lists.prob[at], lists.reward[at], lists.next_state[at], lists.shape)


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
