"""JIPE: the paper's joint iterative policy evaluation, on tuples of (state, action)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats, largest
from jmdp.base.interval import Estimate
from jmdp.base.machine import budget, require
from jmdp.base.progress import sweep_bar
from jmdp.base.settings import nonnegative, refuse_overflow, whole
from jmdp.methods.covers import COVERS
from jmdp.methods.jipe.joint_bellman import JointBellman, needed_bytes
from jmdp.methods.method import Method
from jmdp.methods.shared.fixed_point import StoppingRule, Sweeps, iterate
from jmdp.methods.shared.return_range import ReturnRange
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation


@dataclass(frozen=True)
class JIPE(Method[Evaluation]):
    """The paper's JIPE-n (Section 5.3): iterates M ← T_n M on joint moments of all orders up to n, from 0.

    T_n is Eq. (33); JIPE-2 is the iteration Eq. (21) of Definition 5.1. T_n is a γ-contraction in
    ‖M‖_λ = max_k ‖M_k‖∞/λ_k (Eq. (34); Lemma 5.2, repeated as Lemma A.1, for n = 2), λ_k = (2B/(1 − γ))^(k − 1), for
    rewards up to any B (the paper's λ assumes [0, 1]). So the error falls as γ^k after k sweeps (Eq. (22)), and
    ‖M − M*‖_λ ≤ ‖M − T_n M‖_λ/(1 − γ) (Eq. (23); both are Theorem 5.3, repeated as Theorem A.2). Rounding is added to
    the residual. Here a repeated coordinate is a power of a single return, while the paper's T_n draws its next actions
    independently.

    `ExactPairs` gives the same moments of two coordinates with A² times less memory and with far smaller error near
    γ = 1, where JIPE computes a variance as the difference of two large second moments. Use JIPE to reproduce the
    paper's algorithm, or for joint moments of three or more coordinates.

    Parameters
    ----------
    order
        Largest order of the moments, at least 2.
    tolerance
        Stop when the certified ‖M − M*‖_λ (Eq. (23)) is at most this fraction of B/(1 − γ), the bound on returns.
    max_sweeps
        Maximum number of sweeps.
    memory_budget
        Memory limit in bytes; by default 80% of the free memory. Several tables of (S A)^order numbers are required.
    """

    covers = COVERS["JIPE()"]

    order: int = 2
    tolerance: float = 1e-10
    max_sweeps: int = 100_000
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        whole(self, "order", 2, 40)
        nonnegative(self, "tolerance")
        whole(self, "max_sweeps", 1)
        whole(self, "memory_budget", 1, optional=True)

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate one policy; see `jmdp.evaluate`."""
        self._require(model, coupling)
        operator = JointBellman(model, policy, coupling, self.order)
        allowed = self.tolerance * operator.rewards.bound / (1 - model.discount)

        def error(moments: Floats, residual: float) -> float:
            return (residual + operator.floor(moments)) / (1 - model.discount) * (1 + 2.0**-40)

        scale = operator.rewards.scale
        stopping = StoppingRule(
            target=allowed * (1 - model.discount),
            floor=operator.floor,
            rate=model.discount,
            max_sweeps=self.max_sweeps,
            enough=lambda moments, residual: error(moments, residual) <= allowed,
        )
        with sweep_bar(type(self).__name__, progress, scale.restore) as report:
            tables = np.zeros(operator.size), np.zeros(operator.size)
            found = iterate(Sweeps(operator.measured), *tables, stopping, report)
        off = error(found.point, found.residual)
        table = MomentTable(operator, found.point, off)
        means, squares = table.tables[1,], table.tables[2,]
        size = largest(means)
        rounding = 4 * ROUNDOFF * (size * size + largest(squares))
        covariance_off = operator.scale(2) * off + 2 * size * off + off * off + rounding
        S, _, A = model.shape
        return Evaluation(
            mean=scale.restore(means.reshape(S, A)),
            covariance=np.array(
                [[[table.cross_covariance(s, a, s, b) for b in range(A)] for a in range(A)] for s in range(S)]
            ),
            certificate=Certificate.certified(
                scale.restore_error(off), scale.restore_error(covariance_off, 2), model.discount, model.reward_bound
            ),
            outcome=found.outcome,
            coupling=coupling,
            method=self,
            states=model.states,
            actions=model.actions,
            residuals=scale.restore(found.residuals),
            cross=table,
            moments=table,
            ranges=ReturnRange(model, policy),
        )

    def _require(self, model: TabularJMDP, coupling: Coupling) -> None:
        """Raise if moments can overflow or tables do not fit in memory, before anything is allocated."""
        refuse_overflow(self.order, model.discount)
        X = model.shape[0] * model.shape[2]
        what, fix = f"JIPE on {X} coordinates", "Use ExactPairs(), which needs A² times less memory"
        if self.order > 2:
            what += f" up to order {self.order}"
            fix = f"Use ExactPairs(order={self.order}) for moments of two coordinates"
        require(needed_bytes(model, coupling, self.order), budget(self.memory_budget), what, fix)


class MomentTable:
    """Final moments of JIPE, with a bound on their error."""

    def __init__(self, operator: JointBellman, moments: Floats, error: float) -> None:
        self.operator, self.order = operator, operator.order
        self.moments = moments  # for rewards scaled to size 1
        self.error = error  # of these moments, in ‖·‖_λ

    @property
    def tables(self) -> dict[tuple[int, ...], Floats]:
        """Tables M_m [X, …, X] by partition m."""
        return self.operator.tables(self.moments)

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Return Cov(Z(s, a), Z(t, b)) for any two coordinates."""
        x, y = (s, a), (t, b)
        found = self._raw([x, y]) - self._raw([x]) * self._raw([y])
        if x == y:  # rounding must not make a variance negative
            found = max(0.0, found)
        return self.operator.rewards.scale.restore(found, 2)

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """E[Π Z(x)] over at most `order` coordinates (Eq. (31)); a repeated coordinate is a power."""
        k = len(coordinates)
        return self._restored(self._raw(coordinates), self._off(k), k)

    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        """Central moments of G = Z(s, a) − Z(s, b), a ≠ b, of orders 0, 1, …, `order`.

        With c the computed mean of G, E[(G − c)^k] is linear in the available moments. The exact central moment is
        E[(G − E G)^k] = Σ_i C(k, i) E[(G − c)^i] (c − E G)^(k − i), and |c − E G| is at most the error of c.
        """
        x, y = (s, a), (s, b)
        c = Fraction(self._raw([x])) - Fraction(self._raw([y]))
        size = abs(c)
        raw, central, off = [Fraction(1)], [Fraction(1)], [Fraction(0)]
        result = [Estimate.around(1.0, 0.0), Estimate.around(0.0, 0.0)]
        for k in range(1, self.order + 1):
            products = [Fraction(self._raw([x] * i + [y] * (k - i))) for i in range(k + 1)]
            raw.append(sum((math.comb(k, i) * (-1) ** (k - i) * products[i] for i in range(k + 1)), Fraction(0)))
            central.append(sum((math.comb(k, i) * (-c) ** (k - i) * raw[i] for i in range(k + 1)), Fraction(0)))
            errors = (math.comb(k, i) * size ** (k - i) * 2**i * Fraction(self._off(i)) for i in range(1, k + 1))
            off.append(sum(errors, Fraction(0)))
            if k == 1:
                continue
            moved = (math.comb(k, i) * (abs(central[i]) + off[i]) * off[1] ** (k - i) for i in range(k))
            error = off[k] + sum(moved, Fraction(0))
            value = central[k] if k % 2 else max(central[k], Fraction(0))
            rounding = (abs(value) + error) * Fraction(2.0**-50)
            around = self._restored(float(value), float(error + rounding), k)
            result.append(around if k % 2 else Estimate(around, max(0.0, around.low), around.high))
        return tuple(result)

    def _raw(self, coordinates: Sequence[tuple[int, int]]) -> float:
        """E[Π Z(x)] for rewards scaled to size 1, from the tables; one branch per distinct coordinate."""
        A = self.operator.model.shape[2]
        powers = Counter(s * A + a for s, a in coordinates)
        order = sorted(powers, key=lambda x: (-powers[x], x))
        return float(self.tables[tuple(powers[x] for x in order)][tuple(order)])

    def _off(self, k: int) -> float:
        """Bound on the error of moments of order k ≥ 1."""
        return self.operator.scale(k) * self.error * (1 + 2.0**-40)

    def _restored(self, value: float, error: float, k: int) -> Estimate:
        """Moment of order k ± `error`, rescaled to the original rewards; (−∞, ∞) if it overflows."""
        scale = self.operator.rewards.scale
        restored = scale.restore(value, k)
        if math.isinf(restored):
            return Estimate(restored, -math.inf, math.inf)
        return Estimate.around(restored, scale.restore_error(error, k))
