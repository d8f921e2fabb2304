"""Covariances from a solved pair table and bounds on their errors, in the original reward units.

Moments of single returns of any order, and terms of the error bounds of moments.

All computations use shaped returns Y = Z − v(s), whose moments are central. For each pair of classes of states
(`state_classes`), one number bounds the error of all moments of order o of the pairs of states reachable from there,
both of tables and of single returns. With D_r the maximum of E|d|^r over the states reachable from either class,
Hölder's inequality bounds any E[|d|^x |d̃|^y] by D_{x+y}, so that

    e_o = ( ‖residual‖ + rounding + effect of the error of d + Σ_{l<o} C(o, l) γ^l D_{o−l} e_l ) / (1 − γ^o).

The set of reachable pairs is closed, so all norms are maxima over it, and other parts of a model do not matter.

Mixed moments of two returns, of any order, by a one-step lookahead on solved tables, with error bounds.

Limits on certified errors: the tolerance relative to the returns reachable from each state.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, Integers, Scale
from jmdp.base.interval import Estimate, Interval
from jmdp.errors import UnavailableError
from jmdp.methods.exact_pairs.direct_solve import Refined
from jmdp.methods.exact_pairs.moment_operator import looked_up
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import policy_chain_solver
from jmdp.methods.shared.same_state import StateClasses
from jmdp.results.certificate import Outcome
from jmdp.results.parts import CrossCovariances, Moments


@dataclass(frozen=True, eq=False)
class PairTable(CrossCovariances):
    """Solved pair table, with the covariances computed from it and their certified errors."""

    operator: PairOperator
    H: Floats  # [S, S], for rewards scaled to size 1, in the units of the states
    step_error: float  # error of any covariance, in its units, assuming exact TD errors
    refined: Refined | None = None

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Return Cov(Z(s, a), Z(t, b)) for s ≠ t."""
        found = self.operator.cross_covariance(self.H, s, a, t, b)
        return self._scale.restore(found, 2, self._unit(s, a, t, b))

    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of `cross_covariance`."""
        effects = self.operator.td_error_effects()
        if effects.is_zero[s, a] or effects.is_zero[t, b]:
            return 0.0
        error = (self.step_error + effects.between((s, a), (t, b))) * (1 + 2.0**-40)
        return self._scale.restore_error(error, 2, self._unit(s, a, t, b))

    @property
    def _scale(self) -> Scale:
        return self.operator.shaped.scale

    def _unit(self, s: int, a: int, t: int, b: int) -> int:
        """Unit of a covariance, as an exponent of 2."""
        unit = self.operator.units.coordinate
        return int(unit[s, a] + unit[t, b])

    def covariance(self) -> Floats:
        """[S, A, A], covariances within each state."""
        found = self.operator.covariance(self.H) if self.refined is None else self.refined.covariance
        return self._scale.restore(found, 2, self._units())

    def covariance_error(self) -> Floats:
        """[S, A, A], bounds on the errors of `covariance`."""
        effects = self.operator.td_error_effects()
        is_zero = effects.is_zero[:, :, None] | effects.is_zero[:, None, :]
        step_error = self.step_error if self.refined is None else self.refined.error
        error = np.where(is_zero, 0.0, (step_error + effects.within_states()) * (1 + 2.0**-40))
        return self._scale.restore_error(error, 2, self._units())

    def _units(self) -> Integers:
        """[S, A, A], units of covariances within states, as exponents of 2."""
        unit = self.operator.units.coordinate
        return np.asarray(unit[:, :, None] + unit[:, None, :])


_MOST_REFINEMENTS = 10

Sizes = float | Floats
"""One number for all pairs, or [classes, classes]."""


class ErrorScales:
    """Terms of the error bounds of moments for one operator, on rewards of size 1."""

    def __init__(self, operator: PairOperator, order: int) -> None:
        shaped, classes = operator.shaped, operator.shaped.classes
        self._discount = operator.model.discount
        self._td_error = _either(classes.class_max(shaped.td_errors))
        self._tiny = UNDERFLOW if operator.shaped.rewards.bound else 0.0
        td, centred, pi = shaped.td, shaped.centred, operator.policy.probs
        shared = operator.coupling.policy_luck == "shared"
        # D_r of drawn actions [classes, classes], and of given ones [S, A]
        self.drawn, self.given = [np.ones((classes.count, classes.count))], [np.ones(shaped.mean.shape)]
        for r in range(1, order + 1):
            sizes = np.einsum("sk,ska->sa", operator.prob, np.abs(td) ** r)
            # With shared action draws, an action too unlikely to have its own break point may dominate the error.
            own = np.where(pi > 0, sizes, 0.0).max(axis=1) if shared else (sizes * pi).sum(axis=1)
            self.drawn.append(_either(classes.class_max(_widened(own, shaped.td_errors, r))))
            sizes = np.einsum("sk,ska->sa", operator.prob, np.abs(centred) ** r)
            self.given.append(_widened(sizes, shaped.centred_errors, r))
        # In addition to the rounding of second moments (which, without shared randomness, has no sum over the outcomes
        # of two branches): powers, binomials, powers of γ, and the sum over lower orders.
        outcomes = int(((operator.prob > 0).sum(axis=1) * (pi > 0).sum(axis=1)).max())
        extra = 0 if operator.joint_steps else 2 * (outcomes + 2)
        self._units = [operator.rounding + extra + (o + 1) ** 2 + 8 * o + 24 for o in range(order + 1)]

    def rounding(
        self, o: int, entries: Sequence[Sizes], steps: Sequence[Sizes], td_error: float | None = None
    ) -> Floats:
        """Error of evaluating Σ_l C(o, l) γ^l E[d^{o−l} h_l], |h_l| ≤ entries[l]: of rounding and of d itself."""
        error = self._td_error if td_error is None else td_error
        on_terms = self._units[o] * ROUNDOFF * self.sum(o, o + 1, entries, steps)
        return np.asarray(on_terms + o * error * self.sum(o - 1, o, entries, steps) + self._tiny)

    def sum(self, o: int, below: int, entries: Sequence[Sizes], steps: Sequence[Sizes]) -> Floats:
        """Σ_{l < below} C(o, l) γ^l steps[o − l] entries[l], rounded up."""
        terms = (math.comb(o, m) * self._discount**m * steps[o - m] * entries[m] for m in range(below))
        return np.asarray(sum(terms) * (1 + 2.0**-40))

    def one_minus(self, o: int) -> float:
        """1 − γ^o, computed without subtracting powers."""
        return (1 - self._discount) * math.fsum(self._discount**m for m in range(o)) * (1 - 2.0**-40)

    def target(self, o: int, order: int, sizes: Sequence[Floats], tolerance: float) -> float:
        """Residual of order o, as a fraction of the sizes of this order [classes, classes].

        It adds at most tolerance × size / order to any error of this order or above.
        """
        best, adds = math.inf, [np.zeros_like(sizes[o])] * (order + 1)
        adds[o] = sizes[o] / self.one_minus(o)
        for above in range(o, order + 1):
            if above > o:
                adds[above] = self.sum(above, above, adds, self.drawn) / self.one_minus(above)
            varies = (sizes[above] > 0) & (adds[above] > 0)
            with np.errstate(over="ignore"):
                allowed = tolerance / order * sizes[above][varies] / adds[above][varies]
            best = min(best, float(allowed.min(initial=math.inf)))
        return best


def _widened(mean: Floats, error: Floats, r: int) -> Floats:
    """Bound on E(|d| + error of d)^r, by Minkowski's inequality."""
    return np.asarray((mean ** (1 / r) + error) ** r * (1 + 2.0**-30))


