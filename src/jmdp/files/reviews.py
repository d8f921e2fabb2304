"""Reviews as saved objects: the rewards and values of all steps, without states, simulator and policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.files.types import KINDS, Kind, WrongFieldError
from jmdp.reviews.recorded import Deviation, RecordedMonth
from jmdp.reviews.review import Review
from jmdp.reviews.reviews import Reviews
from jmdp.reviews.trajectory import Forgotten, Trajectory
from jmdp.reviews.values import StepValues

_VALUES = tuple(field.name for field in fields(StepValues) if field.name != "sampled")
_COUNTS = ("samples", "steps")
_BY_ACTION = ("action_values", "action_errors", "gap_errors")
_PLAIN = ("simulator", "policy", "reference", "method", "discount", "end", "seed", "confidence", "asked")
_RECORDED: dict[str, Any] = {"month": None, "deviation": None, "others": {}}


def _values(name: str) -> Callable[[Review], Any]:
    dtype = np.int64 if name in _COUNTS else np.float64
    return lambda review: np.array([getattr(one, name) for one in review.values], dtype)


def _review(fields: dict[str, Any]) -> Review:
    """The review, without a simulator."""
    found = SimpleNamespace(**fields)
    steps, A = len(found.rewards), len(found.actions)
    if len(found.value) != steps + 1 or steps < 1:
        raise WrongFieldError("value", f"{len(found.value)} values of {steps} steps")
    if {len(found.names), len(found.labels)} != {steps} or not ((found.taken >= 0) & (found.taken < A)).all():
        raise WrongFieldError("taken", "other steps or actions than those of the review")
    if not np.isfinite(found.rewards).all() or not 0 <= found.discount <= 1 or not 0 < found.confidence < 1:
        raise WrongFieldError("rewards", "numbers that no review has")
    rows = [{name: fields[name][i] for name in _VALUES} for i in range(steps + 1)]
    values = [StepValues(**{name: x if name in _BY_ACTION else x.item() for name, x in row.items()}) for row in rows]
    return Review(
        trajectory=Trajectory(found.episode, found.first, (), (), found.rewards, found.terminated, found.names),
        labels=found.labels,
        actions=found.actions,
        taken=found.taken.tolist(),
        values=values,
        replay=Forgotten(found.discrete, tuple(found.actions)),
        replayed=found.hindsight,
        **{name: fields[name] for name in (*_PLAIN, *_RECORDED)},
    )


def _reviews(fields: dict[str, Any]) -> Reviews:
    """The reviews, without a simulator."""
    found, groups = fields["reviews"], fields["groups"]
    if not found or [len(one) for one in found] != [len(one) for one in groups]:
        raise WrongFieldError("groups", "other steps than those of the reviews")
    return Reviews(**fields)


_STEPS = ("episode", "first", "rewards", "names", "terminated")

KIND = Kind(
    Review,
    {"rewards": "T", "taken": "T", "hindsight": "T A"}
    | {name: "N A" if name in _BY_ACTION else "N" for name in _VALUES},
    names=(*_STEPS, "labels", "actions", "taken", "discrete", "hindsight", *_PLAIN, *_RECORDED, *_VALUES),
    types={name: get_type_hints(Trajectory)[name] for name in _STEPS}
    | {"taken": Integers, "discrete": bool, "hindsight": Floats | None}
    | dict.fromkeys(_VALUES, Floats)
    | dict.fromkeys(_COUNTS, Integers),
    made={name: attrgetter(f"trajectory.{name}") for name in _STEPS}
    | {"taken": lambda review: np.array(review.taken, np.int64)}
    | {"discrete": attrgetter("replay.discrete"), "hindsight": attrgetter("replayed")}
    | {name: _values(name) for name in _VALUES},
    usual=_RECORDED,
    build=_review,
)
KIND_OF_SEVERAL = Kind(Reviews, build=_reviews)

KINDS += [KIND, KIND_OF_SEVERAL, Kind(RecordedMonth), Kind(Deviation)]
