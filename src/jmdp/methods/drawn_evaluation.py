"""An evaluation from rollouts of a simulator: what was drawn, summed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmdp.arrays import Floats, Integers
from jmdp.coupling import Coupling
from jmdp.evaluation import UNIT, Certificate, Evaluation, Outcome
from jmdp.interval import ANYWHERE, Interval
from jmdp.labels import Labels
from jmdp.methods.method import Method
from jmdp.methods.sample_moments import sample_moments
from jmdp.methods.sampled_laws import SampledLaws, fixed_slack
from jmdp.simulator import ENDED, Draws


def drawn_evaluation(
    draws: Sequence[Draws],
    *,
    method: Method,
    coupling: Coupling,
    states: Labels,
    actions: Labels,
    discount: float,
    horizon: int,
    quantile: float,
    confidence: float,
    law_slack: Callable[[int, float], float] = fixed_slack,
    mean_errors: Callable[[Floats, Floats], Floats] | None = None,
) -> Evaluation:
    """Moments and laws of what was drawn in each state.

    What a horizon cuts off is in the intervals, by the largest reward met: a simulator does not say how large they can
    be. With discount 1 the horizon is part of the question, and nothing is cut off.
    """
    bound = max(drawn.largest_reward for drawn in draws)
    most = bound * horizon if discount == 1 else bound / (1 - discount)
    cut = 0.0 if discount == 1 else discount**horizon * most
    rounding = (horizon + 64) * UNIT * most
    found = [
        sample_moments(
            drawn.returns,
            quantile,
            cut + rounding,
            (drawn.ends != ENDED).mean(axis=0),
            apart(drawn.ends).mean(axis=0),
            mean_errors,
        )
        for drawn in draws
    ]

    def stacked(name: str) -> Floats:
        return np.stack([getattr(one, name) for one in found])

    certificate = Certificate(
        "statistical",
        stacked("mean_error"),
        stacked("covariance_error"),
        stacked("gap_mean_error"),
        stacked("gap_variance_error"),
        discount,
        bound,
        confidence,
        stacked("correlation_error"),
    )

    def drawn_in(s: int) -> tuple[Floats, Integers, Integers]:
        return draws[s].returns, draws[s].ends, draws[s].gains

    return Evaluation(
        stacked("mean"),
        stacked("covariance"),
        certificate,
        Outcome.SAMPLED,
        coupling,
        method,
        states,
        actions,
        np.zeros(0),
        laws=SampledLaws(drawn_in, cut, rounding, Unbounded(), confidence, law_slack),
        ranges=Unbounded(),
    )


def apart(ends: Integers) -> Any:
    """[n, A, A], which branches neither both ended nor met before their rollouts were cut."""
    return ends[:, :, None] != ends[:, None, :]


class Unbounded:
    """Nothing is known of how large returns can be."""

    def is_over(self, s: int) -> bool:
        """A state that is asked about goes on."""
        return False

    def of(self, s: int, a: int) -> Interval:
        """Anywhere."""
        return ANYWHERE

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Anywhere, except that an action against itself is nothing."""
        return Interval(0.0, 0.0) if a == b else ANYWHERE
