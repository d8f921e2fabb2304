"""Outcomes as intervals of one uniform number, with exact ends.

Probabilities are integers in units of a power of two, so cumulative sums of them are exact. A row is divided by its
exact sum. The quotient is rounded down to a unit so small that different ends stay different: with probabilities in
units of 2^−q, ends of two rows differ by 0 or by more than 2^−(2q + 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, compress
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.models.joint.lists import Lists, group_ends

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
