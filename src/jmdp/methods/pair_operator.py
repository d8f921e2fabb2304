"""One sweep over state pairs: the recursion that all second moments come from.

Write H(s, t) for the covariance of the returns of two branches that stand in states s and t and draw their actions from
the policy, and V(s) for the variance of one such return. With d the TD errors of `shaping` and n_a the next
state under action a,

    s ≠ t                       H(s, t) = Σ_j w_j [ D_j(s) D_j(t) + γ² (Q_j H Q_jᵀ)(s, t) ]        (`common_luck`)
    s = t, actions a ≠ b        h(a, b) = E_k[ d_a d_b + γ² H(n_a, n_b) ]
    s = t, one action           h(a, a) = E_k[ d_a² + γ² V(n_a) ]
    H(s, s) = Σ_{a,b} ψ(a, b) h(a, b)        V(s) = Σ_a π(a) h(a, a)

where D_j, Q_j are a branch's mean TD error and step given the common luck j, and ψ is the joint law of two action
draws in one state: π ⊗ π, or equal actions where policy luck is shared. Under Independent the first line also
serves s = t. The operator is monotone, substochastic and times γ², so it contracts with γ² in the maximum norm.

The paper iterates on (s, a, t, b) instead (Definition 5.1); every entry there is one step ahead of H and V.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from jmdp.arrays import Floats, largest
from jmdp.coupling import Coupling
from jmdp.evaluation import UNIT
from jmdp.methods.common_luck import Piece, pieces
from jmdp.methods.shaping import UNDERFLOW, Shaped
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

_COMPILED_FROM = 300
"""States from which compiled sweeps pay for loading the compiler."""


class PairOperator:
    """The sweep for one model, policy and coupling; tables are stored in one vector, H [S, S] and then V [S]."""

    def __init__(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, shaped: Shaped) -> None:
        self.model, self.policy, self.coupling, self.shaped = model, policy, coupling, shaped
        S, _, _ = model.shape
        self.size = S * S + S
        self.prob = model.prob * ~model.terminal[:, None]
        # Where scenario and policy luck are both a branch's own, nothing is in common and H off the same-state
        # entries has no source: the mean TD error of a branch is 0 by the definition of v.
        self.pieces: list[Piece] = []
        if coupling.shared_in_a_state or coupling.policy_luck == "shared":
            self.pieces = pieces(model, policy, coupling, shaped.td)
        if len(self.pieces) == 1:
            still = replace(self.pieces[0].one, td=np.zeros(S))
            self.pieces = [Piece(1.0, still, still)]
        self._set_error_scales()

    def split(self, tables: Floats) -> tuple[Floats, Floats]:
        """Views of H [S, S] and V [S] in a vector of tables."""
        S = self.model.shape[0]
        return tables[: S * S].reshape(S, S), tables[S * S :]

    def sweep(self, tables: Floats) -> Floats:
        """Apply the operator once."""
        H, V = self.split(tables)
        result = np.zeros(self.size)
        new_H, new_V = self.split(result)
        square = self.model.discount * self.model.discount
        for i, piece in enumerate(self.pieces):
            term = new_H if i == 0 else np.empty_like(H)
            pair_product(piece, H, square, term)
            if piece.one.td.any():
                term += np.multiply.outer(piece.one.td, piece.other.td)
            if len(self.pieces) > 1:
                term *= piece.weights()
            if i > 0:
                new_H += term
        ahead = self.ahead(H, V, self.shaped.td)
        per_action = np.einsum("sk,skaa->sa", self.prob, ahead)
        new_V[:] = (per_action * self.policy.probs).sum(axis=1)
        if self.coupling.policy_luck == "shared" and self.coupling.shared_in_a_state:
            np.fill_diagonal(new_H, new_V)
        elif self.coupling.shared_in_a_state:
            over_b = (ahead @ self.policy.probs[:, None, :, None])[..., 0]
            over_a = (over_b * self.policy.probs[:, None, :]).sum(axis=2)
            np.fill_diagonal(new_H, (over_a * self.prob).sum(axis=1))
        return result

    def ahead(self, H: Floats, V: Floats, td: Floats) -> Floats:
        """[S, K, A, A], td_a td_b + γ² H(n_a, n_b) for two branches that share scenario k; V where they are one."""
        n = self.model.next_state
        result = td[:, :, :, None] * td[:, :, None, :]
        following = H[n[:, :, :, None], n[:, :, None, :]]
        np.einsum("skaa->ska", following)[...] = V[n]
        following *= self.model.discount * self.model.discount
        result += following
        return result

    def covariance(self, tables: Floats) -> Floats:
        """[S, A, A], covariances of the returns of one state's actions: one step ahead of the tables."""
        H, V = self.split(tables)
        ahead = self.ahead(H, V, self.shaped.centred)
        same: Floats = np.einsum("sk,skab->sab", self.prob, ahead)
        if self.coupling.shared_in_a_state:
            return _symmetric(same)
        S, _, A = self.model.shape
        apart = np.zeros((S, A, A))
        if self.pieces:
            for s in range(S):
                for a in range(A):
                    for b in range(A):
                        apart[s, a, b] = self.cross_covariance(H, s, a, s, b)
        np.einsum("saa->sa", apart)[...] = np.einsum("saa->sa", same)
        return _symmetric(apart)

    def cross_covariance(self, H: Floats, s: int, a: int, t: int, b: int) -> float:
        """Covariance of the returns of two distinct branches that do not share a state's table."""
        n, m = self.model.next_state[s, :, a], self.model.next_state[t, :, b]
        square = self.model.discount * self.model.discount
        if not self.coupling.shared_between_states:
            return float(square * (self.prob[s] @ H[np.ix_(n, m)] @ self.prob[t]))
        if self.model.terminal[s] or self.model.terminal[t]:
            return 0.0
        centred = self.shaped.centred
        return float(self.prob[s] @ (centred[s, :, a] * centred[t, :, b] + square * H[n, m]))

    def variance_scale(self, tables: Floats) -> float:
        """Return the largest variance of a return, its first action given or drawn from the policy."""
        _, V = self.split(tables)
        steps = self.shaped.centred**2 + self.model.discount**2 * V[self.model.next_state]
        return max(float(np.einsum("sk,ska->sa", self.prob, steps).max()), float(V.max()))

    def floor(self, tables: Floats) -> float:
        """What rounding and the error of d can hide from a residual."""
        return self._evaluation_error(largest(tables), self._source)

    def covariance_error(self, tables: Floats, residual: float) -> float:
        """Bound on the error of `covariance` and `cross_covariance`: one step ahead of the tables."""
        square = self.model.discount * self.model.discount
        entry = largest(tables)
        ahead = self._evaluation_error(entry, self._centred_source)
        return (square * self._tables_error(entry, residual) + ahead) * (1 + 2.0**-40)

    def _tables_error(self, entry: float, residual: float) -> float:
        """Bound on the distance of tables, none larger than `entry`, from the truth, given their residual.

        (‖residual‖ + rounding of the sweep + what the error of d adds) / (1 − γ²), in the maximum norm.
        """
        floor = self._evaluation_error(entry, self._source)
        return (residual + floor) / self._one_minus_square() * (1 + 2.0**-40)

    def _one_minus_square(self) -> float:
        return (1 - self.model.discount) * (1 + self.model.discount)

    def _evaluation_error(self, entry: float, source: float) -> float:
        """Error of evaluating E[d d'] + γ² E[H], |H| ≤ entry: relative on what is summed, absolute from d."""
        size = source + self.model.discount**2 * entry
        slip = self.shaped.td_error
        tiny = UNDERFLOW if self.shaped.bound else 0.0
        return self._rounding * UNIT * size + 2 * slip * math.sqrt(source) + slip * slip + tiny

    def _set_error_scales(self) -> None:
        """Count the units of rounding that a sweep or a look ahead can put on any term, and bound the terms d d'.

        Every weight is a product of probabilities, so rounding acts on it relatively. Between two states: each Q_j has
        the excess of its rows over 1 and a product; summing outcomes with one next state and then over next states
        takes at most one more than there are outcomes; D_j sums them too; then γ², d, the weight and the sum over
        pieces. In one state: sums over two actions and a scenario, and the excess of their rows. Break points of shared
        policy luck are off by 3A units each; a pair of states has 2A of them, and each moves mass twice.
        """
        _, K, A = self.model.shape
        excess = _excess(self.model.prob) + _excess(self.policy.probs)
        outcomes = max((branch.outcomes for piece in self.pieces for branch in (piece.one, piece.other)), default=0)
        means = 0 if len(self.pieces) <= 1 else 2 * (outcomes + 2)
        between = 2 * (excess + outcomes + 2) + means + len(self.pieces) + 10
        within = 2 * excess + 2 * A + 2 * K + 12
        breaks = 12 * A * A if self.coupling.policy_luck == "shared" else 0
        self._rounding = (max(between, within) + breaks) * (1 + 2.0**-20)
        td, centred = self.shaped.td, self.shaped.centred
        squares = np.einsum("sk,ska->sa", self.prob, td**2)
        own = float((squares * self.policy.probs).sum(axis=1).max())
        if self.coupling.policy_luck == "shared":
            # An action too unlikely to have a break point of its own may still be the one that matters.
            own = max(own, float(squares[self.policy.probs > 0].max()))
        common = max(
            (float(np.abs(branch.td).max()) ** 2 for p in self.pieces for branch in (p.one, p.other)), default=0
        )
        self._source = max(own, common) * (1 + 2.0**-30)
        self._centred_source = float(np.einsum("sk,ska->sa", self.prob, centred**2).max()) * (1 + 2.0**-30)


