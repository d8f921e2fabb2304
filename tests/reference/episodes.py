"""Several policies on a table: exact moments of their gap, and episodes one number at a time.

`gap_moments` solves for the gap of two policies on pairs of states. `episode_return` is the slow twin of
`jmdp.methods.kernels.branches`: the same numbers by Python's integers.
"""

from __future__ import annotations

import itertools

import numpy as np

WORD = 2**64 - 1


def joint_choices(p, q, shared):
    """[A, A], the joint distribution of two policies' actions."""
    if not shared:
        return np.outer(p, q)
    low, high = (np.concatenate([[0.0], np.cumsum(x)[:-1]]) for x in (p, q)), (np.cumsum(x) for x in (p, q))
    (a0, b0), (a1, b1) = low, high
    return np.maximum(0.0, np.minimum(a1[:, None], b1) - np.maximum(a0[:, None], b0))


def gap_moments(model, first, second, coupling, starts):
    """Mean and variance of Z_first − Z_second, and those of both returns, with starts {state: probability}.

    g1(s, t) = E[d + γ g1(s', t')] and g2(s, t) = E[d² + 2 γ d g1(s', t') + γ² g2(s', t')] on pairs of states, the
    reward d being that of the first less that of the second.
    """
    S, K, A = model.shape
    steps, gain, square, cross = np.zeros((4, S, S, S, S))
    for s, t in itertools.product(range(S), range(S)):
        if coupling.shared_between_states or (coupling.shared_in_a_state and s == t):
            scenarios = [(k, k, model.prob[s if not model.terminal[s] else t, k]) for k in range(K)]
        else:
            scenarios = [(k, m, model.prob[s, k] * model.prob[t, m]) for k in range(K) for m in range(K)]
        actions = joint_choices(first[s], second[t], coupling.policy_luck == "shared")
        for (k, m, p), a, b in itertools.product(scenarios, range(A), range(A)):
            chance = p * actions[a, b]
            x, n = (0.0, s) if model.terminal[s] else (model.reward[s, k, a], model.next_state[s, k, a])
            y, after = (0.0, t) if model.terminal[t] else (model.reward[t, m, b], model.next_state[t, m, b])
            steps[s, t, n, after] += chance
            gain[s, t, n, after] += chance * (x - y)
            square[s, t, n, after] += chance * (x - y) ** 2
    P, discount = steps.reshape(S * S, S * S), model.discount
    mean = np.linalg.solve(np.eye(S * S) - discount * P, gain.sum((2, 3)).ravel())
    cross = (gain.reshape(S * S, S * S) * mean).sum(1)
    second_moment = np.linalg.solve(np.eye(S * S) - discount**2 * P, square.sum((2, 3)).ravel() + 2 * discount * cross)
    together = coupling.shared_in_a_state
    pairs = {(s, t): (p if s == t else 0.0) if together else p * starts[t] for s, p in starts.items() for t in starts}
    m1 = sum(p * mean[s * S + t] for (s, t), p in pairs.items())
    m2 = sum(p * second_moment[s * S + t] for (s, t), p in pairs.items())
    return m1, m2 - m1**2


def mixed(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def uniform(key, t, place):
    z = mixed((key + (t + 1) * 0x9E3779B97F4A7C15) & WORD)
    return (mixed((z + place * 0xD1B54A32D192ED03) & WORD) >> 11) * 2.0**-53


def episode_return(model, policy, coupling, keys, starts, discount, horizon, branch):
    """The return of one policy in one sample, where it started, and how many steps it took."""
    own = branch + 1
    start, steps, policies = (int(key) for key in keys)
    states, cumulative = starts
    s = int(states[np.searchsorted(cumulative, uniform(start, 0, 0 if coupling.shared_in_a_state else own), "right")])
    begun, total, taken = s, 0.0, 0
    for t in range(horizon):
        if model.terminal[s]:
            break
        u = uniform(policies, t, 0 if coupling.policy_luck == "shared" else own)
        a = min(int(np.searchsorted(np.cumsum(policy[s]), u, "right")), policy.shape[1] - 1)
        place = 0 if coupling.shared_between_states else (s + 1 if coupling.shared_in_a_state else own)
        k = min(int(np.searchsorted(np.cumsum(model.prob[s]), uniform(steps, t, place), "right")), model.shape[1] - 1)
        total += discount**t * model.reward[s, k, a]
        s, taken = int(model.next_state[s, k, a]), taken + 1
    return total, begun, taken
