"""Entries of `evaluate` and of every method, its settings and the objects among its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jmdp
from hostile import tiny
from hostile.entries import Arguments, Entry
from jmdp.methods.incremental import BlockSampling, ConstantSteps, PolynomialSteps, TrajectorySampling, UniformSampling
from jmdp.methods.linear_projected import Restart, features


def evaluated(method: Callable[..., Any]) -> Callable[..., jmdp.Evaluation]:
    """Make the method with these settings and evaluate the tiny problem."""

    def call(**settings: Any) -> jmdp.Evaluation:
        return jmdp.evaluate(**tiny.problem(), method=method(**settings), throw=False, progress=False)

    return call


def method(
    name: str, settings: Callable[[np.random.Generator], Arguments], make: Callable[..., Any] | None = None, **more: Any
) -> Entry:
    """Entry of a method."""
    return Entry(
        name,
        evaluated(make or getattr(jmdp, name)),
        settings,
        **{"check": tiny.must_work, "answer": tiny.numbers, "then": {}, **more},
    )


def incremental(**settings: Any) -> jmdp.Incremental:
    """A short run."""
    return jmdp.Incremental(**{"seed": 0, "updates": 320, **settings})


def projected(**settings: Any) -> jmdp.LinearProjected:
    """A fit in one-hot features."""
    return jmdp.LinearProjected(**{"features": features.OneHot(), "max_sweeps": 50, **settings})


def positions(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Positions of the three states."""
    return np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 1.0]])


def evaluate_of(**fixed: Any) -> Callable[..., Any]:
    """`evaluate` without progress, with these arguments unless they are given."""
    return lambda **given: jmdp.evaluate(**{**fixed, **given})


_SWEEPS = {"tolerance": 1e-6, "max_sweeps": 200, "memory_budget": 10**9}

