"""Projected JIPE-2 written out on all pairs of coordinates, dense: weights, operator and projections.

Nothing here is shared with the package but the model. The cone is projected on by projected gradient steps.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from reference.pair_chain import next_actions


def pair_kernel(model, policy, coupling):
    """P₂ [X², X²] with the diagonal absorbing (branches on one coordinate are one); ended pairs are lost."""
    S, K, A = model.shape
    X, n, draws = S * A, model.next_state, next_actions(policy, coupling)
    kernel = np.zeros((X, X, X, X))
    for (s, a), (t, b) in product(product(range(S), range(A)), repeat=2):
        if model.terminal[s] or model.terminal[t]:
            continue
        x, y = s * A + a, t * A + b
        one = s == t or coupling.shared_between_states
        for k, m in product(range(K), repeat=2):
            p = (model.prob[s, k] if k == m else 0.0) if one else model.prob[s, k] * model.prob[t, m]
            i, j = n[s, k, a], n[t, m, b]
            if p == 0 or model.terminal[i] or model.terminal[j]:
                continue
            for c, d in product(range(A), repeat=2):
                drawn = policy.probs[i, c] * (c == d) if x == y else draws[i, j, c, d]
                kernel[x, y, i * A + c, j * A + d] += p * drawn
    return kernel.reshape(X * X, X * X)


def chain(model, policy):
    """P_π [X, X] and expected rewards [X]."""
    S, K, A = model.shape
    P, r = np.zeros((S, A, S, A)), np.zeros((S, A))
    for s, k, a in product(range(S), range(K), range(A)):
        if not model.terminal[s]:
            r[s, a] += model.prob[s, k] * model.reward[s, k, a]
            i = model.next_state[s, k, a]
            if not model.terminal[i]:
                P[s, a, i] += model.prob[s, k] * policy.probs[i]
    return P.reshape(S * A, S * A), r.ravel()


def start(model):
    """Uniform on pairs of actions of one state [X, X]."""
    A = model.shape[2]
    going = (~model.terminal).astype(float)
    return np.kron(np.diag(going), np.ones((A, A))) / (A * A * going.sum())


def restart_weights(model, policy, coupling, alpha, kernel=None):
    """w [X, X] and ν [X], by solving (I − α P₂ᵀ) w = (1 − α) w₀."""
    kernel = pair_kernel(model, policy, coupling) if kernel is None else kernel
    w0, (P, _) = start(model), chain(model, policy)
    X = len(P)
    w = np.linalg.solve(np.eye(X * X) - alpha * kernel.T, (1 - alpha) * w0.ravel())
    nu = np.linalg.solve(np.eye(X) - alpha * P.T, (1 - alpha) * w0.sum(axis=1))
    return np.maximum(w, 0).reshape(X, X), np.maximum(nu, 0)


def step_moments(model, policy, coupling, mean, reward_only=False):
    """E[u ũ] [X, X] with u = r + γ μ(x') − μ(x); with reward_only, E[(r + γ μ')(r̃ + γ μ̃')] − γ² E[μ' μ̃']."""
    S, K, A = model.shape
    gamma, n, draws = model.discount, model.next_state, next_actions(policy, coupling)
    mean = mean.reshape(S, A)
    found = np.zeros((S, A, S, A))
    for (s, a), (t, b) in product(product(range(S), range(A)), repeat=2):
        if model.terminal[s] or model.terminal[t]:
            continue
        one = s == t or coupling.shared_between_states
        for k, m in product(range(K), repeat=2):
            p = (model.prob[s, k] if k == m else 0.0) if one else model.prob[s, k] * model.prob[t, m]
            i, j = n[s, k, a], n[t, m, b]
            if p == 0:
                continue
            for c, d in product(range(A), repeat=2):
                drawn = policy.probs[i, c] * (c == d) if (s, a) == (t, b) else draws[i, j, c, d]
                r, q, f, g = model.reward[s, k, a], model.reward[t, m, b], gamma * mean[i, c], gamma * mean[j, d]
                gained = r * q + r * g + f * q if reward_only else (r + f - mean[s, a]) * (q + g - mean[t, b])
                found[s, a, t, b] += p * drawn * gained
    return found.reshape(S * A, S * A)


class Projected:
    """One problem: norms, the operator T and the projections of both parts."""

    def __init__(self, model, policy, coupling, phi, w, nu, kernel, psi=None, target="covariance"):
        self.model, self.policy, self.coupling, self.target = model, policy, coupling, target
        self.phi, self.w, self.nu, self.kernel = phi, w, nu, kernel
        self.P, self.r = chain(model, policy)
        A = model.shape[2]
        state = np.arange(len(phi)) // A
        self.same = state[:, None] == state[None, :]
        self.psi = np.zeros((len(phi), 0)) if psi is None else psi

    def mean_norm(self, f):
        return np.sqrt((self.nu * f**2).sum())

    def norm(self, f):
        return np.sqrt((self.w * f**2).sum())

    def contractions(self):
        """Largest (w P₂)/w and (ν P_π)/ν on their supports."""
        w, ahead = self.w.ravel(), self.w.ravel() @ self.kernel
        assert ahead[w <= 0].max(initial=0) <= 1e-12 * ahead.max(initial=1)
        nu_ahead = self.nu @ self.P
        big, large = w > 1e-14 * w.max(), self.nu > 1e-14 * self.nu.max()
        return (ahead[big] / w[big]).max(), (nu_ahead[large] / self.nu[large]).max()

    def step_mean(self, mean):
        return self.r + self.model.discount * self.P @ mean

    def step(self, mean, k):
        source = step_moments(self.model, self.policy, self.coupling, mean, self.target == "second_moment")
        return source + self.model.discount**2 * (self.kernel @ k.ravel()).reshape(k.shape)

    def project_mean(self, f):
        root = np.sqrt(self.nu)[:, None]
        return self.phi @ np.linalg.lstsq(root * self.phi, root[:, 0] * f, rcond=1e-12)[0]

    def kernel_of(self, theta, lam):
        return self.phi @ theta @ self.phi.T + self.same * (self.psi @ lam @ self.psi.T)

    def project(self, f, steps=20000):
        """The nearest kernel with Θ, Λ positive semidefinite: accelerated projected gradient on whitened features."""
        root = np.sqrt(self.w).ravel()[:, None]
        phi, psi = self._whitened(self.phi), self._whitened(self.psi)
        design = np.einsum("xi,yj->xyij", phi, phi).reshape(len(phi) ** 2, -1)
        own = np.einsum("xy,xi,yj->xyij", self.same, psi, psi).reshape(len(phi) ** 2, -1)
        design = root * np.concatenate([design, own], axis=1)
        Q, b = design.T @ design, design.T @ (root[:, 0] * ((f + f.T) / 2).ravel())
        top = np.linalg.norm(Q, 2) + 1e-300
        d, e = phi.shape[1], psi.shape[1]
        here = ahead = np.zeros(d * d + e * e)
        t = 1.0
        for _ in range(steps):
            slope = Q @ ahead - b
            new = ahead - slope / top
            new = np.concatenate(
                [_clipped(new[: d * d].reshape(d, d)).ravel(), _clipped(new[d * d :].reshape(e, e)).ravel()]
            )
            if (new - here) @ slope > 0:
                t = 1.0
            following = (1 + np.sqrt(1 + 4 * t * t)) / 2
            ahead = new + (t - 1) / following * (new - here)
            moved = np.abs(new - here).max(initial=0)
            here, t = new, following
            if moved <= 1e-12 * np.abs(new).max(initial=0):
                break
        theta, lam = here[: d * d].reshape(d, d), here[d * d :].reshape(e, e)
        return phi @ theta @ phi.T + self.same * (psi @ lam @ psi.T)

    def _whitened(self, features):
        if not features.shape[1]:
            return features
        _, values, vectors = np.linalg.svd(np.sqrt(self.nu)[:, None] * features, full_matrices=False)
        kept = values > 1e-10 * values.max()
        return features @ vectors[kept].T / values[kept]


def _clipped(matrix):
    if not matrix.size:
        return matrix
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 0)) @ vectors.T
