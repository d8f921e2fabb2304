"""Evidence: the correction for luck is unbiased, and how many episodes it saves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from review_worlds import gymnasium_table, truncated_values

import jmdp
from jmdp.reviews.question import ReviewQuestion


def small_table() -> tuple[jmdp.TabularJMDP, jmdp.TabularPolicy]:
    """Four states, the last one terminal, and a random policy."""
    rng = np.random.default_rng(5)
    prob = rng.dirichlet(np.ones(3), 4)
    model = jmdp.TabularJMDP(
        prob, rng.normal(size=(4, 3, 2)) * 2, rng.integers(0, 4, (4, 3, 2)), 0.8, np.array([0, 0, 0, 1], bool)
    )
    return model, jmdp.TabularPolicy(rng.dirichlet(np.ones(2), 4))


@contextmanager
def no_folds() -> Iterator[None]:
    """Plant a bug: values are fitted to the episodes that they correct."""
    right = ReviewQuestion._fit

    def wrong(self: Any, trajectories: Any, group: int, folds: int) -> Any:
        return right(self, trajectories, -1, folds)  # no group is left out

    with mock.patch.object(ReviewQuestion, "_fit", wrong):
        yield


def bias(repetitions: int, episodes: int, folds: int, first: int = 0) -> tuple[float, float, float, float]:
    """Mean of `corrected` over repetitions, its standard error, that of the plain mean, and the exact value."""
    model, policy = small_table()
    corrected, plain = np.empty((2, repetitions))
    for r in range(repetitions):
        found: Any = jmdp.review(
            model, policy, seed=first + r, episodes=episodes, starts=[0, 1], horizon=10,
            method=jmdp.reviews.LookaheadValues(folds=folds), progress=False,
        )  # fmt: skip
        corrected[r], plain[r] = float(found.corrected), float(found.mean)
    q = truncated_values(model, policy.probs, 10)[-1]
    exact = float((policy.probs * q).sum(axis=1)[:2].mean())
    root = np.sqrt(repetitions)
    return float(corrected.mean()), float(corrected.std(ddof=1) / root), float(plain.std(ddof=1) / root), exact


def _of_table(name: str, **settings: Any) -> tuple[Any, Callable[[Any], int]]:
    env, _, best = gymnasium_table(name, **settings)
    return env, lambda state: int(best[int(state)])


def _below_17(hand: Any) -> int:
    return int(hand[0] < 17)


def _upright(seen: Any, rng: Any) -> int:
    """Push towards the side to which the pole falls, or with chance 0.3 the other way."""
    return int((seen[2] + 0.3 * seen[3] > 0) != (rng.random() < 0.3))


def factor_cases() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Environments whose saving is measured."""
    import gymnasium

    world = jmdp.worlds.inventory()
    grid = jmdp.worlds.windy_gridworld()
    start = {0: 1.0}
    return {
        "inventory, table": (world, world.policies["base_stock"], {"starts": start}),
        "windy gridworld, table": (grid, next(iter(grid.policies.values())), {"starts": start}),
        "Blackjack-v1": (gymnasium.make("Blackjack-v1"), _below_17, {"discount": 1.0, "horizon": 20}),
        "FrozenLake-v1": (*_of_table("FrozenLake-v1"), {"discount": 0.95}),
        "Taxi-v4, rainy": (*_of_table("Taxi-v4", is_rainy=True), {"discount": 0.95}),
        "CartPole-v1, random policy": (gymnasium.make("CartPole-v1"), _upright, {"discount": 0.95}),
    }


def factor(name: str, episodes: int, seed: int = 3) -> Any:
    """Review many episodes of a case with fitted values."""
    simulator, policy, settings = factor_cases()[name]
    return jmdp.review(
        simulator,
        policy,
        seed=seed,
        episodes=episodes,
        method=jmdp.reviews.LookaheadValues(samples=8),
        progress=False,
        **settings,
    )
