"""The result of a comparison: which alternative is better, by how much, with what confidence, and its regret."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate, Interval, Verdict
from jmdp.base.labels import Label
from jmdp.base.rounding import confidence_percent
from jmdp.base.savable import Reportable, Savable
from jmdp.base.settings import cut, integer, probability_value, short
from jmdp.comparisons.answer import EARNS, NotWorse, Wording, answer_sentence, not_worse
from jmdp.comparisons.comparison_table import OneRun, Regret, comparison_table, effort, titles
from jmdp.comparisons.explaining import explained, value_of_knowing
from jmdp.comparisons.explanation import Explanation
from jmdp.comparisons.pairing import LuckShares, Pairing, gain_with_interval, pairing_ceiling, pairing_gain
from jmdp.errors import LabelError, SettingsError, UnavailableError
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap
from jmdp.results.result import Tabulated, figure, forgotten
from jmdp.simulators.rollouts.draws import EpisodeDraws
from jmdp.statistics.anytime import Unseen, unseen_chance
from jmdp.statistics.planning import FEWEST, Plan, asked, planned
from jmdp.statistics.sample_summary import SampleSummary
from jmdp.statistics.selection import Margin

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(Tabulated, Savable, Reportable):
    """Alternatives compared under shared randomness: actions, policies or designs.

    Alternatives that are known to be worse were eliminated, so they have fewer samples (`counts`). A gap and all that
    belongs to it are computed from the samples that both alternatives have, and the regret and `evaluation` from those
    in which every alternative was simulated. Means are of each alternative's own samples.

    For each alternative, the intervals of all its gaps hold jointly at `confidence`: for ``samples=n`` at this number
    alone, which was chosen in advance, otherwise at all looks, so that sampling may stop at any of them. Intervals of
    chances and quantiles are valid for any distribution. With a `return_range`, so are those of means, of standard
    deviations of gaps and of regret. Without one, intervals of means are large-sample intervals of what was seen;
    `unseen_between` says what outcomes that were not seen would have to cost to reverse the verdict. Numbers that have
    no interval are estimates: None in a `Gap`, infinite ends in an `Estimate`.
    """

    simulated: ClassVar[bool] = True  # samples are drawn from a seed; False if they are recorded scores
    _chances: ClassVar = ("better", "worse")  # names in `beside`

    summary: SampleSummary = field(repr=False)  # the samples and settings, and the rules of their intervals
    outcome: Outcome
    best: str | None  # the alternative that is better on average than every other, if decided
    survivors: tuple[str, ...]  # alternatives that may be best; with a baseline, those that may be equal to it
    worse_than: dict[str, str]  # alternatives that were eliminated, each with one that is better
    baseline: str | None = None  # the alternative that the others are compared with; None: the leader
    margin: Margin | None  # the largest loss that is accepted, if sampling stopped when that was decided
    indifference: float | None  # differences of means up to this size do not matter
    simulator: str
    continue_with: Callable[[int, Mapping[str, Any]], Comparison] = field(repr=False)  # what `continued` calls

    @property
    def wording(self) -> Wording:
        """Words for one sample, its mean and the gap, for texts."""
        return EARNS

    @property
    def evaluation(self) -> Evaluation:
        """Means, covariances, gaps and distributions of the samples in which every alternative was simulated."""
        return self.summary.evaluation

    @property
    def seed(self) -> int:
        """Random seed of all draws."""
        return self.summary.seed

    @property
    def confidence(self) -> float:
        """Confidence level of the decision."""
        return self.summary.confidence

    @property
    def samples(self) -> int:
        """Samples of each alternative that was not eliminated."""
        return len(self.summary.samples)

    @property
    def counts(self) -> dict[str, int]:
        """Samples of each alternative."""
        return dict(zip(self.alternatives, self.summary.samples.counts.tolist(), strict=True))

    @property
    def decided(self) -> bool:
        """Whether the question is answered. A number of samples chosen in advance may not be enough."""
        if self.outcome is not Outcome.SAMPLED:
            return self.outcome.successful
        others = [name for name in self.alternatives if name != self.reference]
        if self.margin is not None:
            return all(self.not_worse(self.margin, name).verdict is not Verdict.UNKNOWN for name in others)
        if self.baseline is None:
            return self.best is not None
        gaps = [self.advantage(name, self.baseline) for name in others]
        return all(gap.low > 0 or gap.high < 0 for gap in gaps)

    @property
    def alternatives(self) -> list[str]:
        """Names of the alternatives compared."""
        labels = self.summary.labels
        return [labels.name(i) for i in range(labels.size)]

    @cached_property
    def leader(self) -> str:
        """The alternative with the best mean so far among the survivors; equal to `best` once that is decided."""
        return next(name for name in self.ranked if name not in self.worse_than)

    @property
    def ranked(self) -> list[str]:
        """The alternatives, the best mean so far first: in the order of their mean gaps, over the samples in common."""
        return [self.alternatives[a] for a in self.summary.ranking]

    @property
    def reference(self) -> str:
        """The alternative that the table compares the others with: the baseline if given, else the leader."""
        return self.leader if self.baseline is None else self.baseline

    @property
    def paired_samples(self) -> int:
        """Number of samples drawn under the requested coupling: all of them."""
        return self.samples

    @property
    def answer(self) -> str:
        """The answer in one sentence."""
        return answer_sentence(self)

    @property
    def mean(self) -> Floats:
        """[A], means of the returns."""
        return self.summary.means[0]

    def mean_of(self, alternative: Label) -> Estimate:
        """E[Z(alternative)] with its interval."""
        return Estimate(*(float(values[self._at(alternative)]) for values in self.summary.means))

    def gap(self, first: Label, second: Label) -> Gap:
        """Z(first) − Z(second) under shared randomness: mean, standard deviation, correlation, distribution."""
        a, b = self._at(first), self._at(second)
        if a == b:
            return self.evaluation.gap(0, a, b)
        gap = self.summary.pair(a, b).gap(0, 0, 1)
        if self.summary.certain:
            return gap
        if self.summary.return_range is None:
            mean = self.summary.gap_interval(a, b)
            return replace(gap, mean_interval=mean if math.isfinite(mean.width) else None)
        bounded = self.summary.bounded(self.summary.samples.of(a, b))
        low, high = bounded.gap_means
        variance = replace(bounded, draws=bounded.draws.one_coupling).gap_variance(0, 1)
        central = (*gap.central_moments[:2], Estimate(gap.variance, variance.low, variance.high))
        mean = Interval(float(low[0, 1]), float(high[0, 1]))
        return replace(gap, mean_interval=mean, variance_interval=variance, central_moments=central)

    def advantage(self, first: Label, second: Label) -> Estimate:
        """How much better the first alternative is on average: the mean gap, or its negative if smaller is better."""
        gap = self.gap(first, second)
        found = Estimate.within(gap.mean, gap.mean_interval)
        return found if self.summary.sign > 0 else found.negative()

    def not_worse(self, margin: Margin | float | str, new: Label | None = None, old: Label | None = None) -> NotWorse:
        """Whether E[new] ≥ E[old] − margin (E[new] ≤ E[old] + margin if smaller is better).

        A margin is in units of the return, or a share of |E[old]|: "2%". By default `old` is the baseline.
        """
        named = new, self.baseline if old is None else old
        return not_worse(self, Margin.of(margin), *(None if label is None else self._at(label) for label in named))

    def plan(
        self,
        *,
        difference: float | None = None,
        precision: float | None = None,
        margin: Margin | float | str | None = None,
        power: float = 0.9,
        confidence: float | None = None,
    ) -> Plan:
        """How many pairs the gap of the best two, or of the best and the baseline, will take: `jmdp.plan`."""
        aim, size = asked({"difference": difference, "precision": precision, "margin": margin})
        if self.samples < FEWEST:
            raise SettingsError(f"A pilot of {self.samples} samples is too small to plan with. Draw at least {FEWEST}.")
        summary = self.summary
        if confidence is not None:
            level = probability_value("confidence", confidence)
            error = (1 - level) / max(1, len(self.alternatives) - 1)
            summary = replace(summary, confidence=level, error=error)
        second = self.runner_up if self.baseline in (None, self.leader) else self.baseline
        assert second is not None
        a, b = self._at(self.leader), self._at(second)
        if not isinstance(size, Margin):
            return planned(summary.gaps(a, b), aim, size, power, summary.confidence)
        old = abs(float(self.mean_of(second))) if size.relative else 1.0
        gaps = summary.gaps(b, a, size)
        if summary.assume.largest_loss is None:  # the range of normal returns grows by a quarter from 64 to 500
            gaps = replace(gaps, loss=1.25 * gaps.loss)
        return planned(gaps, aim, size.size * old, power, summary.confidence)

    def superiority(self, first: Label, second: Label) -> Estimate:
        """Probability that the first alternative is better by more than `tie_tolerance`: P(Z(first) − Z(second) > …).

        Equal floating-point returns count as a tie if they were summed without rounding, or are sums of the same
        rewards in the same steps. Truncated rollouts count up to the horizon; the interval allows for later rewards.
        """
        a, b, tie = self._at(first), self._at(second), float(self.summary.assume.tie_tolerance)
        return Estimate(0.0, 0.0, 0.0) if a == b else self.summary.chance(a, b, lambda gaps: gaps > tie)

    def win_rate(self, first: Label, second: Label) -> Estimate:
        """Probability that the first alternative is better, plus half of that of a tie; ½ for equally good actions."""
        a, b, tie = self._at(first), self._at(second), float(self.summary.assume.tie_tolerance)
        if a == b:
            return Estimate(0.5, 0.5, 0.5)
        return self.summary.chance(a, b, lambda gaps: 0.5 * (gaps > tie) + 0.5 * (gaps >= -tie))

    def advantage_quantiles(self, first: Label, second: Label) -> dict[str, Estimate]:
        """By how much the first alternative is better in one sample: quantiles, and the mean of the worst 5%.

        Intervals of quantiles are valid for any distribution. The worst 5% has one only with a `return_range`.
        """
        a, b = self._at(first), self._at(second)
        gaps, hidden = self.summary.advantages(a, b)
        error = 0.0 if self.summary.certain or a == b else self.summary.error
        found = OneRun(gaps, hidden, -self.summary.widest, self.summary.widest, error, self.summary.sampling)
        quantiles = {f"{100 * p:.0f}% quantile": found.quantile(p) for p in (0.05, 0.5, 0.95)}
        return {**quantiles, "worst 5%": found.negative().cvar(0.05).negative()}

    def regret(self, alternative: Label) -> Regret:
        """Regret with the same randomness, relative to the best in hindsight: max_b Z(b) − Z(alternative) ≥ 0.

        From the samples in which every alternative was simulated.
        """
        a = self._at(alternative)
        summary, draws = self.summary, self.summary.samples.complete.one_coupling
        returns, ends = draws.returns, draws.ends
        limits, sign = summary.limits, summary.sign
        hidden = np.where((ends != ends[:, [a]]).any(axis=1), 2 * limits.cut, 0.0) + 2 * limits.rounding
        values = (sign * returns).max(axis=1) - sign * returns[:, a]
        error = 0.0 if summary.certain else 1 - self.confidence
        return Regret(values, hidden, 0.0, summary.widest, error, summary.sampling, self.alternatives[a])

    def variance_reduction(self, first: Label, second: Label) -> Estimate:
        """(Var Z(first) + Var Z(second))/Var(gap): how many times as many independent rollouts the mean gap would need.

        The ratio of the squared widths of both intervals, but for their corrections. Infinite if the gap did not vary,
        nan if the returns did not vary either. The interval is a large-sample one.
        """
        returns, noise = self.summary.scaled(self._at(first), self._at(second))
        return gain_with_interval(returns, 0, noise, self.summary.sampling, self.summary.error)

    def variance_reduction_ceiling(self, first: Label, second: Label) -> Estimate:
        """(σ₁² + σ₂²)/(σ₁ − σ₂)²: no coupling of returns with these standard deviations has a larger reduction.

        Infinite if the standard deviations are equal. An estimate without an interval.
        """
        returns, noise = self.summary.scaled(self._at(first), self._at(second))
        return Estimate.within(pairing_ceiling(returns, 0, noise), None)

    @property
    def runner_up(self) -> str:
        """The alternative with the second best mean so far."""
        return next(name for name in self.ranked if name != self.leader)

    @property
    def unseen(self) -> float:
        """Outcomes with a chance below this may be missing from the samples, at 99%."""
        return unseen_chance(self.samples)

    @property
    def firm(self) -> bool:
        """Whether the verdict holds unless unseen outcomes cost more than one whole return on average."""
        return all(one.firm for one in self.reversals())

    @property
    def break_even(self) -> float | None:
        """What unseen outcomes would have to cost on average to reverse the verdict; None without one."""
        return min((one.break_even for one in self.reversals()), default=None)

    def reversals(self) -> list[Unseen]:
        """For each verdict on `best`, or else on the gaps to `reference`, what would reverse it."""
        middle = self.reference if self.best is None else self.best
        others = [name for name in self.alternatives if name != middle]
        found = [self.unseen_between(middle, name) or self.unseen_between(name, middle) for name in others]
        return [one for one in found if one is not None]

    def unseen_between(self, first: Label, second: Label) -> Unseen | None:
        """What unseen outcomes would have to cost so that the first alternative is not better; None if it is not known.

        None with a `return_range` too, which bounds them, and if nothing is random.
        """
        a, b = self._at(first), self._at(second)
        n = int(self.summary.samples.counts[[a, b]].min())
        low = float(self.summary.verdict_limits(a, (a, b))[0][1])
        if not 0 < low < math.inf or not self.summary.decisive(n) or self.summary.return_range is not None:
            return None
        if self.summary.certain or self.summary.sampling.kind == "histories":
            return None
        if (loss := self.summary.assume.largest_loss) is not None:
            return Unseen(low, n, loss, included=True)
        return Unseen(low, n, float(np.abs(self.summary.samples.of(a, b).returns).max()))

    def continued(self, samples: int, *, precision: float | None = None, **given: Any) -> Comparison:
        """Continue to this many samples of each alternative that was not eliminated, or until decided if it is not.

        No sample is drawn twice. A decided comparison goes on with the alternatives that were simulated last, to narrow
        the intervals; with `precision`, until their mean gaps (to a baseline, if given) are known to ± this value.
        `max_steps` and `max_seconds` no longer apply. A fixed number of samples (``samples=n``) is looked at once more:
        the text then says which statement holds for all looks together. One from a file must be given what a file does
        not have: ``continued(5000, simulator=…, policy=…)``, and `state` and `actions` if the first call had them.
        """
        return self.continue_with(samples, {"precision": precision, **given})

    def explain(
        self, first: Label | None = None, second: Label | None = None, *, samples: int | None = None, **given: Any
    ) -> Explanation:
        """Which sources of randomness explain the variance of the gap first − second, each with its share.

        A source is all draws by name (`Luck`) whose keys begin with the same name; also "start", "policy", each
        generator of an ordinary object, and "unnamed". By default the gap is that of the best two, or to the baseline.
        New samples are drawn, for k sources with k + 2 runs of both alternatives each, and one more if some sources are
        used rarely: at most 1,000, and at most 10 times as many runs as the comparison, unless `samples` is given.
        With more than 8 sources, the smallest in a pilot are grouped. In tables with `sources` the shares are exact. A
        comparison from a file must be given its simulator, as in `continued`.
        """
        old = self.runner_up if self.baseline is None else self.baseline
        new = self.runner_up if old == self.leader else self.leader
        pair = self._at(new if first is None else first), self._at(old if second is None else second)
        if pair[0] == pair[1]:
            raise SettingsError(f"The gap between {self.alternatives[pair[0]]} and itself is 0. Give two alternatives.")
        return explained(self._question(given), self, pair, samples)

    def value_of_knowing(self, source: str, *, samples: int | None = None, **given: Any) -> Estimate:
        """How much better the choice is if a source is known before: E[max_a E(Z_a | source)] − max_a E(Z_a).

        All draws of the source in a sample would be known, also later ones, and the choice is among the alternatives
        compared. For each of n draws of the source, all others are drawn m times; n m is `samples`, by default 10 times
        that of the comparison. The estimate is cross-fitted, which is biased downwards: for each of the m runs, the
        others choose the alternative. The interval goes from there to the mean of the largest mean, which is biased
        upwards, each with its error.
        """
        return value_of_knowing(self._question(given), self, source, samples)

    def beside(self, alternative: Label) -> dict[str, Estimate]:
        """One row of the table: the mean of an alternative, and its advantage over `reference`.

        Of actions it is the advantage of the leader over the alternative.
        """
        first, second = self._gap_beside(alternative)
        gap = self.gap(first, second)
        same, one, (better, worse) = gap.first == gap.second, Estimate(1.0, 1.0, 1.0), self._chances
        return {
            "mean": self.mean_of(alternative),
            "advantage": self.advantage(first, second),
            "advantage_std": Estimate(0.0, 0.0, 0.0) if same else Estimate.within(gap.std, gap.std_interval),
            better: self.superiority(first, second),
            worse: self.superiority(second, first),
            "correlation": one if same else Estimate.within(gap.correlation, gap.correlation_interval),
            "variance_reduction": self.variance_reduction(first, second),
            "variance_reduction_ceiling": self.variance_reduction_ceiling(first, second),
        }

    def rows(self) -> list[dict[str, Any]]:
        """One row per alternative, with the columns of the printed table; of actions, also the regret of each."""
        return [
            {self.summary.labels.kind: name}
            | dict(zip(titles(self), self.beside(name).values(), strict=True))
            | self._in_one_run(*self._gap_beside(name))
            | self._about(name)
            for name in self.alternatives
        ]

    def _gap_beside(self, name: Label) -> tuple[Label, Label]:
        """The two alternatives of the gap in the row of one of them."""
        return name, self.reference

    def _in_one_run(self, first: Label, second: Label) -> dict[str, Estimate]:
        quantiles = self.advantage_quantiles(first, second)
        found = {f"{key} of advantage": value for key, value in quantiles.items()}
        return found | {"win rate": self.win_rate(first, second)}

    def _about(self, name: str) -> dict[str, Any]:
        return {"samples": self.counts[name], "seed": self.seed, "confidence": self.confidence}

    def to_xarray(self) -> xarray.Dataset:
        """Means, covariances and correlations of the returns, with labels and errors."""
        about = {"seed": str(self.seed), "samples": self.samples, "outcome": self.outcome.name, "answer": self.answer}
        return self.evaluation.to_xarray().assign_attrs(about)

    def plot(self) -> Figure:
        """Draw `jmdp.plots.comparison_chart`."""
        return figure("comparison_chart", self)

    def _question(self, given: Mapping[str, Any]) -> Any:
        """The question of this comparison, to simulate more samples."""
        if (asked := getattr(self.continue_with, "asked", None)) is None:
            raise UnavailableError(
                "This comparison has no simulator: its scores were recorded, it was pickled, or it is one measure of a "
                "saved comparison. Compare again with a simulator, and draws by name."
            )
        return asked(given)

    def _at(self, label: Label) -> int:
        """Position of an alternative, by its name or by its position."""
        return self.summary.labels.index(label)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "continue_with": forgotten}

    def _title(self) -> str:
        return self.answer

    def _note(self) -> str:
        return f"{effort(self)}; {confidence_percent(self.confidence)} confidence"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ActionComparison(Comparison):
    """Actions compared from one state: a `Comparison` whose alternatives are actions."""

    _index: ClassVar = ("action",)
    _chances: ClassVar = ("leader_better", "leader_worse")

    policy: str  # followed after the action
    numbers: tuple[Label, ...] | None  # discrete actions as users write them: integers of a table, else indices

    def _gap_beside(self, name: Label) -> tuple[Label, Label]:
        return self.leader, name

    def _about(self, name: str) -> dict[str, Any]:
        regret = self.regret(name)
        worst = {
            "mean regret": regret.mean,
            "95% quantile of regret": regret.quantile(0.95),
            "worst 5% of regret": regret.cvar(0.05),
        }
        return worst | super()._about(name)

    def _at(self, label: Label) -> int:
        """Position of an action, by its name or by its index in the simulator."""
        if self.numbers is None or isinstance(label, str):
            return self.summary.labels.index(label)
        if (number := integer(label)) is None or number not in self.numbers:
            compared = cut(", ".join(self.alternatives))
            raise LabelError(f"Action {short(label)} was not compared. Compared actions: {compared}.")
        return self.numbers.index(number)

    def __repr__(self) -> str:
        return comparison_table(self)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WholeComparison(Comparison):
    """Alternatives compared over whole episodes or runs: base class of `PolicyComparison` and `RunComparison`."""

    @property
    def paired_samples(self) -> int:
        """Number of samples drawn under the requested coupling."""
        return sum(cast(EpisodeDraws, stage.draws).paired for stage in self.summary.samples.stages)

    @cached_property
    def pairing(self) -> Pairing:
        """Gain in variance by sharing randomness for the gaps to `reference`, and the sources of randomness.

        From the samples in which every alternative was simulated.
        """
        r, (returns, noise) = self._at(self.reference), self.summary.scaled()
        sampling, error = self.summary.sampling, 1 - self.confidence
        probes = [cast(EpisodeDraws, stage.draws).probe for stage in self.summary.samples.stages]
        return Pairing(
            gain=gain_with_interval(returns, r, noise, sampling, error),
            ceiling=pairing_ceiling(returns, r, noise),
            correlation=pairing_gain(returns, r, noise)[1],
            samples=len(returns),
            shares=next((LuckShares.of(probe) for probe in probes if probe is not None), None),
            independent=self.samples - self.paired_samples,
            run=self.wording.run,
        )
