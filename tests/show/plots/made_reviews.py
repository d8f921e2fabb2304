"""Reviews with made-up values, for tests of their figures and pages."""

from __future__ import annotations

import numpy as np

from jmdp.reviews.review import Review
from jmdp.reviews.reviews import Reviews
from jmdp.reviews.trajectory import Forgotten, Trajectory
from jmdp.reviews.values import StepValues


def made(regrets, rewards, values, *, error=0.05, names=("hit", "stick"), terminated=True, samples=64, first=0, **more):
    """A review of two actions, of which the first is taken in every step and loses this much in each."""
    steps = len(regrets)
    known = [_values(value, lost, error, samples) for value, lost in zip(values, regrets, strict=True)]
    last = StepValues.ended(2) if terminated else _values(values[-1], 0.0, error, samples)
    return Review(
        trajectory=Trajectory(
            0, first, [None] * (steps + 1), [0] * steps, np.array(rewards, float), terminated, [names[0]] * steps
        ),
        labels=more.pop("labels", [f"({i}, 1)" for i in range(steps)]),
        actions=list(names),
        taken=[0] * steps,
        values=[*known, last],
        simulator=more.pop("simulator", "Made()"),
        policy="made",
        reference=None,
        method=f"{samples} rollouts of each action",
        discount=1.0,
        end=first + steps,
        seed=7,
        confidence=0.95,
        asked=steps,
        replay=Forgotten(True, tuple(names)),
        replayed=np.tile([1.0, 2.0], (steps, 1)),
        **more,
    )


def several(reviews):
    """These reviews together."""
    return Reviews.of(reviews, len(reviews))


def _values(value, lost, error, samples):
    q = np.array([value, value + lost])
    gaps = np.array([0.0, error])
    return StepValues(
        action_values=q,
        action_errors=np.full(2, error),
        gap_errors=gaps,
        average=value,
        skill_error=0.0,
        value=value,
        value_error=error,
        samples=samples,
        steps=10,
    )
