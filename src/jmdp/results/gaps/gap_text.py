"""A gap as text: a sentence that states the result, then its numbers."""

from __future__ import annotations

import math
from html import escape
from typing import Protocol

from jmdp.base import rounding
from jmdp.base.interval import Estimate, Interval
from jmdp.errors import UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.results.gaps.distribution import GapDistribution
from jmdp.results.result import wrapped


class _Gap(Protocol):
    """The part of a `Gap` that its text reads; `Gap` imports this module."""

    @property
    def state(self) -> str: ...
    @property
    def first(self) -> str: ...
    @property
    def second(self) -> str: ...
    @property
    def coupling(self) -> Coupling: ...
    @property
    def mean(self) -> float: ...
    @property
    def std(self) -> float: ...
    @property
    def correlation(self) -> float: ...
    @property
    def mean_interval(self) -> Interval | None: ...
    @property
    def std_interval(self) -> Interval | None: ...
    @property
    def correlation_interval(self) -> Interval | None: ...
    @property
    def confidence(self) -> float | None: ...
    @property
    def large_sample(self) -> bool: ...
    def distribution(self) -> GapDistribution: ...
    def inferiority_bound(self) -> float: ...


def gap_text(gap: _Gap) -> str:
    """The sentence and the numbers of a gap."""
    try:
        distribution = gap.distribution()
    except UnavailableError:
        distribution = None
    lines = [
        wrapped(sentence(gap, distribution)),
        f"  gap          Z({gap.first}) − Z({gap.second}), {type(gap.coupling).__name__} coupling, {_trust(gap)}",
        f"  mean         {_shown(gap.mean, gap.mean_interval)}",
        f"  std          {_shown(gap.std, gap.std_interval)}",
        f"  correlation  {_shown(gap.correlation, gap.correlation_interval)}",
    ]
    if distribution is not None:
        lines.append(f"  P(gap > 0)   {distribution.superiority()}")
        lines.append(f"  P(gap < 0)   {distribution.inferiority()}")
    elif gap.mean_interval is not None and gap.std_interval is not None and gap.inferiority_bound() < 1:
        bound = rounding.at_most(gap.inferiority_bound())
        lines.append(
            f"  P(gap ≤ 0)   not computed; certainly at most {bound} by mean and std. ExactDistribution() computes it"
        )
    return "\n".join(lines)


def sentence(gap: _Gap, distribution: GapDistribution | None) -> str:
    """Which alternative earns more on average, how certain that is, and how often the other one does."""
    where = {"here": "", "start": "from the start distribution, "}.get(gap.state, f"in state {gap.state}, ")
    found = where + _on_average(gap)
    if distribution is not None and gap.mean:
        found += f"; {_otherwise(gap, distribution)}"
    return found[:1].upper() + found[1:] if where else found


def _on_average(gap: _Gap) -> str:
    one, other, interval = gap.first, gap.second, gap.mean_interval
    if interval is not None and interval.low == interval.high == 0:
        return f"{one} and {other} earn the same on average ({_certainty(gap)})"
    more = "more" if gap.mean > 0 else "less"
    if interval is None:
        size = rounding.significant(abs(gap.mean), 3)
        return f"{one} earns about {size} {more} than {other} on average (an estimate without an interval)"
    if interval.low <= 0 <= interval.high:
        mean = rounding.plus_minus(Estimate.within(gap.mean, interval))
        return f"{one} and {other} cannot be told apart: the mean gap is {mean} ({_certainty(gap)})"
    found = Estimate(abs(gap.mean), *sorted((abs(interval.low), abs(interval.high))))
    size = rounding.supported(found, 3) if gap.confidence is None else rounding.plus_minus(found)
    return f"{one} earns {size} {more} than {other} on average ({_certainty(gap)})"


def _otherwise(gap: _Gap, distribution: GapDistribution) -> str:
    """How often, and by how much, the outcome is the opposite of the average."""
    word = "less" if gap.mean > 0 else "more"
    chance = distribution.inferiority() if gap.mean > 0 else distribution.superiority()
    if chance.high == 0:
        return f"{gap.first} never earns {word}"
    return f"{gap.first} earns {word} in {rounding.share_of_cases(chance)}{_by(distribution, gap.mean < 0)}"


def _by(distribution: GapDistribution, more: bool) -> str:
    """How much more or less is earned on average in the cases where it is."""
    size = distribution.mean_size(above=more)
    certified, digits = distribution.confidence is None, rounding.supported_digits(size, 2)
    if not size > 0 or (certified and not math.isfinite(size.high)):
        return ""
    if certified and digits is None:
        return f", by {rounding.at_least(size.low, 2)} to {rounding.at_most(size.high, 2)} on average in these cases"
    return f", by about {rounding.significant(size, digits or 2)} on average in these cases"


def _certainty(gap: _Gap) -> str:
    if gap.confidence is None:
        return "certified"
    return f"{rounding.confidence_percent(gap.confidence)} confidence" + ", large-sample" * gap.large_sample


def _trust(gap: _Gap) -> str:
    if gap.mean_interval is None:
        return "estimates without error bounds"
    if gap.confidence is None:
        return "certified"
    return (
        f"each interval at {rounding.confidence_percent(gap.confidence)} confidence"
        + " (large-sample)" * gap.large_sample
    )


def _shown(value: float, interval: Interval | None) -> str:
    """The value to the digits its interval supports."""
    if math.isnan(value):
        return "undefined: the variance of a return may be 0"
    if interval is None:
        return f"{value:.6g} (estimate without an interval)"
    return rounding.plus_minus(Estimate.within(value, interval))


def html_of(text: str) -> str:
    """For notebooks: the sentence as a paragraph, the indented lines below it as they are printed."""
    first, indent, rest = text.partition("\n  ")
    return f"<p>{escape(first)}</p><pre>{escape(indent[1:] + rest)}</pre>"
