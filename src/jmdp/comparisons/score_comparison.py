"""The result of `compare_scores`: a comparison of recorded scores, with intervals that know their levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.base.labels import Label, Labels
from jmdp.base.rounding import confidence_percent, whole_percent
from jmdp.base.settings import short
from jmdp.comparisons.answer import IS_BETTER, Wording
from jmdp.comparisons.comparison import WholeComparison
from jmdp.comparisons.comparison_table import in_one_run, table_lines
from jmdp.errors import SettingsError, UnavailableError
from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo
from jmdp.models.coupling import Independent, Synchronous
from jmdp.results.gaps.gap import Gap
from jmdp.results.text import ESTIMATES, paragraphs
from jmdp.simulators.rollouts.runs import RunDraws
from jmdp.statistics.anytime import Unseen
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.drawn_evaluation import DrawnSamples
from jmdp.statistics.levels import Levels
from jmdp.statistics.means import FEW, Sampling
from jmdp.statistics.pair_means import PairMeans
from jmdp.statistics.planning import FEWEST, fewest
from jmdp.statistics.proportions import MOST_EXACT, mcnemar, rate_interval, unpaired
from jmdp.statistics.sample_summary import SampleSummary
from jmdp.statistics.selection import Limits, Margin

_LITTLE = 0.1
"""Share of the variance that is not worth narrowing."""

_MEANS = {"mean": "mean score", "median": "median score", "iqm": "interquartile mean score"}


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of alternatives with the names of their units, and how they were collected."""

    alternatives: tuple[str, ...]
    levels: Levels
    units: tuple[tuple[str, ...], ...]  # names of the units of each level; none of trials
    minimize: bool = False
    running: bool = False
    about: str = ""  # what the files say of pairs
    missing: int = 0  # rows without a score

    @property
    def left_out(self) -> dict[str, int]:
        """Units by which scores are paired that are not used, because another alternative lacks them."""
        if self.levels.pairs is None:
            return dict.fromkeys(self.alternatives, 0)
        lonely = np.isfinite(self.levels.paired[~self.levels.in_all]).sum(axis=0)
        return dict(zip(self.alternatives, map(int, lonely), strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the levels in texts."""
        return tuple("item" if name == "id" else name for name in self.levels.names)

    @property
    def unit(self) -> str:
        """The name of what pairs the scores; of the outer level if nothing does."""
        return self.names[self.levels.pairs or 0]


@dataclass(frozen=True, eq=False, kw_only=True)
class _ScoreMeans(PairMeans):
    """Intervals of linear combinations of two means of scores, for the question of a margin."""

    scores: Levels
    columns: tuple[int, int]  # new, old
    sign: float

    def unseen(self, margin: Margin) -> Unseen | None:
        """What would reverse the verdict; None unless pairs of units of any scores are all that is random."""
        return super().unseen(margin) if self.scores.simple and not self.scores.binary else None

    def _large_sample(self, weights: Floats, error: float, allowance: bool) -> tuple[float, float]:
        """Mean of a combination and its error. A gap that was always the same may be as large as scores vary."""
        full = np.zeros(self.scores.alternatives)
        full[list(self.columns)] = self.sign * weights
        mean, below, above = limits_of(self.scores, full, error, self.sampling)
        off, n = max(below, above), len(self.draws.returns)
        if math.isinf(off) and self.scores.simple and n >= FEW:
            off = (
                self.sampling.radius(n, error) ** 2 * float(self.limits.scale.restore(self._spread(weights))) / (3 * n)
            )
        return mean, off


def limits_of(scores: Levels, weights: Floats, error: float, sampling: Sampling) -> tuple[float, float, float]:
    """The estimate of Σ w_a m_a, and how far it may be below and above the truth. Rates have intervals of their own."""
    used = np.flatnonzero(weights)
    if scores.binary and sampling.kind == "fixed" and sorted(weights[used].tolist()) == [-1.0, 1.0]:
        found = rate_interval(*discordant(scores, int(weights.argmax()), int(weights.argmin())), error)
        mean = float((scores.rows @ weights).mean())
        return mean, mean - found.low, found.high - mean
    return scores.errors(weights.tolist(), error, sampling)


def discordant(scores: Levels, one: int, other: int) -> tuple[int, int, int]:
    """Pairs in which only the first succeeded, in which only the second did, and all."""
    x, y = scores.rows[:, one] > 0.5, scores.rows[:, other] > 0.5
    return int((x & ~y).sum()), int((y & ~x).sum()), len(x)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreSummary(SampleSummary):
    """Samples are the units by which scores are paired; means and their intervals are those of all levels."""

    scores: Levels

    @classmethod
    def of(cls, given: Scores, confidence: float, assume: Assumptions) -> ScoreSummary:
        """The summary of these scores."""
        levels, names = given.levels, given.alternatives
        returns = levels.paired[levels.in_all]
        draws = RunDraws.of(returns[:, :, None], None, drew=True, paired=True).measure(0)
        shared = levels.pairs is not None
        return cls(
            samples=DrawnSamples(len(names)).with_block(range(len(names)), draws),
            labels=Labels.of("alternative", len(names), names),
            limits=Limits.of_draws([draws], 1.0, 1, None),
            coupling=Synchronous(policy_luck="shared") if shared else Independent(),
            discount=1.0,
            horizon=1,
            seed=0,
            confidence=confidence,
            error=(1 - confidence) / (len(names) - 1),
            sampling=Sampling("sequential" if given.running else "fixed"),
            assume=assume,
            method=MonteCarlo(seed=0, confidence=confidence, horizon=1),
            sign=-1.0 if given.minimize else 1.0,
            scores=levels,
        )

    @cached_property
    def means(self) -> tuple[Floats, Floats, Floats]:
        """Mean of each alternative, and its lower and upper limit, [A] each."""
        if self.return_range is not None:
            return self._group_means(self.samples.complete)
        every = [limits_of(self.scores, row, self.error, self.sampling) for row in np.eye(self.labels.size)]
        mean, below, above = np.array(every).T
        return mean, mean - below, mean + above

    @cached_property
    def ranking(self) -> list[int]:
        """The alternatives, the best first."""
        return [int(i) for i in np.argsort(-self.sign * self.means[0], kind="stable")]

    def verdict_limits(
        self, reference: int, active: Sequence[int], margin: Margin | None = None
    ) -> tuple[Floats, Floats]:
        """Lower and upper limits from which verdicts follow: of a gap that was always the same, its value."""
        if margin is not None or self.return_range is not None:
            return super().verdict_limits(reference, active, margin)
        low, high = self.gap_limits(reference, active)
        if self.scores.simple and len(self.samples) > FEW:
            mean = self.sign * (self.means[0][reference] - self.means[0][list(active)])
            same = self.unvaried(reference, active) & (mean != 0)
            low, high = np.where(same, mean, low), np.where(same, mean, high)
        return low, high

    def gap_limits(self, reference: int, active: Sequence[int]) -> tuple[Floats, Floats]:
        """Lower and upper limits of the mean advantage of the reference over each of the `active` alternatives."""
        if self.return_range is not None:
            return super().gap_limits(reference, active)
        found = np.array([self._between(reference, i) for i in active])
        return self._signed(found[:, 1], found[:, 2])

    def gap_interval(self, a: int, b: int) -> Interval:
        """Interval of the mean gap E[Z(a)] − E[Z(b)]."""
        if self.return_range is not None:
            return super().gap_interval(a, b)
        return Interval(*self._between(a, b)[1:])

    def _between(self, a: int, b: int) -> tuple[float, float, float]:
        """The mean gap and its limits."""
        weights = np.zeros(self.labels.size)
        weights[a] += 1.0
        weights[b] -= 1.0
        if a == b:
            return 0.0, 0.0, 0.0
        mean, below, above = limits_of(self.scores, weights, self.error, self.sampling)
        return mean, mean - below, mean + above

    def mean_gap(self, a: int, b: int) -> float:
        """The estimate of E[Z(a)] − E[Z(b)]."""
        return self._between(a, b)[0]

    def pair_means(self, new: int, old: int) -> PairMeans:
        """Intervals for the question whether one alternative is worse than another by more than a margin."""
        found = super().pair_means(new, old)
        if self.return_range is not None:
            return found
        known = {name: getattr(found, name) for name in PairMeans.__dataclass_fields__}
        return _ScoreMeans(**known, scores=self.scores, columns=(new, old), sign=self.sign)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScoreComparison(WholeComparison):
    """Alternatives compared by scores that exist: a `Comparison` whose samples are tasks, episodes or seeds.

    Intervals of means are those of the levels of randomness that the scores have. Chances, quantiles and correlations
    are of the mean scores of the units by which scores are paired.
    """

    _index: ClassVar = ("alternative",)
    simulated: ClassVar = False
    scores: Scores
    continue_scores: Any = field(repr=False)  # what `continued` calls: the question and the table of all scores

    @property
    def wording(self) -> Wording:
        """Words for a unit, its mean and the gap, for texts."""
        return replace(IS_BETTER, run=self.scores.unit, mean=_MEANS[self.scores.levels.statistic])

    @property
    def minimized(self) -> bool:
        """Whether smaller scores are better."""
        return self.scores.minimize

    def gap(self, first: Label, second: Label) -> Gap:
        """The gap of two alternatives: its mean by all levels; the rest by unit."""
        a, b, found = self._at(first), self._at(second), super().gap(first, second)
        if a == b or self.summary.return_range is not None:
            return found
        assert isinstance(self.summary, ScoreSummary)
        return replace(found, mean=self.summary.mean_gap(a, b))

    def unseen_between(self, first: Label, second: Label) -> Unseen | None:
        """What outcomes that were not seen would have to cost to reverse the verdict.

        Only if pairs are all that is random, and are not successes and failures, whose interval allows for all tables.
        """
        levels = self.scores.levels
        return super().unseen_between(first, second) if levels.simple and not levels.binary else None

    def mcnemar(self, first: Label, second: Label) -> float:
        """p-value of McNemar's exact test that both succeed equally often; for one score of 0 or 1 on each unit."""
        if not self.scores.levels.binary:
            raise UnavailableError(
                "McNemar's test is for one success or failure of each alternative on each unit. These scores are "
                "others, or several trials of a task; the interval of the gap is for them."
            )
        return mcnemar(*discordant(self.scores.levels, self._at(first), self._at(second))[:2])

    def variance_by_level(self, first: Label, second: Label) -> dict[str, float]:
        """Shares of the variance of the mean gap by level, which sum to 1."""
        weights = np.zeros(len(self.alternatives))
        weights[self._at(first)], weights[self._at(second)] = 1.0, -1.0
        return self.scores.levels.shares(weights.tolist())

    def continued(self, more: Any, **given: Any) -> ScoreComparison:  # type: ignore[override]
        """The same comparison of these scores and of `more`, in any form that `compare_scores` takes."""
        if given:
            raise SettingsError(f"continued has no argument {short(next(iter(given)))}. Give scores alone.")
        found: ScoreComparison = self.continue_scores(more)
        return found

    # ------------------------------------------------------------------------------------------------ text

    def _about(self, name: str) -> dict[str, Any]:
        return {"samples": self.counts[name], "confidence": self.confidence}

    def _note(self) -> str:
        return f"{self.effort}; {confidence_percent(self.confidence)} confidence"

    @property
    def effort(self) -> str:
        """The scores, by level, and what is left out."""
        levels, unit = self.scores.levels, self.scores.unit
        said = f"{len(levels.values):,} scores of {len(self.alternatives)} alternatives on {self.samples:,} {unit}s"
        if levels.pairs is None:
            sizes = {len(column[np.isfinite(column)]) for column in levels.outer.T}
            said = (
                f"{len(levels.values):,} scores of {len(self.alternatives)} alternatives, {_range(sizes)} {unit}s each"
            )
        elif len(levels.names) > 1 and not levels.crossed:
            said += f", {_range(set(levels.counts[levels.in_all].ravel().tolist()))} {self.scores.names[1]}s of each"
        elif levels.crossed:
            other = next(i for i in (0, 1) if i != levels.pairs)
            sizes = {int(np.isfinite(one).any(axis=1 - other).sum()) for one in levels.grid}
            said += f", each with {_range(sizes)} {self.scores.names[other]}s"
        return said

    def remarks(self) -> list[str]:
        """What the numbers are, what they assume, and what they leave out."""
        unit, said = self.scores.unit, list[str]()
        if self.scores.about:
            said.append(self.scores.about)
        if self.scores.missing:
            said.append(f"{self.scores.missing:,} scores are missing")
        for name, count in self.scores.left_out.items():
            if count:
                said.append(
                    f"{count:,} {unit}s of {name} are left out, because another alternative has no score of them"
                )
        said += [*self._tests(), *self._by_level(), *self._needed(), self._drawn()]
        return [*said, self._valid(), ESTIMATES]

    def _tests(self) -> list[str]:
        levels, said = self.scores.levels, []
        if levels.binary and not self.scores.running:  # the test is of one look
            for name in self.ranked:
                if name == self.reference:
                    continue
                one, other, n = discordant(levels, self._at(name), self._at(self.reference))
                own, its = (round(levels.rows[:, self._at(which)].sum()) for which in (name, self.reference))
                said.append(
                    f"{name} and {self.reference}: only {name} succeeded in {one} of {n} {self.scores.unit}s, only "
                    f"{self.reference} in {other}; McNemar's exact test of equal rates p = {mcnemar(one, other):.2g} "
                    f"(without pairs p = {unpaired(own, its, n):.2g})"
                )
        return said

    def _by_level(self) -> list[str]:
        """Which level the variance of the gap to the reference comes from, and so what more of it would narrow."""
        levels, other = self.scores.levels, self._opponent
        if len(levels.names) < 2 or not self.advantage(other, self.reference).has_interval:
            return []
        try:
            shares = self.variance_by_level(other, self.reference)
        except SettingsError:
            return []
        if len(shares) < 2 or any(math.isnan(share) for share in shares.values()):
            return []
        (outer, inner), (first, second) = self.scores.names, map(shares.__getitem__, levels.names)
        both = f" and {whole_percent(shares['both'])} from both together" if "both" in shares else ""
        said = (
            f"{whole_percent(first)} of the variance of the mean gap is between {outer}s, {whole_percent(second)} "
            f"between {inner}s{both}"
        )
        if levels.crossed:
            return [f"{said}: more {outer if first > second else inner}s would narrow the interval most"]
        if second < _LITTLE:
            return [f"{said}: more {inner}s per {outer} would not help, more {outer}s would"]
        return [f"{said}: more {inner}s per {outer} would remove at most the second part, more {outer}s both"]

    def _needed(self) -> list[str]:
        """How many units it takes to find a gap as large as the estimate, if scores that are looked at once do not."""
        levels, other = self.scores.levels, self._opponent
        nested = levels.pairs is not None and not (levels.crossed or levels.own or levels.fixed)
        if not nested or self.scores.running or self.samples < FEWEST:
            return []
        gap = self.advantage(other, self.reference)
        size = float(f"{abs(float(gap)):.2g}")
        if not gap.low <= 0 <= gap.high or size == 0:
            return []
        try:
            count = float(f"{self.plan(difference=size).fixed:.2g}")
        except SettingsError:  # gaps that are all equal, or nearly: how much they vary is not known
            return []
        return [f"to find a gap of {size:g}, about {count:,.0f} {self.scores.unit}s: found.plan(difference={size:g})"]

    @property
    def _opponent(self) -> str:
        """The alternative whose gap to the reference is in question, as in `plan`."""
        return self.runner_up if self.reference == self.leader else self.leader

    def _drawn(self) -> str:
        """What the statement is about: which levels are taken as drawn."""
        levels, named = self.scores.levels, dict(zip(self.scores.levels.names, self.scores.names, strict=True))
        if levels.fixed:
            other = [named[name] for name in levels.drawn]
            return (
                f"the statement is about these {named[levels.fixed[0]]}s, with other {other[0] if other else 'trial'}s"
            )
        own = " and ".join(f"{named[name]}s" for name in levels.own)
        drawn = " and ".join(f"{name}s" for name in (self.scores.names if levels.crossed else self.scores.names[:1]))
        said = f"{drawn} are taken as drawn at random from those that the statement is about"
        return f"{said}; {own} are of each alternative alone, and their variances add" if own else said

    def _valid(self) -> str:
        """When the interval of the mean gap is valid."""
        levels, summary, n = self.scores.levels, self.summary, self.scores.levels.units_drawn
        if summary.return_range is not None:
            kind = "whenever it is looked at" if self.scores.running else "for this number"
            return f"intervals of means are valid {kind}, for any scores in the given range"
        if self.scores.running:
            every = f"intervals hold at all numbers of {self.scores.unit}s at once"
            few = math.ceil(fewest(summary.assume.rarest, self.confidence))
            least = f"; fewer than {few} do not decide" if self.samples < few else ""
            return f"{every}, if their order does not depend on the scores{least}"
        if levels.binary:
            exact = "exact and unconditional" if self.samples <= MOST_EXACT else "Tango's score interval"
            return f"the interval of the difference of rates is {exact}, for this number of {self.scores.unit}s"
        if n < FEW:
            between = next(
                name for name, level in zip(self.scores.names, levels.names, strict=True) if level in levels.drawn
            )
            return f"the interval assumes normal effects between {between}s: there are only {n}"
        return "intervals of means are large-sample intervals, for this number of scores, chosen in advance"

    def __repr__(self) -> str:
        better = "smaller" if self.minimized else "larger"
        said: list[str | list[str]] = [self.answer, f"{self.effort}; {better} scores are better", table_lines(self)]
        pairing = self.pairing.sentences()[:1] if self.scores.levels.simple else []
        return paragraphs([*said, *in_one_run(self), *pairing, *self.remarks()])


def _range(sizes: set[int]) -> str:
    return f"{min(sizes):,}" if len(sizes) == 1 else f"{min(sizes):,} to {max(sizes):,}"
