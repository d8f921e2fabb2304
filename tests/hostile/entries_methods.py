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
from registry.methods import METHODS


def evaluated(method: Callable[..., Any]) -> Callable[..., jmdp.results.Evaluation]:
    """Make the method with these settings and evaluate the tiny problem."""

    def call(**settings: Any) -> jmdp.results.Evaluation:
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


def registered(name: str, rng: np.random.Generator) -> Arguments:
    """Settings of a method, some of them in another valid form."""
    other = {
        "order": int(rng.integers(2, 5 if name == "ExactPairs" else 3)),
        "state": tiny.state(rng),
        "features": np.eye(6) if rng.random() < 0.5 else np.eye(6).reshape(3, 2, 6),
    }
    settings = METHODS[name].settings
    return {**settings, **{key: value for key, value in other.items() if key in settings}}


ENTRIES = [
    *(
        method(name, lambda rng, name=name: registered(name, rng), amounts=entry.amounts)
        for name, entry in METHODS.items()
        if entry.contract is not None
    ),
    Entry("LearnedMoments", jmdp.LearnedMoments, lambda rng: {**METHODS["LearnedMoments"].settings}),
    Entry("NeuralGram", jmdp.NeuralGram, lambda rng: {**METHODS["NeuralGram"].settings, "path": "x"}),
    method(
        "LinearProjected: samples", lambda rng: {"samples": 50, "seed": 3}, projected, amounts=frozenset({"samples"})
    ),
    method(
        "LinearProjected: functions",
        lambda rng: {"features": [0.0, 1.0], "same_state": [1.0, 2.0]},
        lambda features, same_state: projected(features=lambda s, a: features, same_state=lambda s, a: same_state),
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
            "starts": None,
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
            "starts": np.array([0.5, 0.5, 0.0]) if rng.random() < 0.5 else ["left", 1],
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
            starts=tiny.dictionary((state, probability), (1, 0.5)),
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
        jmdp.methods.gap_samples,
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
