"""Shares of a gap's variance by source and the value of knowing one, from their definitions; shares row by row.

A `SmallTable` has two independent sources in every step and a finite horizon, so all that can happen can be listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

import jmdp


@dataclass(frozen=True, eq=False)
class SmallTable:
    """Rewards and next states [S, U, W, A] under outcomes of the sources u and w; a policy [S], followed after a start.

    With `local`, each state has draws of its own, else one draw a step applies to all.
    """

    u: np.ndarray
    w: np.ndarray
    reward: np.ndarray
    next_state: np.ndarray
    policy: np.ndarray
    horizon: int = 3
    local: bool = False

    @classmethod
    def random(cls, seed, *, states=2, outcomes=(2, 2), actions=2, horizon=3, local=False):
        """A random table."""
        rng = np.random.default_rng(seed)
        shape = (states, *outcomes, actions)
        u, w = (rng.dirichlet(np.full(n, 2.0)) for n in outcomes)
        reward, following = rng.normal(size=shape), rng.integers(0, states, shape)
        return cls(u, w, reward, following, rng.integers(0, actions, states), horizon, local)

    @property
    def model(self):
        """The same as a table for jmdp."""
        S, *_, A = self.reward.shape
        prob = np.tile(np.outer(self.u, self.w).ravel(), (S, 1))
        sources = {"u": self.u.size, "w": self.w.size}
        parts = (table.reshape(S, -1, A) for table in (self.reward, self.next_state))
        return jmdp.TabularJMDP(prob, *parts, 0.5, sources=sources)

    @property
    def draws(self):
        """Number of draws of each source: one a step, or one a step and state."""
        return self.horizon * (len(self.policy) if self.local else 1)

    def returns(self, u, w, action):
        """[n], sums of rewards from state 0 with draws [n, draws] of both sources."""
        n, S = len(u), len(self.policy)
        state, total, taken = np.zeros(n, int), np.zeros(n), np.full(n, action)
        for t in range(self.horizon):
            at = t * S + state if self.local else np.full(n, t)
            here = state, u[np.arange(n), at], w[np.arange(n), at], taken
            total, state = total + self.reward[here], self.next_state[here]
            taken = self.policy[state]
        return total

    def listed(self):
        """Returns [U paths, W paths, A] for all that can happen, and the probabilities of the paths of each source."""
        paths = [np.array(list(product(range(p.size), repeat=self.draws))) for p in (self.u, self.w)]
        chances = [p[path].prod(axis=1) for p, path in zip((self.u, self.w), paths, strict=True)]
        first, second = np.repeat(paths[0], len(paths[1]), axis=0), np.tile(paths[1], (len(paths[0]), 1))
        found = [self.returns(first, second, a) for a in range(self.reward.shape[3])]
        return np.stack(found, axis=-1).reshape(len(paths[0]), len(paths[1]), -1), chances

    def variances(self):
        """Var G, Var(E[G | u]) and Var(E[G | w]) of the gap between actions 0 and 1."""
        returns, (p, q) = self.listed()
        return variances(returns[..., 0] - returns[..., 1], p, q)

    def value_of_knowing_u(self):
        """E[max_a E(Z_a | u)] − max_a E(Z_a)."""
        returns, (p, q) = self.listed()
        known = np.einsum("uwa,w->ua", returns, q)
        return float(p @ known.max(axis=1) - (p @ known).max())

    def sampled(self, rng, n, again):
        """Draws [n, draws] of each source, as many times as `again` says."""
        return [
            [rng.choice(p.size, (n, self.draws), p=p) for _ in range(many)]
            for p, many in zip((self.u, self.w), again, strict=True)
        ]


def variances(values, p, q):
    """Var(values[u, w]), Var(E[· | u]) and Var(E[· | w]) for independent u and w with these probabilities."""
    mean = p @ values @ q
    return (
        float(p @ values**2 @ q - mean**2),
        float(p @ (values @ q) ** 2 - mean**2),
        float(q @ (p @ values) ** 2 - mean**2),
    )


def pseudo_shares(a, b, m):
    """Pseudo-values [n, 2] of the jackknife, one row left out at a time."""
    n = len(a)
    whole = np.array(shares(a, b, m))
    left = [shares(*(np.delete(values, i) for values in (a, b, m))) for i in range(n)]
    return n * whole - (n - 1) * np.array(left)


def shares(a, b, m):
    """First-order and total share: regression of m on b and a, in units of their standard deviations."""
    mean = np.mean([a, b, m])

    def correlation(x, y):
        return 2 * np.sum((x - mean) * (y - mean)) / np.sum((x - mean) ** 2 + (y - mean) ** 2)

    matrix = np.array([[1.0, correlation(a, b)], [correlation(a, b), 1.0]])
    of_b, of_a = np.linalg.solve(matrix, [correlation(b, m), correlation(a, m)])
    return of_b, 1 - of_a
