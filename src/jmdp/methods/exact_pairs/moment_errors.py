"""Moments of single returns of any order, and terms of the error bounds of moments.

All computations use shaped returns Y = Z − v(s), whose moments are central. For each pair of classes of states
(`state_classes`), one number bounds the error of all moments of order o of the pairs of states reachable from there,
both of tables and of single returns. With D_r the maximum of E|d|^r over the states reachable from either class,
Hölder's inequality bounds any E[|d|^x |d̃|^y] by D_{x+y}, so that

    e_o = ( ‖residual‖ + rounding + effect of the error of d + Σ_{l<o} C(o, l) γ^l D_{o−l} e_l ) / (1 − γ^o).

The set of reachable pairs is closed, so all norms are maxima over it, and other parts of a model do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import policy_chain_solver
from jmdp.methods.shared.state_classes import StateClasses

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
