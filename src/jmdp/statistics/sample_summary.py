"""Estimates and intervals of a comparison, for any of its alternatives, from the samples that they have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from jmdp.base.arrays import Booleans, Floats
from jmdp.base.interval import Estimate, Interval
from jmdp.base.labels import Labels
from jmdp.models.coupling import Coupling
from jmdp.results.evaluation import Evaluation
from jmdp.results.parts import MethodSettings
from jmdp.simulators.rollouts.draws import ENDED, Draws, EpisodeDraws, is_exact_sum
from jmdp.statistics.anytime import with_largest_loss
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.bounded_returns import BoundedReturns
from jmdp.statistics.drawn_evaluation import DrawnSamples, SampledProblem, Stored, Within, drawn_evaluation
from jmdp.statistics.history import HistoryUse
from jmdp.statistics.means import FEW, IntervalRule, Sampling, Strata, centred, mean_of
from jmdp.statistics.pair_means import PairMeans
from jmdp.statistics.planning import Gaps, fewest, needed
from jmdp.statistics.sample_moments import mean_errors, sample_moments
from jmdp.statistics.selection import Limits, Margin


class _Gaps(NamedTuple):
    """Mean gaps [A] between one alternative and some others, in units of the scale, and what is known of them."""

    mean: Floats
    errors: Floats  # [2, A], below and above
    hidden: Floats  # errors by the horizon and by rounding
    unvaried: Booleans  # gaps that were the same in all samples
    varied: bool  # whether the returns of the one alternative varied


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleSummary:
    """Samples of a comparison, and all that their intervals depend on."""

    samples: DrawnSamples
    labels: Labels  # of the alternatives
    limits: Limits  # errors of returns by truncation and rounding
    coupling: Coupling
    discount: float
    horizon: int
    seed: int
    confidence: float
    error: float  # error probability of one interval
    sampling: Sampling
    assume: Assumptions
    method: MethodSettings  # a dataclass with the number of samples, `samples`
    certain: bool = False  # nothing is random, so that one sample is exact
    sign: float = 1.0  # −1 if smaller returns are better
    shares: Floats | None = None  # probabilities of the starts, if they were drawn in proportion to them
    history: HistoryUse | None = None  # how a recorded history was used
    file_version: int | None = None  # 1: from a file of version 1, whose intervals were others
    _pairs: dict[tuple[int, int], Evaluation] = field(default_factory=dict, init=False, repr=False)
    _gaps: dict[tuple[int, ...], _Gaps] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def evaluation(self) -> Evaluation:
        """Evaluation of the samples in which every alternative was simulated."""
        return self._evaluation(self.samples.complete, self.labels)

    @cached_property
    def means(self) -> tuple[Floats, Floats, Floats]:
        """Mean of each alternative over its own samples, and its lower and upper limit, [A] each."""
        counts, found = self.samples.counts, np.empty((3, self.labels.size))
        for n in np.unique(counts):
            group = np.flatnonzero(counts == n)
            found[:, group] = self._group_means(self.samples.of(*group.tolist()))
        mean, low, high = found
        return mean, low, high

    @cached_property
    def ranking(self) -> list[int]:
        """The alternatives, the best first.

        Means of different numbers of samples differ by randomness that a gap does not have. Alternatives are therefore
        ordered by their mean gap to one with the most samples, over those that both have.
        """
        returns, counts = self.samples.returns, self.samples.counts
        mean = self.sign * np.array([mean_of(returns[:n, [i]], self.strata)[0] for i, n in enumerate(counts)])
        last = np.flatnonzero(counts == counts.max())
        anchor = int(last[mean[last].argmax()])
        for i in np.flatnonzero(counts < counts.max()):
            ahead, behind = mean_of(self.samples.of(anchor, int(i)).returns, self.strata)
            mean[i] = mean[anchor] - self.sign * (ahead - behind)
        found: list[int] = np.argsort(-mean, kind="stable").tolist()
        return found

    @cached_property
    def strata(self) -> Strata | None:
        """Starts of the samples, if they were drawn in shares."""
        if self.shares is None:
            return None
        starts = [cast(EpisodeDraws, stage.draws).starts[:, 0] for stage in self.samples.stages]
        return Strata(np.concatenate(starts), self.shares)

    @property
    def return_range(self) -> tuple[float, float] | None:
        """Range of possible returns, if one was given."""
        given: tuple[float, float] | None = self.assume.return_range
        return given

    @property
    def widest(self) -> float:
        """The largest possible gap: infinite without a `return_range`."""
        return math.inf if self.return_range is None else self.return_range[1] - self.return_range[0]

    @property
    def cut_at(self) -> int | None:
        """The horizon, if samples were cut there and later rewards may count."""
        return self.horizon if self.limits.cut > 0 and (self.samples.complete.ends != ENDED).any() else None

    def decisive(self, n: int) -> bool:
        """Whether n samples may decide: with 1 − confidence, an outcome of probability `rarest` may be missing."""
        if self.return_range is not None or self.sampling.kind in ("fixed", "histories"):
            return True
        return n >= self._fewest

    @property
    def _fewest(self) -> float:
        return fewest(self.assume.rarest, self.confidence)

    def pair(self, a: int, b: int) -> Evaluation:
        """Evaluation of two different alternatives, from the samples that both have."""
        if self.labels.size == 2 and a < b:
            return self.evaluation
        if (a, b) not in self._pairs:
            names = [self.labels.name(a), self.labels.name(b)]
            labels = Labels.of(self.labels.kind, 2, names)
            self._pairs[a, b] = self._evaluation(self.samples.of(a, b), labels)
        return self._pairs[a, b]

    def bounded(self, draws: Draws) -> BoundedReturns:
        """Bounds for these samples within the range of returns, which must be given."""
        assert self.return_range is not None
        return BoundedReturns(draws, self.limits, *self.return_range, self.error)

    def verdict_limits(
        self, reference: int, active: Sequence[int], margin: Margin | None = None
    ) -> tuple[Floats, Floats]:
        """Lower and upper limits from which verdicts follow: those of `gap_limits`, or less the margin, if given.

        A gap that was the same in all samples, and is not 0, has no interval. If returns vary, its limits here are its
        value: only outcomes that were not seen can reverse its sign, and a verdict states what they would have to cost.
        """
        at = list(active).index(reference)
        if margin is None:
            return self._signed(*self._gap_limits(active, at, seen=True))
        low, high = np.zeros((2, len(active)))
        for i in set(range(len(active))) - {at}:
            excess = self.pair_means(active[i], reference).excess(margin)
            low[i], high[i] = excess.low, excess.high
        return low, high

    def gap_limits(self, reference: int, active: Sequence[int]) -> tuple[Floats, Floats]:
        """Lower and upper limits of the mean advantage of the reference over each of the `active` alternatives."""
        return self._signed(*self._gap_limits(active, list(active).index(reference)))

    def gap_interval(self, a: int, b: int) -> Interval:
        """Interval of the mean gap E[Z(a)] − E[Z(b)]."""
        low, high = self._gap_limits((a, b), 0)
        return Interval(float(low[1]), float(high[1]))

    def unvaried(self, reference: int, active: Sequence[int]) -> Booleans:
        """[active], whether the gap to the reference was the same in all samples, up to rounding."""
        columns = self.samples.of(*active).returns.T
        first = columns[list(active).index(reference)]
        return np.array([np.ptp(first - column) for column in columns]) <= 4 * self.limits.rounding

    def _signed(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        return (low, high) if self.sign > 0 else (-high, -low)

    def _gap_limits(self, alternatives: Sequence[int], at: int, seen: bool = False) -> tuple[Floats, Floats]:
        """Limits of the mean gaps of the alternative at position `at` less each of the others."""
        draws, scale = self.samples.of(*alternatives), self.limits.scale
        if self.return_range is not None:
            return self.bounded(draws).gaps_of(at)
        n, (mean, errors, hidden, unvaried, varied) = len(draws.returns), self._gaps_of(alternatives, at)
        if not self.certain:
            errors, unvaried = errors.copy(), unvaried & (n > FEW)
            if seen and self.sampling.kind != "histories":
                errors[:, unvaried & (np.abs(mean) > hidden) & varied] = 0.0
            if (loss := self.assume.largest_loss) is not None:
                errors[:, unvaried] = 0.0
                errors = with_largest_loss(errors, float(scale.divide(loss)), n, self.error)
        low, high = mean - errors[0] - hidden, mean + errors[1] + hidden
        low[at] = high[at] = 0.0
        return scale.restore(low), scale.restore(high)

    def _gaps_of(self, alternatives: Sequence[int], at: int) -> _Gaps:
        """Gaps of the alternative at position `at` less each of the others; a look asks for them several times."""
        if (key := (*alternatives, at)) in self._gaps:
            return self._gaps[key]
        draws, scale = self.samples.of(*alternatives), self.limits.scale
        gaps, rounding = scale.divide(draws.returns), scale.divide(self.limits.rounding)
        varied = np.ptp(gaps[:, at]) > 2 * rounding
        for i in sorted(range(gaps.shape[1]), key=at.__eq__):  # in place: samples may be many; the first one last
            np.subtract(gaps[:, at], gaps[:, i], out=gaps[:, i])
        mean, hidden = mean_of(gaps, self.strata), self._hidden(draws, at)
        errors = np.array(self._rule(len(gaps)).errors(gaps, 4 * rounding))
        self._gaps[key] = found = _Gaps(mean, errors, hidden, np.ptp(gaps, axis=0) <= 4 * rounding, bool(varied))
        return found

    def _hidden(self, draws: Draws, at: int) -> Floats:
        """Errors of these gaps by the horizon and by rounding, in units of the scale."""
        scale, limits = self.limits.scale, self.limits
        open_part = (draws.ends != draws.ends[:, at, None]).mean(axis=0)
        cut = np.multiply(open_part, scale.divide(limits.cut), out=np.zeros_like(open_part), where=open_part > 0)
        return np.asarray(2 * (cut + scale.divide(limits.rounding)))

    def gaps(self, a: int, b: int, margin: Margin | None = None) -> Gaps:
        """What the number of samples for the mean advantage of a over b depends on; with a margin, for the verdict."""
        if margin is not None:
            return self.pair_means(b, a).gaps(margin, self._fewest)
        draws, scale = self.samples.of(a, b), self.limits.scale
        first, second = scale.divide(self.sign * draws.returns).T
        seen = centred((first - second)[:, None], self.strata, self.error)[:, 0]
        found = Gaps.of(seen, scale, error=self.error, least=self._fewest)
        hidden = scale.restore(float(self._hidden(draws, 0)[1]))
        return replace(found, hidden=hidden, loss=self.assume.largest_loss or 0.0)

    def needed(
        self,
        reference: int,
        survivors: Sequence[int],
        has_baseline: bool,
        margin: Margin | None,
        indifference: float = 0.0,
        precision: float | None = None,
    ) -> tuple[float, float] | None:
        """How many samples a decision will need, at least and at most: `planning.needed`.

        None if it is not known. Intervals within a range, and those of planned looks, do not narrow as it assumes.
        """
        if self.sampling.kind != "sequential" or self.return_range is not None or self.certain:
            return None
        others = [i for i in survivors if i != reference and self.decisive(int(self.samples.counts[i]))]
        gaps = [self.gaps(reference, i, margin) for i in others]
        return needed(gaps, baseline=has_baseline, indifference=indifference, precision=precision)

    def chance(self, a: int, b: int, score: Callable[[Floats], Floats | Booleans]) -> Estimate:
        """Mean score of the advantages of a over b: between 0 and 1, and increasing in the advantage."""
        gaps, slack = self.advantages(a, b)
        n = len(gaps)
        seen, at_least, at_most = (float(score(gaps + off).sum()) for off in (0.0, -slack, slack))
        if self.certain:
            return Estimate(seen / n, at_least / n, at_most / n)
        low, high = (self.sampling.chance_interval(count, n, self.error) for count in (at_least, at_most))
        return Estimate(seen / n, low.low, high.high)

    def advantages(self, a: int, b: int) -> tuple[Floats, Floats]:
        """By how much a is better than b in each sample [n], and bounds on the errors by the horizon and rounding."""
        draws = self.samples.of(a, b).one_coupling
        x, y = draws.returns.T
        same = draws.gains[:, 0] == draws.gains[:, 1]
        gaps = np.where(same, 0.0, self.sign * (x - y))
        exact = same | (draws.exact.all(axis=1) & is_exact_sum(x, -y, self.sign * gaps))
        slack = np.where(draws.ends[:, 0] == draws.ends[:, 1], 0.0, 2 * self.limits.cut)
        return gaps, slack + np.where(exact, 0.0, 2 * self.limits.rounding)

    def scaled(self, *alternatives: int) -> tuple[Floats, float]:
        """Returns of these, or of all, under the requested coupling, in units of the scale; variance by rounding."""
        scale = self.limits.scale
        returns = scale.divide(self.samples.of(*alternatives).one_coupling.returns)
        rounding = float(2 * scale.divide(self.limits.rounding))
        return np.asarray(returns), rounding * rounding  # inf if it overflows, which ** refuses

    def pair_means(self, new: int, old: int) -> PairMeans:
        """Intervals for the question whether one alternative is worse than another by more than a margin."""
        draws, within = self.samples.of(new, old), self.return_range
        if self.sign < 0:
            draws = replace(draws, returns=-draws.returns)
            within = None if within is None else (-within[1], -within[0])
        enough, loss = self.certain or self.decisive(len(draws.returns)), self.assume.largest_loss
        return PairMeans(draws, self.limits, self.error, within, self.sampling, loss, self.certain, enough, self.strata)

    def _evaluation(self, draws: Draws, labels: Labels) -> Evaluation:
        rule = self._rule(len(draws.returns))
        one, within = draws.one_coupling, self.return_range or (-math.inf, math.inf)
        method: MethodSettings = replace(self.method, samples=max(2, len(draws.returns)))  # type: ignore[type-var]
        evaluation = drawn_evaluation(
            SampledProblem(method, self.coupling, Labels.of("state", 1, ["here"]), labels, self.discount),
            Stored([one]),
            self.limits,
            rule,
            Within(*within),
        )
        if one is not draws or self.strata is not None or self.sampling.kind == "histories":
            found = sample_moments(draws, self.limits, rule)
            mean = mean_of(draws.returns, self.strata)
            evaluation = _with_means(evaluation, mean, self._of_means(found.mean_error), found.gap_mean_error)
        if self.return_range is None or self.certain:
            return evaluation
        return _within(evaluation, self.bounded(draws))

    def _rule(self, n: int) -> IntervalRule:
        if self.certain:
            return IntervalRule.certain(self.confidence)
        return replace(IntervalRule.of(self.sampling, n, self.confidence, self.error), strata=self.strata)

    def _group_means(self, draws: Draws) -> tuple[Floats, Floats, Floats]:
        """Means and limits of alternatives with equally many samples."""
        mean = mean_of(draws.returns, self.strata)
        if self.return_range is not None and not self.certain:
            return mean, *self.bounded(draws).means
        off = self._of_means(mean_errors(draws, self.limits, self._rule(len(draws.returns))))
        return mean, mean - off, mean + off

    def _of_means(self, errors: Floats) -> Floats:
        """Errors of means; infinite for resampled histories, whose blocks are chosen by the gaps alone."""
        unknown = self.sampling.kind == "histories" and not self.certain
        return np.full_like(errors, np.inf) if unknown else errors


def _within(evaluation: Evaluation, bounded: BoundedReturns) -> Evaluation:
    """Replace the errors of means by bounds that are valid for any distribution within the range."""
    assert evaluation.certificate is not None
    mean = evaluation.mean[0]
    off = [
        np.maximum(high - values, values - low) * (1 + 2.0**-50)
        for values, (low, high) in ((mean, bounded.means), (mean[:, None] - mean, bounded.gap_means))
    ]
    certificate = replace(evaluation.certificate, large_sample=False)
    return _with_means(replace(evaluation, certificate=certificate), mean, *off)


def _with_means(evaluation: Evaluation, mean: Floats, mean_error: Floats, gap_mean_error: Floats) -> Evaluation:
    """Replace the means [A] and their errors [A], [A, A]."""
    assert evaluation.certificate is not None
    certificate = replace(evaluation.certificate, mean_error=mean_error[None], gap_mean_error=gap_mean_error[None])
    return replace(evaluation, mean=mean[None], certificate=certificate)
