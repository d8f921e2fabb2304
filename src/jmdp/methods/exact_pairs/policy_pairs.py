"""Moments of the returns of several policies from one state, from a solved table between their blocks.

To follow policy i from state s is to start in the copy of s in block i and draw an action there. Means, variances and
covariances are therefore entries of the tables themselves; no lookahead is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.interval import Estimate
from jmdp.errors import UnavailableError
from jmdp.methods.exact_pairs.direct_solve import Refined
from jmdp.methods.exact_pairs.pair_table import LARGEST_STD, VISIBLE, PairMoments, raw_moment, scaled_moment, within
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.double_double import DoubleDouble
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import Shaped
from jmdp.models.policy import StackedTable
from jmdp.results.certificate import Certificate
from jmdp.results.parts import CrossCovariances, Moments


@dataclass(frozen=True, eq=False)
class PolicyTable(CrossCovariances):
    """Covariances of the returns of several policies, from the same state or from two states."""

    operator: PairOperator
    blocks: StackedTable
    H: DoubleDouble  # [S, S] over the states of all blocks, for rewards scaled to size 1, in the units of the states
    V: DoubleDouble  # [S]
    error: float  # of H
    variance_error: float  # of V

    @classmethod
    def of(cls, operator: PairOperator, blocks: StackedTable, H: Floats, residual: float) -> PolicyTable:
        """Table from a solution in float64 and its residual."""
        error = operator.table_error(operator.entry(H), residual)
        return cls(operator, blocks, dd.of(H), dd.of(operator.V), error, operator.variance_error())

    def refined(self, found: Refined) -> PolicyTable:
        """The table after a refinement."""
        error = (found.table_error + self.operator.td_effect()) * (1 + 2.0**-40)
        return replace(self, H=found.H, V=found.V, error=error, variance_error=error)

    def errors(self) -> Floats:
        """Errors of the covariances of returns from the same state [S, P, P], in their units."""
        rounded = np.abs(self.blocks.within_states(self.V.low, self.H.low))
        zero = self.blocks.at(self._is_zero)
        errors = np.where(np.eye(self.blocks.count, dtype=bool), self.variance_error, self.error) + rounded
        return np.where(zero[:, :, None] | zero[:, None, :], 0.0, errors * (1 + 2.0**-50))

    def mean(self) -> Floats:
        """Means of returns, [S, P]."""
        shaped = self.operator.shaped
        return shaped.scale.restore(self.blocks.at(shaped.value.high))

    def gap_means(self) -> tuple[Floats, Floats]:
        """Differences of the means of two policies [S, P, P], and bounds on their errors."""
        return value_gaps(self.operator.shaped, self.blocks)

    def covariance(self) -> Floats:
        """Covariances of returns from the same state, [S, P, P]."""
        found = self.blocks.within_states(self.V.high, self.H.high)
        return self.operator.shaped.scale.restore(found, 2, self._units())

    def certificate(self) -> Certificate:
        """Bounds on the errors of means and covariances."""
        model, shaped = self.operator.model, self.operator.shaped
        mean_errors = (shaped.value_errors + np.abs(shaped.value.low)) * (1 + 2.0**-40)
        return Certificate.certified(
            shaped.scale.restore_error(self.blocks.at(mean_errors)),
            shaped.scale.restore_error(self.errors(), 2, self._units()),
            model.discount,
            model.reward_bound,
            self.gap_means()[1],
        )

    def cross_covariance(self, s: int, i: int, t: int, j: int) -> float:
        """Covariance of the returns of policy i from s and of policy j from t."""
        x, y = places(self.blocks, s, i, t, j)
        return self.operator.shaped.scale.restore(float(self.H.high[x, y]), 2, self._unit(x, y))

    def cross_covariance_error(self, s: int, i: int, t: int, j: int) -> float:
        """Bound on the error of `cross_covariance`."""
        x, y = places(self.blocks, s, i, t, j)
        if self._is_zero[x] or self._is_zero[y]:
            return 0.0
        error = (self.error + abs(float(self.H.low[x, y]))) * (1 + 2.0**-50)
        return self.operator.shaped.scale.restore_error(error, 2, self._unit(x, y))

    def _unit(self, x: int, y: int) -> int:
        unit = self.operator.units.state
        return int(unit[x] + unit[y])

    def _units(self) -> Integers:
        """[S, P, P], units of covariances, as exponents of 2."""
        unit = self.blocks.at(self.operator.units.state)
        return np.asarray(unit[:, :, None] + unit[:, None, :])

    @cached_property
    def _is_zero(self) -> Booleans:
        """[states of all blocks], True if every return is exactly 0."""
        return np.asarray(self.operator.shaped.td_errors == 0)


def value_gaps(shaped: Shaped, blocks: StackedTable) -> tuple[Floats, Floats]:
    """Differences of the values of two policies [S, P, P], and bounds on their errors."""
    value = DoubleDouble(blocks.at(shaped.value.high), blocks.at(shaped.value.low))
    found, error = dd.differences(value, blocks.at(shaped.value_errors))
    return shaped.scale.restore(found), shaped.scale.restore_error(error)


def places(blocks: StackedTable, s: int, i: int, t: int, j: int) -> tuple[int, int]:
    """States of the table of all blocks that are s under policy i and t under policy j, for i ≠ j."""
    if i == j:
        raise UnavailableError(
            "An evaluation of several policies has no covariances of one policy's returns from two states. "
            "Evaluate that policy on its own: evaluate(model, policy, coupling)."
        )
    return blocks.place(s, i), blocks.place(t, j)


class PolicyTolerance:
    """Limits on the errors of the returns of policies, analogous to `pair_tolerance` for actions."""

    def __init__(self, operator: PairOperator, blocks: StackedTable, tolerance: float) -> None:
        self._operator = operator
        shaped, units = operator.shaped, operator.units
        with np.errstate(divide="ignore"):
            variance = shaped.classes.reachable_max(np.log2(operator.V) + 2 * units.state)
            square = 2 * shaped.classes.reachable_max(np.log2(np.abs(shaped.value.high)))
        allowed = tolerance * np.exp2(np.logaddexp2(variance, square) / 2)
        self.means_met = bool((shaped.value_errors <= allowed).all())
        std = np.minimum(np.maximum(variance, square + 2 * VISIBLE) / 2 - units.state, LARGEST_STD)
        one, other = blocks.pairs()
        earns = (shaped.td_errors[one] > 0) & (shaped.td_errors[other] > 0)
        scales = np.exp2(std[one][earns]) * np.exp2(std[other][earns])
        self.error = tolerance * float(scales.min(initial=np.inf))
        """Largest permitted `PairOperator.table_error`."""

    def target(self, entry: float) -> float:
        """Largest acceptable residual of a table whose entries are at most `entry`."""
        least = self._operator.table_error(entry, 0.0)
        return (self.error * (1 - 2.0**-39) - least) * self._operator.one_minus_square

    def reached(self, entry: float, residual: float) -> bool:
        """True if a table with this residual meets the tolerance."""
        return self._operator.table_error(entry, residual) <= self.error

    def met_by(self, table: PolicyTable) -> bool:
        """True if all means and covariances meet the tolerance."""
        return self.means_met and float(table.errors().max(initial=0.0)) <= self.error


@dataclass(frozen=True, eq=False)
class PolicyMoments(Moments):
    """Moments of the returns of one or two policies up to an order."""

    found: PairMoments  # over the states of all blocks
    blocks: StackedTable

    @property
    def operator(self) -> PairOperator:
        """Pair operator of order 2, with all units equal to 1."""
        return self.found.operator

    @property
    def order(self) -> int:
        """Largest available order."""
        return self.found.order

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """E[Π Z_i(s)] over coordinates (s, i), at most two of them distinct."""
        distinct = sorted(set(coordinates))
        if len(distinct) > 2:
            raise UnavailableError(
                f"ExactPairs gives joint moments of at most two policies' returns, not of {len(distinct)}. "
                "Use MonteCarlo(seed=…), which samples all returns jointly."
            )
        (s, i), (t, j) = distinct[0], distinct[-1]
        if i == j and s != t:
            raise UnavailableError(
                "An evaluation of several policies has no joint moments of one policy's returns from two states. "
                "Evaluate that policy on its own: evaluate(model, policy, coupling, ExactPairs(order=…))."
            )
        x, y = self.blocks.place(s, i), self.blocks.place(t, j)
        n = coordinates.count(distinct[0]) if x != y else len(coordinates)
        powers = n, len(coordinates) - n
        found = raw_moment(powers, (self._mean(x), self._mean(y)), lambda p, q: self._central(x, p, y, q))
        return scaled_moment(self.operator.shaped.scale, found, len(coordinates))

    def gap_moments(self, s: int, i: int, j: int) -> tuple[Estimate, ...]:
        """Central moments of the gap between policies i and j from state s."""
        x, y = self.blocks.place(s, i), self.blocks.place(s, j)
        if self.operator.model.terminal[x]:
            return tuple(Estimate.around(float(o == 0), 0.0) for o in range(self.order + 1))
        moments = [Estimate.around(1.0, 0.0), Estimate.around(0.0, 0.0)]
        for o in range(2, self.order + 1):
            terms = [math.comb(o, p) * (-1.0) ** (o - p) * self._entry(x, p, y, o - p) for p in range(o + 1)]
            rounding = (o + 4) * 2.0**-52 * math.fsum(map(abs, terms))
            off = (2.0**o * self._error(o, x, y) + rounding) * (1 + 2.0**-40)
            moments.append(scaled_moment(self.operator.shaped.scale, within(math.fsum(terms), off, o), o))
        return tuple(moments)

    def _central(self, x: int, p: int, y: int, q: int) -> Estimate:
        if p + q < 2:
            return Estimate.around(float(p + q == 0), 0.0)
        terminal = self.operator.model.terminal
        if (p and terminal[x]) or (q and terminal[y]):
            return Estimate.around(0.0, 0.0)
        return within(self._entry(x, p, y, q), self._error(p + q, x, y), p + q if p % 2 == q % 2 == 0 else 1)

    def _error(self, o: int, x: int, y: int) -> float:
        label = self.operator.shaped.classes.label
        return float(self.found.errors[o][label[x], label[y]])

    def _entry(self, x: int, p: int, y: int, q: int) -> float:
        if not p or not q or x == y:
            one = y if not p else x
            return float(self.found.single[p + q][one])
        return float(self.found.tables[p, q][x, y])

    def _mean(self, x: int) -> Estimate:
        shaped = self.operator.shaped
        error = float(shaped.value_errors[x] + abs(shaped.value.low[x])) * (1 + 2.0**-40)
        return Estimate.around(float(shaped.value.high[x]), error)
