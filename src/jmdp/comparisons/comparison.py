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
from jmdp.base.reportable import Reportable
from jmdp.base.rounding import confidence_percent
from jmdp.base.savable import Savable
from jmdp.base.settings import cut, integer, probability_value, short
from jmdp.comparisons.answer import EARNS, Wording, answer_sentence
from jmdp.comparisons.comparison_table import comparison_table, effort, titles
from jmdp.comparisons.not_worse import NotWorse, not_worse
from jmdp.comparisons.pairing import LuckShares, Pairing, gain_with_interval, pairing_ceiling, pairing_gain
from jmdp.comparisons.regret import OneRun, Regret
from jmdp.errors import LabelError, SettingsError
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap
from jmdp.results.outcome import Outcome
from jmdp.results.result import Tabulated, figure, forgotten
from jmdp.simulators.episodes import EpisodeDraws
from jmdp.statistics.drawn_samples import DrawnSamples
from jmdp.statistics.limits import Limits
from jmdp.statistics.margins import Margin
from jmdp.statistics.planning import FEWEST, Plan, asked, planned
from jmdp.statistics.sample_summary import SampleSummary
from jmdp.statistics.unseen import Unseen, unseen_chance

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(Tabulated, Savable, Reportable):
    """Actions compared from one state under shared randomness.

    Actions that are known to be worse were eliminated, so they have fewer rollouts (`counts`). A gap and all that
    belongs to it are computed from the samples that both actions have, and the regret and `evaluation` from those in
    which every action was simulated. Means are of each action's own rollouts.

    For each action, the intervals of all its gaps hold jointly at `confidence`: for ``samples=n`` at this number alone,
    which was chosen in advance, otherwise at all looks, so that sampling may stop at any of them. Intervals of chances
    and quantiles are valid for any distribution. With a `return_range`, so are those of means, of standard deviations
    of gaps and of regret. Without one, intervals of means are large-sample intervals of what was seen; `unseen_between`
    says what outcomes that were not seen would have to cost to reverse the verdict. Numbers that have no interval are
    estimates: None in a `Gap`, infinite ends in an `Estimate`.
    """

    index: ClassVar = ("action",)
    alternative: ClassVar[str] = "action"  # what is compared
    run: ClassVar[str] = "rollout"  # the name of one sample
    wording: ClassVar[Wording] = EARNS  # of the answer

    summary: SampleSummary = field(repr=False)  # the samples, and the rules of their intervals
    outcome: Outcome
    best: str | None  # the action that is better on average than every other, if decided
    survivors: tuple[str, ...]  # actions that may be best; with a baseline, those that may be equal to it
    worse_than: dict[str, str]  # actions that were eliminated, each with one that is better
    baseline: str | None = None  # the alternative that the others are compared with; None: the leader
    margin: Margin | None  # the largest loss that is accepted, if sampling stopped when that was decided
    indifference: float | None  # differences of means up to this size do not matter
    simulator: str
    policy: str
    numbers: tuple[Label, ...] | None  # discrete actions as users write them: integers of a table, else indices
    continue_with: Callable[[int, Mapping[str, Any]], Comparison] = field(repr=False)
    file_version: int | None = None  # 1: from a file of version 1, whose intervals were others

    @property
    def evaluation(self) -> Evaluation:
        """Means, covariances, gaps and distributions of the samples in which every action was simulated."""
        return self.summary.evaluation

    @property
    def draws(self) -> DrawnSamples:
        """The samples."""
        return self.summary.samples

    @property
    def discount(self) -> float:
        """Discount factor."""
        return self.summary.discount

    @property
    def horizon(self) -> int:
        """Length of a rollout in steps."""
        return self.summary.horizon

    @property
    def seed(self) -> int:
        """Random seed of all draws."""
        return self.summary.seed

    @property
    def confidence(self) -> float:
        """Confidence level of the decision."""
        return self.summary.confidence

    @property
    def limits(self) -> Limits:
        """Errors of returns by the horizon and by rounding."""
        return self.summary.limits

    @property
    def return_range(self) -> tuple[float, float] | None:
        """Range of possible returns, if one was given."""
        return self.summary.return_range

    @property
    def tie_tolerance(self) -> float:
        """Gaps up to this size are ties."""
        return float(self.summary.assume.tie_tolerance)

    @property
    def samples(self) -> int:
        """Rollouts of each action that was not eliminated."""
        return len(self.draws)

    @property
    def counts(self) -> dict[str, int]:
        """Rollouts of each action."""
        return dict(zip(self.actions, self.draws.counts.tolist(), strict=True))

    def common_samples(self, first: Label, second: Label) -> int:
        """Number of samples in which both actions were simulated."""
        return int(min(self.draws.counts[self._at(first)], self.draws.counts[self._at(second)]))

    @property
    def mean_title(self) -> str:
        """Title of the column of means."""
        return "mean return"

    @property
    def sign(self) -> float:
        """1 if larger returns are better, −1 if smaller ones are."""
        return 1.0

    @property
    def choice(self) -> str | None:
        """The action to take: `best`, or one that is known to be within `indifference` of the best; else None."""
        return self.leader if self.outcome is Outcome.GOOD_ENOUGH else self.best

    @property
    def decided(self) -> bool:
        """Whether the question is answered. A number of samples chosen in advance may not be enough."""
        if self.outcome is not Outcome.SAMPLED:
            return self.outcome.successful
        others = [name for name in self.actions if name != self.reference]
        if self.margin is not None:
            return all(self.not_worse(self.margin, name).verdict is not Verdict.UNKNOWN for name in others)
        if self.baseline is None:
            return self.best is not None
        gaps = [self.advantage(name, self.baseline) for name in others]
        return all(gap.low > 0 or gap.high < 0 for gap in gaps)

    @property
    def actions(self) -> list[str]:
        """Names of the actions compared."""
        labels = self.summary.labels
        return [labels.name(i) for i in range(labels.size)]

    @cached_property
    def leader(self) -> str:
        """The action with the best mean so far among the survivors; equal to `best` once that is decided."""
        return next(name for name in self.ranked if name not in self.worse_than)

    @property
    def ranked(self) -> list[str]:
        """The actions, the best mean so far first: in the order of their mean gaps, over the samples in common."""
        return [self.actions[a] for a in self.summary.ranking]

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

    def mean_of(self, action: Label) -> Estimate:
        """E[Z(action)] with its interval."""
        return Estimate(*(float(values[self._at(action)]) for values in self.summary.means))

    def gap(self, first: Label, second: Label) -> Gap:
        """Z(first) − Z(second) under shared randomness: mean, standard deviation, correlation, distribution."""
        a, b = self._at(first), self._at(second)
        if a == b:
            return self.evaluation.gap(0, a, b)
        gap = self.summary.pair(a, b).gap(0, 0, 1)
        if self.summary.certain:
            return gap
        if self.return_range is None:
            mean = self.summary.gap_interval(a, b)
            return replace(gap, mean_interval=mean if math.isfinite(mean.width) else None)
        bounded = self.summary.bounded(self.draws.of(a, b))
        low, high = bounded.gap_means
        variance = replace(bounded, draws=bounded.draws.one_coupling).gap_variance(0, 1)
        central = (*gap.central_moments[:2], Estimate(gap.variance, variance.low, variance.high))
        mean = Interval(float(low[0, 1]), float(high[0, 1]))
        return replace(gap, mean_interval=mean, variance_interval=variance, central_moments=central)

    def advantage(self, first: Label, second: Label) -> Estimate:
        """How much better the first action is on average: the mean gap, or its negative if smaller is better."""
        gap = self.gap(first, second)
        found = Estimate.within(gap.mean, gap.mean_interval)
        return found if self.sign > 0 else found.negative()

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
            error = (1 - level) / max(1, len(self.actions) - 1)
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

    def pair(self, first: Label, second: Label) -> Evaluation:
        """Evaluation of two different actions, from the samples that both have."""
        return self.summary.pair(self._at(first), self._at(second))

    def superiority(self, first: Label, second: Label) -> Estimate:
        """Probability that the first action is better by more than `tie_tolerance`: P(Z(first) − Z(second) > …).

        Equal floating-point returns count as a tie if they were summed without rounding, or are sums of the same
        rewards in the same steps. Truncated rollouts count up to the horizon; the interval allows for later rewards.
        """
        a, b, tie = self._at(first), self._at(second), self.tie_tolerance
        return Estimate(0.0, 0.0, 0.0) if a == b else self.summary.chance(a, b, lambda gaps: gaps > tie)

    def win_rate(self, first: Label, second: Label) -> Estimate:
        """Probability that the first action is better, plus half of that of a tie; ½ for equally good actions."""
        a, b, tie = self._at(first), self._at(second), self.tie_tolerance
        if a == b:
            return Estimate(0.5, 0.5, 0.5)
        return self.summary.chance(a, b, lambda gaps: 0.5 * (gaps > tie) + 0.5 * (gaps >= -tie))

    def advantage_quantiles(self, first: Label, second: Label) -> dict[str, Estimate]:
        """By how much the first action is better in one rollout: quantiles, and the mean of the worst 5%.

        Intervals of quantiles are valid for any distribution. The worst 5% has one only with a `return_range`.
        """
        a, b = self._at(first), self._at(second)
        gaps, hidden = self.summary.advantages(a, b)
        widest = math.inf if self.return_range is None else self.return_range[1] - self.return_range[0]
        error = 0.0 if self.summary.certain or a == b else self.summary.error
        found = OneRun(gaps, hidden, -widest, widest, error, self.summary.sampling)
        quantiles = {f"{100 * p:.0f}% quantile": found.quantile(p) for p in (0.05, 0.5, 0.95)}
        return {**quantiles, "worst 5%": found.negative().cvar(0.05).negative()}

    def regret(self, action: Label) -> Regret:
        """Regret under the same randomness, relative to the best action in hindsight: max_b Z(b) − Z(action) ≥ 0.

        From the samples in which every action was simulated.
        """
        a = self._at(action)
        draws = self.draws.complete.one_coupling
        returns, ends = draws.returns, draws.ends
        hidden = np.where((ends != ends[:, [a]]).any(axis=1), 2 * self.limits.cut, 0.0) + 2 * self.limits.rounding
        most = math.inf if self.return_range is None else self.return_range[1] - self.return_range[0]
        values = (self.sign * returns).max(axis=1) - self.sign * returns[:, a]
        error = 0.0 if self.summary.certain else 1 - self.confidence
        return Regret(values, hidden, 0.0, most, error, self.summary.sampling, self.actions[a])

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
        """The action with the second best mean so far."""
        return next(action for action in self.ranked if action != self.leader)

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
        others = [name for name in self.actions if name != middle]
        found = [self.unseen_between(middle, name) or self.unseen_between(name, middle) for name in others]
        return [one for one in found if one is not None]

    def unseen_between(self, first: Label, second: Label) -> Unseen | None:
        """What unseen outcomes would have to cost so that the first alternative is not better; None if it is not known.

        None with a `return_range` too, which bounds them, and if nothing is random.
        """
        a, b, n = self._at(first), self._at(second), self.common_samples(first, second)
        low = float(self.summary.verdict_limits(a, (a, b))[0][1])
        if not 0 < low < math.inf or not self.summary.decisive(n) or self.return_range is not None:
            return None
        if self.summary.certain:
            return None
        if (loss := self.summary.assume.largest_loss) is not None:
            return Unseen(low, n, loss, included=True)
        return Unseen(low, n, float(np.abs(self.draws.of(a, b).returns).max()))

    def continued(self, samples: int, *, precision: float | None = None, **given: Any) -> Comparison:
        """Continue to this many rollouts of each action that was not eliminated, or until decided if it is not.

        No sample is drawn twice. A decided comparison goes on with the actions that were simulated last, to narrow the
        intervals; with `precision`, until their mean gaps (to a baseline, if given) are known to ± this value.
        `max_steps` and `max_seconds` no longer apply. A fixed number of samples (``samples=n``) is looked at once more:
        the text then says which statement holds for all looks together. One from a file must be given what a file does
        not have: ``continued(5000, simulator=…, policy=…)``, and `state` and `actions` if the first call had them.
        """
        return self.continue_with(samples, {"precision": precision, **given})

    def rows(self) -> list[dict[str, Any]]:
        """One row per action, with the columns of the printed table and the regret of each action."""
        rows = []
        for action in self.actions:
            found = dict(zip(titles(self), self.beside_leader(action).values(), strict=True))
            regret = self.regret(action)
            worst = {
                "mean regret": regret.mean,
                "95% quantile of regret": regret.quantile(0.95),
                "worst 5% of regret": regret.cvar(0.05),
            }
            rows.append(
                {"action": action} | found | self._in_one_run(self.leader, action) | worst | self._about(action)
            )
        return rows

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

    def beside_leader(self, action: Label) -> dict[str, Estimate]:
        """One row of the table: the mean of an action, and the advantage of the leader over it."""
        return self._beside(action, self.leader, action, ("leader_better", "leader_worse"))

    def _beside(self, name: Label, first: Label, second: Label, chances: tuple[str, str]) -> dict[str, Estimate]:
        """Mean of one alternative, and the gap first − second: one of them is `name`, the other the reference."""
        gap = self.gap(first, second)
        same, one = gap.first == gap.second, Estimate(1.0, 1.0, 1.0)
        return {
            "mean": self.mean_of(name),
            "advantage": self.advantage(first, second),
            "advantage_std": Estimate(0.0, 0.0, 0.0) if same else Estimate.within(gap.std, gap.std_interval),
            chances[0]: self.superiority(first, second),
            chances[1]: self.superiority(second, first),
            "correlation": one if same else Estimate.within(gap.correlation, gap.correlation_interval),
            "variance_reduction": self.variance_reduction(first, second),
            "variance_reduction_ceiling": self.variance_reduction_ceiling(first, second),
        }

    def _at(self, label: Label) -> int:
        """Position of an action, by its name or by its index in the simulator."""
        if self.numbers is None or isinstance(label, str):
            return self.summary.labels.index(label)
        if (number := integer(label)) is None or number not in self.numbers:
            compared = cut(", ".join(self.actions))
            raise LabelError(f"Action {short(label)} was not compared. Compared actions: {compared}.")
        return self.numbers.index(number)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "continue_with": forgotten}

    def _title(self) -> str:
        return self.answer

    def _note(self) -> str:
        return f"{effort(self)}; {confidence_percent(self.confidence)} confidence"

    def __repr__(self) -> str:
        return comparison_table(self)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WholeComparison(Comparison):
    """Alternatives compared over whole episodes or runs: base class of `PolicyComparison` and `RunComparison`."""

    @property
    def paired_samples(self) -> int:
        """Number of samples drawn under the requested coupling."""
        return sum(cast(EpisodeDraws, stage.draws).paired for stage in self.draws.stages)

    @cached_property
    def pairing(self) -> Pairing:
        """Gain in variance by sharing randomness for the gaps to `reference`, and the sources of randomness.

        From the samples in which every alternative was simulated.
        """
        r, (returns, noise) = self._at(self.reference), self.summary.scaled()
        sampling, error = self.summary.sampling, 1 - self.confidence
        probes = [cast(EpisodeDraws, stage.draws).probe for stage in self.draws.stages]
        return Pairing(
            gain=gain_with_interval(returns, r, noise, sampling, error),
            ceiling=pairing_ceiling(returns, r, noise),
            correlation=pairing_gain(returns, r, noise)[1],
            samples=len(returns),
            shares=next((LuckShares.of(probe) for probe in probes if probe is not None), None),
            independent=self.samples - self.paired_samples,
            run=self.run,
        )

    def beside_reference(self, name: Label) -> dict[str, Estimate]:
        """One row of the table: the mean of an alternative, and its advantage over `reference`."""
        return self._beside(name, name, self.reference, ("better", "worse"))

    def rows(self) -> list[dict[str, Any]]:
        """One row per alternative, with the columns of the printed table."""
        return [
            {self.alternative: name}
            | dict(zip(titles(self), self.beside_reference(name).values(), strict=True))
            | self._in_one_run(name, self.reference)
            | self._about(name)
            for name in self.actions
        ]