ENTRIES = [
    method("ExactPairs", lambda rng: {**_SWEEPS, "order": int(rng.integers(2, 5)), "precision": "float64"}),
    method("ExactDistribution", lambda rng: {**_SWEEPS, "tolerance": 0.1, "cells": 64, "max_cells": 256}),
    method("JIPE", lambda rng: {**_SWEEPS, "order": 2}),
    method(
        "MonteCarlo",
        lambda rng: {"seed": 1, "samples": 16, "confidence": 0.9, "horizon": 5, "states": None, "pool": None},
        amounts=frozenset({"samples", "horizon"}),
    ),
    method(
        "Incremental",
        lambda rng: {
            "seed": 1,
            "updates": 320,
            "tolerance": 0.5,
            "confidence": 0.9,
            "steps": PolynomialSteps(),
            "sampling": BlockSampling(),
            "centred": True,
            "averaging": True,
            "checkpoint": None,
            "checkpoint_seconds": 10.0,
            "memory_budget": 10**8,
        },
        amounts=frozenset({"updates"}),
    ),
    method(
        "LinearProjected",
        lambda rng: {
            "features": np.eye(6) if rng.random() < 0.5 else np.eye(6).reshape(3, 2, 6),
            "same_state": None,
            "weights": Restart(),
            "target": "covariance",
            "solver": "projected",
            "tolerance": 1e-6,
            "max_sweeps": 50,
            "memory_budget": 10**9,
        },
    ),
    method(
        "LinearProjected: samples", lambda rng: {"samples": 50, "seed": 3}, projected, amounts=frozenset({"samples"})
    ),
    method(
        "LinearProjected: functions",
        lambda rng: {"features": [0.0, 1.0], "same_state": [1.0, 2.0]},
        lambda features, same_state: projected(features=lambda s, a: features, same_state=lambda s, a: same_state),
    ),
    method(
        "ReachablePairs",
        lambda rng: {
            "state": tiny.state(rng),
            "tolerance": 0.1,
            "max_states": 10,
            "memory_budget": 10**8,
            "seconds": 10.0,
        },
    ),
    Entry(
        "NeuralGram",
        jmdp.NeuralGram,
        lambda rng: {
            **dict.fromkeys(("seed", "visits", "spacing", "length", "repeats", "steps", "updates", "batch"), 8),
            **dict.fromkeys(("learning_rate", "weight_decay", "dropout", "target_averaging", "mean_rate"), 0.5),
            **{"kernel": "sum", "rank": 4, "encoder": None, "held_out": 4, "patience": 4, "pool": None, "folder": "x"},
        },
    ),
    *(
        method(
            f"Incremental: {kind.__name__}",
            lambda rng, settings=settings: dict(settings),
            lambda kind=kind, role=role, **given: incremental(**{role: kind(**given)}),
        )
        for kind, role, settings in (
            (ConstantSteps, "steps", {"size": 0.1}),
            (PolynomialSteps, "steps", {"exponent": 0.6, "first": 0.5, "delay": 100.0}),
            (BlockSampling, "sampling", {"mean": 1.0, "diagonal": 2.0, "same_state": 1.0, "cross": 1.0}),
            (TrajectorySampling, "sampling", {"restart": 0.1}),
        )
    ),
    method(
        "Incremental: steps returned",
        lambda rng: {"returned": None},
        lambda returned: incremental(steps=lambda counts: 0.1 + 0.0 * counts if returned is None else returned),
        answer=lambda found: None,
    ),
    method(
        "Incremental: uniform",
        lambda rng: {"seed": 2},
        lambda **given: incremental(sampling=UniformSampling(), **given),
    ),
    method(
        "LinearProjected: Restart",
        lambda rng: {"continuation": 0.5, "start": [((0, 0), (0, 1)), (("left", 0), ("right", "go"))]},
        lambda **given: projected(weights=Restart(**given)),
    ),
    method(
        "LinearProjected: TileCoding",
        lambda rng: {"positions": positions(rng), "tiles": [2, 2], "tilings": 2, "wrap": [0.0, 0.0]},
        lambda **given: projected(features=features.TileCoding(**given)),
        amounts=frozenset({"tiles", "tilings"}),
    ),
    method(
        "LinearProjected: TileCoding, one number",
        lambda rng: {"tiles": 2, "tilings": 1, "wrap": 0.0},
        lambda **given: projected(features=features.TileCoding(positions(np.random.default_rng(0)), **given)),
        amounts=frozenset({"tiles", "tilings"}),
    ),
    method(
        "LinearProjected: RandomFourier",
        lambda rng: {"positions": positions(rng), "count": 3, "scale": 1.0, "seed": 0},
        lambda **given: projected(features=features.RandomFourier(**given)),
        amounts=frozenset({"count"}),
    ),
    method(
        "LinearProjected: Polynomial",
        lambda rng: {"positions": positions(rng), "degree": 1},
        lambda **given: projected(features=features.Polynomial(**given)),
        amounts=frozenset({"degree"}),
    ),
    Entry(
        "features.matrix_of",
        features.matrix_of,
        lambda rng: {"features": rng.normal(size=(6, 3)), "model": tiny.model()},
        check=tiny.finite,
        answer=lambda found: found.tobytes(),
    ),
    Entry(
        "evaluate",
        jmdp.evaluate,
        lambda rng: {
            **tiny.problem(),
            "method": jmdp.ExactPairs(),
            "discount": 0.5,
            "start": None,
            "horizon": None,
            "terminal_value": None,
            "throw": True,
            "progress": False,
        },
        amounts=frozenset({"horizon"}),
        check=tiny.true,
        answer=tiny.numbers,
        then=tiny.USES,
    ),
    Entry(
        "evaluate: policies",
        lambda old, new, **given: jmdp.evaluate(policy={"old": old, "new": new}, **given),
        lambda rng: {
            "model": tiny.model(),
            "old": tiny.policy(),
            "new": jmdp.TabularPolicy.uniform(tiny.model()),
            "coupling": tiny.COUPLING,
            "start": np.array([0.5, 0.5, 0.0]) if rng.random() < 0.5 else ["left", 1],
        },
        check=tiny.true,
        answer=tiny.numbers,
        then=tiny.USES,
    ),
    Entry(
        "evaluate: start",
        lambda state, probability, name: jmdp.evaluate(
            tiny.model(),
            tiny.dictionary((name, tiny.policy()), ("new", jmdp.TabularPolicy.uniform(tiny.model()))),
            tiny.COUPLING,
            start=tiny.dictionary((state, probability), (1, 0.5)),
        ),
        lambda rng: {"state": "left", "probability": 0.5, "name": "old"},
        check=tiny.true,
        answer=tiny.numbers,
        then=tiny.USES,
    ),
    Entry(
        "evaluate: horizon",
        evaluate_of(model=tiny.model(), coupling=tiny.COUPLING),
        lambda rng: {
            "policy": [tiny.policy(), tiny.policy()] if rng.random() < 0.5 else tiny.policy(),
            "horizon": 2,
            "terminal_value": [1.0, 2.0, 0.0],
            "discount": float(rng.choice([0.5, 1.0])),
        },
        amounts=frozenset({"horizon"}),
        answer=tiny.numbers,
        then=tiny.USES,
    ),
    Entry(
        "evaluate: policy of steps",
        evaluate_of(model=tiny.model(), coupling=tiny.COUPLING, horizon=2),
        lambda rng: {"policy": np.array([tiny.policy().probs] * 2)},
        answer=tiny.numbers,
    ),
    Entry(
        "gap_samples",
        jmdp.gap_samples,
        lambda rng: {
            "model": tiny.model(),
            "policy": tiny.policy(),
            "s": tiny.state(rng),
            "a": tiny.action(rng),
            "b": tiny.action(rng),
            "seed": 0,
            "coupling": tiny.COUPLING,
            "samples": 8,
            "horizon": 4,
        },
        amounts=frozenset({"samples", "horizon"}),
        check=tiny.finite,
        answer=lambda found: found.tolist(),
    ),
]
