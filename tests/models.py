"""Random models and couplings that the tests share."""

from __future__ import annotations

import numpy as np

import jmdp

COUPLINGS = [
    regime(luck) for regime in (jmdp.Local, jmdp.Synchronous, jmdp.Independent) for luck in ("independent", "shared")
]


def random_problem(
    rng: np.random.Generator,
    *,
    states: int = 8,
    scenarios: int = 4,
    actions: int = 4,
    discounts: tuple[float, ...] = (0.0, 0.5, 0.9, 0.97),
    bounds: tuple[float, ...] = (1.0,),
    common_prob: bool = True,
) -> tuple[jmdp.TabularJMDP, jmdp.TabularPolicy]:
    """A model of at most these sizes, with a policy: sparse or dense, terminals or none, any sign of rewards."""
    S, K, A = (int(rng.integers(1, most + 1)) for most in (states, scenarios, actions))
    rows = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 5.0])), size=1 if common_prob else S)
    prob = np.broadcast_to(rows, (S, K))
    sign = rng.choice(["positive", "negative", "mixed", "few"])
    reward = rng.random((S, K, A))
    if sign == "negative":
        reward = -reward
    elif sign == "mixed":
        reward = 2 * reward - 1
    elif sign == "few":
        reward = np.where(reward < 0.3, 1.0, 0.0)
    reward *= rng.choice(bounds)
    near = rng.integers(0, S, size=(S, 1, 1)) + rng.integers(0, 3, size=(S, K, A))
    anywhere = rng.integers(0, S, size=(S, K, A))
    next_state = np.where(rng.random((S, K, A)) < rng.random(), near % S, anywhere)
    terminal = rng.random(S) < rng.choice([0.0, 0.0, 0.3])
    model = jmdp.TabularJMDP(prob, reward, next_state, float(rng.choice(discounts)), terminal)
    kind = rng.choice(["uniform", "deterministic", "dirichlet", "rounded"])
    if kind == "uniform":
        return model, jmdp.TabularPolicy.uniform(model)
    if kind == "deterministic":
        return model, jmdp.TabularPolicy.deterministic(model, rng.integers(0, A, S))
    probs = rng.dirichlet(np.ones(A), size=S)
    if kind == "rounded":
        probs = np.floor(probs * 8) / 8
        probs[np.arange(S), probs.argmax(axis=1)] += 1 - probs.sum(axis=1)
    return model, jmdp.TabularPolicy(probs)
