"""Mixed moments of two returns, of any order, by a one-step lookahead on solved tables, with error bounds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats, Integers
from jmdp.base.interval import Estimate, Interval
from jmdp.base.scale import Scale
from jmdp.errors import UnavailableError
from jmdp.methods.exact_pairs.moment_errors import ErrorScales
from jmdp.methods.exact_pairs.moment_operator import looked_up
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.results.outcome import Outcome


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """Scenarios of two branches, and means over them."""

    one: Integers  # [K], or [K, 1] if drawn independently
    other: Integers  # [K], or [1, K]
    chance: Floats  # [K]
    other_chance: Floats | None  # [K], or None if both branches share the scenario

    def mean(self, terms: Floats) -> float:
        """Mean of the terms, summed row by row: a single sum of K² terms has a larger rounding error."""
        if self.other_chance is None:
            return float(self.chance @ terms)
        return float(self.chance @ (terms @ self.other_chance))


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Moments of one or two returns up to an order, for `Evaluation.moment` and gaps."""

    order: int
    operator: PairOperator
    scales: ErrorScales
    single: list[Floats]  # [S] each, E[Y^o] of a drawn action, o = 0, 1, …
    tables: dict[tuple[int, int], Floats]  # [S, S] each, h_pq, p, q ≥ 1
    entries: list[Floats]  # [classes, classes] each, largest entry of each order that is reachable
    errors: list[Floats]  # [classes, classes] each, bound on the error of any such entry
    outcome: Outcome

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """E[Π Z(x)] over the given coordinates (Eq. (31)), at most two of them distinct."""
        distinct = sorted(set(coordinates))
        if len(distinct) > 2:
            raise UnavailableError(
                f"ExactPairs gives joint moments of at most two coordinates, not of {len(distinct)}. "
                f"Use JIPE(order={len(coordinates)})."
            )
        x, y = distinct[0], distinct[-1]
        i = coordinates.count(x) if x != y else len(coordinates)
        powers = i, len(coordinates) - i
        found = raw_moment(powers, (self._mean(*x), self._mean(*y)), lambda p, q: self._central(x, p, y, q))
        return self._scaled(found, len(coordinates))

    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        """Central moments of Z(s, a) − Z(s, b): (δ_a − δ_b + γ (Y' − Ỹ'))^o, expanded."""
        if self.operator.model.terminal[s]:
            return tuple(Estimate.around(float(o == 0), 0.0) for o in range(self.order + 1))
        outcomes = self._outcomes(s, s)
        k, m = outcomes.one, outcomes.other
        delta, n = self.operator.shaped.centred[s], self.operator.model.next_state[s]
        gained = delta[k, a] - delta[m, b]
        td_error = float(self.operator.shaped.centred_errors[s, [a, b]].sum())
        td_error += 4 * ROUNDOFF * float(np.abs(delta[:, [a, b]]).max())
        sizes = [outcomes.mean((np.abs(gained) + td_error) ** r) * (1 + 2.0**-30) for r in range(self.order + 1)]
        entries = [2.0**o * entry for o, entry in enumerate(self._at(self.entries, n[k, a], n[m, b]))]
        errors = [2.0**o * error for o, error in enumerate(self._at(self.errors, n[k, a], n[m, b]))]
        gamma = self.operator.model.discount
        following = [
            sum(math.comb(o, p) * (-1.0) ** (o - p) * self._looked_up(n[k, a], n[m, b], p, o - p) for p in range(o + 1))
            for o in range(self.order + 1)
        ]
        found = [Estimate.around(1.0, 0.0), Estimate.around(0.0, 0.0)]
        for o in range(2, self.order + 1):
            terms = sum(math.comb(o, r) * gamma**r * gained ** (o - r) * following[r] for r in range(o + 1))
            value = outcomes.mean(terms)
            off = self.scales.sum(o, o + 1, errors, sizes) + self.scales.rounding(o, entries, sizes, td_error)
            found.append(self._scaled(within(value, float(off), o), o))
        return tuple(found)

    def _central(self, x: tuple[int, int], i: int, y: tuple[int, int], j: int) -> Estimate:
        """E[(Z(x) − q(x))^i (Z(y) − q(y))^j], for rewards scaled to size 1."""
        if i + j == 0:
            return Estimate.around(1.0, 0.0)
        if i + j == 1:
            return Estimate.around(0.0, 0.0)
        model, o = self.operator.model, i + j
        if (i and model.terminal[x[0]]) or (j and model.terminal[y[0]]):
            return Estimate.around(0.0, 0.0)
        if not i or not j or x == y:
            one = x if i else y
            outcomes = self._outcomes(one[0], one[0], alone=True)
            i, j, x, y = o, 0, one, one
        else:
            outcomes = self._outcomes(x[0], y[0])
        k, m = outcomes.one, outcomes.other
        delta, n, gamma = self.operator.shaped.centred, model.next_state, model.discount
        gained, other = delta[x[0], k, x[1]], delta[y[0], m, y[1]]
        following = n[x[0], k, x[1]], n[y[0], m, y[1]]
        terms = np.zeros(np.broadcast_shapes(k.shape, m.shape))
        for p in range(i + 1):
            for q in range(j + 1):
                times = math.comb(i, p) * math.comb(j, q) * gamma ** (p + q)
                terms += times * gained ** (i - p) * other ** (j - q) * self._looked_up(*following, p, q)
        sizes = [max(float(given[x]), float(given[y])) for given in self.scales.given]
        errors, entries = self._at(self.errors, *following), self._at(self.entries, *following)
        td_error = float(max(self.operator.shaped.centred_errors[x], self.operator.shaped.centred_errors[y]))
        off = self.scales.sum(o, o + 1, errors, sizes) + self.scales.rounding(o, entries, sizes, td_error)
        return within(outcomes.mean(terms), float(off), o if i % 2 == j % 2 == 0 else 1)

    def _at(self, bounds: Sequence[Floats], one: Integers, other: Integers) -> list[float]:
        """The largest bound of each order over the pairs of following states."""
        label = self.operator.shaped.classes.label
        return [float(bound[label[one], label[other]].max()) for bound in bounds]

    def _outcomes(self, s: int, t: int, *, alone: bool = False) -> _Outcomes:
        model, coupling = self.operator.model, self.operator.coupling
        k, m = np.flatnonzero(model.prob[s]), np.flatnonzero(model.prob[t])
        if coupling.shared_between_states or (coupling.shared_in_a_state and s == t) or alone:
            return _Outcomes(k, k, model.prob[s, k], None)
        return _Outcomes(k[:, None], m[None, :], model.prob[s, k], model.prob[t, m])

    def _looked_up(self, n: Integers, m: Integers, p: int, q: int) -> Floats:
        return looked_up(n, m, p, q, self.single, self.tables)

    def _mean(self, s: int, a: int) -> Estimate:
        shaped = self.operator.shaped
        return Estimate.around(float(shaped.mean[s, a]), float(shaped.mean_errors[s, a]))

    def _scaled(self, estimate: Estimate, o: int) -> Estimate:
        return scaled_moment(self.operator.shaped.scale, estimate, o)


