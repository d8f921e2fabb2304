"""Evidence: how often the intervals of a review miss the truth, which is known for tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from review_worlds import rare_table, skewed_table, table_of, truncated_values

import jmdp

Problem = tuple[jmdp.TabularJMDP, jmdp.TabularPolicy, jmdp.TabularPolicy | None]
"""Table, policy and reference."""


def _random(seed: int) -> Problem:
    model, policy, reference, _ = table_of(seed)
    return model, policy, reference if seed % 2 else None


def _rare(chance: float) -> Problem:
    model = rare_table(chance)
    return model, jmdp.TabularPolicy(np.array([[0.5, 0.5]] * 3)), None


def _skewed(own: bool) -> Problem:
    model = skewed_table()
    policy = jmdp.TabularPolicy(np.array([[0.3, 0.7]] * 4))
    return model, policy, None if own else jmdp.TabularPolicy.deterministic(model, np.array([1, 0, 1, 0]))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "random table 1": lambda: _random(1),
    "random table 3": lambda: _random(3),
    "random table 8": lambda: _random(8),
    "skewed rewards": lambda: _skewed(True),
    "skewed rewards, other reference": lambda: _skewed(False),
    "reward of chance 0.1": lambda: _rare(0.1),
    "reward of chance 0.02": lambda: _rare(0.02),
    "reward of chance 0.002": lambda: _rare(0.002),
}


def misses(name: str, samples: int, episodes: int, steps: int = 3, seed: int = 0) -> dict[str, tuple[int, int]]:
    """Numbers of intervals that miss the truth, and of all of them, for each quantity of `RolloutValues`."""
    model, policy, reference = PROBLEMS[name]()
    S = model.shape[0]
    settings: dict[str, Any] = {} if reference is None else {"reference": reference}
    reviews: Any = jmdp.review(
        model, policy, seed=seed, episodes=episodes, starts=list(range(S)), steps=range(steps),
        method=jmdp.reviews.RolloutValues(samples), progress=False, **settings,
    )  # fmt: skip
    probs = (policy if reference is None else reference).probs
    truth = truncated_values(model, probs, reviews[0].end)
    missed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for one in reviews:
        for quantity, estimate, true in _pairs(one, truth, probs, model.terminal):
            room = 1e-9 * (1 + abs(true))
            missed[quantity] += not estimate.low - room <= true <= estimate.high + room
            total[quantity] += 1
    return {quantity: (missed[quantity], total[quantity]) for quantity in total}


def _pairs(review: Any, truth: list[np.ndarray], probs: np.ndarray, terminal: np.ndarray) -> Any:
    """Quantities with their estimates and true values."""
    found, T = review.trajectory, len(review)
    q = [truth[review.end - review.first - t][int(found.states[t])] for t in range(T + 1)]
    v = [float(probs[int(s)] @ q[t]) * (not terminal[int(s)]) for t, s in enumerate(found.states)]
    if found.terminated:
        v[T] = 0.0
    taken, rewards, weights = found.actions, found.rewards, review.weights
    lucks = [rewards[t] + review.discount * v[t + 1] - q[t][taken[t]] for t in range(T)]
    skills = [q[t][taken[t]] - v[t] for t in range(T)]
    regrets = [q[t].max() - q[t][taken[t]] for t in range(T)]
    for t, one in enumerate(review.decisions):
        yield "value", one.value, v[t]
        yield "action value", one.action_value, q[t][taken[t]]
        yield "skill", one.skill, skills[t]
        yield "luck", one.luck, lucks[t]
        yield "regret", one.regret, regrets[t]
    yield "expectation", review.expectation, v[0]
    yield "skill, sum", review.skill, float(weights[:-1] @ skills)
    yield "luck, sum", review.luck, float(weights[:-1] @ lucks)
    yield "regret, sum", review.regret, float(weights[:-1] @ regrets)


def average_misses(
    name: str, episodes: int, repetitions: int, *, truth: int = 20_000, seed: int = 1
) -> dict[str, tuple[int, int, int]]:
    """Misses of the averages over episodes: mean, corrected mean, shares and episodes_factor.

    The truth of the mean is exact; that of the others is estimated from `truth` episodes. Values are those of a rough
    value function, so that the correction is not perfect. The third number counts answers without an interval.
    """
    model, policy, reference = PROBLEMS[name]()
    S = model.shape[0]
    settings: dict[str, Any] = {} if reference is None else {"reference": reference}
    rough = _Rough(truncated_values(model, policy.probs, 200)[-1].max(axis=1))
    reviews: Any = jmdp.review(
        model, policy, seed=seed, episodes=episodes * repetitions + truth, starts=list(range(S)), horizon=8,
        method=jmdp.reviews.LookaheadValues(rough), progress=False, **settings,
    )  # fmt: skip
    every = list(reviews)
    large = _moments(every[episodes * repetitions :])
    q = truncated_values(model, policy.probs, 8)[-1]
    exact = float(np.mean(np.where(model.terminal, 0.0, (policy.probs * q).sum(axis=1))))
    found: dict[str, list[int]] = {}
    for r in range(repetitions):
        part = jmdp.reviews.Reviews.of(every[r * episodes : (r + 1) * episodes], episodes)
        pairs = [("mean", part.mean, exact), ("corrected", part.corrected, exact)]
        pairs += [(f"share of {name}", part.shares[name], large[name]) for name in part.shares]
        pairs.append(("episodes_factor", part.episodes_factor, large["factor"]))
        for quantity, estimate, true in pairs:
            counts = found.setdefault(quantity, [0, 0, 0])
            counts[0] += not estimate.low <= true <= estimate.high
            counts[1] += 1
            counts[2] += not estimate.has_interval
    return {quantity: (a, b, c) for quantity, (a, b, c) in found.items()}


class _Rough:
    """A value function that is wrong in a fixed way."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __call__(self, state: int) -> float:
        return float(0.8 * self.values[int(state)] + 0.1 * (int(state) % 2))


def _moments(reviews: list[Any]) -> dict[str, float]:
    parts = {
        name: np.array([float(getattr(one, part)) for one in reviews])
        for name, part in (("start", "expectation"), ("skill", "skill"), ("luck", "luck"))
    }
    parts["start"] = parts["start"] - np.array([float(one.final) for one in reviews])
    whole = earned = np.array([one.earned for one in reviews])
    kept = earned - parts["luck"] - (reviews[0].reference is None) * parts["skill"]
    shares = {name: float(np.cov(part, whole)[0, 1] / np.var(whole, ddof=1)) for name, part in parts.items()}
    return {**shares, "factor": float(earned.var() / kept.var())}
