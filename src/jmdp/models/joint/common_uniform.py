"""One uniform number for all actions, inverted by the cumulative distribution of each.

An outcome of an action is an interval of the uniform number (`intervals`). Scenarios of a state are the intervals
between the ends of all its actions, and the probability of each is rounded once, relative to its own size. So every
outcome keeps its probability up to rounding, however small it is. Ends are one only if they are equal in exact
arithmetic: where they differ by the rounding of given probabilities, a scenario of a tiny probability lies between.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import SMALLEST, Floats, Integers
from jmdp.models.joint.intervals import Intervals
from jmdp.models.joint.lists import Scenarios, index_type, largest_error, parts_of, plan


class _Breakpoints(NamedTuple):
    number: Integers  # [N], number of scenarios of its state up to the end of each outcome
    prob: Floats  # [S, K], 0 after the last scenario of a state
    error: Floats  # [S, K], errors of prob by rounding, relative to it


def scenarios(intervals: Intervals, fix: str) -> Scenarios:
    """Scenarios of each state by itself."""
    S, A = intervals.shape
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


def common_scenarios(intervals: Intervals, fix: str) -> Scenarios:
    """The same scenarios in all states, which must have the same end."""
    S, A = intervals.shape
    points = sorted({0, *intervals.end})
    K = len(points) - 1
    plan(S, K, A, fix)
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
