"""Probability that a gap is exactly 0, by integer arithmetic.

A gap is G = g + γ G' with g and γ dyadic, so G = y exactly if G' = (y − g)/γ exactly. Write γ = m/2^k with m odd. A
chain of (pair of states, value) contains all values that are required of later gaps, starting from 0.

1. Every atom is reached in finitely many steps. P(G = y | the first t steps) is a martingale and tends to the indicator
   of {G = y}. A pair has at most one value of probability above ½, and there are finitely many pairs. So if the
   martingale tends to 1 it equals 1 from some step on: the chain is at a pair whose gap is almost surely one value.
2. A value that is not dyadic has probability 0. Values that the chain reaches from 0 are integers over powers of 2
   and m. An almost sure value solves c = Σ γ^t g_t ± γ^n c along a cycle of n steps, so it is an integer over powers of
   2 times 2^(kn) ∓ m^n, which has no factor in common with m. At the final pair of 1 both hold, which is possible only
   for dyadic values, and then all earlier values are dyadic.
3. Dyadic values in the chain are multiples of the unit of the rewards, since (y − g)/γ divides by an odd number and
   multiplies by a power of two. They lie in the range of the gap. So the chain is finite.
4. In a set of (pair, value) that no outcome leaves, y = Σ γ^t g_t + γ^n y_n with y_n bounded, so P(G = y) = 1. By 1,
   P(G = y) = 0 if no such set can be reached. The remaining probabilities solve a linear system with an M-matrix.

The number of expanded outcomes is limited. A probability that needs more is bounded by 0 and 1.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Booleans, Floats, Integers
from jmdp.methods.exact_distribution.steps import DistributionSteps, Steps
from jmdp.methods.shared import double_double as dd

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MOST_FOLLOWED = 200_000, 4
"""Limit on the outcomes expanded: the larger of the first number and the second times all outcomes."""

_HIDDEN = Fraction(1, 2**1000)
"""Upper bound on the error of a range by underflow, on rewards of size 1."""

_REFINEMENTS = 4
_KRYLOV = 60


class _Outcome(NamedTuple):
    gain: int
    source: int
    sign: int
    chance: float


class _Node(NamedTuple):
    """A row of steps and the value required of its gap."""

    drawn: bool
    row: int
    value: int


@dataclass(frozen=True, eq=False)
class _Row:
    """Outcomes of one row by the remainder of their gain modulo m, which decides if the next value is dyadic."""

    count: int
    by_remainder: dict[int, list[_Outcome]]


class Ties(NamedTuple):
    """Bounds on the probabilities of exact ties."""

    least: Floats  # [gap rows], bounds on P(G = 0) of gaps of given actions: steps.given from steps.first_gap on
    most: Floats
    always: Booleans  # [rows], policy-drawn pairs whose gap is 0 almost surely


def tie_chances(steps: DistributionSteps, low: Floats, high: Floats, units: float) -> Ties:
    """Compute the bounds for all gaps.

    Parameters
    ----------
    low, high
        Ranges of the gaps of policy-drawn pairs, on rewards of size 1.
    units
        Error of the probabilities of one row, in units of rounding.
    """
    gaps, pairs = range(steps.first_gap, steps.given.starts.size - 1), range(steps.drawn.starts.size - 1)
    ended = np.arange(len(pairs)) == len(pairs) - 1
    if not steps.list_all():
        return Ties(np.zeros(len(gaps)), np.ones(len(gaps)), ended)
    chain = _TieChain(steps, low, high)
    chain.follow([*(_Node(False, row, 0) for row in gaps), *(_Node(True, row, 0) for row in pairs)])
    least, most = chain.chances(units)
    return Ties(least[: len(gaps)], most[: len(gaps)], ended | (least[len(gaps) : len(gaps) + len(pairs)] == 1))


def horizon_tie_chances(
    steps: Sequence[DistributionSteps], final: dd.DoubleDouble, ranges: Sequence[tuple[Floats, Floats]], units: float
) -> Ties:
    """Compute the bounds for all gaps over a finite horizon.

    Required values follow one another as over an infinite one, up to the last step: there the gap of final values is
    known. It is a multiple of the unit, like all values that are required. As the gap is dyadic at every step, a
    required value that is not dyadic is not reached.

    Parameters
    ----------
    steps
        Of each step, in chronological order.
    final
        Gap of each drawn row after the last step.
    ranges
        Ranges of the gaps of policy-drawn pairs before steps 2, 3, … and after the last one, on rewards of size 1.
    units
        Error of the probabilities of one row, in units of rounding.
    """
    gaps, rows = range(steps[0].first_gap, steps[0].given.starts.size - 1), steps[0].drawn.starts.size - 1
    never = np.zeros(rows, bool)
    if not all(one.list_all() for one in {id(one): one for one in steps}.values()):
        return Ties(np.zeros(len(gaps)), np.ones(len(gaps)), never)
    chains = {id(one): _TieChain(one, *ranges[0], final) for one in steps}
    finest = max(chain.shift for chain in chains.values())  # values pass from one chain to the next
    for chain in chains.values():
        chain.shift = finest
    layer = {_Node(False, row, 0): i for i, row in enumerate(gaps)}
    edges: list[tuple[Integers, Integers, Floats, Booleans, int]] = []
    allowed = max(_MOST_FOLLOWED[0], _MOST_FOLLOWED[1] * (steps[0].drawn.chance.size + steps[0].given.chance.size))
    for one, limits in zip(steps, ranges, strict=True):
        chain = chains[id(one)]
        following, listed, whole = chain.one_step(layer, limits)
        edges.append((*listed, whole, len(layer)))
        layer = following
        if sum(chain.followed for chain in chains.values()) > allowed:
            least, most = np.zeros(len(layer)), np.ones(len(layer))
            break
    else:
        last = next(iter(chains.values()))
        least = most = np.array([last.is_final(node) for node in layer], float)
    for row, column, chance, whole, size in reversed(edges):
        off = (units + float(np.bincount(row, minlength=1).max()) + 8) * ROUNDOFF * (1 + 2.0**-20)
        sure = whole & (np.bincount(row, least[column] < 1, size) == 0)
        possible = np.bincount(row, most[column] > 0, size) > 0
        low, high = (np.bincount(row, chance * ends[column], size) for ends in (least, most))
        moved = off if steps[0].shares_choices else 2.0**-1000
        least = np.where(sure, 1.0, np.clip(low * (1 - off) - moved, 0.0, 1.0))
        most = np.where(possible, np.minimum(high * (1 + off) + moved, 1.0), 0.0)
    return Ties(least, most, never)


class _TieChain:
    """Chain of all (pair, value) reachable from the given ones, in units of the last bit of all rewards."""

    def __init__(
        self, steps: DistributionSteps, low: Floats, high: Floats, final: dd.DoubleDouble | None = None
    ) -> None:
        self._steps, self._range = steps, (low, high)
        rewards = np.concatenate([part for table in (steps.drawn, steps.given) for part in table.exact])
        if final is not None:
            self._final, rewards = final, np.concatenate([rewards, *final])
        sizes = np.frexp(rewards[rewards != 0])[1]
        self.shift = int(min(max(53 - int(sizes.min(initial=0)), 0), 1074))  # the unit is 2^−shift
        numerator, denominator = steps.discount.as_integer_ratio()
        self._m, self._k = max(numerator, 1), denominator.bit_length() - 1  # γ = 0 leads to the end, where the gap is 0
        self._rows: dict[tuple[bool, int], _Row] = {}
        self._limits: dict[int, tuple[int, int]] = {}
        self._index: dict[_Node, int] = {}
        self._edges: list[list[tuple[int, float]]] = []
        self._whole: list[bool] = []  # whether every outcome leads to another node
        self.followed = 0

    def follow(self, roots: Iterable[_Node]) -> None:
        """Expand all reachable nodes, up to a limit on outcomes; roots come first."""
        waiting = deque(roots)
        for node in waiting:
            self._index[node] = len(self._index)
        least, times = _MOST_FOLLOWED
        most = max(least, times * (self._steps.drawn.chance.size + self._steps.given.chance.size))
        while waiting and self.followed <= most:
            node = waiting.popleft()
            row = self._row(node.drawn, node.row)
            edges = []
            for following, chance in self._onward(node, row):
                if following not in self._index:
                    self._index[following] = len(self._index)
                    waiting.append(following)
                edges.append((self._index[following], chance))
            self._edges.append(edges)
            self._whole.append(len(edges) == row.count)
            self.followed += len(row.by_remainder.get(node.value % self._m, [])) + 1

    def _onward(self, node: _Node, row: _Row) -> Iterator[tuple[_Node, float]]:
        """Nodes that may follow, with their probabilities."""
        for gain, source, sign, chance in row.by_remainder.get(node.value % self._m, []):
            value = sign * (((node.value - gain) << self._k) // self._m)
            low, high = self._limit(source)
            if low <= value <= high:
                yield _Node(True, source, value), chance

    def one_step(
        self, nodes: Mapping[_Node, int], limits: tuple[Floats, Floats]
    ) -> tuple[dict[_Node, int], tuple[Integers, Integers, Floats], Booleans]:
        """Nodes after these; rows, columns and probabilities of the transitions; whether no outcome is left out."""
        self._range, self._limits = limits, {}
        found: dict[_Node, int] = {}
        entries: list[tuple[int, int, float]] = []
        whole = np.zeros(len(nodes), bool)
        for node, i in nodes.items():
            row, before = self._row(node.drawn, node.row), len(entries)
            for following, chance in self._onward(node, row):
                entries.append((i, found.setdefault(following, len(found)), chance))
            whole[i] = len(entries) - before == row.count
            self.followed += len(entries) - before + 1
        row_at, column, chances = zip(*entries, strict=True) if entries else ((), (), ())
        return found, (np.array(row_at, np.int64), np.array(column, np.int64), np.array(chances, np.float64)), whole

    def is_final(self, node: _Node) -> bool:
        """Whether the gap after the last step is the value required."""
        return node.value == sum(self._whole_number(float(part[node.row])) for part in self._final)

    def chances(self, units: float) -> tuple[Floats, Floats]:
        """Bounds on the probability of each node, in the order in which nodes were found."""
        known, n = len(self._edges), len(self._index)
        before: list[list[int]] = [[] for _ in range(n)]
        for i, edges in enumerate(self._edges):
            for j, _ in edges:
                before[j].append(i)
        unknown = np.arange(n) >= known
        leaves = _reaching(before, unknown | ~np.append(self._whole, np.zeros(n - known, bool)))
        sure = ~leaves
        possible = _reaching(before, sure | unknown)
        least, most = sure.astype(float), possible.astype(float)
        unsolved = np.flatnonzero(leaves & possible & ~unknown)
        if unsolved.size:
            least[unsolved], most[unsolved] = self._solved(unsolved, sure, unknown, units)
        return least, most

    def _solved(self, unsolved: Integers, sure: Booleans, unknown: Booleans, units: float) -> tuple[Floats, Floats]:
        """Solve (I − Q) h = probability of a certain tie after one step, and bound the error.

        If w > 0 and (I − Q) w ≥ d > 0, I − Q is an M-matrix, and |(I − Q) x| ≤ c gives |x| ≤ c w/d.
        """
        from scipy.sparse import csr_array

        place = np.full(sure.size, -1)
        place[unsolved] = np.arange(unsolved.size)
        entries = [(i, j, p) for i, edges in enumerate(self._edges) if place[i] >= 0 for j, p in edges]
        row, column, chance = (np.array(part) for part in zip(*entries, strict=True))
        row, size = place[row], (unsolved.size, unsolved.size)
        inside = place[column] >= 0
        Q = csr_array((chance[inside], (row[inside], place[column][inside])), size)
        one_step = [
            np.bincount(row, np.where(there[column], chance, 0.0), unsolved.size).astype(float)
            for there in (sure, unknown)
        ]
        off = (units + float(np.bincount(row).max()) + 8) * ROUNDOFF * (1 + 2.0**-20)
        with np.errstate(all="ignore"):  # a failed solve is detected below
            settled, cut = (np.clip(_solve(Q, b), 0.0, 1.0) for b in one_step)
            w = _solve(Q, np.ones(unsolved.size))
            down = float((w - Q @ w).min()) - 2 * off * float(np.abs(w).max())
        if not (np.isfinite(w).all() and w.min() > 0 and down > 0):
            return np.zeros(unsolved.size), np.ones(unsolved.size)
        solved = zip(one_step, (settled, cut), strict=True)
        error = [(float(np.abs(b + Q @ x - x).max()) + 4 * off) / down * (1 + 2.0**-40) * w for b, x in solved]
        return np.maximum(settled - error[0], 0.0), np.minimum(settled + error[0] + (cut + error[1]), 1.0)

    def _row(self, drawn: bool, i: int) -> _Row:
        if (drawn, i) not in self._rows:
            table: Steps = self._steps.drawn if drawn else self._steps.given
            at = slice(table.starts[i], table.starts[i + 1])
            by_remainder: dict[int, list[_Outcome]] = {}
            columns = (*table.exact, table.source, table.factor, table.chance)
            for gain, tail, source, factor, chance in zip(*(column[at].tolist() for column in columns), strict=True):
                exact = self._whole_number(gain) + (self._whole_number(tail) if tail else 0)
                sign = -1 if math.copysign(1.0, factor) < 0 else 1
                by_remainder.setdefault(exact % self._m, []).append(_Outcome(exact, source, sign, chance))
            count = int(table.starts[i + 1] - table.starts[i])
            self._rows[drawn, i] = _Row(count, by_remainder)
            self.followed += count
        return self._rows[drawn, i]

    def _limit(self, row: int) -> tuple[int, int]:
        if row not in self._limits:
            unit = Fraction(2) ** self.shift * self._steps.scale.factor
            low, high = (Fraction(float(ends[row])) for ends in self._range)
            hidden = _HIDDEN if row < len(self._range[0]) - 1 else 0  # the last row is (end, end), which is exactly 0
            self._limits[row] = math.floor((low - hidden) * unit), math.ceil((high + hidden) * unit)
        return self._limits[row]

    def _whole_number(self, x: float) -> int:
        numerator, denominator = x.as_integer_ratio()
        return (numerator << self.shift) // denominator


def _reaching(before: list[list[int]], targets: Booleans) -> Booleans:
    """Nodes from which a target can be reached, targets included."""
    found = targets.copy()
    waiting = np.flatnonzero(targets).tolist()
    while waiting:
        for i in before[waiting.pop()]:
            if not found[i]:
                found[i] = True
                waiting.append(i)
    return found


def _solve(Q: csr_array[np.float64], b: Floats) -> Floats:
    """Approximate solution x of (I − Q) x = b."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import gmres

    matrix = eye_array(b.size, format="csr") - Q
    x = np.zeros(b.size)
    for _ in range(_REFINEMENTS):
        x = x + gmres(matrix, b - matrix @ x, rtol=1e-9, atol=0.0, restart=min(_KRYLOV, b.size), maxiter=20)[0]
    return np.asarray(x)
