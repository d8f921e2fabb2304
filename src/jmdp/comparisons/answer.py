"""The answer of a comparison in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jmdp.base import rounding
from jmdp.base.interval import Estimate
from jmdp.comparisons.not_worse import effort_of
from jmdp.results.outcome import Outcome
from jmdp.statistics.planning import needed_words
from jmdp.statistics.unseen import Unseen, missing, rarest

if TYPE_CHECKING:
    from jmdp.comparisons.comparison import Comparison


@dataclass(frozen=True)
class Wording:
    """Phrases for what is compared."""

    by: str  # first is better by a mean gap
    often: str  # first is better in a share of runs
    less: str
    gap: str  # the mean gap, of either sign


EARNS = Wording(
    "{first} earns {gap} more than {second} on average", "{first} earns more", "less", "{first} − {second} = {gap}"
)

IS_BETTER = Wording(
    "{first} is better than {second} by {gap} on average",
    "{first} is better",
    "worse",
    "advantage of {first} over {second} {gap}",
)


def answer_sentence(c: Comparison) -> str:
    """Which alternative earns more, by how much and how often; or that it is undecided, and what it would take."""
    said = _answer(c)
    if c.outcome not in _UNDECIDED or c.best is not None:
        return said
    reference, *survivors = map(c.summary.labels.index, (c.reference, *c.survivors))
    has_baseline = c.baseline is not None
    found = c.summary.needed(reference, survivors, has_baseline, c.margin, c.indifference or 0.0)
    if found is None:
        return said
    words = needed_words(*found, f"{c.run}s")
    return f"{said.removesuffix('.')}. {words[0].upper()}{words[1:]}"


def _answer(c: Comparison) -> str:
    if c.margin is not None:
        return "; ".join(str(c.not_worse(c.margin, name)) for name in c.actions if name != c.reference)
    if c.outcome is Outcome.ONE_FUTURE or (c.outcome in _UNDECIDED and _unvaried(c)):
        tied = tuple(name for name in c.actions if float(c.mean_of(name)) == float(c.mean_of(c.leader)))
        most = "largest" if c.sign > 0 else "smallest"
        ahead = f"{_listed(tied)} have the {most}" if len(tied) > 1 else f"{c.leader} has the {most}"
        return (
            f"All {c.samples:,} {c.run}s of each {c.alternative} gave the same return, so no confidence can be stated; "
            f"{ahead}."
        )
    if c.outcome is Outcome.DETERMINISTIC:
        return _certain(c)
    if c.outcome is Outcome.EQUAL_BEST and len(c.actions) > len(c.survivors):
        return f"{_listed(c.survivors)} have equal means, and are the best of {_all(c)} ({effort_of(c)})"
    if c.outcome is Outcome.EQUAL_BEST:
        state = "they have the same outcomes in this state"
        same = state if c.alternative == "action" else f"they are the same {c.alternative}"
        return f"{_listed(c.survivors)} have equal means: {same}"
    if c.outcome is Outcome.EQUAL_SO_FAR:
        return _equal_so_far(c)
    if c.outcome is Outcome.GOOD_ENOUGH:
        return _good_enough(c)
    if c.reference != c.leader or len(c.actions) == 2:
        others = [name for name in c.actions if name != c.reference]
        return "; ".join(_between(c, name, c.reference) for name in others)
    if c.best is None and len(c.survivors) > 2:
        ahead = f"{'highest' if c.sign > 0 else 'lowest'} mean so far: {c.leader}"
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


_UNDECIDED = (Outcome.BUDGET_EXHAUSTED, Outcome.SAMPLED, Outcome.INTERRUPTED)


def _unvaried(c: Comparison) -> bool:
    """Whether all samples of each alternative are equal. With a range, confidence can be stated all the same."""
    return c.return_range is None and c.summary.samples.complete.one_future


def _all(c: Comparison) -> str:
    return f"{len(c.actions)} {c.summary.labels.plural}"


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
    if c.run == "run":
        return f"No design drew from luck, so each was run once: {gap}"
    return f"No random numbers were used, so one {c.run} of each {c.alternative} is exact for this state: {gap}"


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]])


def _between(c: Comparison, first: str, second: str) -> str:
    """Two alternatives, the better one first."""
    gap = c.advantage(first, second)
    if gap < 0:
        gap, first, second = gap.negative(), second, first
    n = c.common_samples(first, second)
    enough, unseen = c.summary.decisive(n), c.unseen_between(first, second)
    if (gap.low > 0 and enough) or unseen is not None:
        more = c.wording.by.format(first=first, second=second, gap=_size(c, gap))
        if unseen is not None and not unseen.firm:
            more = f"{first} is better on what was seen: {more}"
        return f"{more} ({effort_of(c, n)}); {_how_often(c, first, second)}{_reversed_by(c, unseen)}"
    difference = _difference(c, first, second)
    if not enough:
        return f"too few {c.run}s to decide between {first} and {second}: {difference}"
    if c.outcome is Outcome.PRECISE:
        return f"{first} and {second} cannot be told apart at the requested precision: {difference}"
    if not gap.has_interval:
        few = f"too few {c.run}s differ for an interval of the mean"
        return f"undecided between {first} and {second}, {few}: {difference}. {missing(n, c.run)}"
    return f"undecided between {first} and {second}: {difference}"


def _size(c: Comparison, gap: Estimate) -> str:
    """A mean gap that is known to be positive; without an interval, it was the same in all samples."""
    return rounding.plus_minus(gap) if gap.has_interval else f"{float(gap):.6g} (the same in every {c.run})"


def _reversed_by(c: Comparison, unseen: Unseen | None) -> str:
    return "" if unseen is None else f". {unseen.sentence(c.run)}".removesuffix(".")


def _equal_so_far(c: Comparison) -> str:
    """The alternatives that were equal in all samples."""
    n = min(c.common_samples(c.survivors[0], name) for name in c.survivors[1:])
    beside = f", and are the best of {_all(c)}" if len(c.actions) > len(c.survivors) and c.reference == c.leader else ""
    return (
        f"{_listed(c.survivors)} were equal in all {n:,} {c.run}s{beside}. They differ only by something that happens "
        f"in fewer than 1 of {rarest(n)} {c.run}s, and was not seen"
    )


def _difference(c: Comparison, first: str, second: str) -> str:
    n = c.common_samples(first, second)
    return f"{_gap(c, first, second)} ({effort_of(c, n)}); {_how_often(c, first, second)}"


def _gap(c: Comparison, first: str, second: str) -> str:
    return c.wording.gap.format(first=first, second=second, gap=rounding.plus_minus(c.advantage(first, second)))


def _how_often(c: Comparison, first: str, second: str, phrase: str | None = None) -> str:
    """Shares of runs in which the first is better, equal and worse; the last is omitted where nothing is equal."""
    is_better = phrase or c.wording.often.format(first=first)
    better, worse = float(c.superiority(first, second)), float(c.superiority(second, first))
    parts = [better, max(0.0, 1 - better - worse), worse]
    if parts[1] > 1 - 1e-9:
        return f"both are equal in every {c.run}" if c.run == "run" else f"both have the same return in every {c.run}"
    if parts[1] < 0.005:
        return f"{is_better} in {rounding.percentages([better, 1 - better])[0]} of {c.run}s"
    more, same, less = rounding.percentages(parts)
    return f"{is_better} in {more} of {c.run}s, the same in {same} and {c.wording.less} in {less}"
