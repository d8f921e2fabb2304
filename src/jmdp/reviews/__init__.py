"""Reviews of episodes: expectation, skill and luck of every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use

if TYPE_CHECKING:
    from jmdp.reviews.decision import Decision
    from jmdp.reviews.review import Review
    from jmdp.reviews.reviews import Reviews
    from jmdp.reviews.rollout_values import LookaheadValues, RolloutValues
    from jmdp.reviews.trajectory import Trajectory

__all__ = ["Decision", "LookaheadValues", "Review", "Reviews", "RolloutValues", "Trajectory"]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "Decision": "decision",
        "LookaheadValues": "rollout_values",
        "Review": "review",
        "Reviews": "reviews",
        "RolloutValues": "rollout_values",
        "Trajectory": "trajectory",
    },
)
