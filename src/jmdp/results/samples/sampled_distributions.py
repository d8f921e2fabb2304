"""Distributions of returns and gaps from simulated branches, with a confidence band for the whole distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.samples.interval_rules import IntervalRule
from jmdp.results.samples.limits import Limits
from jmdp.simulators.simulator import ENDED, Draws


class Support(Protocol):
    """What returns and gaps can be at all."""

    def is_over(self, s: int) -> bool:
        """Is nothing earned from this state on?"""

    def of(self, s: int, a: int) -> Interval:
        """Where Z(s, a) is."""

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Where Z(s, a) − Z(s, b) is."""


class SampledDistributions:
    """Empirical distributions of one method's draws, drawn again when they are asked for, from the same seed.

    With n fixed before, the true distribution is with probability `confidence` within √(ln(2/(1 − confidence))/2n) of
    the empirical one, everywhere at once (Dvoretzky, Kiefer, Wolfowitz; the constant is Massart's).

    Parameters
    ----------
    draw
        What was drawn in a state.
    limits
        What the steps not taken, and rounding in those taken, can amount to in one return.
    rule
        How wide the band is.
    """

    def __init__(self, draw: Callable[[int], Draws], limits: Limits, rule: IntervalRule, support: Support) -> None:
        self._draw, self._limits, self._rule, self._support = draw, limits, rule, support
        self._last: tuple[int, Draws] | None = None

    def return_distribution(self, s: int, a: int) -> Distribution:
        """The empirical distribution of Z(s, a)."""
        if self._support.is_over(s):
            return GapDistribution.zero()
        drawn = self._of(s)
        error = np.where(drawn.ends[:, a] == ENDED, 0.0, self._limits.cut) + self._limits.rounding
        values, support = drawn.returns[:, a], self._support.of(s, a)
        slack, mass = self._band(values.size)
        return Distribution(values - error, values + error, values, mass, slack, support, self._rule.confidence)

    def gap_distribution(self, s: int, a: int, b: int) -> GapDistribution:
        """The empirical distribution of Z(s, a) − Z(s, b). Branches on one coordinate have one return to come."""
        if self._support.is_over(s):
            return GapDistribution.zero()
        drawn = self._of(s)
        ends, gains, cut = drawn.ends, drawn.gains, self._limits.cut
        values = drawn.returns[:, a] - drawn.returns[:, b]
        settled = (ends[:, a] == ends[:, b]) | (cut == 0)
        error = np.where(settled, 0.0, 2 * cut) + 2 * self._limits.rounding
        error[settled & (gains[:, a] == gains[:, b])] = 0.0  # the same in every step, or added up without rounding
        slack, mass = self._band(values.size)
        support = self._support.of_gap(s, a, b)
        return GapDistribution(values - error, values + error, values, mass, slack, support, self._rule.confidence)

    def _of(self, s: int) -> Draws:
        if self._last is None or self._last[0] != s:
            self._last = s, self._draw(s)
        return self._last[1]

    def _band(self, n: int) -> tuple[float, Floats]:
        return self._rule.distribution_slack(n, 1 - self._rule.confidence), np.full(n, 1 / n)
