"""Evaluations from rollouts of each state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.base.labels import Labels
from jmdp.models.coupling import Coupling
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.parts import MethodSettings
from jmdp.simulators.draws import Draws
from jmdp.statistics.limits import Limits
from jmdp.statistics.means import IntervalRule
from jmdp.statistics.sample_moments import SampleMoments, sample_moments
from jmdp.statistics.sampled_distributions import SampledDistributions, Support


@dataclass(frozen=True)
class SampledProblem:
    """Method, coupling, labels and discount of a sampled evaluation."""

    method: MethodSettings
    coupling: Coupling
    states: Labels
    actions: Labels
    discount: float


def drawn_evaluation(
    problem: SampledProblem,
    draw: Callable[[int], Draws],
    limits: Limits,
    rule: IntervalRule,
    support: Support,
    found: Sequence[SampleMoments] | None = None,
    outcome: Outcome = Outcome.SAMPLED,
) -> Evaluation:
    """Evaluation from the rollouts that `draw` returns for each state. Intervals include truncation at the horizon.

    `draw` is called for one state at a time, unless the moments that were `found` are given, and again when a
    distribution is requested.
    """
    if found is None:
        found = [sample_moments(draw(s), limits, rule) for s in range(problem.states.size)]

    def stacked(name: str) -> Floats:
        return np.stack([getattr(one, name) for one in found])

    certificate = Certificate(
        kind="statistical",
        mean_error=stacked("mean_error"),
        covariance_error=math.inf if rule.means_only else stacked("covariance_error"),
        gap_mean_error=stacked("gap_mean_error"),
        gap_variance_error=math.inf if rule.means_only else stacked("gap_variance_error"),
        discount=problem.discount,
        reward_bound=limits.bound,
        confidence=rule.confidence,
        correlation_error=None if rule.means_only else stacked("correlation_error"),
        assumption=limits.assumption,
        large_sample=True,
    )
    return Evaluation(
        mean=stacked("mean"),
        covariance=stacked("covariance"),
        certificate=certificate,
        outcome=outcome,
        coupling=problem.coupling,
        method=problem.method,
        states=problem.states,
        actions=problem.actions,
        residuals=np.zeros(0),
        distributions=SampledDistributions(draw, limits, rule, support),
        ranges=support,
    )


@dataclass(frozen=True, eq=False)
class Stored:
    """Rollouts of each state, kept in memory."""

    drawn: Sequence[Draws]

    def __call__(self, s: int) -> Draws:
        """The rollouts of this state."""
        return self.drawn[s]


@dataclass(frozen=True)
class Within:
    """Support of returns that are all in [least, most]."""

    least: float
    most: float

    def is_over(self, s: int) -> bool:
        """False: no state is terminal."""
        return False

    def of(self, s: int, a: int) -> Interval:
        """Interval that contains Z(s, a)."""
        return Interval(self.least, self.most)

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Interval that contains Z(s, a) − Z(s, b)."""
        width = 0.0 if a == b else math.nextafter(self.most - self.least, math.inf)
        return Interval(-width, width)
