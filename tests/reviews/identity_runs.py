"""Evidence: the parts of a return add up, and luck has mean 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from review_worlds import (
    as_vector,
    climb,
    erratic,
    linear_value,
    one_number,
    residual,
    table_of,
    walk,
)

import jmdp


def of_tables(tables: int, first: int = 0) -> list[float]:
    """Residuals of ten episodes of each of these random tables, with exact values."""
    found: list[float] = []
    for seed in range(first, first + tables):
        model, policy, reference, rng = table_of(seed)
        S, _, A = model.shape
        shared: dict[str, Any] = {"seed": seed, "starts": list(range(S)), "progress": False}
        if seed % 2:
            shared["reference"] = reference
        if seed % 3 == 0:
            shared["steps"] = range(1, 4)
        if seed % 5 == 4:  # given actions: one episode each
            played = rng.integers(0, A, 6).tolist()
            shared["steps"] = range(6)
            shared.pop("reference", None)
            found += [residual(jmdp.review(model, policy, played=played, episode=i, **shared)) for i in range(10)]
            continue
        try:
            found += [residual(one) for one in jmdp.review(model, policy, episodes=10, **shared)]
        except (jmdp.errors.SimulatorError, jmdp.errors.SettingsError):  # an episode ended before the window
            shared.pop("steps", None)
            found += [residual(one) for one in jmdp.review(model, policy, episodes=10, **shared)]
    return found


def simulator_settings(seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """A simulator, a policy and settings of a review with estimated values; ten kinds in turn."""
    kind, gamma = seed % 10, (1.0, 0.9, 0.6)[seed % 3]
    shared: dict[str, Any] = {"seed": seed, "discount": gamma, "horizon": 12, "progress": False}
    rollouts = jmdp.reviews.RolloutValues(4)
    world = jmdp.worlds.inventory()
    stepped: dict[str, Any] = {**shared, "discount": None}
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        (walk(), climb, {**shared, "method": rollouts, "episodes": 10}),
        (walk(), erratic, {**shared, "method": rollouts, "episodes": 10}),
        (walk(as_vector), erratic, {**shared, "method": rollouts, "reference": climb, "episodes": 10}),
        (walk(), erratic, {**shared, "method": jmdp.reviews.LookaheadValues(samples=2), "episodes": 10}),
        (walk(as_vector), climb, {**shared, "method": jmdp.reviews.LookaheadValues(samples=2), "episodes": 10}),
        (walk(as_vector), erratic, {**shared, "method": jmdp.reviews.LookaheadValues(linear_value, 3), "episodes": 10}),
        (world.simulator, "uniform", {**stepped, "horizon": 5, "method": rollouts, "episodes": 10}),
        (
            world.simulator,
            "uniform",
            {**stepped, "method": jmdp.reviews.LookaheadValues(one_number, 2), "episodes": 10},
        ),
        (walk(), climb, {**shared, "method": rollouts, "played": [1, 0, 0, 1, 0, 1], "episode": seed}),
        (walk(), climb, {**shared, "method": rollouts, "steps": range(1, 3), "episodes": [2, 5, 9]}),
    ]
    return cases[kind]


def of_simulators(episodes: int, first: int = 0) -> list[float]:
    """Residuals of at least this many episodes with estimated values."""
    found: list[float] = []
    seed = first
    while len(found) < episodes:
        simulator, policy, settings = simulator_settings(seed)
        made = jmdp.review(simulator, policy, **settings)
        found += [residual(one) for one in (made if isinstance(made, jmdp.reviews.Reviews) else [made])]
        seed += 1
    return found


BUGS = {
    "none": lambda review: review,
    "γ forgotten": lambda review: replace(review, discount=1.0),
    "v of the state before": lambda review: replace(review, values=[review.values[0], *review.values[:-1]]),
}
"""Bugs, planted into a review before its luck is computed."""


def luck_scores(tables: int, episodes: int, bug: str = "none", first: int = 1000) -> tuple[float, float, int]:
    """Largest |mean luck| in standard errors: of episodes, and of steps with one state and action; number of means."""
    whole: list[float] = []
    single: list[float] = []
    for seed in range(first, first + tables):
        model, policy, reference, _ = table_of(seed)
        settings: dict[str, Any] = {"reference": reference} if seed % 2 else {}
        reviews = jmdp.review(
            model, policy, seed=seed, episodes=episodes, starts=list(range(model.shape[0])), progress=False, **settings
        )
        changed = [BUGS[bug](one) for one in reviews]
        whole.append(_score([float(one.luck) for one in changed]))
        cells: dict[tuple[str, str], list[float]] = {}
        for one in changed:
            for decision in one.decisions:
                cells.setdefault((decision.state, decision.action), []).append(float(decision.luck))
        single += [_score(lucks) for lucks in cells.values() if len(lucks) >= 50]
    return max(whole), max(single, default=0.0), len(whole) + len(single)


def _score(lucks: list[float]) -> float:
    values = np.array(lucks)
    size = np.abs(values).max()
    error = values.std(ddof=1) / np.sqrt(len(values))
    if error <= 1e-9 * size or size < 1e-9:  # nothing is random
        return 0.0 if size < 1e-9 else np.inf
    return float(abs(values.mean()) / error)
