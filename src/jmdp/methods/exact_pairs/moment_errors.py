"""Moments of single returns of any order, and terms of the error bounds of moments.

All computations use shaped returns Y = Z − v(s), whose moments are central. One number bounds the error of all moments
of order o, both of tables and of single returns. With D_r = max_s E|d|^r, Hölder's inequality bounds any
E[|d|^x |d̃|^y] by D_{x+y}, so that

    e_o = ( ‖residual‖ + rounding + effect of the error of d + Σ_{l<o} C(o, l) γ^l D_{o−l} e_l ) / (1 − γ^o).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, largest
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import policy_chain_solver

_MOST_REFINEMENTS = 10


class ErrorScales:
    """Terms of the error bounds of moments for one operator, on rewards of size 1."""

    def __init__(self, operator: PairOperator, order: int) -> None:
        self._discount, self._td_error = operator.model.discount, operator.shaped.td_error
        self._tiny = UNDERFLOW if operator.shaped.rewards.bound else 0.0
        td, centred, pi = operator.shaped.td, operator.shaped.centred, operator.policy.probs
        shared = operator.coupling.policy_luck == "shared"
        self.drawn, self.given = [1.0], [1.0]  # D_r of a drawn action and of any given one
        for r in range(1, order + 1):
            sizes = np.einsum("sk,ska->sa", operator.prob, np.abs(td) ** r)
            # With shared action draws, an action too unlikely to have its own break point may dominate the error.
            own = sizes[pi > 0].max() if shared else (sizes * pi).sum(axis=1).max()
            self.drawn.append(self._widened(float(own), r))
            sizes = np.einsum("sk,ska->sa", operator.prob, np.abs(centred) ** r)
            self.given.append(self._widened(float(sizes.max()), r))
        # In addition to the rounding of second moments (which, without shared randomness, has no sum over the outcomes
        # of two branches): powers, binomials, powers of γ, and the sum over lower orders.
        outcomes = int(((operator.prob > 0).sum(axis=1) * (pi > 0).sum(axis=1)).max())
        extra = 0 if operator.joint_steps else 2 * (outcomes + 2)
        self._units = [operator.rounding + extra + (o + 1) ** 2 + 8 * o + 24 for o in range(order + 1)]

    def _widened(self, mean: float, r: int) -> float:
        """Bound on E(|d| + error of d)^r, by Minkowski's inequality."""
        return float((mean ** (1 / r) + self._td_error) ** r * (1 + 2.0**-30))

    def rounding(
        self, o: int, entries: Sequence[float], steps: Sequence[float], td_error: float | None = None
    ) -> float:
        """Error of evaluating Σ_l C(o, l) γ^l E[d^{o−l} h_l], |h_l| ≤ entries[l]: of rounding and of d itself."""
        td_error = self._td_error if td_error is None else td_error
        on_terms = self._units[o] * ROUNDOFF * self.sum(o, o + 1, entries, steps)
        return on_terms + o * td_error * self.sum(o - 1, o, entries, steps) + self._tiny

    def sum(self, o: int, below: int, entries: Sequence[float], steps: Sequence[float]) -> float:
        """Σ_{l < below} C(o, l) γ^l steps[o − l] entries[l]."""
        return math.fsum(math.comb(o, m) * self._discount**m * steps[o - m] * entries[m] for m in range(below)) * (
            1 + 2.0**-40
        )

    def one_minus(self, o: int) -> float:
        """1 − γ^o, computed without subtracting powers."""
        return (1 - self._discount) * math.fsum(self._discount**m for m in range(o)) * (1 - 2.0**-40)

    def target(self, o: int, order: int, scales: Sequence[float], tolerance: float) -> float:
        """Residual of order o that adds at most tolerance × scale / order to any error of this order or above."""
        best, adds = math.inf, [0.0] * (order + 1)
        adds[o] = 1 / self.one_minus(o)
        for above in range(o, order + 1):
            if above > o:
                adds[above] = self.sum(above, above, adds, self.drawn) / self.one_minus(above)
            if adds[above] > 0:
                best = min(best, tolerance * scales[above] / (order * adds[above]))
        return best


class SingleMoments(NamedTuple):
    """E[Y^o] of a drawn action, for o = 0 … order + 1."""

    moments: list[Floats]  # [S] each
    residuals: list[float]

    @property
    def sizes(self) -> list[float]:
        """Size of the largest moment of each order; odd orders are bounded by the neighbouring even ones."""
        sizes = [largest(moments) for moments in self.moments]
        return [
            sizes[o] if o % 2 == 0 else math.sqrt(sizes[o - 1]) * math.sqrt(sizes[o + 1]) for o in range(len(sizes) - 1)
        ]


def single_moments(operator: PairOperator, order: int) -> SingleMoments:
    """Solve for the moments by LU, with iterative refinement while the residual halves."""
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
