"""Evaluations from rollouts of each state, with empirical distributions of returns and gaps.

All samples of a comparison: alternatives that are eliminated have fewer than the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn, cast

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.interval import Interval
from jmdp.base.labels import Labels
from jmdp.errors import UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.results.certificate import Certificate, Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.parts import Distributions, MethodSettings, ReturnRanges
from jmdp.simulators.rollouts.draws import ENDED, Concatenate, Draws, EpisodeDraws, LuckProbe
from jmdp.simulators.rollouts.runs import RunDraws
from jmdp.statistics.means import IntervalRule
from jmdp.statistics.sample_moments import SampleMoments, sample_moments
from jmdp.statistics.selection import Limits


@dataclass(frozen=True, eq=False)
class Stage:
    """Consecutive samples of the same alternatives."""

    alternatives: tuple[int, ...]  # numbers of the simulated ones, in increasing order
    draws: Draws  # [samples, alternatives]


@dataclass(frozen=True, eq=False)
class DrawnSamples:
    """Samples of k alternatives, in stages. Every stage simulates some of the alternatives of the stage before.

    Sample i has the same number in every alternative, so the samples that two alternatives have in common are the first
    ones of both.
    """

    alternatives: int  # k
    stages: tuple[Stage, ...] = ()

    def with_block(
        self, alternatives: Sequence[int], *blocks: Draws, concatenate: Concatenate = np.concatenate
    ) -> DrawnSamples:
        """Append samples of these alternatives."""
        active, stages = tuple(alternatives), self.stages
        if stages and stages[-1].alternatives == active:
            blocks, stages = (stages[-1].draws, *blocks), stages[:-1]
        return replace(self, stages=(*stages, Stage(active, blocks[0].joined(blocks, concatenate))))

    def with_probe(self, probe: LuckProbe, steps: int) -> DrawnSamples:
        """Add samples that were run again, and the steps they took."""
        *before, last = self.stages
        assert isinstance(last.draws, EpisodeDraws)
        draws = replace(last.draws, probe=probe, steps=last.draws.steps + steps)
        return replace(self, stages=(*before, replace(last, draws=draws)))

    def __len__(self) -> int:
        """Number of samples, those of the alternatives that were simulated to the end."""
        return int(self.counts.max())

    @cached_property
    def counts(self) -> Integers:
        """[k], number of samples of each alternative."""
        found = np.zeros(self.alternatives, np.int64)
        for stage in self.stages:
            found[list(stage.alternatives)] += len(stage.draws.returns)
        return found

    def of(self, *alternatives: int) -> Draws:
        """The samples that these alternatives have in common, in this order of columns; all without arguments."""
        asked = alternatives or tuple(range(self.alternatives))
        parts = [
            stage.draws
            if asked == stage.alternatives
            else stage.draws.columns(list(map(stage.alternatives.index, asked)))
            for stage in self.stages
            if set(asked) <= set(stage.alternatives)
        ]
        return parts[0] if len(parts) == 1 else parts[0].joined(parts)

    def measure(self, j: int) -> DrawnSamples:
        """Values of one measure of runs that return several."""
        parts = [(stage.alternatives, cast(RunDraws, stage.draws).measure(j)) for stage in self.stages]
        return DrawnSamples(self.alternatives, tuple(Stage(*part) for part in parts))

    @cached_property
    def complete(self) -> Draws:
        """The samples in which every alternative was simulated."""
        return self.of()

    @cached_property
    def returns(self) -> Floats:
        """[n, k], returns of all samples; nan where an alternative was not simulated."""
        found, row = np.full((len(self), self.alternatives), np.nan), 0
        for stage in self.stages:
            rows = len(stage.draws.returns)
            found[row : row + rows, list(stage.alternatives)] = stage.draws.returns
            row += rows
        return found

    @property
    def steps(self) -> int:
        """Simulated steps."""
        return sum(stage.draws.steps for stage in self.stages)

    @property
    def shared_steps(self) -> int:
        """Steps skipped because a branch had merged with another."""
        return sum(stage.draws.shared_steps for stage in self.stages)

    @property
    def largest_reward(self) -> float:
        """Largest |reward| observed."""
        return max(stage.draws.largest_reward for stage in self.stages)


@dataclass(frozen=True, eq=False)
class SamplingState:
    """All that later samples depend on: the samples so far, and the decisions at the scheduled looks."""

    samples: DrawnSamples
    active: tuple[int, ...]  # alternatives that are still simulated
    paired: bool = True  # False once samples are drawn independently because pairing increases the variance
    worse_than: tuple[tuple[int, int], ...] = ()  # eliminated alternatives, each with the one that is better
    decided: bool = False
    looks: int = 1  # at fixed numbers of samples, or schedules: a plan that was continued has two


class SampledDistributions(Distributions):
    """Empirical distributions of sampled returns and gaps; samples are redrawn on request, from the same seed.

    For n fixed in advance, the true distribution is with probability `confidence` within √(ln(2/(1 − confidence))/2n)
    of the empirical one, uniformly (Dvoretzky, Kiefer, Wolfowitz; the constant is Massart's).

    Parameters
    ----------
    draw
        Returns the rollouts of a state.
    limits
        Bounds on the truncation and rounding errors of one return.
    rule
        Rule for the width of the band.
    """

    def __init__(self, draw: Callable[[int], Draws], limits: Limits, rule: IntervalRule, support: ReturnRanges) -> None:
        self.draw, self.limits, self.rule, self.support = draw, limits, rule, support
        self._last: tuple[int, Draws] | None = None

    def return_distribution(self, s: int, a: int) -> Distribution:
        """The empirical distribution of Z(s, a)."""
        if self.support.is_over(s):
            return GapDistribution.zero()
        drawn = self._of(s)
        error = np.where(drawn.ends[:, a] == ENDED, 0.0, self.limits.cut) + self.limits.rounding
        values, support = drawn.returns[:, a], self.support.of(s, a)
        slack, mass = self._band(values.size)
        return Distribution(values - error, values + error, values, mass, slack, support, self.rule.confidence)

    def refined(self, gaps: Sequence[tuple[int, int, int]], tolerance: float) -> NoReturn:
        """Raise: more rollouts give narrower intervals, not a tolerance."""
        raise UnavailableError(
            "Distributions of samples have no tolerance. Draw more samples, or evaluate a table with ExactDistribution."
        )

    def gap_distribution(self, s: int, a: int, b: int) -> GapDistribution:
        """The empirical distribution of Z(s, a) − Z(s, b). Merged branches have no truncation error in their gap."""
        if self.support.is_over(s):
            return GapDistribution.zero()
        drawn = self._of(s)
        ends, gains, cut = drawn.ends, drawn.gains, self.limits.cut
        values = drawn.returns[:, a] - drawn.returns[:, b]
        settled = (ends[:, a] == ends[:, b]) | (cut == 0)
        error = np.where(settled, 0.0, 2 * cut) + 2 * self.limits.rounding
        error[settled & (gains[:, a] == gains[:, b])] = 0.0  # equal in every step, or summed without rounding
        slack, mass = self._band(values.size)
        support = self.support.of_gap(s, a, b)
        return GapDistribution(values - error, values + error, values, mass, slack, support, self.rule.confidence)

    def _of(self, s: int) -> Draws:
        if self._last is None or self._last[0] != s:
            self._last = s, self.draw(s)
        return self._last[1]

    def _band(self, n: int) -> tuple[float, Floats]:
        return self.rule.distribution_slack(n, 1 - self.rule.confidence), np.full(n, 1 / n)


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
    support: ReturnRanges,
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
class Within(ReturnRanges):
    """Ranges of returns that are all in [least, most]."""

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
