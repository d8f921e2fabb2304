"""Entries of `frontier`, `improve` and `few_changes`, and of their results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import jmdp
from hostile.entries import Arguments, Entry
from hostile.entries_plots import plot


def _model(chance: float = 0.5) -> jmdp.TabularJMDP:
    prob = np.tile([chance, 1 - chance], (3, 1))
    reward = np.arange(12.0).reshape(3, 2, 2) % 5 - 2
    return jmdp.TabularJMDP(prob, reward, np.arange(12).reshape(3, 2, 2) % 3, 0.5)


def _question(rng: np.random.Generator) -> Arguments:
    return {
        "model": _model(),
        "incumbent": [[0, 1, 0], {0: 0, 1: 1, 2: 0}][rng.integers(2)],
        "coupling": [None, jmdp.Synchronous()][rng.integers(2)],
        "horizon": 2,
        "terminal_value": [None, [0.0, 1.0, 2.0]][rng.integers(2)],
        "discount": [None, 1.0][rng.integers(2)],
        "starts": [[0, 1], {2: 1.0}][rng.integers(2)],
        "tie_tolerance": [None, 1e-6][rng.integers(2)],
    }


def _frontier(rng: np.random.Generator) -> Arguments:
    return _question(rng) | {
        "objective": ["shortfall", "shortfall and chance"][rng.integers(2)],
        "weights": [None, [0.5, 2.0]][rng.integers(2)],
        "under": [None, _model(0.25)][rng.integers(2)],
    }


def _consistent(found: Any, given: Mapping[str, Any]) -> str | None:
    """What is wrong with a frontier, or None."""
    for point in found.points:
        one = point.statistics
        for estimate in (one.gain, one.shortfall, one.chance, one.worst, one.equal, one.barely, point.value):
            if not (math.isfinite(estimate) and estimate.low <= estimate <= estimate.high):
                return f"{estimate!r} is not in its interval"
    return None


def _made() -> jmdp.control.Frontier:
    return jmdp.frontier(_model(), [0, 1, 0], horizon=2, discount=1.0, starts=[0], weights=[1.0])


def _improve(rng: np.random.Generator) -> Arguments:
    limit = [{"max_shortfall": 0.5}, {"max_chance": 0.25}][rng.integers(2)]
    return _question(rng) | limit | {"observed": "scenario"}


def _policy() -> jmdp.control.ShadowPolicy:
    asked: dict[str, Any] = {"horizon": 2, "discount": 1.0, "starts": [0], "observed": "scenario"}
    return jmdp.improve(_model(), [0, 1, 0], max_shortfall=0.5, **asked).policy


def _seen(**given: Any) -> None:
    policy = _policy()
    policy(0)
    policy.seen(**given)


def _gain(found: Any) -> float:
    return float(found.statistics.gain)


_SHOWN = {"repr": repr, "table": lambda found: found.to_dataframe(), "html": lambda found: found._repr_html_()}

ENTRIES = [
    plot("frontier_chart", lambda rng: {"frontier": _made()}),
    Entry("improve", jmdp.improve, _improve, amounts=frozenset({"horizon"}), answer=_gain, then=_SHOWN),
    Entry(
        "few_changes",
        jmdp.few_changes,
        lambda rng: _question(rng) | {"k": int(rng.integers(1, 4)), "max_shortfall": [None, 0.5][rng.integers(2)]},
        amounts=frozenset({"horizon"}),
        answer=lambda found: [one.changes for one in found.sets],
        then=_SHOWN,
    ),
    Entry(
        "ShadowPolicy.act",
        lambda **given: _policy().act(**given),
        lambda rng: {"step": 1, "state": 1, "shadow": 2, "gap": 0.5},
    ),
    Entry("ShadowPolicy.reading", lambda **given: _policy().reading(**given), lambda rng: {"state_of": int}),
    Entry("ShadowPolicy.seen", _seen, lambda rng: {"action": 1, "reward": 0.5, "scenario": 1}),
    Entry(
        "frontier",
        jmdp.frontier,
        _frontier,
        amounts=frozenset({"horizon", "weights"}),
        check=_consistent,
        answer=lambda found: [float(one.statistics.gain) for one in found.points],
        then={"repr": repr, "hull": lambda found: found.hull, "table": lambda found: found.to_dataframe()},
    ),
    Entry("Frontier.gain_at", lambda **given: _made().gain_at(**given), lambda rng: {"risk": 0.5}),
]
