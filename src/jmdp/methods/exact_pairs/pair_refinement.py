"""Refinement of the pair table in double-double arithmetic: V and H get a low word, and covariances are rounded once.

The residual R = T(H) − H of a solved table is computed in double-double arithmetic, so that it contains the rounding
error of H. The correction h = R + γ² L h is solved in float64, by the same sweeps. Rounding then acts on h, not on H:
the error of H + h is at most (‖R + γ² L h − h‖ + rounding relative to h + 2⁻¹⁰⁰ relative to H) / (1 − γ²).

Only for tables that are not compiled and policies with independent draws: break points of a shared uniform number have
only float64 precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Booleans, Floats, Integers, largest
from jmdp.methods.exact_pairs.moment_operator import MomentOperator
from jmdp.methods.exact_pairs.pair_sweep import PairSweep, is_compiled
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.double_double import DoubleDouble
from jmdp.methods.shared.fixed_point import StoppingRule, iterate
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import policy_chain_solver
from jmdp.methods.shared.shaping import td_errors
from jmdp.results.outcome import Outcome

_MOST_REFINEMENTS = 6

_ENOUGH = 2.0**-30
"""Fraction of the residual that may remain after the correction."""


@dataclass(frozen=True, eq=False)
class Refined:
    """Corrections of H and V, and the resulting covariances with errors; all in the states' units."""

    H_low: Floats  # [S, S]
    V: DoubleDouble  # [S]
    covariance: Floats  # [S, A, A]
    error: Floats  # [S, A, A], assuming exact TD errors


def refinable(operator: PairOperator) -> bool:
    """True if `refine` supports this operator."""
    independent = operator.coupling.policy_luck == "independent"
    return independent and operator.precision == "float64" and not is_compiled(operator)


def terms(operator: PairOperator) -> int:
    """Number of double-double products in a refinement."""
    S, K, A = operator.model.shape
    return K * A * S * (S * (2 if operator.joint_steps else 0) + A)


def refine(operator: PairOperator, H: Floats, recorded: int, max_sweeps: int) -> Refined:
    """Solve for the low words of H [S, S], which must be symmetric, and of V."""
    return _Refinement(operator, H).refined(recorded, max_sweeps)