def _either(values: Floats) -> Floats:
    """[classes, classes], the larger of two entries of `values` [classes]."""
    return np.maximum.outer(values, values)


class SingleMoments(NamedTuple):
    """E[Y^o] of a drawn action, for o = 0 … order + 1."""

    moments: list[Floats]  # [S] each
    residuals: list[Floats]  # [S] each

    def sizes(self, classes: StateClasses) -> list[Floats]:
        """Sizes of the largest moments of each order, [classes, classes]; odd orders are bounded by the even ones."""
        sizes = [_either(classes.class_max(np.abs(moments))) for moments in self.moments]
        return [
            sizes[o] if o % 2 == 0 else np.sqrt(sizes[o - 1]) * np.sqrt(sizes[o + 1]) for o in range(len(sizes) - 1)
        ]


def single_moments(operator: PairOperator, order: int) -> SingleMoments:
    """Solve for the moments by LU, with iterative refinement while the residual halves."""
    model, gamma, td = operator.model, operator.model.discount, operator.shaped.td
    found = [np.ones(model.shape[0]), np.zeros(model.shape[0]), operator.V]
    residuals = [np.zeros(model.shape[0]), np.zeros(model.shape[0]), np.full(model.shape[0], operator.V_residual)]
    for o in range(3, order + 2):
        solve = policy_chain_solver(model, operator.policy, gamma**o, 1 - gamma**o).forward

        def ahead(moments: list[Floats], o: int = o) -> Floats:
            terms = sum(math.comb(o, m) * gamma**m * td ** (o - m) * moments[m][model.next_state] for m in range(o + 1))
            per_action = np.einsum("sk,ska->sa", operator.prob, terms)
            return np.asarray((per_action * operator.policy.probs).sum(axis=1))

        now = best = np.zeros(model.shape[0])
        least, left = math.inf, np.zeros(0)
        for _ in range(_MOST_REFINEMENTS):
            change = ahead([*found, now]) - now
            residual = float(np.abs(change).max())
            if not residual < least / 2:
                break
            best, least, left = now, residual, np.abs(change)
            now = now + solve(change)
        found.append(best)
        residuals.append(left)
    return SingleMoments(found, residuals)


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
class PairMoments(Moments):
    """Moments of one or two returns up to an order, for `Evaluation.moment` and gaps."""

    operator: PairOperator
    scales: ErrorScales
    single: list[Floats]  # [S] each, E[Y^o] of a drawn action, o = 0, 1, …
    tables: dict[tuple[int, int], Floats]  # [S, S] each, h_pq, p, q ≥ 1
    entries: list[Floats]  # [classes, classes] each, largest entry of each order that is reachable
    errors: list[Floats]  # [classes, classes] each, bound on the error of any such entry
    outcome: Outcome

    @property
    def order(self) -> int:
        """The highest available order."""
        return len(self.errors) - 1

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


