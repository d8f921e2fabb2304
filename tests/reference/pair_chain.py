"""The pair chain on (state, action)², written out whole and solved as one linear system in float64.

Nothing here is shared with the package: no shaping, no state pairs, no common luck. Two *distinct* branches stand on
coordinates x and y; where the coupling lets branches meet in a state share its table, two branches on one coordinate
are one and the same.
"""

from __future__ import annotations

import numpy as np


def next_actions(policy, coupling):
    """Psi[s, t, a, b]: joint distribution of the next actions of two distinct branches in states s and t."""
    pi = policy.probs
    if coupling.policy_luck == "independent":
        return pi[:, None, :, None] * pi[None, :, None, :]
    S, _ = pi.shape
    edges = np.concatenate([np.zeros((S, 1)), np.cumsum(pi, axis=1)], axis=1)
    low = np.maximum(edges[:, None, :-1, None], edges[None, :, None, :-1])
    high = np.minimum(edges[:, None, 1:, None], edges[None, :, None, 1:])
    return np.maximum(0.0, high - low)


def solve(model, policy, coupling):
    """Return mean [S, A], E[Z(x)²] [S, A], and E[Z(x) Z(y)] of distinct branches [S, A, S, A]."""
    S, K, A = model.shape
    gamma, X = model.discount, S * A
    p = np.where(model.terminal[:, None], 0.0, model.prob)
    r, n, pi = model.reward, model.next_state, policy.probs
    hop = np.zeros((S, K, A, S))  # 1{next_state[s, k, a] = s'}
    np.put_along_axis(hop, n[..., None], 1.0, axis=3)

    to_state = np.einsum("sk,skaz->saz", p, hop)
    chain = np.einsum("saz,zb->sazb", to_state, pi).reshape(X, X)
    reward = np.einsum("sk,ska->sa", p, r).ravel()
    mean = np.linalg.solve(np.eye(X) - gamma * chain, reward).reshape(S, A)
    ahead = np.einsum("zb,zb->z", pi, mean)  # mean of the return from state z on

    # One coordinate: the ordinary second moment.
    source = np.einsum("sk,ska->sa", p, r**2 + 2 * gamma * r * ahead[n]).ravel()
    square = np.linalg.solve(np.eye(X) - gamma**2 * chain, source).reshape(S, A)

    # Two branches: joint distribution of the next states, and E of the one-step part (everything but γ² Z' Z̃').
    joint = np.einsum("saz,tbw->satbzw", to_state, to_state)
    value = r + gamma * ahead[n]
    one = np.einsum("sk,ska->sa", p, value)
    later = np.einsum("sk,ska->sa", p, gamma * ahead[n])
    step = np.multiply.outer(one, one) - np.multiply.outer(later, later)

    def together(s, t):
        joint[s, :, t] = np.einsum("k,kaz,kbw->abzw", p[s], hop[s], hop[t])
        both = np.einsum("k,ka,kb->ab", p[s], value[s], value[t])
        step[s, :, t] = both - np.einsum("k,ka,kb->ab", p[s], gamma * ahead[n[s]], gamma * ahead[n[t]])

    for s in range(S):
        for t in range(S):
            if coupling.shared_between_states or (coupling.shared_in_a_state and s == t):
                if model.terminal[s] or model.terminal[t]:
                    joint[s, :, t], step[s, :, t] = 0.0, 0.0
                else:
                    together(s, t)
    kernel = np.einsum("satbzw,zwcd->satbzcwd", joint, next_actions(policy, coupling)).reshape(X * X, X * X)
    step = step.reshape(X * X).copy()
    if coupling.shared_in_a_state:
        one_and_the_same = np.arange(X) * (X + 1)
        kernel[one_and_the_same] = 0.0
        kernel[np.ix_(one_and_the_same, one_and_the_same)] = chain
        step[one_and_the_same] = source
    second = np.linalg.solve(np.eye(X * X) - gamma**2 * kernel, step)
    return mean, square, second.reshape(S, A, S, A)


def covariances(model, policy, coupling):
    """Return mean [S, A] and Cov(Z(x), Z(y)) [S, A, S, A]."""
    mean, square, second = solve(model, policy, coupling)
    S, A = mean.shape
    covariance = second - np.multiply.outer(mean, mean)
    for s in range(S):
        for a in range(A):
            covariance[s, a, s, a] = square[s, a] - mean[s, a] ** 2
    return mean, covariance
