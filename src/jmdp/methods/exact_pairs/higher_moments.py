"""Mixed moments of any order of two returns, from tables over state pairs: solved, certified, looked up.

All is done on shaped returns Y = Z − v(s), whose moments are central (`moment_operator` has the recursion). One number
bounds the error of all moments of an order o, of tables and of single returns alike. With D_r = max_s E|d|^r, by
Hölder's inequality any E[|d|^x |d̃|^y] is at most D_{x+y}, so that

    e_o = ( ‖residual‖ + rounding + what the error of d adds + Σ_{l<o} C(o, l) γ^l D_{o−l} e_l ) / (1 − γ^o).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, Integers, largest
from jmdp.base.interval import Estimate, Interval
from jmdp.errors import UnavailableError
from jmdp.methods.exact_pairs.moment_operator import MomentOperator, MomentSources, looked_up
from jmdp.methods.exact_pairs.pair_sweep import PairSweep, PastChanges
from jmdp.methods.shared.fixed_point import FixedPoint, iterate
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import policy_chain_solver
from jmdp.results.outcome import Outcome

_MOST_REFINEMENTS = 10


class ErrorScales:
    """What bounds on the errors of moments are made of, for one operator; all on rewards of size 1."""

    def __init__(self, operator: PairOperator, order: int) -> None:
        self._discount, self._slip = operator.model.discount, operator.shaped.td_error
        self._tiny = UNDERFLOW if operator.shaped.bound else 0.0
        td, centred, pi = operator.shaped.td, operator.shaped.centred, operator.policy.probs
        shared = operator.coupling.policy_luck == "shared"
        self.drawn, self.given = [1.0], [1.0]  # D_r of a drawn action and of any given one
        for r in range(1, order + 1):
            sizes = np.einsum("sk,ska->sa", operator.prob, np.abs(td) ** r)
            # Under shared luck an action too unlikely to have a break point of its own may be the one that matters.
            own = sizes[pi > 0].max() if shared else (sizes * pi).sum(axis=1).max()
            self.drawn.append(self._widened(float(own), r))
            sizes = np.einsum("sk,ska->sa", operator.prob, np.abs(centred) ** r)
            self.given.append(self._widened(float(sizes.max()), r))
        # Beside what second moments have (with nothing in common they have no sum over the outcomes of two branches):
        # powers, binomials, powers of γ, and the sum over lower orders.
        outcomes = int(((operator.prob > 0).sum(axis=1) * (pi > 0).sum(axis=1)).max())
        apart = 0 if operator.pieces else 2 * (outcomes + 2)
        self._units = [operator.rounding + apart + (o + 1) ** 2 + 8 * o + 24 for o in range(order + 1)]

    def _widened(self, mean: float, r: int) -> float:
        """E(|d| + slip)^r, by Minkowski's inequality."""
        return float((mean ** (1 / r) + self._slip) ** r * (1 + 2.0**-30))

    def rounding(self, o: int, entries: Sequence[float], steps: Sequence[float], slip: float | None = None) -> float:
        """Error of evaluating Σ_l C(o, l) γ^l E[d^{o−l} h_l], |h_l| ≤ entries[l]: from rounding, and from d itself."""
        slip = self._slip if slip is None else slip
        on_terms = self._units[o] * ROUNDOFF * self.sum(o, o + 1, entries, steps)
        return on_terms + o * slip * self.sum(o - 1, o, entries, steps) + self._tiny

    def sum(self, o: int, below: int, entries: Sequence[float], steps: Sequence[float]) -> float:
        """Σ_{l < below} C(o, l) γ^l steps[o − l] entries[l]."""
        return math.fsum(math.comb(o, m) * self._discount**m * steps[o - m] * entries[m] for m in range(below)) * (
            1 + 2.0**-40
        )

    def one_minus(self, o: int) -> float:
        """1 − γ^o, without subtracting powers."""
        return (1 - self._discount) * math.fsum(self._discount**m for m in range(o)) * (1 - 2.0**-40)

    def target(self, o: int, order: int, scales: Sequence[float], tolerance: float) -> float:
        """The residual of order o that adds at most tolerance × scale / order to any error of this order or above."""
        best, adds = math.inf, [0.0] * (order + 1)
        adds[o] = 1 / self.one_minus(o)
        for above in range(o, order + 1):
            if above > o:
                adds[above] = self.sum(above, above, adds, self.drawn) / self.one_minus(above)
            if adds[above] > 0:
                best = min(best, tolerance * scales[above] / (order * adds[above]))
        return best


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """Scenarios of two branches, and the mean over them."""

    one: Integers  # [K], or [K, 1] where they are drawn apart
    other: Integers  # [K], or [1, K]
    chance: Floats  # [K]
    other_chance: Floats | None  # [K], or None where both meet the same

    def mean(self, terms: Floats) -> float:
        """Row by row, for K² terms in one sum would round too much."""
        if self.other_chance is None:
            return float(self.chance @ terms)
        return float(self.chance @ (terms @ self.other_chance))


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Moments of one or two returns up to an order: what `Evaluation.moment` and gaps look up."""

    order: int
    operator: PairOperator
    scales: ErrorScales
    single: list[Floats]  # [S] each, E[Y^o] of a drawn action, o = 0, 1, …
    tables: dict[tuple[int, int], Floats]  # [S, S] each, h_pq, p, q ≥ 1
    entries: list[float]  # the largest entry of each order
    errors: list[float]  # of any entry of each order
    outcome: Outcome

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """E[Π Z(x)] over coordinates of which at most two differ."""
        distinct = sorted(set(coordinates))
        if len(distinct) > 2:
            raise UnavailableError(
                f"ExactPairs gives joint moments of two coordinates, not of {len(distinct)}. "
                f"JIPE(order={len(coordinates)}) gives those."
            )
        x, y = distinct[0], distinct[-1]
        i = coordinates.count(x) if x != y else len(coordinates)
        j = len(coordinates) - i
        means = [self._mean(*z) for z in (x, y)]
        value, wide = 0.0, Interval(0.0, 0.0)
        for p in range(i + 1):
            for q in range(j + 1):
                times = float(math.comb(i, p) * math.comb(j, q))
                central = self._central(x, p, y, q)
                value += times * central * means[0] ** (i - p) * means[1] ** (j - q)
                shifts = means[0].interval.power(i - p) * means[1].interval.power(j - q)
                wide += Interval(times, times) * central.interval * shifts
        low = max(wide.low, 0.0) if i % 2 == j % 2 == 0 else wide.low
        return self._scaled(Estimate(max(value, low), low, wide.high), i + j)

    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        """Central moments of Z(s, a) − Z(s, b): (δ_a − δ_b + γ (Y' − Ỹ'))^o, expanded."""
        if self.operator.model.terminal[s]:
            return tuple(Estimate.around(float(o == 0), 0.0) for o in range(self.order + 1))
        outcomes = self._outcomes(s, s)
        k, m = outcomes.one, outcomes.other
        delta, n = self.operator.shaped.centred[s], self.operator.model.next_state[s]
        gained = delta[k, a] - delta[m, b]
        slip = 2 * self.operator.shaped.td_error + 4 * ROUNDOFF * float(np.abs(delta[:, [a, b]]).max())
        sizes = [outcomes.mean((np.abs(gained) + slip) ** r) * (1 + 2.0**-30) for r in range(self.order + 1)]
        entries = [2.0**o * entry for o, entry in enumerate(self.entries)]
        errors = [2.0**o * error for o, error in enumerate(self.errors)]
        gamma = self.operator.model.discount
        following = [
            sum(math.comb(o, p) * (-1.0) ** (o - p) * self._looked_up(n[k, a], n[m, b], p, o - p) for p in range(o + 1))
            for o in range(self.order + 1)
        ]
        found = [Estimate.around(1.0, 0.0), Estimate.around(0.0, 0.0)]
        for o in range(2, self.order + 1):
            terms = sum(math.comb(o, r) * gamma**r * gained ** (o - r) * following[r] for r in range(o + 1))
            value = outcomes.mean(terms)
            off = self.scales.sum(o, o + 1, errors, sizes) + self.scales.rounding(o, entries, sizes, slip)
            found.append(self._scaled(_within(value, off, o), o))
        return tuple(found)

    def _central(self, x: tuple[int, int], i: int, y: tuple[int, int], j: int) -> Estimate:
        """E[(Z(x) − q(x))^i (Z(y) − q(y))^j], on rewards of size 1."""
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
        off = self.scales.sum(o, o + 1, self.errors, self.scales.given)
        off += self.scales.rounding(o, self.entries, self.scales.given)
        return _within(outcomes.mean(terms), off, o if i % 2 == j % 2 == 0 else 1)

    def _outcomes(self, s: int, t: int, *, alone: bool = False) -> _Outcomes:
        model, coupling = self.operator.model, self.operator.coupling
        k = np.arange(model.shape[1])
        if coupling.shared_between_states or (coupling.shared_in_a_state and s == t) or alone:
            return _Outcomes(k, k, model.prob[s], None)
        return _Outcomes(k[:, None], k[None, :], model.prob[s], model.prob[t])

    def _looked_up(self, n: Integers, m: Integers, p: int, q: int) -> Floats:
        return looked_up(n, m, p, q, self.single, self.tables)

    def _mean(self, s: int, a: int) -> Estimate:
        return Estimate.around(float(self.operator.shaped.mean[s, a]), self.operator.shaped.mean_error)

    def _scaled(self, estimate: Estimate, o: int) -> Estimate:
        """Back to rewards as they were given."""
        times, value = o * self.operator.shaped.exponent, float(estimate)
        # What an underflow on the way back can hide; and what is too large for a float is not known to be infinite.
        low = min(_ldexp(estimate.low, times), sys.float_info.max) - (2.0**-1073 if estimate.low else 0.0)
        high = max(_ldexp(estimate.high, times), -sys.float_info.max) + (2.0**-1073 if estimate.high else 0.0)
        return Estimate(_ldexp(value, times), 0.0 if estimate.low >= 0 > low else low, high)


def solve_moments(
    operator: PairOperator,
    H: Floats,
    residual: float,
    scales: ErrorScales,
    alone: SingleMoments,
    order: int,
    tolerance: float,
    max_sweeps: int,
    recorded: int,
    report: Callable[[int, int, float, float], None],
) -> PairMoments:
    """All tables of orders 3 … `order`, from that of order 2 and its residual."""
    S = operator.model.shape[0]
    single, size = alone.moments, alone.sizes
    sources = MomentSources(operator, order)
    tables = {(1, 1): H}
    entries = [1.0, 0.0, operator.entry(H)]
    errors = [0.0, 0.0, operator.table_error(operator.entry(H), residual)]
    outcome, sweeps = Outcome.CONVERGED, 0
    for o in range(3, order + 1):
        found, worst = {}, alone.residuals[o]
        floor = scales.rounding(o, [*entries, size[o]], scales.drawn)
        target = max(scales.target(o, order, size, tolerance), 4 * floor)
        try:
            for j in range(1, o // 2 + 1):
                parts = []
                for part in sources.parts(o - j, j, single, tables):
                    done = _solve_part(part, operator, target, floor, max_sweeps, recorded, partial(report, sweeps))
                    if done.outcome is Outcome.INTERRUPTED:
                        raise KeyboardInterrupt
                    parts.append(done)
                    sweeps += done.residuals.size
                    outcome = outcome if outcome is not Outcome.CONVERGED else done.outcome
                whole = np.sum([done.point for done in parts], axis=0).reshape(S, S)
                worst = max(worst, sum(done.residual for done in parts))
                found[o - j, j], found[j, o - j] = whole, whole.T
        except KeyboardInterrupt:  # the orders that are done stand
            return PairMoments(o - 1, operator, scales, single, tables, entries, errors, Outcome.INTERRUPTED)
        tables |= found
        entries.append(max(largest(moments) for moments in (single[o], *found.values())))
        rounding = scales.rounding(o, entries, scales.drawn) + 4 * ROUNDOFF * entries[o]
        below = scales.sum(o, o, errors, scales.drawn)
        errors.append((worst + rounding + below) / scales.one_minus(o) * (1 + 2.0**-40))
    return PairMoments(order, operator, scales, single, tables, entries, errors, outcome)


def _solve_part(
    part: MomentOperator,
    operator: PairOperator,
    target: float,
    floor: float,
    max_sweeps: int,
    recorded: int,
    report: Callable[[int, float, float], None],
) -> FixedPoint:
    with PairSweep(part) as sweep:
        return iterate(
            sweep.measured,
            operator.start(),
            operator.start(),
            target=target,
            enough=lambda table, residual: True,
            floor=lambda table: floor,
            rate=part.square,
            max_sweeps=max_sweeps,
            report=report,
            past=PastChanges(sweep, recorded) if recorded else None,
            bare=sweep if sweep.compiled else None,
        )


class SingleMoments(NamedTuple):
    """E[Y^o] of a drawn action, for o = 0 … order + 1."""

    moments: list[Floats]  # [S] each
    residuals: list[float]

    @property
    def sizes(self) -> list[float]:
        """The size of the largest moment of each order that a return has; odd ones by those beside them."""
        sizes = [largest(moments) for moments in self.moments]
        return [
            sizes[o] if o % 2 == 0 else math.sqrt(sizes[o - 1]) * math.sqrt(sizes[o + 1]) for o in range(len(sizes) - 1)
        ]


def single_moments(operator: PairOperator, order: int) -> SingleMoments:
    """Solve for them by LU, refined while that helps."""
    model, gamma, td = operator.model, operator.model.discount, operator.shaped.td
    found = [np.ones(model.shape[0]), np.zeros(model.shape[0]), operator.V]
    residuals = [0.0, 0.0, operator.V_residual]
    for o in range(3, order + 2):
        solve = policy_chain_solver(model, operator.policy, gamma**o, 1 - gamma**o).forward

        def ahead(moments: list[Floats], o: int = o) -> Floats:
            terms = sum(math.comb(o, m) * gamma**m * td ** (o - m) * moments[m][model.next_state] for m in range(o + 1))
            per_action = np.einsum("sk,ska->sa", operator.prob, terms)
            return np.asarray((per_action * operator.policy.probs).sum(axis=1))

        now = best = np.zeros(model.shape[0])
        least = math.inf
        for _ in range(_MOST_REFINEMENTS):
            change = ahead([*found, now]) - now
            residual = float(np.abs(change).max())
            if not residual < least / 2:
                break
            best, least = now, residual
            now = now + solve(change)
        found.append(best)
        residuals.append(least)
    return SingleMoments(found, residuals)


def _within(value: float, error: float, power: int) -> Estimate:
    """Value ± error; an even power is not below 0."""
    wide = Interval.around(value, error)
    low = max(wide.low, 0.0) if power % 2 == 0 else wide.low
    return Estimate(max(value, low), low, wide.high)


def _ldexp(x: float, exponent: int) -> float:
    try:
        return math.ldexp(x, exponent)
    except OverflowError:
        return math.copysign(math.inf, x)
