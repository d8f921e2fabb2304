"""Empirical distributions of returns and gaps, with a confidence band for the whole distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.errors import UnavailableError
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.simulators.draws import ENDED, Draws
from jmdp.statistics.limits import Limits
from jmdp.statistics.means import IntervalRule


class Support(Protocol):
    """Ranges of returns and gaps."""

    def is_over(self, s: int) -> bool:
        """True if no reward can follow from this state."""

    def of(self, s: int, a: int) -> Interval:
        """Interval that contains Z(s, a)."""

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Interval that contains Z(s, a) − Z(s, b)."""


class SampledDistributions:
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

    def __init__(self, draw: Callable[[int], Draws], limits: Limits, rule: IntervalRule, support: Support) -> None:
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
