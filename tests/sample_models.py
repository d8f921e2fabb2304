"""Random models and couplings that the tests share."""

from __future__ import annotations

import numpy as np

import jmdp
from jmdp.base.arrays import Floats

COUPLINGS = [
    coupling(luck)
    for coupling in (jmdp.Local, jmdp.Synchronous, jmdp.Independent)
    for luck in ("independent", "shared")
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


EXTREME_DISCOUNTS = (0.0, 1e-320, 1e-300, 1e-160, 1e-8, 0.5, 0.9, 0.99, 1 - 2.0**-20, 1 - 2.0**-40, 1 - 2.0**-53)


def extreme_problem(
    rng: np.random.Generator,
    coupling: jmdp.Coupling,
    *,
    sizes: tuple[int, int, int] = (3, 2, 2),
    ends: bool = False,
    discounts: tuple[float, ...] = EXTREME_DISCOUNTS,
) -> tuple[jmdp.TabularJMDP, jmdp.TabularPolicy]:
    """A small model with rewards from 1e-320 to 1e150 and any discount, and a policy; one that ends, if asked for."""
    S, K, A = (int(rng.integers(1, most + 1)) for most in sizes)
    S, A = S + ends, max(A, 2 if rng.random() < 0.8 else 1)
    discount = float(rng.choice(discounts))
    common = coupling.shared_between_states or rng.random() < 0.3
    prob = np.array([extreme_row(rng, K)] * S if common else [extreme_row(rng, K) for _ in range(S)])
    policy = np.array([extreme_row(rng, A) for _ in range(S)])
    if rng.random() < 0.2:
        policy[:] = policy[0]
    if ends:
        following = [rng.integers(s + 1, S, (K, A)) if s < S - 1 else np.full((K, A), s) for s in range(S)]
        terminal = np.arange(S) == S - 1
    else:
        following = list(rng.integers(0, S, (S, K, A)))
        terminal = rng.random(S) < rng.choice([0.0, 0.3])
    reward = _extreme_rewards(rng, (S, K, A), 0.9e150 * (1 - discount))
    return jmdp.TabularJMDP(prob, reward, np.array(following), discount, terminal), jmdp.TabularPolicy(policy)


def extreme_row(rng: np.random.Generator, n: int) -> np.ndarray:
    """A row of probabilities: certain, even, dyadic, any, off by rounding, or with one that is rare."""
    kind = rng.choice(["certain", "even", "dyadic", "any", "rounded", "rare"])
    row = rng.dirichlet(np.ones(n))
    if kind == "certain":
        row = np.eye(n)[rng.integers(n)]
    elif kind == "even":
        row = np.full(n, 1 / n)
    elif kind == "dyadic":
        row = rng.multinomial(8, np.full(n, 1 / n)) / 8
    elif kind == "rounded":
        row = row * (1 + rng.integers(-n, n + 1) * 2.2e-16)
    elif kind == "rare" and n > 1:
        row = np.zeros(n)
        rare, usual = rng.permutation(n)[:2]
        row[usual], row[rare] = 1.0, rng.choice([5e-324, 1e-300, 1e-160, 1e-60, 1e-17, 2.0**-53, 1e-9])
    return row


def _extreme_rewards(rng: np.random.Generator, shape: tuple[int, ...], most: float) -> np.ndarray:
    """Rewards of one scale, of many, around an offset, sparse, equal, or whole multiples of one number."""

    def scale(size: tuple[int, ...] = ()) -> np.ndarray:
        return 10.0 ** rng.uniform(-320, np.log10(most), size)

    kind = rng.choice(["one", "many", "offset", "sparse", "equal", "multiples"])
    reward = rng.normal(size=shape)
    if kind == "one":
        reward *= scale()
    elif kind in ("many", "sparse"):
        reward = np.sign(reward) * scale(shape)
        if kind == "sparse":
            reward *= rng.random(shape) < 0.4
    elif kind == "offset":
        reward = scale() * (1 + reward * 10.0 ** rng.uniform(-17, 0))
    elif kind == "equal":
        reward = np.full(shape, float(rng.choice([-1, 1]) * scale()))
    else:
        reward = rng.integers(-2, 3, shape) * scale()
    return np.clip(reward, -most, most)


def some_features(rng: np.random.Generator, model: jmdp.TabularJMDP, most: int = 4) -> Floats:
    """Fewer random features than coordinates."""
    S, _, A = model.shape
    return rng.standard_normal((S * A, int(rng.integers(1, most + 1)))) * ~np.repeat(model.terminal, A)[:, None]


def ergodic(rng: np.random.Generator, discount: float = 0.9) -> tuple[jmdp.TabularJMDP, jmdp.TabularPolicy]:
    """A random model whose states and actions are all visited for ever."""
    S, K, A = int(rng.integers(3, 6)), 3, int(rng.integers(2, 4))
    prob = np.broadcast_to(rng.dirichlet(np.ones(K)), (S, K))
    next_state = rng.integers(0, S, (S, K, A))
    next_state[:, 0, :] = (np.arange(S)[:, None] + rng.integers(0, 2, (S, A))) % S
    next_state[:, 0, 0] = (np.arange(S) + 1) % S
    model = jmdp.TabularJMDP(prob, rng.random((S, K, A)), next_state, discount)
    return model, jmdp.TabularPolicy(0.9 * rng.dirichlet(np.ones(A), S) + 0.1 / A)
