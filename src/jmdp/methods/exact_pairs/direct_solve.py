"""Direct solution of the pair system of a small table, by LU.

Sweeps contract with the rate γ^o of their order o. Near γ = 1 a small table is solved faster from its matrix I − γ^o L,
over the entries that a sweep computes from one another: one of (s, t) and (t, s), no terminal states, no entries that
are known. The solution is in float64, for iterative refinement; certificates rest on residuals alone.

Refinement of the pair table in double-double arithmetic: V and H get a low word, and covariances are rounded once.

The residual R = T(H) − H of a solved table is computed in double-double arithmetic, so that it contains the rounding
error of H. The correction h = R + γ² L h is solved in float64, directly (`direct_solve`) or by the same sweeps, and
H + h replaces H while the residual decreases. The error of H is at most (‖R‖ + 2⁻¹⁰⁰ relative to H) / (1 − γ²).

Only for tables that are not compiled. Sweeps are used for one policy with independent draws of actions, direct solves
for all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Booleans, Floats, Integers, largest
from jmdp.methods.exact_pairs.double_sweep import DoubleSweep
from jmdp.methods.exact_pairs.moment_operator import MomentOperator
from jmdp.methods.exact_pairs.pair_sweep import PairSweep, is_compiled, unweighted
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.double_double import DoubleDouble
from jmdp.methods.shared.fixed_point import FixedPoint, StoppingRule, iterate
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import averaged_step, policy_chain_solver
from jmdp.methods.shared.same_state import joint_actions
from jmdp.results.certificate import Outcome

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_MOST_UNKNOWNS = 2_000
"""Size of a dense system that is factorised in about a second."""

_MOST_TERMS = 20_000_000
"""Terms of the sums from which the matrix is built."""

_MANY_SWEEPS = 10_000
"""Number of plain sweeps from which on a small table is solved directly."""


Term = tuple[Integers, Integers, Integers, Floats]
"""Row, both next states and probability, one of each per term."""


class PairSystem:
    """The unknown entries of a table, and (I − rate × L)⁻¹ on them."""

    def __init__(self, operator: PairOperator | MomentOperator) -> None:
        self._operator = operator
        self._pairs = operator if isinstance(operator, PairOperator) else operator.pairs
        self.unknown = self._unknown()
        self._one, self._other = np.nonzero(self.unknown)

    def _unknown(self) -> Booleans:
        """[S, S], True for the entries that are solved for."""
        operator, S = self._operator, self._operator.model.shape[0]
        goes_on = ~operator.model.terminal
        below = np.tri(S, dtype=bool)
        if operator.blocks is not None:
            block = np.arange(S) // operator.blocks.block
            below = block[:, None] > block
        elif operator.mirror < 0 or (self._pairs.coupling.shared_in_a_state and self._pairs.same_state is None):
            below &= ~np.eye(S, dtype=bool)  # 0 or the variance of one branch
        return np.asarray(below & goes_on[:, None] & goes_on)

    @property
    def is_small(self) -> bool:
        """True if the matrix can be factorised in about a second."""
        if is_compiled(self._operator) or not self._operator.joint_steps or not 0 < self._one.size <= _MOST_UNKNOWNS:
            return False
        _, K, A = self._operator.model.shape
        between = sum(joint.one.outcomes * joint.other.outcomes for joint in self._operator.joint_steps)
        return self._one.size * between + self._operator.model.shape[0] * K * A * A <= _MOST_TERMS

    def solver(self, one_minus_rate: float) -> Callable[[Floats], Floats]:
        """Function that solves h = change + rate × L h for tables [S, S]; known entries of h are 0."""
        from scipy.sparse import coo_array
        from scipy.sparse.linalg import splu

        rate, mirror, N = self._operator.square, self._operator.mirror, self._one.size
        unit, number = np.append(self._pairs.units.state, 0), np.full(np.add(self.unknown.shape, 1), -1)
        number[:-1, :-1][self.unknown] = np.arange(N)
        stays = np.full(N, one_minus_rate)
        parts = []
        for row, n, m, chance in self._terms():
            column = np.where(number[n, m] >= 0, number[n, m], number[m, n])
            sign = np.where(number[n, m] >= 0, 1.0, mirror)
            # 1 − rate × (probability of staying) as (1 − rate) + rate × (probability of leaving), without subtraction.
            leaves = (column != row) | (sign < 0)
            np.add.at(stays, row, rate * np.where(leaves, chance, 0.0))
            used = leaves & (column >= 0)
            row, column = row[used], column[used]
            smaller = unit[n[used]] + unit[m[used]] - unit[self._one[row]] - unit[self._other[row]]
            parts.append((row, column, np.ldexp(rate * sign[used] * chance[used], smaller)))
        row, column, weight = (np.concatenate([part[i] for part in parts]) for i in range(3))
        matrix = coo_array(
            (np.append(stays, -weight), (np.append(np.arange(N), row), np.append(np.arange(N), column))), shape=(N, N)
        )
        try:
            factors = splu(
                matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
            )
        except RuntimeError:  # singular in float64: fall back to sweeps
            return lambda change: np.where(self.unknown | self.unknown.T, change, 0.0)

        def solve(change: Floats) -> Floats:
            found = np.zeros(change.shape)
            found[self._other, self._one] = solution = np.asarray(factors.solve(change[self.unknown].astype(float)))
            found *= mirror
            found[self._one, self._other] = solution
            return found

        return solve

    def _terms(self) -> Iterator[Term]:
        """All outcomes of one step from the unknown pairs, without the factor of units; S for merged branches."""
        pairs, model = self._pairs, self._operator.model
        rows, one, other = np.arange(self._one.size), self._one, self._other
        alike = np.zeros(rows.size, bool)  # pairs with an equation for branches that share the scenario of one state
        if pairs.same_place is not None and pairs.blocks is not None:
            alike = (one - other) % pairs.blocks.block == 0
        elif pairs.same_state is not None:
            alike = one == other
        if alike.any():
            x, y = one[alike], other[alike]
            chance = model.prob[x][:, :, None, None] * joint_actions(pairs.policy, pairs.coupling)(x, y)[:, None]
            n, m = np.broadcast_arrays(model.next_state[x][:, :, :, None], model.next_state[y][:, :, None, :])
            if pairs.same_state is not None:  # equal actions merge
                n = np.where(np.eye(model.shape[2], dtype=bool), model.shape[0], n)
            yield _flat(rows[alike], n, m, chance)
        between = ~alike
        x, y = one[between], other[between]
        for joint in self._operator.joint_steps:
            (n, p), (m, q) = (_outcomes(averaged_step(model, b.scenarios, b.choices)) for b in (joint.one, joint.other))
            weight = np.broadcast_to(np.asarray(joint.weights()), self.unknown.shape)[x, y]
            chance = weight[:, None, None] * p[x][:, :, None] * q[y][:, None, :]
            following = np.broadcast_arrays(n[x][:, :, None], m[y][:, None, :])
            yield _flat(rows[between], following[0], following[1], chance)


def _outcomes(step: csr_array[np.float64]) -> tuple[Integers, Floats]:
    """Next states and probabilities [S, outcomes] of a transition matrix, filled up with zeros."""
    counts = np.diff(step.indptr)
    at = np.arange(max(1, int(counts.max()))) < counts[:, None]
    states, chances = np.zeros(at.shape, np.int64), np.zeros(at.shape)
    states[at], chances[at] = step.indices, step.data
    return states, chances


def _flat(rows: Integers, one: Integers, other: Integers, chance: Floats) -> Term:
    row = np.broadcast_to(rows.reshape(-1, *(1,) * (chance.ndim - 1)), chance.shape)
    used = chance > 0
    return row[used], one[used], other[used], chance[used]


def prefers_direct(operator: PairOperator | MomentOperator) -> bool:
    """True if a table needs many sweeps and is small enough to be solved directly."""
    rate = operator.square
    many = rate >= 1 or (rate > 0 and math.log(2.0**-53) / math.log(rate) >= _MANY_SWEEPS)
    return many and PairSystem(operator).is_small


def solve_directly(
    sweep: PairSweep,
    one_minus_rate: float,
    point: Floats,
    stopping: StoppingRule,
    report: Callable[[int, float, float], None],
) -> FixedPoint:
    """Solve by LU, with iterative refinement while the residual halves. `point` is a table of zeros."""
    system = PairSystem(sweep.operator)
    solve, shape = system.solver(one_minus_rate), system.unknown.shape
    out, change = np.empty_like(point), np.empty_like(point)
    sweep(point, out)
    known = ~(system.unknown | system.unknown.T).ravel()
    point[known] = out[known]
    best, residuals = point, [math.inf]
    while True:
        residuals.append(sweep.measured(point, out, change))
        report(len(residuals) - 1, residuals[-1], stopping.target)
        converged = residuals[-1] <= stopping.target and stopping.enough(point, residuals[-1])
        if converged or not residuals[-1] < residuals[-2] / 2:
            break
        if sweep.operator.weight is not None:
            change = unweighted(change, sweep.operator.weight)
        best, point = point, point + solve(change.reshape(shape)).ravel().astype(point.dtype)
    if converged:
        return FixedPoint(point, residuals[-1], np.array(residuals[1:]), Outcome.CONVERGED)
    residuals = residuals[1:-1]
    return FixedPoint(best, residuals[-1], np.array(residuals), Outcome.STALLED)


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
            following = self._discounted(dd.scale(V.at(model.next_state), ratio))
            change = self._over_all(dd.add(squares, following))
            change = dd.add(change.times(~model.terminal), dd.negative(V))
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
