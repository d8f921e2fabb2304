"""Random ordinary MDPs that the tests of couplings share."""

from __future__ import annotations

import numpy as np

from jmdp.models.marginals import Marginals


def random_marginals(
    rng: np.random.Generator, *, states: int = 5, actions: int = 3, outcomes: int = 4, ends: float = 0.3
) -> Marginals:
    """Marginals of at most these sizes: probabilities with and without coinciding breakpoints, repeated outcomes."""
    S, A = int(rng.integers(1, states + 1)), int(rng.integers(1, actions + 1))
    terminal = rng.random(S) < rng.choice([0.0, ends])
    count = rng.integers(1, outcomes + 1, (S, A))
    prob = np.concatenate([_row(rng, n) for n in count.ravel()])
    N = prob.size
    reward = rng.choice([rng.integers(-1, 2, N).astype(float), rng.normal(size=N)])
    following = rng.integers(0, min(S, int(rng.integers(1, 4))), N)
    discount = float(rng.choice([0.0, 0.5, 0.9]))
    return Marginals(count, prob, reward, following, discount, terminal)


def _row(rng: np.random.Generator, n: int) -> np.ndarray:
    """Probabilities that are even, dyadic with zeros, tenths, any, or with one that is rare."""
    kind = rng.choice(["even", "dyadic", "tenths", "any", "rare"])
    if kind == "even":
        return np.full(n, 1 / n)
    if kind == "dyadic":
        return rng.multinomial(8, np.full(n, 1 / n)) / 8
    if kind == "tenths":
        return rng.multinomial(10, np.full(n, 1 / n)) / 10
    row = rng.dirichlet(np.ones(n))
    if kind == "rare":
        row[rng.integers(n)] = 1e-9
    return row / row.sum()


def random_dense(
    rng: np.random.Generator, S: int = 6, A: int = 3, discount: float = 0.9
) -> tuple[np.ndarray, np.ndarray, float]:
    """Rewards R [S, A], transition probabilities Q [S, A, S] with zeros, and a discount."""
    Q = rng.dirichlet(np.ones(S), size=(S, A)) * (rng.random((S, A, S)) < 0.6)
    Q[np.arange(S)[:, None], np.arange(A), rng.integers(0, S, (S, A))] += 0.3
    return rng.normal(size=(S, A)), Q / Q.sum(axis=2, keepdims=True), discount
