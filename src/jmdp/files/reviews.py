"""Reviews as saved objects: the rewards and values of all steps, without states, simulator and policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.files.kinds import Kind, Object
from jmdp.files.types import FLAG, NUMBER, TEXT, WHOLE, Array, Listed, Optional, WrongFieldError
from jmdp.reviews.replay import Forgotten
from jmdp.reviews.review import Review
from jmdp.reviews.reviews import Reviews
from jmdp.reviews.trajectory import Trajectory
from jmdp.reviews.values import StepValues

_VALUES = tuple(field.name for field in fields(StepValues) if field.name != "sampled")
_COUNTS = ("samples", "steps")
_BY_ACTION = ("action_values", "action_errors", "gap_errors")
_PLAIN = ("simulator", "policy", "reference", "method", "discount", "end", "seed", "confidence", "asked")


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedReview:
    """What a file contains of a review."""

    episode: int
    first: int
    rewards: Floats  # [T]
    names: Sequence[str]  # [T], of the taken actions
    terminated: bool
    labels: Sequence[str]  # [T]
    actions: Sequence[str]  # [A]
    taken: Integers  # [T]
    discrete: bool
    hindsight: Floats | None  # [T, A], if it was computed
    simulator: str
    policy: str
    reference: str | None
    method: str
    discount: float
    end: int
    seed: int
    confidence: float
    asked: int
    action_values: Floats  # [T + 1, A]
    action_errors: Floats
    gap_errors: Floats
    average: Floats  # [T + 1]
    skill_error: Floats
    value: Floats
    value_error: Floats
    samples: Integers
    steps: Integers

    @classmethod
    def of(cls, review: Review) -> SavedReview:
        """What is saved of a review."""
        trajectory = review.trajectory
        values: dict[str, Any] = {
            name: np.array([getattr(one, name) for one in review.values], np.int64 if name in _COUNTS else np.float64)
            for name in _VALUES
        }
        return cls(
            episode=trajectory.episode,
            first=trajectory.first,
            rewards=trajectory.rewards,
            names=list(trajectory.names),
            terminated=trajectory.terminated,
            labels=list(review.labels),
            actions=list(review.actions),
            taken=np.array(review.taken, np.int64),
            discrete=review.replay.discrete,
            hindsight=review.replayed,
            **{name: getattr(review, name) for name in _PLAIN},
            **values,
        )

    def restored(self) -> Review:
        """The review, without a simulator."""
        steps, A = len(self.rewards), len(self.actions)
        if len(self.value) != steps + 1 or steps < 1:
            raise WrongFieldError("value", f"{len(self.value)} values of {steps} steps")
        if {len(self.names), len(self.labels)} != {steps} or not ((self.taken >= 0) & (self.taken < A)).all():
            raise WrongFieldError("taken", "other steps or actions than those of the review")
        if not np.isfinite(self.rewards).all() or not 0 <= self.discount <= 1 or not 0 < self.confidence < 1:
            raise WrongFieldError("rewards", "numbers that no review has")
        rows = [{name: getattr(self, name)[i] for name in _VALUES} for i in range(steps + 1)]
        values = [
            StepValues(**{name: x if name in _BY_ACTION else x.item() for name, x in row.items()}) for row in rows
        ]
        trajectory = Trajectory(self.episode, self.first, (), (), self.rewards, self.terminated, self.names)
        return Review(
            trajectory=trajectory,
            labels=self.labels,
            actions=self.actions,
            taken=self.taken.tolist(),
            values=values,
            replay=Forgotten(self.discrete, tuple(self.actions)),
            replayed=self.hindsight,
            **{name: getattr(self, name) for name in _PLAIN},
        )


@dataclass(frozen=True, eq=False)
class SavedReviews:
    """What a file contains of several reviews."""

    reviews: Sequence[SavedReview]
    asked: int
    groups: Sequence[Sequence[str]]

    @classmethod
    def of(cls, reviews: Reviews) -> SavedReviews:
        """What is saved of several reviews."""
        return cls([SavedReview.of(one) for one in reviews], reviews.asked, [list(one) for one in reviews.groups])

    def restored(self) -> Reviews:
        """The reviews, without a simulator."""
        found = [one.restored() for one in self.reviews]
        if not found or [len(one) for one in found] != [len(one) for one in self.groups]:
            raise WrongFieldError("groups", "other steps than those of the reviews")
        return Reviews(found, self.asked, self.groups)


_FIELDS = {
    "episode": WHOLE,
    "first": WHOLE,
    "rewards": Array("<f8", "T"),
    "names": Listed(TEXT),
    "terminated": FLAG,
    "labels": Listed(TEXT),
    "actions": Listed(TEXT),
    "taken": Array("<i8", "T"),
    "discrete": FLAG,
    "hindsight": Optional(Array("<f8", "T A")),
    "simulator": TEXT,
    "policy": TEXT,
    "reference": Optional(TEXT),
    "method": TEXT,
    "discount": NUMBER,
    "end": WHOLE,
    "seed": WHOLE,
    "confidence": NUMBER,
    "asked": WHOLE,
    **dict.fromkeys(_BY_ACTION, Array("<f8", "N A")),
    **dict.fromkeys(("average", "skill_error", "value", "value_error"), Array("<f8", "N")),
    **dict.fromkeys(_COUNTS, Array("<i8", "N")),
}

KIND = Kind(SavedReview, _FIELDS)

KIND_OF_SEVERAL = Kind(
    SavedReviews,
    {"reviews": Listed(Object(lambda: {"Review": KIND})), "asked": WHOLE, "groups": Listed(Listed(TEXT))},
)
