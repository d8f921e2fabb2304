"""Entries of `review` and of its results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import jmdp
from hostile.entries import Arguments, Entry
from hostile.entries_comparisons import other
from hostile.entries_plots import plot
from hostile.entries_samples import alternate, frozen_lake, table, walk


def _review(rng: np.random.Generator) -> Arguments:
    kind = rng.integers(4)
    source: Any = [walk(), walk(terminal=lambda state: state == 3), table(), frozen_lake()][kind]
    several = bool(rng.integers(2))
    methods = [
        jmdp.reviews.RolloutValues(4),
        jmdp.reviews.LookaheadValues(samples=2, folds=2),
        jmdp.reviews.LookaheadValues(lambda seen: 0.5),
    ]
    return {
        "simulator": source,
        "policy": ["uniform", alternate][rng.integers(2)],
        "seed": 5,
        "reference": [None, other][rng.integers(2)],
        "played": None if several or rng.integers(2) else [0, 1, 0],
        "episode": 0,
        "episodes": [2, [0, 3]][rng.integers(2)] if several else None,
        "starts": [0, 1] if kind == 2 else None,
        "steps": [None, range(3)][rng.integers(2)],
        "actions": [0, 1] if kind < 3 else None,
        "method": methods[rng.choice([0, 1, 2] if several else [0, 2])],
        "discount": None if kind == 2 else 0.5,
        "horizon": 4,
        "confidence": 0.9,
        "pool": None,
        "progress": False,
    }


def _adds_up(found: Any, given: object) -> str | None:
    """What is wrong with the parts of a return, or None."""
    for one in found if isinstance(found, jmdp.reviews.Reviews) else [found]:
        parts = [float(getattr(one, name)) for name in ("expectation", "skill", "luck")]
        whole = one.earned + float(one.final)
        size = sum(map(abs, parts)) + abs(whole)
        if not math.isfinite(size) or abs(sum(parts) - whole) > 1e-12 * max(size, 1e-300):
            return f"{parts} do not add up to {whole}"
        if any(decision.regret < 0 or not decision.regret.low <= decision.regret for decision in one.decisions):
            return "a regret is negative, or outside its interval"
    return None


def _numbers(found: Any) -> Any:
    rows = list(found) if isinstance(found, jmdp.reviews.Reviews) else [found]
    return [(one.earned, float(one.luck), float(one.skill), one.seed, one.confidence) for one in rows]


_QUERIES = {
    "repr": repr,
    "answer": lambda found: found.answer,
    "html": lambda found: found._repr_html_(),
    "table": lambda found: found.to_dataframe(),
    "worst": lambda found: found[0].worst() if isinstance(found, jmdp.reviews.Reviews) else found.worst(),
}


def _made() -> jmdp.reviews.Review:
    return jmdp.review(
        walk(), alternate, seed=1, discount=0.5, horizon=4, method=jmdp.reviews.RolloutValues(4), progress=False
    )


def _several() -> jmdp.reviews.Reviews:
    return jmdp.review(walk(), alternate, seed=1, discount=0.5, horizon=4, episodes=6, progress=False)


ENTRIES = [
    plot("review_chart", lambda rng: {"review": _made()}),
    plot("reviews_chart", lambda rng: {"reviews": _several()}),
    Entry(
        "review",
        jmdp.review,
        _review,
        amounts=frozenset({"episodes", "horizon", "steps"}),
        check=_adds_up,
        answer=_numbers,
        then=_QUERIES,
    ),
    Entry(
        "RolloutValues",
        jmdp.reviews.RolloutValues,
        lambda rng: {"samples": int(rng.integers(2, 9))},
        amounts=frozenset({"samples"}),
    ),
    Entry(
        "LookaheadValues",
        jmdp.reviews.LookaheadValues,
        lambda rng: {"values": [None, lambda seen: 0.0][rng.integers(2)], "samples": 4, "folds": 3},
        amounts=frozenset({"samples", "folds"}),
    ),
    Entry("Review.what_if", lambda **given: _made().what_if(**given), lambda rng: {"step": 1, "action": 1}),
    Entry("Review.worst", lambda **given: _made().worst(**given), lambda rng: {"count": 2}),
    Entry("Reviews.by", lambda **given: _several().by(**given), lambda rng: {"feature": str}),
    Entry("Trajectory.total", lambda **given: _made().trajectory.total(**given), lambda rng: {"discount": 0.5}),
]
