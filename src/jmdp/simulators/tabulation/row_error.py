"""Error of sampled probabilities, without any knowledge of the outcomes that were not seen.

Let P be the distribution of the joint outcome in a state and Q the frequencies of n independent samples, with n_x of
outcome x. TV(P, Q) = sup_A P(A) − Q(A) is the total variation distance. Let W = Σ_x E|S(n_x)| with the simple symmetric
random walk S. For every P, also one with infinitely many outcomes:

- TV(P, Q) ≤ E TV + √(L/2n) with probability ≥ 1 − e^−L, because one sample changes TV by at most 1/n (McDiarmid);
- E TV ≤ E W/n, by symmetrisation: W/2n is the empirical Rademacher complexity of the class of all sets;
- E W ≤ W + L + √(2WL + L²) with probability ≥ 1 − e^−L: W is self-bounding (Boucheron, Lugosi and Massart, 2000).

Both hold with probability ≥ 1 − δ for L = ln(2/δ). This is the bound of Cohen, Kontorovich and Wolfer (Learning
discrete distributions with infinite support, 2020) with the third inequality in place of a second use of the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.models.tabular import TabularJMDP

_SWEEPS = 1000
"""Most sweeps of `return_error`; its result is valid after any number."""


def mean_distance(steps: int) -> float:
    """E|S(n)|, the mean distance from 0 of a symmetric random walk after n steps: 2j C(2j, j)/4^j with j = ⌈n/2⌉."""
    j = (steps + 1) // 2
    return 2 * j * math.exp(math.lgamma(2 * j + 1) - 2 * math.lgamma(j + 1) - 2 * j * math.log(2)) if j else 0.0


def row_error(counts: Iterable[int], chance: float) -> float:
    """Upper bound on TV(P, Q) that fails with at most this probability; `counts` are the n_x."""
    counts = list(counts)
    n, L = sum(counts), math.log(2 / chance)
    W = math.fsum(map(mean_distance, counts))
    return min(1.0, (W + L + math.sqrt(2 * W * L + L * L)) / n + math.sqrt(L / (2 * n)))


def chance_of(confidence: float, number: int) -> float:
    """Error probability of the sampled state with this number (from 1): (1 − confidence)/(j(j + 1)).

    They sum to 1 − confidence however many states are found. The samples of a state are independent of all that led to
    it, so the bounds hold jointly though the states themselves were found by sampling.
    """
    return (1 - confidence) / (number * (number + 1))


def return_error(model: TabularJMDP, error: Floats) -> Floats:
    """Upper bounds [S] on the errors of mean returns, of all policies, if rewards are in the range of those seen.

    The mean of r + γ V(s') in state s changes by at most error[s] · width, where width is that of the range of returns.
    So the error is at most width · D, with D(s) = error[s] + γ max_a E[D(s')] in the model (simulation lemma). Sweeps
    start above D and stay above it.
    """
    gamma, ends = model.discount, model.terminal
    width = (max(float(model.reward.max()), 0.0) - min(float(model.reward.min()), 0.0)) / (1 - gamma)
    found = np.where(ends, 0.0, error.max() / (1 - gamma))
    for _ in range(_SWEEPS):
        before, found = found, np.zeros_like(error)
        for a in range(model.shape[2]):
            ahead = np.einsum("sk,sk->s", model.prob, before[model.next_state[:, :, a]])
            np.maximum(found, np.where(ends, 0.0, error + gamma * ahead), out=found)
        if (before - found).max() <= 1e-3 * found.max():
            break
    return np.minimum(width * found, width)
