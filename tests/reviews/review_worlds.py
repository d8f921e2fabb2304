"""Small problems that the tests of reviews share, and their exact values to a horizon."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import jmdp
from sample_models import random_problem


def walk_reward(state, action, u):
    return float(state) * (action - 0.3) + u - 0.2 * action


def walk_next(state, action, u):
    return min(6, max(0, state + (1 if u < 0.3 + 0.3 * action else -1)))


def walk_over(state):
    return state == 6


def walk(observe=None) -> jmdp.simulators.FunctionSimulator:
    """A random walk on 0 … 6 that ends at 6, as functions."""
    seen = {} if observe is None else {"observe": observe}
    return jmdp.simulators.FunctionSimulator(walk_reward, walk_next, 2, start=2, terminal=walk_over, **seen)


def as_vector(state):
    return np.array([float(state), float(state % 3)])


def climb(observation):
    return int(np.ravel(observation)[0] < 4)


def erratic(observation, rng):
    return int(rng.random() < 0.3 + 0.1 * float(np.ravel(observation)[0]))


def linear_value(observation):
    return 0.7 * float(np.ravel(observation)[0]) - 1


def one_number(observation):
    return 0.0


def table_of(seed: int) -> tuple[jmdp.TabularJMDP, jmdp.TabularPolicy, jmdp.TabularPolicy, np.random.Generator]:
    """A random table, a policy of it and another one as reference."""
    rng = np.random.default_rng(seed)
    A = 1
    while A < 2:
        model, policy = random_problem(rng, discounts=(0.0, 0.5, 0.8, 0.9), bounds=(1.0, 100.0), common_prob=False)
        S, _, A = model.shape
    reference = (
        jmdp.TabularPolicy(rng.dirichlet(np.ones(A), S))
        if rng.random() < 0.5
        else jmdp.TabularPolicy.deterministic(model, rng.integers(0, A, S))
    )
    return model, policy, reference, rng


def rare_table(chance: float, reward: float = 100.0, discount: float = 0.8) -> jmdp.TabularJMDP:
    """Three states in a ring; action 1 earns a large reward with a small chance, action 0 a little for sure."""
    prob = np.array([[1 - chance, chance]] * 3)
    rewards = np.zeros((3, 2, 2))
    rewards[:, :, 0] = 0.5
    rewards[:, 1, 1] = reward
    following = np.array([[[1, 2], [1, 2]], [[2, 0], [2, 0]], [[0, 1], [0, 1]]])
    return jmdp.TabularJMDP(prob, rewards, following, discount)


def skewed_table(discount: float = 0.8) -> jmdp.TabularJMDP:
    """Four states whose rewards have the quantiles of a log-normal distribution; an action moves faster or slower."""
    from scipy.stats import norm

    K = 20
    sizes = np.exp(1.2 * norm.ppf((np.arange(K) + 0.5) / K))
    rewards = np.empty((4, K, 2))
    rewards[:, :, 0] = sizes
    rewards[:, :, 1] = 1.15 * np.roll(sizes, 3) - 0.1
    s, k, a = np.indices((4, K, 2))
    return jmdp.TabularJMDP(np.full((4, K), 1 / K), rewards, (s + 1 + (k * (a + 1)) % 3) % 4, discount)


def truncated_values(model: jmdp.TabularJMDP, probs: np.ndarray, horizon: int) -> list[np.ndarray]:
    """q [S, A] of 0 … horizon steps."""
    alive = ~model.terminal
    q = np.zeros((model.shape[0], model.shape[2]))
    found = [q]
    for _ in range(horizon):
        v = np.where(alive, (probs * q).sum(axis=1), 0.0)
        outcomes = model.reward + model.discount * v[model.next_state]
        q = np.einsum("sk,ska->sa", model.prob, outcomes) * alive[:, None]
        found.append(q)
    return found


@functools.cache
def gymnasium_table(name: str, **settings: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """An environment with the table P, its optimal action values [S, A], and the best actions [S]."""
    import gymnasium

    env = gymnasium.make(name, **settings)
    env.reset(seed=0)
    return env, *best_actions(env.unwrapped.P, 0.95)


def best_actions(outcomes: Any, discount: float) -> tuple[np.ndarray, np.ndarray]:
    """Optimal action values of a table P of Gymnasium, by value iteration, and the best actions."""
    S, A = len(outcomes), len(outcomes[0])
    v = np.zeros(S)
    for _ in range(2000):
        q = np.array(
            [
                [sum(p * (r + discount * v[n] * (not over)) for p, n, r, over in outcomes[s][a]) for a in range(A)]
                for s in range(S)
            ]
        )
        after = q.max(axis=1)
        if np.abs(after - v).max() < 1e-12:
            break
        v = after
    return q, q.argmax(axis=1)


def residual(review: Any) -> float:
    """|expectation + skill + luck − earned − final|, relative to the sum of the magnitudes of all terms."""
    total = float(review.expectation) + float(review.skill) + float(review.luck)
    size = abs(review.values[0].value) + abs(review.earned)
    for i, weight in enumerate(review.weights[:-1]):
        now, after = review.values[i], review.values[i + 1]
        parts = (review.trajectory.rewards[i], after.value, now.action_values[review.taken[i]], now.average, now.value)
        size += weight * sum(abs(float(part)) for part in parts)
    off = abs(total - review.earned - float(review.final))
    return off / size if size else off
