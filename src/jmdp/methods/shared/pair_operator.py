"""Operator of the sweep over state pairs: the recursion for all second moments.

Let H(s, t) be the covariance of the returns of two branches in states s and t that draw their actions from the policy,
and V(s) the variance of one such return. With d the TD errors of `shaping` and n_a the next state under action a,

    s ≠ t                       H(s, t) = Σ_j w_j [ D_j(s) D_j(t) + γ² (Q_j H Q_jᵀ)(s, t) ]        (`shared_randomness`)
    s = t, actions a ≠ b        h(a, b) = E_k[ d_a d_b + γ² H(n_a, n_b) ]
    s = t, one action           h(a, a) = E_k[ d_a² + γ² V(n_a) ]
    H(s, s) = Σ_{a,b} ψ(a, b) h(a, b)        V(s) = Σ_a π(a) h(a, a)

where D_j, Q_j are a branch's mean TD error and step given the value j of the shared randomness, and ψ is the joint
distribution of two action draws in one state: π ⊗ π, or equal actions if action draws are shared. Under Independent the
first line also applies to s = t. The operator is γ² times a monotone substochastic one, so it contracts with γ² in the
maximum norm.

With several policies (`policy_blocks`) only pairs of states in different blocks are swept: no others are needed, and
these depend only on one another. If the coupling shares scenarios only within a state, pairs of copies of one state
have a separate equation (`same_place`).

V does not depend on H: it is solved directly, and sweeps update H alone.

All quantities are stored in the units w(s) of `state_units`: H(s, t) / (w(s) w(t)), V(s) / w(s)², d(s) / w(s), and each
step from s to s' has the factor w(s') / w(s) ≤ 1.

The paper iterates on (s, a, t, b) instead (Definition 5.1, Eq. (14)); every entry there is a one-step lookahead on H
and V. Under Local, the three cases above are Eq. (17), Eq. (18) and Eq. (16); Eq. (17) applies to a = b too, which the
paper's cases leave out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Booleans, Floats, largest
from jmdp.methods.shared.policy_chain import JointStep, break_point_units, joint_steps
from jmdp.methods.shared.same_state import SamePlace, SameState, happens
from jmdp.methods.shared.shaping import Shaped
from jmdp.methods.shared.state_units import StateUnits, in_units, variances
from jmdp.models.coupling import Coupling
from jmdp.models.policy import StackedTable, TabularPolicy
from jmdp.models.tabular import TabularJMDP

Precision = Literal["float64", "float32"]

_STORED = {"float64": (ROUNDOFF, 0.0), "float32": (2.0**-24, 2.0**-149)}
"""Rounding error of a stored entry: relative, and absolute for underflow."""


class PairOperator:
    """Recursion for one model, policy and coupling: solved V, data of a sweep of H, and error bounds of both."""

    mirror, source, weight = 1.0, None, None  # H is symmetric, its only source is D_j D_jᵀ, its units are those of V

    def __init__(
        self,
        model: TabularJMDP,
        policy: TabularPolicy,
        coupling: Coupling,
        shaped: Shaped,
        precision: Precision = "float64",
        units: StateUnits | None = None,
        blocks: StackedTable | None = None,
    ) -> None:
        self.blocks = blocks
        self.model, self.policy, self.coupling, self.shaped, self.precision = model, policy, coupling, shaped, precision
        self.units = StateUnits.equal(model) if units is None else units
        S, _, _ = model.shape
        self.size = S * S
        self.square = model.discount * model.discount
        self.prob = model.prob * ~model.terminal[:, None]
        unit, coordinate = self.units.state, self.units.coordinate
        self.td, self.ratio = in_units(model, shaped.td, happens(model, policy), unit, unit[:, None])
        possible = np.broadcast_to(self.prob[:, :, None] > 0, model.shape)
        self.centred, self.ratio_ahead = in_units(model, shaped.centred, possible, unit, coordinate)
        # If neither scenarios nor action draws are shared, H has no source apart from its same-state entries: the mean
        # TD error of a branch is 0 by the definition of v.
        self.joint_steps: list[JointStep] = []
        if coupling.shared_in_a_state or coupling.policy_luck == "shared":
            self.joint_steps = joint_steps(model, policy, coupling, self.td, self.ratio)
        if len(self.joint_steps) == 1:
            without_td = replace(self.joint_steps[0].one, td=np.zeros(S))
            self.joint_steps = [JointStep(1.0, without_td, without_td)]
        self.V, self.V_residual = variances(model, policy, self.td, self.ratio)
        self._set_same_state()
        self._set_error_scales()

    def _set_same_state(self) -> None:
        """Set `same_state` or `same_place` if the coupling gives these entries a separate equation."""
        self.same_state: SameState | None = None
        self.same_place: SamePlace | None = None
        coupling = self.coupling
        if self.blocks is not None:
            if coupling.shared_in_a_state and not coupling.shared_between_states:
                self.same_place = SamePlace(self.blocks, self.policy, coupling, self.td, self.ratio)
        elif coupling.shared_in_a_state and coupling.policy_luck == "independent":
            self.same_state = SameState(self.model, self.policy, self.prob, self.td, self.V, self.ratio)

    def start(self) -> Floats:
        """A table H [S × S] of zeros, as a vector aligned to a cache line."""
        spare = 64 // np.dtype(self.precision).itemsize
        table = np.zeros(self.size + spare, self.precision)
        skip = -table.ctypes.data % 64 // table.itemsize
        return table[skip : skip + self.size]

    def diagonal(self, H: Floats) -> Floats | None:
        """H(s, s) [S] after a sweep of H [S, S]; None if the between-state equation applies."""
        if self.blocks is not None or not self.coupling.shared_in_a_state:
            return None
        return self.V if self.same_state is None else self.same_state.diagonal(H)

    def placed(self, H: Floats) -> Floats | None:
        """H at the pairs `SamePlace.one`, `.other` after a sweep; None if the between-state equation applies."""
        return None if self.same_place is None else self.same_place.after(H)

    def ahead(self, H: Floats, states: slice) -> Floats:
        """[·, K, A, A], δ_a δ_b + γ² H(n_a, n_b) for two branches that share scenario k; V if merged."""
        n, gained, ratio = self.model.next_state[states], self.centred[states], self.ratio_ahead[states]
        result = gained[:, :, :, None] * gained[:, :, None, :]
        following = H[n[:, :, :, None], n[:, :, None, :]].astype(np.float64, copy=False)
        np.einsum("skaa->ska", following)[...] = self.V[n]
        following *= self.square * (ratio[:, :, :, None] * ratio[:, :, None, :])
        result += following
        return result

    def covariance(self, table: Floats) -> Floats:
        """[S, A, A], covariances of the returns of a state's actions, in their units, by a lookahead on the table."""
        S, K, A = self.model.shape
        H = table.reshape(S, S)
        same = np.empty((S, A, A))
        at_once = max(1, 1_000_000 // (K * A * A))
        for first in range(0, S, at_once):
            states = slice(first, first + at_once)
            same[states] = np.einsum("sk,skab->sab", self.prob[states], self.ahead(H, states))
        if self.coupling.shared_in_a_state:
            return _symmetric(same)
        distinct = np.zeros((S, A, A))
        if self.joint_steps:
            for s in range(S):
                for a in range(A):
                    for b in range(A):
                        distinct[s, a, b] = self.cross_covariance(H, s, a, s, b)
        np.einsum("saa->sa", distinct)[...] = np.einsum("saa->sa", same)
        return _symmetric(distinct)

    def cross_covariance(self, H: Floats, s: int, a: int, t: int, b: int) -> float:
        """Covariance, in their units, of the returns of two distinct branches by the between-state equation."""
        n, m = self.model.next_state[s, :, a], self.model.next_state[t, :, b]
        one, other = self.ratio_ahead[s, :, a], self.ratio_ahead[t, :, b]
        if not self.coupling.shared_between_states:
            following = H[np.ix_(n, m)].astype(np.float64) * np.multiply.outer(one, other)
            return float(self.square * (self.prob[s] @ following @ self.prob[t]))
        if self.model.terminal[s] or self.model.terminal[t]:
            return 0.0
        following = H[n, m].astype(np.float64) * (one * other)
        return float(self.prob[s] @ (self.centred[s, :, a] * self.centred[t, :, b] + self.square * following))

    def variance(self) -> Floats:
        """[S, A], variances of returns, in their units."""
        steps = self.centred**2 + self.square * self.ratio_ahead**2 * self.V[self.model.next_state]
        return np.asarray(np.einsum("sk,ska->sa", self.prob, steps))

    def floor(self, entry: float) -> float:
        """Bound on the rounding error in a residual, if no entry is larger than `entry`."""
        relative, absolute = _STORED[self.precision]
        times = len(self.joint_steps) + 2  # an entry is stored once per joint step
        stored = 0.0 if self.precision == "float64" else times * (relative * (self._source + entry) + absolute)
        return self._rounding_error(entry, self._source) + stored

    def step_error(self, entry: float, residual: float) -> float:
        """Bound on the error of any covariance, in its units, assuming exact TD errors."""
        return self.lookahead_error(entry, (max(residual, self.V_residual) + self.floor(entry)) / self.one_minus_square)

    def lookahead_error(self, entry: float, below: float) -> float:
        """Bound on the error of any covariance, in its units, from a table with errors of at most `below`."""
        ahead = self._rounding_error(entry, self._centred_source)
        return (self.square * below + ahead) * (1 + 2.0**-40)

    def largest_residual(self, entry: float, error: float) -> float:
        """Largest residual for which `step_error` is at most `error`; not positive if there is no such residual."""
        ahead = self._rounding_error(entry, self._centred_source)
        allowed = (error * (1 - 2.0**-39) - ahead) * self.one_minus_square
        return allowed / self.square - self.floor(entry) if self.square else math.inf

    def variance_error(self) -> float:
        """Bound on the error of V."""
        return self.table_error(largest(self.V), self.V_residual)

    def entry(self, table: Floats) -> float:
        """Largest entry of H and V."""
        if self.blocks is None:
            return max(largest(table), largest(self.V))
        S, block = self.model.shape[0], self.blocks.block  # all other entries are 0 or follow by symmetry
        parts = [table.reshape(S, S)[first : first + block, :first] for first in range(block, S, block)]
        return max(largest(self.V), *(largest(part) for part in parts), 0.0)

    def table_error(self, entry: float, residual: float) -> float:
        """Bound on the error of H and V, none larger than `entry`, in the maximum norm.

        (‖residual‖ + rounding of the sweep + effect of the error of d) / (1 − γ²).
        """
        total = max(residual, self.V_residual) + self.floor(entry)
        return (total / self.one_minus_square + self.td_effect()) * (1 + 2.0**-40)

    def td_effect(self) -> float:
        """Effect of the errors of d on H and V, in the maximum norm."""
        td_error = float(np.ldexp(self.shaped.td_errors, -self.units.state).max())
        return (2 * td_error * math.sqrt(self._source) + td_error * td_error) / self.one_minus_square * (1 + 2.0**-40)

    @property
    def largest_source(self) -> float:
        """Bound on E[d²] and E[δ²]."""
        return max(self._source, self._centred_source)

    def prob_error(self, entry: float) -> float:
        """Effect of errors of the model's probabilities on E[d d'] + γ² E[H] and a lookahead, |H| ≤ entry."""
        return 3 * self.model.prob_error * (max(self._drawn_source, self._centred_source) + entry)

    @property
    def one_minus_square(self) -> float:
        """1 − γ², computed without subtracting squares."""
        return (1 - self.model.discount) * (1 + self.model.discount)

    def _rounding_error(self, entry: float, source: float) -> float:
        """Rounding error of E[d d'] + γ² E[H], |H| ≤ entry, E[d²] ≤ source; it is relative to the summands."""
        tiny = UNDERFLOW if self.shaped.rewards.bound else 0.0
        return self.rounding * ROUNDOFF * (source + self.square * entry) + tiny

    def td_error_effects(self) -> TdErrorEffects:
        """Effect of the errors of TD errors on those of covariances."""
        shaped, coordinate = self.shaped, self.units.coordinate
        reachable = shaped.classes.reachable_max(shaped.td_errors)
        possible = np.broadcast_to(self.prob[:, :, None] > 0, self.model.shape)
        following = np.where(possible, reachable[self.model.next_state], 0.0).max(axis=1)
        return TdErrorEffects(
            math.sqrt(self._source) * (1 + ROUNDOFF),
            math.sqrt(self._centred_source) * (1 + ROUNDOFF),
            self.square / self.one_minus_square,
            np.ldexp(following, -coordinate),
            np.ldexp(shaped.centred_errors, -coordinate),
        )

    def _set_error_scales(self) -> None:
        """Bound the units of rounding on any term of a sweep or lookahead, and the terms d d'.

        Every weight is a product of probabilities, so its rounding error is relative. Between two states: each Q_j has
        the excess of its rows over 1 and one product; the sum over outcomes with the same next state and then over next
        states has at most one operation more than there are outcomes; D_j has the same sum; then follow γ², d, the
        weight and the sum over joint steps. In one state: sums over two actions and a scenario, or over the entries of
        `SameState`, and the excess of their rows. Break points of shared action draws are added.
        """
        _, K, A = self.model.shape
        over = row_error_units(self.model, self.policy)
        outcomes = max(
            (branch.outcomes for joint in self.joint_steps for branch in (joint.one, joint.other)), default=0
        )
        means = 0 if len(self.joint_steps) <= 1 else 2 * (outcomes + 2)
        between = 2 * (over + outcomes + 2) + means + len(self.joint_steps) + 10
        within = 2 * over + 2 * A + 2 * K + 12
        for same in (self.same_state, self.same_place):
            if same is not None:
                within = max(within, 2 * over + same.rounding)
        breaks = break_point_units(self.policy, self.coupling)
        self.rounding = (max(between, within) + breaks) * (1 + 2.0**-20)
        squares = np.einsum("sk,ska->sa", self.prob, self.td**2)
        own = float((squares * self.policy.probs).sum(axis=1).max())
        if self.coupling.policy_luck == "shared":
            # An action too unlikely to have its own break point may still dominate the error.
            own = max(own, float(squares[self.policy.probs > 0].max()))
        common = max(
            (float(np.abs(branch.td).max()) ** 2 for p in self.joint_steps for branch in (p.one, p.other)), default=0
        )
        self._drawn_source, self._source = own * (1 + 2.0**-30), max(own, common) * (1 + 2.0**-30)
        self._centred_source = float(np.einsum("sk,ska->sa", self.prob, self.centred**2).max()) * (1 + 2.0**-30)


def row_error_units(model: TabularJMDP, policy: TabularPolicy) -> float:
    """Largest relative error of the probability of a scenario and action, in units of rounding.

    Rows sum to 1 only up to rounding, and the probabilities of a table may themselves be rounded. Their error is
    relative to the probability of an outcome of one action, o: Σ_o |error| ≤ ε p(o) over its scenarios. By
    Cauchy–Schwarz, an expectation of d d' then has an error of at most ε rms(d) rms(d').
    """
    sums = max(abs(math.fsum(row) - 1) for row in model.prob.tolist())
    chosen = max(abs(math.fsum(row) - 1) for row in policy.probs.tolist())
    return 2 + (sums + chosen + model.prob_error) / ROUNDOFF


def _symmetric(blocks: Floats) -> Floats:
    """Blocks [S, A, A] made exactly symmetric: rounding in a sweep does not preserve symmetry."""
    return np.asarray((blocks + blocks.transpose(0, 2, 1)) / 2)


@dataclass(frozen=True, eq=False)
class TdErrorEffects:
    """Effect of the errors of TD errors on those of covariances, in the units of the two returns.

    With |d̂ − d| ≤ x(s) over all states reachable from s, the error of each d̂ d̂' is at most x |d'| + x' |d| + x x', and
    in expectation E|d| ≤ rms(d). The sum over all later steps is 1/(1 − γ²) times as much, one step ahead.
    """

    rms: float  # of a TD error, in any state
    centred_rms: float  # of a TD error centred at its mean, for any action
    times: float  # γ² / (1 − γ²)
    following: Floats  # [S, A], largest error of any TD error after this step
    here: Floats  # [S, A], error of this step's TD error

    def within_states(self) -> Floats:
        """[S, A, A], effect for two actions in one state."""
        x, y = self.following, self.here
        return self._added(x[:, :, None], x[:, None, :], y[:, :, None], y[:, None, :])

    def between(self, one: tuple[int, int], other: tuple[int, int]) -> float:
        """Effect for two coordinates."""
        x, y = self.following, self.here
        return float(self._added(x[one], x[other], y[one], y[other]))

    def _added(self, x: Floats, x_2: Floats, y: Floats, y_2: Floats) -> Floats:
        later = self.times * (self.rms * (x + x_2) + x * x_2)
        return np.asarray((later + self.centred_rms * (y + y_2) + y * y_2) * (1 + 2.0**-40))

    @property
    def is_zero(self) -> Booleans:
        """[S, A], True if the return is exactly 0: no reward is possible."""
        return np.asarray(self.here == 0)
