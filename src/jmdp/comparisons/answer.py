"""The answer of a comparison in one sentence.

The answer to the question whether one alternative is worse than another by more than a margin.

What a comparison with a recorded history says: what would have happened, or what to expect of such a period.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jmdp.base import rounding
from jmdp.base.interval import Estimate, Verdict
from jmdp.base.rounding import counted, whole_percent
from jmdp.base.settings import short, whole_number
from jmdp.errors import SettingsError
from jmdp.results.certificate import Outcome
from jmdp.statistics.anytime import Unseen, missing, rarest
from jmdp.statistics.history import HistoryUse
from jmdp.statistics.means import ENOUGH
from jmdp.statistics.planning import needed_words
from jmdp.statistics.selection import Margin

if TYPE_CHECKING:
    from jmdp.comparisons.comparison import Comparison


@dataclass(frozen=True)
class Wording:
    """Phrases for what is compared."""

    by: str  # first is better by a mean gap
    often: str  # first is better in a share of runs
    less: str
    gap: str  # the mean gap, of either sign
    run: str  # the name of one sample
    mean: str  # title of means
    would: str  # first would have been better in a recorded history


EARNS = Wording(
    "{first} earns {gap} more than {second} on average",
    "{first} earns more",
    "less",
    "{first} − {second} = {gap}",
    "rollout",
    "mean return",
    "{first} would have earned {gap} more than {second}",
)

IS_BETTER = Wording(
    "{first} is better than {second} by {gap} on average",
    "{first} is better",
    "worse",
    "advantage of {first} over {second} {gap}",
    "run",
    "mean",
    "{first} would have been better than {second} by {gap}",
)


def answer_sentence(c: Comparison) -> str:
    """Which alternative earns more, by how much and how often; or that it is undecided, and what it would take."""
    said = history_answer(c, _answer(c))
    if c.outcome not in _UNDECIDED or c.best is not None:
        return said
    reference, *survivors = map(c.summary.labels.index, (c.reference, *c.survivors))
    has_baseline = c.baseline is not None
    found = c.summary.needed(reference, survivors, has_baseline, c.margin, c.indifference or 0.0)
    if found is None:
        return said
    words = needed_words(*found, f"{c.wording.run}s", cut=c.summary.cut_at)
    return f"{said.removesuffix('.')}. {words[0].upper()}{words[1:]}"


def _answer(c: Comparison) -> str:
    run, kind = c.wording.run, c.summary.labels.kind
    if c.margin is not None:
        return "; ".join(str(c.not_worse(c.margin, name)) for name in c.alternatives if name != c.reference)
    same = c.summary.return_range is None and c.summary.samples.complete.one_future  # with a range, more is known
    if c.outcome is Outcome.ONE_FUTURE or (c.outcome in _UNDECIDED and same):
        tied = tuple(name for name in c.alternatives if float(c.mean_of(name)) == float(c.mean_of(c.leader)))
        most = "largest" if c.summary.sign > 0 else "smallest"
        ahead = f"{_listed(tied)} have the {most}" if len(tied) > 1 else f"{c.leader} has the {most}"
        return f"All {c.samples:,} {run}s of each {kind} gave the same return, so no confidence can be stated; {ahead}."
    if c.outcome is Outcome.DETERMINISTIC:
        return _certain(c)
    if c.outcome is Outcome.EQUAL_BEST and len(c.alternatives) > len(c.survivors):
        return f"{_listed(c.survivors)} have equal means, and are the best of {_all(c)} ({effort_of(c)})"
    if c.outcome is Outcome.EQUAL_BEST:
        state = "they have the same outcomes in this state"
        why = state if kind == "action" else f"they are the same {kind}"
        return f"{_listed(c.survivors)} have equal means: {why}"
    if c.outcome is Outcome.EQUAL_SO_FAR:
        return _equal_so_far(c)
    if c.outcome is Outcome.GOOD_ENOUGH:
        return _good_enough(c)
    if c.reference != c.leader or len(c.alternatives) == 2:
        others = [name for name in c.alternatives if name != c.reference]
        return "; ".join(_between(c, name, c.reference) for name in others)
    if c.best is None and len(c.survivors) > 2:
        ahead = f"{'highest' if c.summary.sign > 0 else 'lowest'} mean so far: {c.leader}"
        return (
            f"undecided: {len(c.survivors)} of {_all(c)} may be the best; {ahead}; "
            f"{_difference(c, c.leader, c.runner_up)}"
        )
    if c.best is None:
        return _between(c, c.leader, c.runner_up)
    weakest = min(c.reversals(), key=lambda one: one.break_even, default=None)
    is_best = f"{c.best} is the best of {_all(c)} on average"
    if weakest is not None and not weakest.firm:
        is_best += ", on what was seen"
    return f"{is_best} ({effort_of(c)}): {_over_second(c)}{_reversed_by(c, weakest)}"


def chosen(c: Comparison) -> str | None:
    """The alternative to take: `best`, or one that is known to be within `indifference` of the best; else None."""
    return c.leader if c.outcome is Outcome.GOOD_ENOUGH else c.best


_UNDECIDED = (Outcome.BUDGET_EXHAUSTED, Outcome.SAMPLED, Outcome.INTERRUPTED)


def _all(c: Comparison) -> str:
    return f"{len(c.alternatives)} {c.summary.labels.plural}"


def _over_second(c: Comparison) -> str:
    by = c.wording.by.removesuffix(" on average")
    gap = _size(c, c.advantage(c.leader, c.runner_up))
    often = _how_often(c, c.leader, c.runner_up, f"{c.wording.often.format(first='it')} than {c.runner_up}")
    return f"{by.format(first='it', second=c.runner_up, gap=gap)}, the second best; {often}"


def _good_enough(c: Comparison) -> str:
    """The alternative that is within `indifference` of the best."""
    assert c.indifference is not None
    often = _how_often(c, c.leader, c.runner_up)
    within = f"within {rounding.exactly(c.indifference)} of the best of {_all(c)} on average"
    return f"{c.leader} is {within} ({effort_of(c)}): {_gap(c, c.leader, c.runner_up)}; {often}"


def _certain(c: Comparison) -> str:
    """The order of alternatives whose returns are not random."""
    gap = _gap(c, c.leader, c.runner_up)
    run = c.wording.run
    if run == "run":
        return f"No design drew from luck, so each was run once: {gap}"
    return f"No random numbers were used, so one {run} of each {c.summary.labels.kind} is exact for this state: {gap}"


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _between(c: Comparison, first: str, second: str) -> str:
    """Two alternatives, the better one first; equal ones in the order of the table and the chart."""
    gap = c.advantage(first, second)
    equal = abs(gap) <= 2 * c.summary.limits.rounding
    if c.ranked.index(second) < c.ranked.index(first) if equal else gap < 0:
        gap, first, second = gap.negative(), second, first
    n = min(c.counts[first], c.counts[second])
    enough, unseen = c.summary.decisive(n), c.unseen_between(first, second)
    if (gap.low > 0 and enough) or unseen is not None:
        more = c.wording.by.format(first=first, second=second, gap=_size(c, gap))
        if unseen is not None and not unseen.firm:
            more = f"{first} is better on what was seen: {more}"
        return f"{more} ({effort_of(c, n)}); {_how_often(c, first, second)}{_reversed_by(c, unseen)}"
    difference = _difference(c, first, second)
    if not enough:
        return f"too few {c.wording.run}s to decide between {first} and {second}: {difference}"
    if c.outcome is Outcome.PRECISE:
        return f"{first} and {second} cannot be told apart at the requested precision: {difference}"
    if not gap.has_interval:
        few = f"too few {c.wording.run}s differ for an interval of the mean"
        return f"undecided between {first} and {second}, {few}: {difference}. {missing(n, c.wording.run)}"
    return f"undecided between {first} and {second}: {difference}"


def _size(c: Comparison, gap: Estimate) -> str:
    """A mean gap that is known to be positive; without an interval, it was the same in all samples."""
    return rounding.plus_minus(gap) if gap.has_interval else f"{float(gap):.6g} (the same in every {c.wording.run})"


def _reversed_by(c: Comparison, unseen: Unseen | None) -> str:
    return "" if unseen is None else f". {unseen.sentence(c.wording.run)}".removesuffix(".")


def _equal_so_far(c: Comparison) -> str:
    """The alternatives that were equal in all samples."""
    n, run = min(c.counts[name] for name in c.survivors), c.wording.run
    are_best = len(c.alternatives) > len(c.survivors) and c.reference == c.leader
    beside = f", and are the best of {_all(c)}" if are_best else ""
    return (
        f"{_listed(c.survivors)} were equal in all {n:,} {run}s{beside}. They differ only by something that happens "
        f"in fewer than 1 of {rarest(n)} {run}s, and was not seen"
    )


def _difference(c: Comparison, first: str, second: str) -> str:
    n = min(c.counts[first], c.counts[second])
    return f"{_gap(c, first, second)} ({effort_of(c, n)}); {_how_often(c, first, second)}"


def _gap(c: Comparison, first: str, second: str) -> str:
    return c.wording.gap.format(first=first, second=second, gap=rounding.plus_minus(c.advantage(first, second)))


def _how_often(c: Comparison, first: str, second: str, phrase: str | None = None) -> str:
    """Shares of runs in which the first is better, equal and worse; the last is omitted where nothing is equal.

    If later rewards may decide every run that was cut, the shares are those up to the horizon.
    """
    run, is_better = c.wording.run, phrase or c.wording.often.format(first=first)
    chances = c.superiority(first, second), c.superiority(second, first)
    better, worse = map(float, chances)
    parts = [better, max(0.0, 1 - better - worse), worse]
    so_far = f"up to step {c.summary.horizon} " if any(map(is_unknown, chances)) else ""
    if parts[1] > 1 - 1e-9:
        same = "both are equal in every" if run == "run" else "both have the same return in every"
        return f"{so_far}{same} {run}"
    if parts[1] < 0.005:
        return f"{so_far}{is_better} in {rounding.whole_percent(better)} of {run}s"
    more, same, less = map(rounding.whole_percent, parts)
    return f"{so_far}{is_better} in {more} of {run}s, the same in {same} and {c.wording.less} in {less}"


def is_unknown(chance: Estimate) -> bool:
    """Whether the interval of a chance says nothing: rewards beyond the horizon may decide too many samples."""
    return chance.has_interval and chance.low <= 0 and chance.high >= 1


_NINE_IN_TEN = 1.2816
"""90% quantile of the standard normal distribution."""


@dataclass(frozen=True, kw_only=True)
class NotWorse:
    """Whether E[new] ≥ E[old] − margin: `verdict` is YES, NO or UNKNOWN, and so is the truth value.

    If smaller returns are better (`sign` −1): whether E[new] ≤ E[old] + margin.

    Intervals are valid as those of the comparison are: for ``samples=n`` at this number of samples, which was chosen in
    advance, otherwise at all scheduled looks. They allow for an unseen event that costs a whole episode, or
    `largest_loss`, so they are wider than those of `Comparison.gap`, which describe what was seen.
    """

    new: str
    old: str
    margin: Margin
    excess: Estimate  # the loss beyond the margin: E[old] − E[new] − margin, or E[new] − E[old] − margin
    gap: Estimate  # E[new] − E[old]
    change: Estimate | None  # (E[new] − E[old])/|E[old]|; None if the margin is absolute, or E[old] may be 0
    old_mean: Estimate  # E[old], with the interval that decides its sign
    std: float  # of the loss beyond the margin in one sample
    samples: int  # that both alternatives have
    confidence: float
    effort: str  # confidence and number of samples in words
    sign: float = 1.0  # −1 if smaller returns are better
    unseen: Unseen | None = None  # what would reverse the verdict; None without one, or if nothing can
    run: str = "sample"  # the name of one sample

    @property
    def verdict(self) -> Verdict:
        """YES if the lower limit of the gap is above −margin, NO if the upper limit is below it, else UNKNOWN."""
        if self.excess.high < 0:
            return Verdict.YES
        return Verdict.NO if self.excess.low > 0 else Verdict.UNKNOWN

    @property
    def margin_known(self) -> bool:
        """False if the margin is relative to a mean that may be 0."""
        return not self.margin.relative or self.change is not None

    def smallest_loss(self, samples: int) -> float:
        """The loss of the mean that so many samples find with a probability of about 90%: then the verdict is NO.

        Margin + h + 1.28 σ/√n, where h is the distance of the lower limit of `excess` and σ = `std`, both as observed;
        h is taken to decrease as 1/√n.
        """
        samples = whole_number("samples", samples, 1)
        allowed = self.margin.size * (abs(float(self.old_mean)) if self.margin.relative else 1.0)
        off = (float(self.excess) - self.excess.low) * math.sqrt(self.samples / samples)
        return allowed + off + _NINE_IN_TEN * self.std / math.sqrt(samples)

    def __bool__(self) -> bool:
        return bool(self.verdict)

    def __str__(self) -> str:
        reversed_by = f". {self.reversed_by}".removesuffix(".") if self.unseen is not None else ""
        return f"{self.sentence}: {self.numbers}{reversed_by}"

    @property
    def reversed_by(self) -> str:
        """What outcomes that were not seen would have to cost to reverse the verdict; or how rare they may be."""
        if self.unseen is None:
            return f"{missing(self.samples, self.run)}."
        worse = self.verdict is Verdict.NO
        return self.unseen.sentence(
            self.run, "stays within the margin by more than {}" if worse else "loses more than {} beyond the margin"
        )

    @property
    def sentence(self) -> str:
        """The verdict in words, without the numbers."""
        if not self.gap.has_interval:
            nothing = "all returns are 0, so nothing is known about their size"
            few = "too few samples for an interval" if self.samples < ENOUGH else nothing
            return f"undecided: {few} ({self.effort})"
        if not self.margin_known:
            mean = rounding.with_ends(self.old_mean, digits=6)
            return (
                f"undecided: the mean return of {self.old} is {mean}, not clearly away from 0, so {self.margin} of it "
                f"is not known. Give the margin in units of the return ({self.effort})"
            )
        says = {
            Verdict.YES: f"{self.new} is not worse than {self.old} by more than {self.margin}",
            Verdict.NO: f"{self.new} is worse than {self.old} by more than {self.margin}",
            Verdict.UNKNOWN: f"undecided whether {self.new} is worse than {self.old} by more than {self.margin}",
        }[self.verdict]
        return f"{says} ({self.effort})"

    @property
    def numbers(self) -> str:
        """The gap with its interval, and the relative change if the margin is relative."""
        loss = -math.inf if self.margin.relative else -self.sign * self.margin.size
        said = f"{self.new} − {self.old} = {_beside(self.gap, loss)}"
        return said if self.change is None else f"{said}, a change of {self.percent}"

    @property
    def percent(self) -> str:
        """The relative change in percent, with its interval, if the margin is relative."""
        assert self.change is not None
        ends = (100 * end for end in (float(self.change), self.change.low, self.change.high))
        middle, _, interval = _beside(Estimate(*ends), -100 * self.sign * self.margin.size).partition(" ")
        return f"{middle}% {interval}"


def not_worse(c: Comparison, margin: Margin, new: int | None, old: int | None) -> NotWorse:
    """Answer for two alternatives by number; `new` may be omitted if there are two."""
    others = [i for i in range(len(c.alternatives)) if i != old]
    new = others[0] if new is None and len(others) == 1 else new
    if new is None or old is None:
        raise SettingsError('Name both alternatives: not_worse(margin, "new", "old").')
    if new == old:
        raise SettingsError(f"{short(c.alternatives[new])} is compared with itself. Name two different alternatives.")
    pair, sign = c.summary.pair_means(new, old), c.summary.sign
    gap, change, old_mean = pair.gap, pair.change() if margin.relative else None, pair.old
    if sign < 0:  # `pair` has the negative returns
        gap, change, old_mean = gap.negative(), None if change is None else change.negative(), old_mean.negative()
    n = len(pair.draws.returns)
    return NotWorse(
        new=c.alternatives[new],
        old=c.alternatives[old],
        margin=margin,
        excess=pair.excess(margin),
        gap=gap,
        change=change,
        old_mean=old_mean,
        std=pair.std(margin),
        samples=n,
        confidence=c.confidence,
        effort=effort_of(c, n),
        sign=sign,
        unseen=pair.unseen(margin),
        run=c.wording.run,
    )


def effort_of(c: Comparison, n: int | None = None) -> str:
    """Confidence, and the number of samples: n, or all."""
    paired = c.paired_samples == c.samples and c.summary.coupling.shared_in_a_state
    count = c.samples if n is None else n
    runs = f"{count:,} paired {c.wording.run}s" if paired else f"{count:,} {c.wording.run}s of each"
    return f"{rounding.confidence_percent(c.confidence)} confidence, {runs}"


def _beside(number: Estimate, threshold: float) -> str:
    """``value [low, high]`` with enough decimals for both printed ends to be on their side of a threshold."""
    wide = number.error
    if not 0 < wide < math.inf:
        return rounding.with_ends(number, digits=6)
    decimals = max(0, 1 - math.floor(math.log10(wide)))
    for more in range(4):
        unit = 10.0 ** (decimals + more)
        low, high = math.floor(number.low * unit) / unit, math.ceil(number.high * unit) / unit
        if (low > threshold) == (number.low > threshold) and (high < threshold) == (number.high < threshold):
            break
    return rounding.with_decimals(number, decimals + more)


def history_answer(c: Comparison, usual: str) -> str:
    """The answer of a comparison with a history; `usual` is that of one without."""
    use = c.summary.history
    if use is None:
        return usual
    if use.resampled:
        return _expected(c, use)
    if c.outcome is not Outcome.DETERMINISTIC:
        about = f"The interval is about what is drawn: {recorded(use)}"
        return f"{usual.removesuffix('.')}. {about}{_hidden(c, use)}"
    said = "; ".join(_would(c, first, second) for first, second in _pairs(c))
    return (
        f"In {_period(use)}, {said}. This is what would have happened, exactly. It is one history, so there is no "
        f"interval, and it says nothing about other {use.name}s{_hidden(c, use)}"
    )


def recorded(use: HistoryUse) -> str:
    """That purposes are as recorded."""
    return f"{_listed(use.purposes)} {'are' if len(use.purposes) > 1 else 'is'} as recorded in {_period(use)}"


def _period(use: HistoryUse) -> str:
    return f"the history of {counted(use.periods, use.name)} ({use.first} to {use.last})"


def _pairs(c: Comparison) -> list[tuple[str, str]]:
    """The alternatives that the answer compares, the better one first: with the baseline, or the best two."""
    others = [name for name in c.alternatives if name != c.reference] if c.baseline else [c.runner_up]
    found = []
    for name in others:
        first, second = (c.reference, name) if not c.baseline else (name, c.reference)
        found.append((first, second) if float(c.advantage(first, second)) >= 0 else (second, first))
    return found


def _would(c: Comparison, first: str, second: str) -> str:
    gap = f"{float(c.advantage(first, second)):.10g}"
    return c.wording.would.format(first=first, second=second, gap=gap)


def _expected(c: Comparison, use: HistoryUse) -> str:
    """What to expect of a period of this length."""
    said = [_in_such_periods(c, use, first, second) for first, second in _pairs(c)]
    drawn = f"{c.samples:,} resampled histories in blocks of {counted(use.block or 0, use.name)}"
    level = f"{rounding.confidence_percent(c.confidence)} confidence, " * (use.freedom > 0)
    return f"{'; '.join(said)} ({level}{drawn}; {counts(use)}){_in_itself(c, use)}{_hidden(c, use)}"


def _in_such_periods(c: Comparison, use: HistoryUse, first: str, second: str) -> str:
    gap, over = c.advantage(first, second), f"over {counted(use.periods, use.name)} like these"
    if gap.low > 0:
        return f"{over}, {c.wording.by.format(first=first, second=second, gap=rounding.plus_minus(gap))}"
    why = "undecided" if gap.has_interval else "no interval"
    size = rounding.plus_minus(gap) if gap.has_interval else f"{float(gap):.4g}"
    return f"{why} {over}: {c.wording.gap.format(first=first, second=second, gap=size)}"


def counts(use: HistoryUse) -> str:
    """For how many independent periods the history counts."""
    if use.effective is None:
        return f"no number for each {use.name}, so it is not known for how many independent {use.name}s they count"
    about = f"{counted(use.periods, use.name)} count as about {use.effective:.0f} independent ones"
    return about if not use.lacks else f"{about}, {use.lacks}, so there is no interval"


def _in_itself(c: Comparison, use: HistoryUse) -> str:
    """The gaps in the recorded history."""
    if use.totals is None:
        return ""
    index, said = c.summary.labels.index, []
    for first, second in _pairs(c):
        gap = c.summary.sign * (use.gap(index(first), index(second)) or 0.0)
        said.append(c.wording.gap.format(first=first, second=second, gap=f"{gap:.6g}"))
    return f". In the recorded history itself: {'; '.join(said)}"


def _hidden(c: Comparison, use: HistoryUse) -> str:
    """How much of the gap falls in periods that hide what would have been."""
    if not use.censored:
        return ""
    where = f"{counted(use.censored, use.name)} of {use.periods} in which {use.marks} hides what would have been"
    if use.hidden is None or use.totals is None:
        return f". There are {where}: return one number for each {use.name} to see how much of the gap falls there"
    index, said = c.summary.labels.index, []
    for first, second in _pairs(c):
        a, b = index(first), index(second)
        part, whole = use.hidden_gap(a, b) or 0.0, use.gap(a, b) or 0.0
        share = f" ({whole_percent(part / whole)})" if whole and 0 <= part / whole <= 1 else ""
        said.append(f"{c.summary.sign * part:.6g}{share}")
    return f". Of this, {' and '.join(said)} falls in {where}"


def history_validity(use: HistoryUse) -> str:
    """When the intervals hold."""
    return (
        f"intervals of mean gaps are about any period of {counted(use.periods, use.name)} like those recorded: they "
        f"come from the spread of histories made from blocks of {counted(use.block or 0, use.name)}, and do not shrink "
        "with the number of these; means, chances and quantiles are those of these histories, without an interval"
    )
