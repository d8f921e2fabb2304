"""The answer of a comparison in one sentence."""

from __future__ import annotations

from typing import ClassVar, Protocol

from jmdp.base import rounding
from jmdp.base.interval import Estimate
from jmdp.results.anytime import ENOUGH
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap
from jmdp.results.outcome import Outcome
from jmdp.results.samples.bounded_returns import BoundedReturns


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
    def evaluation(self) -> Evaluation: ...
    @property
    def bounded(self) -> BoundedReturns | None: ...
    def mean_of(self, action: str) -> Estimate: ...
    def gap(self, first: str, second: str) -> Gap: ...
    def superiority(self, first: str, second: str) -> Estimate: ...


def answer_sentence(c: _Compared) -> str:
    """Which alternative earns more, by how much and how often; or that it is undecided."""
    if c.outcome is Outcome.ONE_FUTURE:
        tied = float(c.mean_of(c.leader)) == float(c.mean_of(c.runner_up))
        ahead = f"{c.leader} and {c.runner_up} have the largest" if tied else f"{c.leader} has the largest"
        return (
            f"All {c.samples:,} {c.run}s of each {c.alternative} gave the same return, so no confidence can be stated; "
            f"{ahead}."
        )
    if c.reference != c.leader or len(c.actions) == 2:
        others = [name for name in c.actions if name != c.reference]
        return "; ".join(_between(c, name, c.reference) for name in others)
    if c.best is None:
        return _between(c, c.leader, c.runner_up)
    gap, often = _gap(c, c.best, c.runner_up), _how_often(c, c.best, c.runner_up, f"it earns more than {c.runner_up}")
    return (
        f"{c.best} is the best of {len(c.actions)} {c.evaluation.actions.plural} on average ({_from(c)}): it earns "
        f"{rounding.plus_minus(gap)} more than {c.runner_up}, the second best; {often}"
    )


def _between(c: _Compared, first: str, second: str) -> str:
    """Two alternatives, the one with the larger mean first."""
    gap = _gap(c, first, second)
    if gap < 0:
        gap, first, second = Estimate(-gap, -gap.high, -gap.low), second, first
    often = _how_often(c, first, second, f"{first} earns more")
    enough = c.bounded is not None or c.samples >= ENOUGH
    if gap.low > 0 and enough:
        return f"{first} earns {rounding.plus_minus(gap)} more than {second} on average ({_from(c)}); {often}"
    difference = f"{first} − {second} = {rounding.plus_minus(gap)} ({_from(c)}); {often}"
    if not enough:
        return f"too few {c.run}s to decide between {first} and {second}: {difference}"
    if c.outcome is Outcome.PRECISE:
        return f"{first} and {second} cannot be told apart at the requested precision: {difference}"
    return f"undecided between {first} and {second}: {difference}"


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


def _from(c: _Compared) -> str:
    paired = c.paired_samples == c.samples and c.evaluation.coupling.shared_in_a_state
    runs = f"{c.samples:,} paired {c.run}s" if paired else f"{c.samples:,} {c.run}s of each"
    return f"{100 * c.confidence:g}% confidence, {runs}"
