"""Optimised baseline: the paper's T₂ on pairs of coordinates (state, action) in NumPy and SciPy.

It has all optimisations that do not need the ideas of this library: means are solved for first, so that only second
moments are iterated, with γ² instead of γ; everything constant is computed once; a sweep passes over the table only for
the two products and one addition; it starts with zero covariance; and it computes the residual in every tenth sweep.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import spsolve

from jmdp import TabularJMDP, TabularPolicy
from jmdp.base.arrays import Floats, largest

LOOK_EVERY = 10

Product = Literal["sparse", "dense", "policy first"]
"""How γ²·E[M(x', y')] of independent branches is computed.

"sparse": S M Sᵀ with the step matrix S [X, X] of coordinates in compressed rows. "dense": the same with S as a full
matrix, by BLAS. "policy first": M averaged over next actions, then over next states, by two smaller products.
"""


class PaperOperator:
    """Operator T₂ of one model and policy under the paper's one-step coupling, on tables M [X, X] with X = S·A."""

    def __init__(self, model: TabularJMDP, policy: TabularPolicy) -> None:
        S, K, A = model.shape
        X = S * A
        self.model = model
        self.prob = model.prob * ~model.terminal[:, None]
        starts = np.arange(0, X * K + 1, K, dtype=np.int32)
        weights = np.repeat(self.prob[:, None, :], A, axis=1).ravel()
        following = model.next_state.transpose(0, 2, 1).ravel().astype(np.int32)
        gamma = model.discount
        self.to_state = csr_array((gamma * weights, following, starts), shape=(X, S))
        of_state = np.arange(0, X + 1, A, dtype=np.int32)
        self.choose = csr_array((policy.probs.ravel(), np.arange(X, dtype=np.int32), of_state), shape=(S, X))
        self.step = csr_array(self.to_state @ self.choose)  # [X, X], times γ
        self.dense: Floats | None = None
        reward = np.einsum("sk,ska->sa", self.prob, model.reward).ravel()
        self.mean = np.asarray(spsolve((eye_array(X, format="csr") - self.step).tocsc(), reward))
        self._set_source(reward)

    def _set_source(self, reward: Floats) -> None:
        """Compute all of T₂M except its γ² term: E[R R̃ + γ R μ̃' + γ R̃ μ']."""
        S, _, A = self.model.shape
        ahead = self.step @ self.mean
        self.source = np.multiply.outer(reward, reward + ahead)
        self.source += np.multiply.outer(ahead, reward)
        r = self.model.reward
        f = self.model.discount * (self.choose @ self.mean)[self.model.next_state]
        mixed = r[:, :, :, None] * (r + f)[:, :, None, :] + f[:, :, :, None] * r[:, :, None, :]
        self.same_state = np.einsum("sk,skab->sab", self.prob, mixed)
        self.square = np.einsum("saa->sa", self.same_state).reshape(S * A)

    def sweep(self, M: Floats, product: Product) -> Floats:
        """Apply T₂ once to second moments; M is symmetric."""
        S, _, A = self.model.shape
        pair = np.asarray(self.choose @ (self.choose @ M).T)  # [S, S], averaged over the next actions
        if product == "policy first":
            result = np.asarray(self.to_state @ (self.to_state @ pair).T)
        elif product == "sparse":
            result = np.asarray(self.step @ (self.step @ M).T)
        else:
            if self.dense is None:
                self.dense = self.step.toarray()
            result = np.asarray(self.dense @ (self.dense @ M).T)
        result += self.source
        n = self.model.next_state
        together = np.einsum("sk,skab->sab", self.prob, pair[n[:, :, :, None], n[:, :, None, :]])
        together *= self.model.discount**2
        together += self.same_state
        same = np.arange(S)
        result.reshape(S, A, S, A)[same, :, same, :] = together
        np.fill_diagonal(result, self.square + self.model.discount * (self.step @ M.diagonal()))
        return result

    def start(self) -> Floats:
        """Return the second moments of constant returns."""
        return np.asarray(np.multiply.outer(self.mean, self.mean))

    def run(self, accuracy: float, product: Product) -> tuple[Floats, int]:
        """Return M and the number of sweeps until γ²‖residual‖∞/(1 − γ²) ≤ `accuracy` times the largest variance."""
        square = self.model.discount**2
        M, sweeps = self.start(), 0
        while True:
            new = self.sweep(M, product)
            sweeps += 1
            if sweeps % LOOK_EVERY == 0:
                M -= new
                if square * largest(M) / (1 - square) <= accuracy * self.largest_variance(new):
                    return new, sweeps
            M = new

    def largest_variance(self, M: Floats) -> float:
        """Return max Var Z(x) for a table of second moments."""
        return float((M.diagonal() - self.mean**2).max())

    def covariance(self, M: Floats) -> Floats:
        """Return the covariances of the returns of each state's actions, [S, A, A]."""
        S, _, A = self.model.shape
        same = np.arange(S)
        mean = self.mean.reshape(S, A)
        return np.asarray(M.reshape(S, A, S, A)[same, :, same, :] - mean[:, :, None] * mean[:, None, :])