class _Refinement:
    def __init__(self, operator: PairOperator, H: Floats) -> None:
        self.operator, self.model, self.H = operator, operator.model, H
        model, policy, units = operator.model, operator.policy, operator.units
        td, _ = td_errors(model, policy, operator.shaped.rewards.reward, operator.shaped.value)
        self.td = _times_power(td, -units.state[:, None, None], operator.ratio > 0)
        self._policy_correction, self._scenario_correction = (
            _row_corrections(policy.probs),
            _row_corrections(model.prob),
        )
        advantage = self._over_scenarios(td, slice(None))
        centred = dd.add(td, DoubleDouble(-advantage.high[:, None], -advantage.low[:, None]))
        self.centred = _times_power(centred, -units.coordinate[:, None, :], operator.ratio_ahead > 0)
        _, K, A = model.shape
        self.units_of_rounding = 8 * (K * A + K + A + 16) + 2 * (K * K + A * A)

    def refined(self, recorded: int, max_sweeps: int) -> Refined:
        operator = self.operator
        V, V_residual = self._variances()
        noise = self.units_of_rounding * dd.RELATIVE_ERROR * (operator.largest_source + operator.entry(self.H))
        noise += UNDERFLOW if operator.shaped.rewards.bound else 0.0
        h, left = np.zeros_like(self.H), 0.0
        if operator.joint_steps or operator.coupling.shared_in_a_state:
            h, left = self._correction(self._residual(V), recorded, max_sweeps)
        below = (max(left, V_residual) + noise) / operator.one_minus_square
        ahead = self._covariance(h, V)
        error = (operator.square * below + np.abs(ahead.low) + noise) * (1 + 2.0**-40)
        return Refined(h, V, ahead.high, error)

    def _variances(self) -> tuple[DoubleDouble, float]:
        operator, model = self.operator, self.model
        ratio = operator.ratio**2
        solve = policy_chain_solver(model, operator.policy, operator.square, operator.one_minus_square, ratio).forward
        squares = dd.multiply(self.td, self.td)
        V = best = dd.of(operator.V)
        least = np.inf
        for _ in range(_MOST_REFINEMENTS):
            following = self._discounted(dd.scale(_taken(V, model.next_state), ratio))
            change = self._over_all(dd.add(squares, following))
            change = dd.add(_where(change, ~model.terminal), dd.negative(V))
            residual = largest(change.high) * (1 + 2.0**-40)
            if not residual < least / 2:
                break
            best, least = V, residual
            V = dd.add_float(V, solve(change.high))
        return best, least

    def _correction(self, residual: Floats, recorded: int, max_sweeps: int) -> tuple[Floats, float]:
        """Correction h [S, S], and the residual that remains with it."""
        operator = self.operator
        without_td = [
            replace(
                joint, one=replace(joint.one, td=0 * joint.one.td), other=replace(joint.other, td=0 * joint.other.td)
            )
            for joint in operator.joint_steps
        ]
        diagonal = np.diag(residual).copy() if operator.coupling.shared_in_a_state else None
        part = MomentOperator(self.model, without_td, operator.square, residual, 1.0, operator, diagonal)
        size = largest(residual)
        rounding = (operator.rounding + 2) * ROUNDOFF * size
        with PairSweep(part) as sweep:
            stopping = StoppingRule(_ENOUGH * size, lambda table: rounding, operator.square, max_sweeps)
            tables = operator.start(), operator.start()
            found = iterate(sweep.recording(recorded), *tables, stopping, lambda sweeps, left, aim: None)
        if found.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        h = found.point.reshape(self.H.shape)
        h = (h + h.T) / 2  # sweeps, and so the residual of h, are symmetric up to rounding
        return h, found.residual + (operator.rounding + 4) * ROUNDOFF * (size + largest(h))

    def _residual(self, V: DoubleDouble) -> Floats:
        """T(H) − H [S, S], computed in double-double arithmetic and then rounded."""
        operator, S = self.operator, self.model.shape[0]
        swept = DoubleDouble(np.zeros((S, S)), np.zeros((S, S)))
        if operator.coupling.shared_between_states:
            row, correction = self._common_row()
            for k in np.flatnonzero(row):
                gained = self._over_actions(DoubleDouble(self.td.high[:, k], self.td.low[:, k]), slice(None))
                both = dd.multiply(_column(gained), _row(gained))
                both = dd.add(both, self._discounted(self._both_sides(partial(self._one_scenario, int(k)))))
                swept = dd.add(swept, dd.scale(both, row[k : k + 1]))
            swept = dd.add(swept, dd.scale(swept, correction))
        elif operator.joint_steps:
            swept = self._discounted(self._both_sides(self._one_step))
        change = dd.add_float(swept, -self.H).high
        change = np.tril(change) + np.tril(change, -1).T
        if operator.coupling.shared_in_a_state:
            np.fill_diagonal(change, dd.add_float(self._same_state(V), -np.diag(self.H)).high)
        return change

    def _same_state(self, V: DoubleDouble) -> DoubleDouble:
        """H(s, s) [S] after a sweep: Σ p Σ π π [ d_a d_b + γ² (H(n_a, n_b) if a ≠ b else V(n_a)) ]."""
        operator = self.operator
        pi = operator.policy.probs[:, None, :]
        ratio = operator.ratio[:, :, :, None] * operator.ratio[:, :, None, :]
        following = self._pairs_ahead(dd.of(self.H), V, slice(None), ratio)
        inner = dd.total(dd.scale(following, pi[:, :, None, :]), axis=3)
        inner = dd.add(inner, dd.scale(inner, self._policy_correction[:, None, None]))
        drawn = self._discounted(self._over_actions(inner, slice(None)))
        gained = self._over_actions(self.td, slice(None))
        whole = self._over_scenarios(_expanded(dd.add(dd.multiply(gained, gained), drawn)), slice(None))
        return _where(DoubleDouble(whole.high[:, 0], whole.low[:, 0]), ~self.model.terminal)

    def _covariance(self, h: Floats, V: DoubleDouble) -> DoubleDouble:
        """[S, A, A], by a one-step lookahead on H + h and V."""
        operator, (S, K, A) = self.operator, self.model.shape
        found = DoubleDouble(np.zeros((S, A, A)), np.zeros((S, A, A)))
        H = DoubleDouble(self.H + h, h - ((self.H + h) - self.H))
        at_once = max(1, 100_000 // (K * A * A))
        for first in range(0, S, at_once):
            states = slice(first, first + at_once)
            gained, ratio = (
                DoubleDouble(self.centred.high[states], self.centred.low[states]),
                operator.ratio_ahead[states],
            )
            product = dd.multiply(
                DoubleDouble(gained.high[:, :, :, None], gained.low[:, :, :, None]),
                DoubleDouble(gained.high[:, :, None, :], gained.low[:, :, None, :]),
            )
            ratio = ratio[:, :, :, None] * ratio[:, :, None, :]
            ahead = dd.add(product, self._discounted(self._pairs_ahead(H, V, states, ratio)))
            part = self._over_scenarios(_flat(ahead), states)
            part = _where(part, ~self.model.terminal[states, None])
            found.high[states], found.low[states] = (word.reshape(-1, A, A) for word in part)
        if not operator.coupling.shared_in_a_state:  # no shared randomness: see `PairOperator`
            off_diagonal = ~np.eye(A, dtype=bool)
            found.high[:, off_diagonal] = found.low[:, off_diagonal] = 0.0
        low = np.tril_indices(A, -1)
        for word in found:
            word[:, *low] = word[:, *low[::-1]]
        return found

    def _pairs_ahead(self, H: DoubleDouble, V: DoubleDouble, states: slice, ratio: Floats) -> DoubleDouble:
        """[·, K, A, A], H(n_a, n_b) in units of this state; V(n_a) where a = b."""
        n = self.model.next_state[states]
        following = _taken(H, (n[:, :, :, None], n[:, :, None, :]))
        for word, variance in zip(following, V, strict=True):
            np.einsum("skaa->ska", word)[...] = variance[n]
        return DoubleDouble(following.high * ratio, following.low * ratio)

    def _both_sides(self, step: Callable[[DoubleDouble], DoubleDouble]) -> DoubleDouble:
        one = step(dd.of(self.H))
        return step(DoubleDouble(one.high.T, one.low.T))

    def _one_step(self, X: DoubleDouble) -> DoubleDouble:
        """P X [S, S]."""
        prob, total = self.operator.prob, DoubleDouble(np.zeros_like(X.high), np.zeros_like(X.low))
        for k in range(self.model.shape[1]):
            total = dd.add(total, dd.scale(self._one_scenario(k, X), prob[:, k, None]))
        return dd.add(total, dd.scale(total, self._scenario_correction[:, None]))

    def _one_scenario(self, k: int, X: DoubleDouble) -> DoubleDouble:
        """N_k X [S, S]: the step of one branch given scenario k."""
        total = DoubleDouble(np.zeros_like(X.high), np.zeros_like(X.low))
        for a in range(self.model.shape[2]):
            n, ratio = self.model.next_state[:, k, a], self.operator.ratio[:, k, a, None]
            part = DoubleDouble(X.high[n] * ratio, X.low[n] * ratio)
            total = dd.add(total, dd.scale(part, self.operator.policy.probs[:, a, None]))
        return dd.add(total, dd.scale(total, self._policy_correction[:, None]))

    def _common_row(self) -> tuple[Floats, Floats]:
        live = np.flatnonzero(~self.model.terminal)
        s = int(live[0]) if live.size else 0
        return self.model.prob[s], self._scenario_correction[s : s + 1]

    def _discounted(self, x: DoubleDouble) -> DoubleDouble:
        gamma = np.full(1, self.model.discount)
        return dd.scale(dd.scale(x, gamma), gamma)

    def _over_all(self, x: DoubleDouble) -> DoubleDouble:
        mean = self._over_actions(x, slice(None))
        whole = self._over_scenarios(_expanded(mean), slice(None))
        return DoubleDouble(whole.high[:, 0], whole.low[:, 0])

    def _over_actions(self, x: DoubleDouble, states: slice) -> DoubleDouble:
        """Mean over the policy's actions along the last axis."""
        pi, correction = self.operator.policy.probs[states], self._policy_correction[states]
        middle = (1,) * (x.high.ndim - 2)
        mean = dd.total(dd.scale(x, pi.reshape(len(pi), *middle, -1)), axis=x.high.ndim - 1)
        return dd.add(mean, dd.scale(mean, correction.reshape(-1, *middle)))

    def _over_scenarios(self, x: DoubleDouble, states: slice) -> DoubleDouble:
        """Mean of [·, K, ·] over scenarios."""
        mean = dd.total(dd.scale(x, self.model.prob[states, :, None]), axis=1)
        return dd.add(mean, dd.scale(mean, self._scenario_correction[states, None]))


def _row_corrections(rows: Floats) -> Floats:
    """[S], 1 / (row sum) − 1."""
    over = dd.add_float(dd.total(dd.of(rows), axis=1), -np.ones(1)).high
    return np.asarray(over * over - over)


def _times_power(x: DoubleDouble, exponent: Integers, used: Booleans) -> DoubleDouble:
    return DoubleDouble(*(np.where(used, np.ldexp(np.where(used, word, 0.0), exponent), 0.0) for word in x))


def _taken(x: DoubleDouble, at: Integers | tuple[Integers, ...]) -> DoubleDouble:
    return DoubleDouble(x.high[at], x.low[at])


def _where(x: DoubleDouble, where: Booleans) -> DoubleDouble:
    return DoubleDouble(x.high * where, x.low * where)


def _expanded(x: DoubleDouble) -> DoubleDouble:
    return DoubleDouble(x.high[:, :, None], x.low[:, :, None])


def _flat(x: DoubleDouble) -> DoubleDouble:
    return DoubleDouble(*(word.reshape(*word.shape[:2], -1) for word in x))


def _column(x: DoubleDouble) -> DoubleDouble:
    return DoubleDouble(x.high[:, None], x.low[:, None])


def _row(x: DoubleDouble) -> DoubleDouble:
    return DoubleDouble(x.high[None, :], x.low[None, :])
