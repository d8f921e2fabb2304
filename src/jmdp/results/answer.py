"""The answer of a comparison in one sentence."""

from __future__ import annotations

from typing import ClassVar, Protocol

from jmdp.base import rounding
from jmdp.base.interval import Estimate
from jmdp.results.anytime import ENOUGH
from jmdp.results.gaps.gap import Gap
from jmdp.results.margins import Margin
from jmdp.results.not_worse import NotWorse, effort_of
from jmdp.results.outcome import Outcome
from jmdp.results.samples.sample_summary import SampleSummary


class _Compared(Protocol):
    """The part of a `Comparison` that its sentences read; `Comparison` imports this module."""

    alternative: ClassVar[str]
    run: ClassVar[str]

    @property
    def actions(self) -> list[str]: ...
    @property
    def leader(self) -> str: ...
    @property
    def runner_up(self) -> str: ...
    @property
    def reference(self) -> str: ...
    @property
    def best(self) -> str | None: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def samples(self) -> int: ...
    @property
    def paired_samples(self) -> int: ...
    @property
    def confidence(self) -> float: ...
    @property
    def summary(self) -> SampleSummary: ...
    @property
    def return_range(self) -> tuple[float, float] | None: ...
    @property
    def survivors(self) -> tuple[str, ...]: ...
    @property
    def margin(self) -> Margin | None: ...
    @property
    def indifference(self) -> float | None: ...
    def common_samples(self, first: str, second: str) -> int: ...
    def mean_of(self, action: str) -> Estimate: ...
    def gap(self, first: str, second: str) -> Gap: ...
    def superiority(self, first: str, second: str) -> Estimate: ...
    def not_worse(self, margin: Margin, new: str) -> NotWorse: ...


def answer_sentence(c: _Compared) -> str:
    """Which alternative earns more, by how much and how often; or that it is undecided."""
    if c.margin is not None:
        return "; ".join(str(c.not_worse(c.margin, name)) for name in c.actions if name != c.reference)
    if c.outcome is Outcome.ONE_FUTURE:
        tied = float(c.mean_of(c.leader)) == float(c.mean_of(c.runner_up))
        ahead = f"{c.leader} and {c.runner_up} have the largest" if tied else f"{c.leader} has the largest"
        return (
            f"All {c.samples:,} {c.run}s of each {c.alternative} gave the same return, so no confidence can be stated; "
            f"{ahead}."
        )
    if c.outcome is Outcome.DETERMINISTIC:
        return _certain(c)
    if c.outcome is Outcome.EQUAL_BEST and len(c.actions) > len(c.survivors):
        return f"{_listed(c.survivors)} have equal means, and are the best of {_all(c)} ({effort_of(c)})"
    if c.outcome is Outcome.EQUAL_BEST:
        same = "they are the same policy" if c.alternative == "policy" else "they have the same outcomes in this state"
        return f"{_listed(c.survivors)} have equal means: {same}"
    if c.outcome is Outcome.GOOD_ENOUGH:
        return _good_enough(c)
    if c.reference != c.leader or len(c.actions) == 2:
        others = [name for name in c.actions if name != c.reference]
        return "; ".join(_between(c, name, c.reference) for name in others)
    if c.best is None and len(c.survivors) > 2:
        return f"undecided: {len(c.survivors)} of {_all(c)} may be the best; {_difference(c, c.leader, c.runner_up)}"
    if c.best is None:
        return _between(c, c.leader, c.runner_up)
    return f"{c.best} is the best of {_all(c)} on average ({effort_of(c)}): {_over_second(c)}"


def _all(c: _Compared) -> str:
    return f"{len(c.actions)} {c.summary.labels.plural}"


def _over_second(c: _Compared) -> str:
    gap = _gap(c, c.leader, c.runner_up)
    often = _how_often(c, c.leader, c.runner_up, f"it earns more than {c.runner_up}")
    return f"it earns {rounding.plus_minus(gap)} more than {c.runner_up}, the second best; {often}"


def _good_enough(c: _Compared) -> str:
    """The alternative that is within `indifference` of the best."""
    assert c.indifference is not None
    gap, often = _gap(c, c.leader, c.runner_up), _how_often(c, c.leader, c.runner_up, f"{c.leader} earns more")
    within = f"within {rounding.exactly(c.indifference)} of the best of {_all(c)} on average"
    return f"{c.leader} is {within} ({effort_of(c)}): {c.leader} − {c.runner_up} = {rounding.plus_minus(gap)}; {often}"


def _certain(c: _Compared) -> str:
    """The order of alternatives whose returns are not random."""
    gap = _gap(c, c.leader, c.runner_up)
    return (
        f"No random numbers were used, so one {c.run} of each {c.alternative} is exact for this state: {c.leader} − "
        f"{c.runner_up} = {rounding.plus_minus(gap)}"
    )


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]])


def _between(c: _Compared, first: str, second: str) -> str:
    """Two alternatives, the one with the larger mean first."""
    gap = _gap(c, first, second)
    if gap < 0:
        gap, first, second = Estimate(-gap, -gap.high, -gap.low), second, first
    n = c.common_samples(first, second)
    enough = c.return_range is not None or n >= ENOUGH
    if gap.low > 0 and enough:
        often = _how_often(c, first, second, f"{first} earns more")
        return f"{first} earns {rounding.plus_minus(gap)} more than {second} on average ({effort_of(c, n)}); {often}"
    difference = _difference(c, first, second)
    if not enough:
        return f"too few {c.run}s to decide between {first} and {second}: {difference}"
    if c.outcome is Outcome.PRECISE:
        return f"{first} and {second} cannot be told apart at the requested precision: {difference}"
    return f"undecided between {first} and {second}: {difference}"


def _difference(c: _Compared, first: str, second: str) -> str:
    often = _how_often(c, first, second, f"{first} earns more")
    gap, n = _gap(c, first, second), c.common_samples(first, second)
    return f"{first} − {second} = {rounding.plus_minus(gap)} ({effort_of(c, n)}); {often}"


def _gap(c: _Compared, first: str, second: str) -> Estimate:
    gap = c.gap(first, second)
    return Estimate.within(gap.mean, gap.mean_interval)


def _how_often(c: _Compared, first: str, second: str, earns_more: str) -> str:
    """Shares of runs in which the first earns more, the same and less; less is omitted where nothing is equal."""
    better, worse = float(c.superiority(first, second)), float(c.superiority(second, first))
    parts = [better, max(0.0, 1 - better - worse), worse]
    if parts[1] > 1 - 1e-9:
        return f"both have the same return in every {c.run}"
    if parts[1] < 0.005:
        return f"{earns_more} in {rounding.percentages([better, 1 - better])[0]} of {c.run}s"
    more, same, less = rounding.percentages(parts)
    return f"{earns_more} in {more} of {c.run}s, the same in {same} and less in {less}"