def pair_product(piece: Piece, H: Floats, scale: float, out: Floats) -> None:
    """Fill `out` with scale × Q H Q̃ᵀ, H symmetric: by SciPy for small tables, else compiled and on all cores."""
    one, other = piece.one.step, piece.other.step
    if piece.overlap is not None or H.shape[0] < _COMPILED_FROM:
        np.multiply(scale, np.asarray(one @ (other @ H).T), out=out)
        return
    from jmdp.kernels.pair_product import pair_product as compiled

    starts, columns = one.indptr.astype(np.int64), one.indices.astype(np.int64)
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        parts = [pool.submit(compiled, starts, columns, one.data, H, scale, i, threads, out) for i in range(threads)]
        for part in parts:
            part.result()


def _excess(rows: Floats) -> float:
    """How many units the sum of a row of probabilities is off from 1, at most."""
    return 1 + max(abs(math.fsum(row) - 1) for row in rows.tolist()) / UNIT


def _symmetric(blocks: Floats) -> Floats:
    """Blocks [S, A, A] made symmetric to the last bit, which rounding in a sweep does not keep."""
    return np.asarray((blocks + blocks.transpose(0, 2, 1)) / 2)


@dataclass(frozen=True, eq=False)
class PairTables:
    """The solved tables, and the covariances they give: what a certificate rests on."""

    operator: PairOperator
    tables: Floats  # on rewards divided by 2**exponent

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b)) for s ≠ t."""
        H, _ = self.operator.split(self.tables)
        return float(np.ldexp(self.operator.cross_covariance(H, s, a, t, b), 2 * self.operator.shaped.exponent))