def raw_moment(
    powers: tuple[int, int], means: tuple[Estimate, Estimate], central: Callable[[int, int], Estimate]
) -> Estimate:
    """E[X^i Y^j] for powers (i, j): Σ_pq C(i, p) C(j, q) E[(X − x)^p (Y − y)^q] x^{i−p} y^{j−q} with the means x, y."""
    i, j = powers
    x, y = means
    value, wide = 0.0, Interval(0.0, 0.0)
    for p, q in np.ndindex(i + 1, j + 1):
        times, known = float(math.comb(i, p) * math.comb(j, q)), central(p, q)
        value += times * known * x ** (i - p) * y ** (j - q)
        wide += Interval(times, times) * known.interval * (x.interval.power(i - p) * y.interval.power(j - q))
    low = max(wide.low, 0.0) if i % 2 == j % 2 == 0 else wide.low
    return Estimate(max(value, low), low, wide.high)


def scaled_moment(scale: Scale, estimate: Estimate, o: int) -> Estimate:
    """Moment of order o, rescaled to the original rewards."""
    value, least, most = (scale.restore(x, o) for x in (float(estimate), estimate.low, estimate.high))
    # Underflow in the rescaling widens the interval; a bound that overflows becomes finite where that is the safe side.
    low = min(least, sys.float_info.max) - (2.0**-1073 if estimate.low else 0.0)
    high = max(most, -sys.float_info.max) + (2.0**-1073 if estimate.high else 0.0)
    return Estimate(value, 0.0 if estimate.low >= 0 > low else low, high)


def within(value: float, error: float, power: int) -> Estimate:
    """Estimate of value ± error; cut off at 0 if the power is even."""
    wide = Interval.around(value, error)
    low = max(wide.low, 0.0) if power % 2 == 0 else wide.low
    return Estimate(max(value, low), low, wide.high)
