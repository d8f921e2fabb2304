"""Maximal coupling: all actions reach the same next state as often as possible.

It is the common uniform number again, for lists in another order. With m(n) = min_a p_a(n), the list of each action
begins with its outcomes that move to n, scaled to a total of m(n), for each n in turn. What remains of its outcomes
follows in the given order. So all actions move to n in the same interval of length m(n).
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from jmdp.models.joint.intervals import ExactRows, Intervals
from jmdp.models.joint.lists import Lists

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
