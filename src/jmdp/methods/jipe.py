"""JIPE: the paper's joint iterative policy evaluation, on pairs of (state, action)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.arrays import Floats, largest
from jmdp.coupling import Coupling
from jmdp.errors import SettingsError
from jmdp.evaluation import UNIT, Certificate, Evaluation
from jmdp.methods.common_luck import action_intervals, overlap, shared_scenarios
from jmdp.methods.exact_pairs import scaled_error
from jmdp.methods.fixed_point import iterate
from jmdp.methods.memory import budget, require
from jmdp.methods.method import Method
from jmdp.methods.progress import sweep_bar
from jmdp.methods.settings import nonnegative, whole
from jmdp.methods.shaping import UNDERFLOW, unit_rewards
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

_SWEEP_TABLES = 6
"""Tables of pairs of coordinates in use at once."""


@dataclass(frozen=True)
class JIPE(Method):
    """The paper's JIPE-2 (Theorem 5.3): iterate M ← T₂M on means and uncentred second moments, from 0.

    T₂ is a γ-contraction in ‖M‖_λ = max{‖M_μ‖∞, ‖M_Σ‖∞/λ}, so ‖M − M*‖_λ ≤ ‖M − T₂M‖_λ/(1 − γ). The paper's
    λ = 2/(1 − γ) assumes rewards in [0, 1]; λ = 2B/(1 − γ) serves any bound B. Rounding is added to the residual.

    `ExactPairs` gives the same answers from A² times less memory and with far smaller error near γ = 1, where a
    variance is here the difference of two large second moments. This is the paper's algorithm by its name.

    Parameters
    ----------
    order
        Largest order of the moments; 2.
    tolerance
        Stop when the certified ‖M − M*‖_λ is at most this fraction of B/(1 − γ), the largest return there can be.
    max_sweeps
        Give up after so many.
    memory_budget
        Bytes it may use; by default 80% of what is free. It needs some tables of (S A)² numbers.
    """

    order: int = 2
    tolerance: float = 1e-10
    max_sweeps: int = 100_000
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        if self.order != 2:
            raise SettingsError(f"order is {self.order!r}. JIPE is of order 2.")
        nonnegative(self, "tolerance")
        whole(self, "max_sweeps", 1)
        whole(self, "memory_budget", 1, optional=True)

    def run(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        X = model.shape[0] * model.shape[2]
        mend = "Use ExactPairs(), which needs A² times less"
        require(_SWEEP_TABLES * 8.0 * X * X, budget(self.memory_budget), f"JIPE on {X} coordinates", mend)
        operator = JointBellman(model, policy, coupling)
        largest_return = operator.bound / (1 - model.discount)

        def error(moments: Floats, residual: float) -> float:
            return (residual + operator.floor(moments)) / (1 - model.discount) * (1 + 2.0**-40)

        e = operator.exponent
        target = self.tolerance * largest_return * (1 - model.discount)
        with sweep_bar(type(self).__name__, progress, e) as report:
            found = iterate(
                operator.measured,
                np.zeros(operator.size),
                np.zeros(operator.size),
                target=target,
                enough=lambda moments, residual: error(moments, residual) <= self.tolerance * largest_return,
                floor=operator.floor,
                rate=model.discount,
                max_sweeps=self.max_sweeps,
                report=report,
            )
        mean, second, _ = operator.split(found.point)
        off = error(found.point, found.residual)
        size = largest(mean)
        rounding = 4 * UNIT * (size * size + largest(second))
        covariance_off = operator.weight * off + 2 * size * off + off * off + rounding
        table = MomentTable(operator, found.point)
        S, _, A = model.shape
        return Evaluation(
            np.ldexp(mean.reshape(S, A), e),
            np.array([[[table.cross_covariance(s, a, s, b) for b in range(A)] for a in range(A)] for s in range(S)]),
            Certificate.certified(
                scaled_error(off, e), scaled_error(covariance_off, 2 * e), model.discount, model.reward_bound
            ),
            found.outcome,
            coupling,
            self,
            model.states,
            model.actions,
            np.ldexp(found.residuals, e),
            table,
        )


class JointBellman:
    """The paper's T₂ on moments M = (M_μ, M_Σ) over coordinates x = (s, a), for every coupling.

    The moments are one vector: M_μ [X], then M_Σ [X, X] of *distinct* branches, then E[Z(x)²] [X]. The last two
    agree on the diagonal unless the coupling is Independent, where two branches may stand on one coordinate and
    yet differ.
    """

    def __init__(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling) -> None:
        from scipy.sparse import csr_array

        self.model, self.policy, self.coupling = model, policy, coupling
        S, K, A = model.shape
        self.X = S * A
        self.size = self.X + self.X * self.X + self.X
        self.exponent, self.bound, self.reward = unit_rewards(model)
        self.weight = 2 * self.bound / (1 - model.discount) if self.bound else 1.0
        self.prob = model.prob * ~model.terminal[:, None]
        following = model.next_state.transpose(0, 2, 1).ravel()  # [S, A, K]
        starts = np.arange(0, self.X * K + 1, K)
        self.pieces = []
        for w, scenarios in shared_scenarios(model, coupling):
            given = scenarios * ~model.terminal[:, None]
            weights = np.repeat(given[:, None, :], A, axis=1).ravel()
            step = csr_array((weights, following, starts), shape=(self.X, S))
            reward = np.einsum("sk,ska->sa", given, self.reward).ravel()
            self.pieces.append((w, step, reward))
        self.intervals = action_intervals(policy) if coupling.policy_luck == "shared" else None

    def split(self, moments: Floats) -> tuple[Floats, Floats, Floats]:
        """Views of M_μ [X], M_Σ [X, X] and E[Z²] [X]."""
        X = self.X
        return moments[:X], moments[X : X + X * X].reshape(X, X), moments[X + X * X :]

    def measured(self, moments: Floats, out: Floats, change: None = None) -> float:
        """Fill `out` with T₂ of the moments, and return ‖T₂M − M‖_λ."""
        self.sweep(moments, out)
        return self.norm(out - moments)

    def sweep(self, moments: Floats, out: Floats) -> None:
        """T₂ once."""
        mean, second, square = self.split(moments)
        out[:] = 0.0
        new_mean, new_second, new_square = self.split(out)
        gamma, n, r, p = self.model.discount, self.model.next_state, self.reward, self.prob
        S, _, A = self.model.shape
        state_mean = (mean.reshape(S, A) * self.policy.probs).sum(axis=1)
        state_square = (square.reshape(S, A) * self.policy.probs).sum(axis=1)
        pair = self._policy_pairs(second)
        for w, step, reward in self.pieces:
            ahead = gamma * (step @ state_mean)
            mixed = np.multiply.outer(reward, ahead)
            term = gamma * gamma * (step @ (step @ pair).T)
            term += np.multiply.outer(reward, reward) + mixed + mixed.T
            new_second += w * term
        ahead = gamma * state_mean[n]
        new_mean[:] = np.einsum("sk,ska->sa", p, r + ahead).ravel()
        new_square[:] = np.einsum("sk,ska->sa", p, r * r + 2 * r * ahead + gamma * gamma * state_square[n]).ravel()
        if self.coupling.shared_in_a_state:
            mixed = r[:, :, :, None] * ahead[:, :, None, :]
            table = r[:, :, :, None] * r[:, :, None, :] + mixed + mixed.transpose(0, 1, 3, 2)
            table += gamma * gamma * pair[n[:, :, :, None], n[:, :, None, :]]
            same = np.arange(S)
            new_second.reshape(S, A, S, A)[same, :, same, :] = np.einsum("sk,skab->sab", p, table)
            np.fill_diagonal(new_second, new_square)

    def _policy_pairs(self, second: Floats) -> Floats:
        """[S, S], M_Σ averaged over the next actions of two distinct branches in states s and t."""
        S, _, A = self.model.shape
        if self.intervals is None:
            over_b = (second.reshape(S, A, S, A) * self.policy.probs).sum(axis=3)
            return np.asarray((over_b * self.policy.probs[:, :, None]).sum(axis=1))
        pair, blocks = np.zeros((S, S)), second.reshape(S, A, S, A)
        for a in range(A):
            for b in range(A):
                pair += overlap(self.intervals[a], self.intervals[b]) * blocks[:, a, :, b]
        return pair

    def norm(self, moments: Floats) -> float:
        """‖M‖_λ."""
        X = self.X
        return max(largest(moments[:X]), largest(moments[X:]) / self.weight)

    def floor(self, moments: Floats) -> float:
        """What rounding can hide from a residual, in ‖·‖_λ: the terms of `PairOperator`, on uncentred moments."""
        _, K, A = self.model.shape
        count = 6 * (K + A) + len(self.pieces) + 16
        if self.intervals is not None:
            count += 13 * A * A
        B, gamma = self.bound, self.model.discount
        mean, second = largest(moments[: self.X]), largest(moments[self.X :])
        tiny = UNDERFLOW if B else 0.0
        on_mean = 2 * count * UNIT * (B + gamma * mean) + tiny
        on_second = 2 * count * UNIT * (B * B + 2 * gamma * B * mean + gamma * gamma * second) + tiny
        return max(on_mean, on_second / self.weight)


@dataclass(frozen=True, eq=False)
class MomentTable:
    """The moments JIPE ended with: what its certificate rests on."""

    operator: JointBellman
    moments: Floats  # on rewards divided by 2**exponent

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b)) for any two coordinates."""
        mean, second, square = self.operator.split(self.moments)
        A = self.operator.model.shape[2]
        x, y = sorted((s * A + a, t * A + b))
        if x == y:  # a variance: what rounding puts below 0 is 0
            return float(np.ldexp(max(0.0, square[x] - mean[x] * mean[x]), 2 * self.operator.exponent))
        return float(np.ldexp(second[x, y] - mean[x] * mean[y], 2 * self.operator.exponent))
