"""Distributions of returns and gaps from simulated branches, with a confidence band for the whole distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.interval import Interval
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.simulators.simulator import ENDED


class Support(Protocol):
    """What returns and gaps can be at all."""

    def is_over(self, s: int) -> bool:
        """Is nothing earned from this state on?"""

    def of(self, s: int, a: int) -> Interval:
        """Where Z(s, a) is."""

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Where Z(s, a) − Z(s, b) is."""


def fixed_slack(n: int, error: float) -> float:
    """How far the empirical distribution of n samples, n fixed before, is off at most: √(ln(2/error)/2n)."""
    return math.sqrt(math.log(2 / error) / (2 * n))


class SampledDistributions:
    """Empirical distributions of one method's draws, drawn again when they are asked for, from the same seed.

    With probability `confidence` the true distribution is within √(ln(2/(1 − confidence))/2n) of the empirical one,
    everywhere at once (Dvoretzky, Kiefer, Wolfowitz; the constant is Massart's).

    Parameters
    ----------
    draw
        From a state to returns [samples, A], where each branch stood when its rollout was cut (`ENDED` or a
        coordinate), and a fingerprint of what it gained on the way.
    cut, rounding
        What the steps not taken, and rounding in those taken, can amount to in one return.
    slack
        The distance above, for a number of samples and a chance of error, where it is another one.
    """

    def __init__(
        self,
        draw: Callable[[int], tuple[Floats, Integers, Integers]],
        cut: float,
        rounding: float,
        ranges: Support,
        confidence: float,
        slack: Callable[[int, float], float] = fixed_slack,
    ) -> None:
        self._draw, self._cut, self._rounding = draw, cut, rounding
        self._ranges, self._confidence, self._slack = ranges, confidence, slack
        self._last: tuple[int, tuple[Floats, Integers, Integers]] | None = None

    def return_distribution(self, s: int, a: int) -> Distribution:
        """The empirical distribution of Z(s, a)."""
        if self._ranges.is_over(s):
            return GapDistribution.zero()
        returns, ends, _ = self._of(s)
        error = np.where(ends[:, a] == ENDED, 0.0, self._cut) + self._rounding
        slack, mass = self._band(returns.shape[0])
        values, support = returns[:, a], self._ranges.of(s, a)
        return Distribution(values - error, values + error, values, mass, slack, support, self._confidence)

    def gap_distribution(self, s: int, a: int, b: int) -> GapDistribution:
        """The empirical distribution of Z(s, a) − Z(s, b). Branches on one coordinate have one return to come."""
        if self._ranges.is_over(s):
            return GapDistribution.zero()
        returns, ends, gains = self._of(s)
        values = returns[:, a] - returns[:, b]
        settled = (ends[:, a] == ends[:, b]) | (self._cut == 0)
        error = np.where(settled, 0.0, 2 * self._cut) + 2 * self._rounding
        error[settled & (gains[:, a] == gains[:, b])] = 0.0  # the same in every step, or added up without rounding
        slack, mass = self._band(values.size)
        support = self._ranges.of_gap(s, a, b)
        return GapDistribution(values - error, values + error, values, mass, slack, support, self._confidence)

    def _of(self, s: int) -> tuple[Floats, Integers, Integers]:
        if self._last is None or self._last[0] != s:
            self._last = s, self._draw(s)
        return self._last[1]

    def _band(self, n: int) -> tuple[float, Floats]:
        return self._slack(n, 1 - self._confidence), np.full(n, 1 / n)
