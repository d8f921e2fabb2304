"""An explicit joint distribution: scenarios that name an outcome for each action.

One uniform number for all actions, inverted by the cumulative distribution of each.

An outcome of an action is an interval of the uniform number (`intervals`). Scenarios of a state are the intervals
between the ends of all its actions, and the probability of each is rounded once, relative to its own size. So every
outcome keeps its probability up to rounding, however small it is. Ends are one only if they are equal in exact
arithmetic: where they differ by the rounding of given probabilities, a scenario of a tiny probability lies between.

Maximal coupling: all actions reach the same next state as often as possible.

It is the common uniform number again, for lists in another order. With m(n) = min_a p_a(n), the list of each action
begins with its outcomes that move to n, scaled to a total of m(n), for each n in turn. What remains of its outcomes
follows in the given order. So all actions move to n in the same interval of length m(n).

Independent actions: a scenario for each combination of their outcomes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import ROUNDOFF, SMALLEST, Floats, Integers
from jmdp.errors import ModelError
from jmdp.models.marginals.arrays import row_sums
from jmdp.models.marginals.marginals import Marginals
from jmdp.models.outcome_lists import (
    ExactRows,
    Intervals,
    Lists,
    Scenarios,
    group_ends,
    index_type,
    kept,
    largest_error,
    parts_of,
    plan,
)

_ROUNDING = 1e-9
"""Largest relative difference of probabilities that is taken for rounding. It is then part of the error of results."""


def table_scenarios(marginals: Marginals, prob: Floats, outcome: Integers) -> Scenarios:
    """Scenarios of prob [S, K] and outcome [S, K, A], if their marginals are the given ones."""
    S, A = marginals.shape
    K = prob.shape[1]
    if outcome.shape != (S, K, A):
        raise ModelError(f"outcome has shape {outcome.shape}, but {marginals!r} requires [S, K, A] = {(S, K, A)}.")
    plan(S, 2.0 * K, A, "Use fewer scenarios.")
    prob, outcome = prob.copy(), outcome.copy()
    prob[marginals.terminal], outcome[marginals.terminal] = np.eye(1, K), 0
    _refuse_bad(marginals, prob, outcome)
    prob = arrays.normalised_rows(prob, lambda s: f"prob of state {marginals.states.name(s)}", ModelError)
    outcome += marginals.first[:-1].reshape(S, 1, A)
    error = _difference(marginals, prob, outcome)
    return Scenarios(prob, marginals.reward[outcome], marginals.next_state[outcome], error)


def _refuse_bad(marginals: Marginals, prob: Floats, outcome: Integers) -> None:
    states, actions = marginals.states, marginals.actions
    bad = ~((prob >= 0) & (prob <= 1 + arrays.ROW_SUM_TOLERANCE))
    arrays.refuse_where(
        bad, prob, "prob", "a probability must be in [0, 1]", lambda at: f"state {states.name(at[0])}", ModelError
    )
    bad = (outcome < 0) | (outcome >= marginals.count[:, None])
    if bad.any():
        s, k, a = (int(i) for i in np.argwhere(bad)[0])
        raise ModelError(
            f"outcome[{s}, {k}, {a}] is {outcome[s, k, a]}, but state {states.name(s)}, action {actions.name(a)} has "
            f"{marginals.count[s, a]} outcomes, numbered from 0. See marginals.outcomes(state, action)."
        )


def _difference(marginals: Marginals, prob: Floats, outcome: Integers) -> float:
    """Largest relative difference from the marginal probability of an outcome; raise if it is more than rounding."""
    A, first = marginals.shape[1], marginals.first
    sums = np.bincount(outcome.ravel(), np.repeat(prob.ravel(), A), minlength=marginals.prob.size)
    found = sums / np.repeat(prob.sum(axis=1), np.diff(first[::A]))
    wanted = marginals.prob / np.repeat(row_sums(marginals.prob, first), np.diff(first))
    off: Floats = np.abs(found - wanted) / wanted
    worst = int(off.argmax())
    if off[worst] <= _ROUNDING:
        terms = outcome.shape[1] + int(np.diff(first).max())
        return float(off[worst] + 4 * terms * ROUNDOFF)
    row = int(np.searchsorted(first, worst, side="right")) - 1
    s, a = divmod(row, A)
    digits = max(9, 3 - math.floor(math.log10(off[worst])))
    raise ModelError(
        f"The scenarios of state {marginals.states.name(s)} give outcome {worst - first[row]} of action "
        f"{marginals.actions.name(a)} a probability of {found[worst]:.{digits}g}, but its marginal probability is "
        f"{wanted[worst]:.{digits}g}. Change prob or outcome there, or the marginals."
    )


class _Breakpoints(NamedTuple):
    number: Integers  # [N], number of scenarios of its state up to the end of each outcome
    prob: Floats  # [S, K], 0 after the last scenario of a state
    error: Floats  # [S, K], errors of prob by rounding, relative to it


def uniform_scenarios(intervals: Intervals) -> Scenarios:
    """Scenarios of each state by itself."""
    (S, A), fix = intervals.shape, "Use fewer outcomes or fewer actions."
    plan(S, int(np.diff(intervals.first).max()), A, fix)
    number: list[int] = []
    count: list[int] = []
    lengths: list[tuple[float, float]] = []
    for low, high in pairwise(intervals.first[::A].tolist()):
        ends = intervals.end[low:high]
        points = sorted({0, *ends})
        numbers = {end: k for k, end in enumerate(points)}
        number += [numbers[end] for end in ends]
        count.append(len(points) - 1)
        lengths += _lengths(points, intervals.bits)
    K = max(count)
    plan(S, K, A, fix)
    there = np.arange(K) < np.array(count)[:, None]
    table = np.zeros((2, S, K))
    table[:, there] = np.array(lengths).T
    return _table(intervals, _Breakpoints(np.array(number), *table))


def common_scenarios(intervals: Intervals) -> Scenarios:
    """The same scenarios in all states, which must have the same end."""
    S, A = intervals.shape
    points = sorted({0, *intervals.end})
    K = len(points) - 1
    plan(S, K, A, "Use across_states=False, or probabilities that states have in common.")
    numbers = {end: k for k, end in enumerate(points)}
    prob, error = np.array(_lengths(points, intervals.bits)).T
    number = np.array([numbers[end] for end in intervals.end])
    return _table(intervals, _Breakpoints(number, np.tile(prob, (S, 1)), np.tile(error, (S, 1))))


def _lengths(points: list[int], bits: int) -> list[tuple[float, float]]:
    """Lengths between points in units of 2**-bits as floats, and their relative rounding errors."""
    one, found = 1 << bits, []
    for low, high in pairwise(points):
        length = high - low
        rounded = length / one or SMALLEST  # what is possible stays possible
        digits, unit = rounded.as_integer_ratio()
        exact, given = digits << bits, length * unit
        found.append((rounded, abs(given - exact) / exact))
    return found


def _table(intervals: Intervals, found: _Breakpoints) -> Scenarios:
    """The table: an outcome fills the scenarios in its interval."""
    (S, A), K = intervals.shape, found.prob.shape[1]
    reward, next_state = np.empty((S, K, A)), np.empty((S, K, A), index_type(S))
    error = 0.0 if intervals.exact else 2.0**-100
    for part in parts_of(S, K * A):
        first = intervals.first[part.start * A : part.stop * A + 1]
        at = slice(int(first[0]), int(first[-1]))
        number = found.number[at].copy()
        number[first[1:] - first[0] - 1] = K  # scenarios of probability 0 repeat the last outcome
        begin = np.zeros_like(number)
        begin[1:] = number[:-1]
        begin[first[:-1] - first[0]] = 0
        filled = np.repeat(np.arange(at.start, at.stop), number - begin)
        outcome = filled.reshape(-1, A, K).transpose(0, 2, 1)
        reward[part], next_state[part] = intervals.reward[outcome], intervals.next_state[outcome]
        whose = intervals.outcome[filled]
        error = max(error, largest_error(found.prob[part], found.error[part], whose - whose.min()))
    return Scenarios(found.prob, reward, next_state, error)


_EQUAL = 1 << 40
"""Ends of remainders are rounded for each outcome. Those that differ by less, in units of an end, are taken for equal:
less than 2⁻¹⁵⁰ of any probability."""


def common_first(lists: Lists) -> Intervals:
    """Intervals of the common parts by next state, then of the remainders in the given order."""
    S, A = lists.shape
    rows = ExactRows(lists)
    next_state = lists.next_state.tolist()
    first, end, outcome = [0], [], []
    for s in range(S):
        actions = range(s * A, (s + 1) * A)
        found = _State(rows, actions, [next_state[rows.part(i)] for i in actions]).intervals()
        anchors = _anchors({x for one in found for x, _ in one})
        for i, one in zip(actions, found, strict=True):
            end += [anchors[x] for x, _ in one]
            outcome += [rows.part(i).start + j for _, j in one]
            first.append(len(end))
    at = np.array(outcome)
    return Intervals(np.array(first), end, at, lists.reward[at], lists.next_state[at], lists.shape, rows.bits, False)


class _State:
    """One state: probabilities of next states, and what all actions have in common."""

    def __init__(self, rows: ExactRows, actions: range, next_state: list[list[int]]) -> None:
        self._rows, self._next = [rows.row(i) for i in actions], next_state
        whole = rows.whole(actions)
        self._end = rows.scaled(whole, whole, whole)
        self._sums: list[dict[int, int]] = []  # of each action: probability of each next state, in units of rows
        self._chances: list[dict[int, int]] = []  # the same in units of ends
        for row, moves in zip(self._rows, next_state, strict=True):
            sums: dict[int, int] = defaultdict(int)
            for p, n in zip(row, moves, strict=True):
                sums[n] += p
            total = sum(row)
            self._sums.append(sums)
            self._chances.append({n: rows.scaled(p, whole, total) for n, p in sums.items()})
        shared = set.intersection(*map(set, self._sums))
        self._common = {n: min(chance[n] for chance in self._chances) for n in sorted(shared)}

    def intervals(self) -> list[list[tuple[int, int]]]:
        """Upper end and outcome of the intervals of each action."""
        return [self._of(a) for a in range(len(self._rows))]

    def _of(self, a: int) -> list[tuple[int, int]]:
        row, sums = self._rows[a], self._sums[a]
        moves: dict[int, list[int]] = defaultdict(list)
        for j, n in enumerate(self._next[a]):
            moves[n].append(j)
        found, begin = [], 0
        for n, common in self._common.items():
            before = 0
            for j in moves[n]:
                before += row[j]
                found.append((begin + common * before // sums[n], j))
            begin += common
        for j, n in enumerate(self._next[a]):
            remains = self._chances[a][n] - self._common.get(n, 0)
            if remains:
                begin += row[j] * remains // sums[n]
                found.append((begin, j))
        found[-1] = self._end, found[-1][1]
        return found


def _anchors(ends: set[int]) -> dict[int, int]:
    """For each end, the one end that stands for all that are equal up to rounding; the last is kept."""
    found, anchor = {}, None
    for end in sorted(ends, reverse=True):
        if anchor is None or anchor - end > _EQUAL:
            anchor = end
        found[end] = anchor
    return found


def product_scenarios(lists: Lists) -> Scenarios:
    """All combinations; outcomes of the last action vary fastest. Equal outcomes must be adjacent, and are merged."""
    lists, merged = _merged(lists)
    (S, A), count = lists.shape, np.diff(lists.first).reshape(lists.shape)
    with np.errstate(over="ignore"):
        most = float(count.prod(axis=1, dtype=float).max())
    plan(S, most, A, "Use CommonUniform(), or fewer actions.")
    K = int(most)
    stride = np.ones_like(count)
    stride[:, :-1] = np.cumprod(count[:, :0:-1], axis=1)[:, ::-1]
    prob, reward = np.empty((S, K)), np.empty((S, K, A))
    next_state = np.empty((S, K, A), index_type(S))
    first = lists.first[:-1].reshape(S, A)
    k = np.arange(K)[:, None]
    # Each factor is a sum divided by that of its row, and the table may divide the product once more.
    rounding, error = (A * (merged + 2) + 1) * ROUNDOFF, 0.0
    for part in parts_of(S, K * A):
        outcome = first[part, None] + k // stride[part, None] % count[part, None]
        p = np.maximum(lists.prob[outcome].prod(axis=2), SMALLEST)
        off = rounding + np.where(p < 2.0**-960, (A + 1) * SMALLEST / p, 0.0)
        p[k[:, 0] >= count[part].prod(axis=1)[:, None]] = 0.0
        prob[part], reward[part], next_state[part] = p, lists.reward[outcome], lists.next_state[outcome]
        flat = outcome.transpose(0, 2, 1).ravel()
        error = max(error, largest_error(p, off, flat - flat.min(), rounding))
    return Scenarios(prob, reward, next_state, error)


def _merged(lists: Lists) -> tuple[Lists, int]:
    """Lists in which adjacent equal outcomes are one, with rows divided by their sums; and how many one is at most."""
    ends = group_ends(lists)
    starts = np.concatenate([[0], np.flatnonzero(ends)[:-1] + 1])
    prob = np.add.reduceat(lists.prob, starts)
    lists = kept(lists, ends)._replace(prob=prob)
    prob /= np.repeat(row_sums(prob, lists.first), np.diff(lists.first))
    return lists, int(np.diff(starts, append=ends.size).max())