VISIBLE = -50
"""A standard deviation below 2**VISIBLE times the mean is below the float64 resolution of the returns."""

LARGEST_STD = 500
"""Largest log2 of a standard deviation, in units of its return, whose square does not overflow."""


class Tolerance:
    """Limits on the errors of means and covariances.

    The scale of a return is that of the largest return, including itself, that the policy can reach from it, as if the
    model had no other states.
    """

    def __init__(self, operator: PairOperator, tolerance: float) -> None:
        model, shaped, units = operator.model, operator.shaped, operator.units
        possible = np.broadcast_to(operator.prob[:, :, None] > 0, model.shape)

        def largest(own: Floats, reached: Floats) -> Floats:
            ahead = np.where(possible, reached[model.next_state], -np.inf).max(axis=1)
            return np.asarray(np.maximum(own, ahead))

        with np.errstate(divide="ignore"):
            reached = shaped.classes.reachable_max(np.log2(operator.V) + 2 * units.state)
            variance = largest(np.log2(operator.variance()) + 2 * units.coordinate, reached)
            value = shaped.classes.reachable_max(np.log2(np.abs(shaped.value.high)))
            mean = largest(np.log2(np.abs(shaped.mean)), value)
        square = 2 * np.maximum(mean, value[:, None])  # actions of a state are compared, so its own value also counts
        self._operator = operator
        self._mean = tolerance * np.exp2(np.logaddexp2(variance, square) / 2)
        self._errors = shaped.mean_errors
        effects = operator.td_error_effects()
        std = np.minimum(np.maximum(variance, square + 2 * VISIBLE) / 2 - units.coordinate, LARGEST_STD)
        allowed = tolerance * np.exp2(std)[:, :, None] * np.exp2(std)[:, None, :] - effects.within_states()
        self.step_error = float(
            allowed[~(effects.is_zero[:, :, None] | effects.is_zero[:, None, :])].min(initial=np.inf)
        )
        """Largest permitted `PairOperator.step_error`; not positive if the TD errors alone exceed the limit."""

    def target(self, entry: float) -> float:
        """Largest acceptable residual of a table whose entries are at most `entry`."""
        return self._operator.largest_residual(entry, self.step_error)

    def reached(self, entry: float, residual: float) -> bool:
        """True if a table with this residual meets the tolerance."""
        return self._operator.step_error(entry, residual) <= self.step_error

    @property
    def means_met(self) -> bool:
        """True if all means meet the tolerance."""
        return bool((self._errors <= self._mean).all())
