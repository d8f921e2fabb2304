"""One uniform number for all actions, inverted by the cumulative distribution of each.

An outcome of an action is an interval of the uniform number. Scenarios of a state are the intervals between the
breakpoints of all its actions. Computed breakpoints that are equal in exact arithmetic differ by rounding, so nearby
ones are merged: cumulative sums of n probabilities are wrong by up to n u (u = 2⁻⁵³) for the additions, 2n u because
rows sum to 1 only up to 2n u, and u for the rounding of the probabilities themselves. So two equal ones differ by at
most 8n u. This also leaves out outcomes of a smaller probability, which cannot be told from rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Booleans, Floats, Integers
from jmdp.models.joint.lists import Lists, Scenarios, cumulative, group_ends, index_type, kept, parts_of, plan

_CHUNK = 1 << 18
"""Breakpoints that are sorted at a time."""


class Breakpoints(NamedTuple):
    """Upper end of the interval of each outcome."""

    number: Integers  # [N], number of scenarios of its state up to this end
    value: Floats  # [N], merged with those nearby
    most: int  # K, the largest number of scenarios


def scenarios(lists: Lists, fix: str) -> Scenarios:
    """Scenarios of each state by itself."""
    tolerance = _tolerance(lists)
    ends, lists = _ends(lists)
    plan(lists.shape[0], _at_least(lists, tolerance), lists.shape[1], fix)
    found = _by_state(ends, lists, tolerance)
    plan(lists.shape[0], found.most, lists.shape[1], fix)
    return _table(lists, found)


def common_scenarios(lists: Lists, terminal: Booleans, fix: str) -> Scenarios:
    """The same scenarios in all states that are not terminal."""
    tolerance = float(_tolerance(lists).max())
    ends, lists = _ends(lists)
    S, A = lists.shape
    distinct = np.unique(ends[np.repeat(~terminal, np.diff(lists.first[::A]))])
    plan(S, 1.0 + int((np.diff(distinct) > tolerance).sum()), A, fix)
    anchors = np.fromiter(_anchors(distinct, tolerance), float)
    if anchors.size == 0:  # all states are terminal
        anchors = np.ones(1)
    plan(S, anchors.size, A, fix)
    number = np.searchsorted(anchors, ends, side="right")
    number[lists.first[1:] - 1] = anchors.size
    table = _table(lists, Breakpoints(number, anchors[number - 1], anchors.size))
    table.prob[:] = np.diff(anchors, prepend=0.0)
    return table


def _ends(lists: Lists) -> tuple[Floats, Lists]:
    """Upper ends of intervals, and outcomes without breakpoints between equal ones."""
    ends, differs = cumulative(lists), group_ends(lists)
    return ends[differs], kept(lists, differs)


def _tolerance(lists: Lists) -> Floats:
    """Largest difference [S] of breakpoints that rounding can cause: 8n u, for n outcomes of one action."""
    longest: Integers = np.diff(lists.first).reshape(lists.shape).max(axis=1)
    return 8.0 * ROUNDOFF * longest.astype(float)


def _at_least(lists: Lists, tolerance: Floats) -> int:
    """Lower bound on the number of scenarios: outcomes of one action that are too likely to be merged."""
    size = np.diff(lists.first[:: lists.shape[1]])
    likely = np.add.reduceat(lists.prob > np.repeat(2 * tolerance, size), lists.first[:-1], dtype=np.int64)
    return max(1, int(likely.max()))


def _by_state(ends: Floats, lists: Lists, tolerance: Floats) -> Breakpoints:
    """Breakpoints of each state, sorted together; states with similarly many at a time."""
    begin = lists.first[:: lists.shape[1]]
    size = np.diff(begin)
    number, value = np.empty(ends.size, np.int64), np.empty(ends.size)
    most = 0
    order = np.argsort(size, kind="stable")
    for states in _similar(order, size):
        column = np.arange(size[states[-1]])
        there = column < size[states, None]
        at = (begin[:-1][states, None] + column)[there]
        padded = np.full(there.shape, np.inf)
        padded[there] = ends[at]
        places = np.argsort(padded, axis=1)
        numbers, values = _merged(np.take_along_axis(padded, places, axis=1), tolerance[states])
        for found, target in ((numbers, number), (values, value)):
            back = np.empty_like(found)
            np.put_along_axis(back, places, found, axis=1)
            target[at] = back[there]
        most = max(most, int(numbers[:, -1].max()))
    return Breakpoints(number, value, most)


def _similar(order: Integers, size: Integers) -> Iterator[Integers]:
    """Parts of the states, which are ordered by size, of a limited number of breakpoints each."""
    i = 0
    while i < order.size:
        j = min(order.size, i + max(1, _CHUNK // int(size[order[i]])))
        j = i + max(1, min(j - i, _CHUNK // int(size[order[j - 1]])))
        yield order[i:j]
        i = j


def _merged(ends: Floats, tolerance: Floats) -> tuple[Integers, Floats]:
    """Number and value of sorted ends [m, n] of intervals after merging; infinite ones are not counted.

    Each group begins with an end that exceeds the beginning of the group before by more than the tolerance; the first
    group begins with 0 and the last with 1.
    """
    numbers, values = np.empty(ends.shape, np.int64), np.empty(ends.shape)
    number, anchor = np.zeros(len(ends), np.int64), np.zeros(len(ends))
    for j in range(ends.shape[1]):
        end = np.where(ends[:, j] >= 1 - tolerance, np.where(ends[:, j] > 1, np.inf, 1.0), ends[:, j])
        new = (end > anchor + tolerance) & (end <= 1)
        anchor = np.where(new, end, anchor)
        number = number + new
        numbers[:, j], values[:, j] = number, anchor
    return numbers, values


def _anchors(ends: Floats, tolerance: float) -> Iterator[float]:
    """Beginnings of the groups of `_merged`, for one sorted row."""
    anchor = 0.0
    for end in ends.tolist():
        end = 1.0 if end >= 1 - tolerance else end
        if end > anchor + tolerance:
            anchor = end
            yield end


def _table(lists: Lists, found: Breakpoints) -> Scenarios:
    """The table: an outcome fills the scenarios in its interval. Those after the last have probability 0."""
    (S, A), K = lists.shape, found.most
    prob, reward = np.ones((S, K)), np.empty((S, K, A))
    next_state = np.empty((S, K, A), index_type(S))
    for part in parts_of(S, K * A):
        first = lists.first[part.start * A : part.stop * A + 1]
        at = slice(int(first[0]), int(first[-1]))
        number = found.number[at]
        state = np.repeat(np.arange(part.stop - part.start), np.diff(first[::A]))
        inside = number > 0
        prob[part][state[inside], number[inside] - 1] = found.value[at][inside]
        number = number.copy()
        number[first[1:] - first[0] - 1] = K  # scenarios of probability 0 repeat the last outcome
        begin = np.zeros_like(number)
        begin[1:] = number[:-1]
        begin[first[:-1] - first[0]] = 0
        filled = np.repeat(np.arange(at.start, at.stop), number - begin)
        outcome = filled.reshape(-1, A, K).transpose(0, 2, 1)
        reward[part], next_state[part] = lists.reward[outcome], lists.next_state[outcome]
    prob[:, 1:] = np.diff(prob, axis=1)
    return Scenarios(prob, reward, next_state)
