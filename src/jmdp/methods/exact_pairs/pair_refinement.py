"""Refinement of the pair table in double-double arithmetic: V and H get a low word, and covariances are rounded once.

The residual R = T(H) − H of a solved table is computed in double-double arithmetic, so that it contains the rounding
error of H. The correction h = R + γ² L h is solved in float64, directly (`direct_solve`) or by the same sweeps, and
H + h replaces H while the residual decreases. The error of H is at most (‖R‖ + 2⁻¹⁰⁰ relative to H) / (1 − γ²).

Only for tables that are not compiled. Sweeps are used for one policy with independent draws of actions, direct solves
for all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, largest
from jmdp.methods.exact_pairs.direct_solve import PairSystem, prefers_direct
from jmdp.methods.exact_pairs.double_sweep import DoubleSweep, kept, taken
from jmdp.methods.exact_pairs.moment_operator import MomentOperator
from jmdp.methods.exact_pairs.pair_sweep import PairSweep, is_compiled
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.double_double import DoubleDouble
from jmdp.methods.shared.fixed_point import StoppingRule, iterate
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import policy_chain_solver
from jmdp.results.outcome import Outcome

_MOST_REFINEMENTS = 30

_ENOUGH = 2.0**-30
"""Fraction of the residual that may remain after a correction by sweeps."""

_INVISIBLE = 2.0**-64
"""Error of H, relative to its largest entry, below which no further correction is made."""


@dataclass(frozen=True, eq=False)
class Refined:
    """H and V as double-doubles, and covariances within states; errors assume exact TD errors. In the states' units."""

    H: DoubleDouble  # [S, S]
    V: DoubleDouble  # [S]
    table_error: float  # of H and V
    covariance: Floats  # [S, A, A]; empty for several policies
    error: Floats  # [S, A, A], of `covariance`


def refinable(operator: PairOperator) -> bool:
    """True if `refine` supports this operator."""
    if operator.precision != "float64" or is_compiled(operator):
        return False
    return not operator.joint_steps or _by_sweeps(operator) or PairSystem(operator).is_small


def _by_sweeps(operator: PairOperator) -> bool:
    """True if corrections can be solved by sweeps."""
    return operator.blocks is None and operator.coupling.policy_luck == "independent"


def terms(operator: PairOperator) -> int:
    """Number of double-double products in a refinement."""
    S, K, A = operator.model.shape
    joint = A if operator.coupling.policy_luck == "shared" else 1
    return K * A * S * (S * joint * (2 if operator.joint_steps else 0) + A)


def refine(operator: PairOperator, H: Floats, recorded: int, max_sweeps: int) -> Refined:
    """Solve for the low words of H [S, S], which must be symmetric, and of V."""
    refinement = _Refinement(operator)
    by_sweeps = partial(refinement.by_sweeps, recorded=recorded, max_sweeps=max_sweeps)
    if not operator.joint_steps or (_by_sweeps(operator) and not prefers_direct(operator)):
        return refinement.refined(H, by_sweeps)
    return refinement.refined(H, PairSystem(operator).solver(operator.one_minus_square))


class _Refinement(DoubleSweep):
    def refined(self, H: Floats, solve: Callable[[Floats], Floats]) -> Refined:
        operator = self.operator
        V, V_residual = self._variances()
        best, left = dd.of(H.copy()), 0.0
        if operator.blocks is None and operator.coupling.shared_in_a_state and operator.same_state is None:
            for word, own in zip(best, V, strict=True):
                np.fill_diagonal(word, own)
        if operator.joint_steps or operator.coupling.shared_in_a_state:
            best, left = self._solved(best, V, solve, _INVISIBLE * operator.entry(H) * operator.one_minus_square)
        entry = max(operator.entry(best.high), largest(V.high))
        noise = self.units_of_rounding * dd.RELATIVE_ERROR * (operator.largest_source + entry)
        noise += operator.prob_error(entry)
        noise += UNDERFLOW if operator.shaped.rewards.bound else 0.0
        below = (max(left, V_residual) + noise) / operator.one_minus_square
        if operator.blocks is not None:
            return Refined(best, V, below, np.zeros(0), np.zeros(0))
        ahead = self._covariance(best, V)
        error = (operator.square * below + np.abs(ahead.low) + noise) * (1 + 2.0**-40)
        return Refined(best, V, below, ahead.high, error)

    def _solved(
        self, H: DoubleDouble, V: DoubleDouble, solve: Callable[[Floats], Floats], enough: float
    ) -> tuple[DoubleDouble, float]:
        """H after corrections while its residual halves, and this residual."""
        best, least = H, np.inf
        for _ in range(_MOST_REFINEMENTS):
            change = self._residual(H, V)
            residual = largest(change) * (1 + 2.0**-40)
            if not residual < least / 2:
                break
            best, least = H, residual
            if residual <= enough:
                break
            H = dd.add_float(H, solve(change))
        return best, least

    def _variances(self) -> tuple[DoubleDouble, float]:
        operator, model = self.operator, self.model
        ratio = operator.ratio**2
        solve = policy_chain_solver(model, operator.policy, operator.square, operator.one_minus_square, ratio).forward
        squares = dd.multiply(self.td, self.td)
        V = best = dd.of(operator.V)
        least = np.inf
        for _ in range(_MOST_REFINEMENTS):
            following = self._discounted(dd.scale(taken(V, model.next_state), ratio))
            change = self._over_all(dd.add(squares, following))
            change = dd.add(kept(change, ~model.terminal), dd.negative(V))
            residual = largest(change.high) * (1 + 2.0**-40)
            if not residual < least / 2:
                break
            best, least = V, residual
            V = dd.add_float(V, solve(change.high))
        return best, least

    def by_sweeps(self, residual: Floats, recorded: int, max_sweeps: int) -> Floats:
        """Correction h [S, S], up to a fraction of the residual."""
        operator, S = self.operator, self.model.shape[0]
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
        h = found.point.reshape(S, S)
        return np.asarray((h + h.T) / 2)  # the refined table is symmetric
