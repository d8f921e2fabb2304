"""Kim & Nelson's fully sequential procedure, one pair of alternatives after the other."""

from __future__ import annotations

import numpy as np


def select(returns, delta, error, n0):
    """Selected alternative and rollouts, from samples [n, k]; the condition is that of the paper, in means."""
    k = returns.shape[1]
    h2 = 2 * 0.5 * ((2 * error / (k - 1)) ** (-2 / (n0 - 1)) - 1) * (n0 - 1)
    variance = {(i, j): np.var(returns[:n0, i] - returns[:n0, j], ddof=1) for i in range(k) for j in range(k)}
    active, rollouts, r = list(range(k)), n0 * k, n0
    while True:
        means = returns[:r].mean(axis=0)
        width = {pair: max(0.0, delta / (2 * r) * (h2 * s2 / delta**2 - r)) for pair, s2 in variance.items()}
        active = [i for i in active if all(means[i] >= means[j] - width[i, j] for j in active if j != i)]
        if len(active) == 1:
            return active[0], rollouts
        r += 1
        rollouts += len(active)
