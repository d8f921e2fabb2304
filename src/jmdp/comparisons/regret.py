"""The regret of an alternative, and the gap of two, in one run: their distributions, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.settings import real_number, short
from jmdp.errors import SettingsError
from jmdp.statistics.bounded_returns import bounded_limits
from jmdp.statistics.means import Sampling


@dataclass(frozen=True, eq=False)
class OneRun:
    """Samples [n] of a quantity of one run, such as a gap, with intervals of its quantiles and its largest values.

    Intervals of quantiles are valid for any distribution. The mean and `cvar` have an interval only within known bounds
    (a `return_range`); otherwise they are estimates.
    """

    values: Floats  # [n]
    hidden: Floats  # [n], error of each sample by the horizon and by rounding
    least: float  # lower bound on the quantity; −infinite without a `return_range`
    most: float  # upper bound; infinite without a `return_range`
    error: float  # probability that an interval fails; 0 if nothing is random
    sampling: Sampling

    @property
    def mean(self) -> Estimate:
        """The expectation."""
        value = float(self.values.mean())
        if self.error == 0:
            return Estimate(value, *self._between(0.5, 0.0))
        if math.isinf(self.most):
            return Estimate.within(value, None)
        ends = (self.values - self.hidden)[:, None], (self.values + self.hidden)[:, None]
        low, high = bounded_limits(*ends, self.least, self.most, 0.0, self.error)
        return Estimate(value, float(low[0]), float(high[0]))

    def quantile(self, p: float) -> Estimate:
        """The smallest x with P(quantity ≤ x) ≥ p."""
        p = _chance(p)
        low, high = self._between(p, self.error)
        return Estimate(float(np.sort(self.values)[math.ceil(self.values.size * p) - 1]), low, high)

    def cvar(self, p: float) -> Estimate:
        """Mean of the largest p of all outcomes.

        The interval is that of (1/p) ∫ quantile(1 − u) du over u from 0 to p, from joint intervals of the quantiles at
        u = p, p/√2, p/2, …; beyond the last of them the quantity is at most `most`.
        """
        p = _chance(p)
        start = float(np.quantile(self.values, 1 - p, method="inverted_cdf"))
        value = start + float(np.maximum(self.values - start, 0.0).mean()) / p
        if self.error == 0:
            return Estimate(value, *self._between(p, 0.0))
        if math.isinf(self.most - self.least):
            return Estimate.within(value, None)
        tails = p * 2.0 ** (-0.5 * np.arange(_LEVELS))
        lows, highs = np.array([self._between(1 - tail, self.error / _LEVELS) for tail in tails]).T
        parts = -np.diff(tails, append=0.0) / p
        low, high = float(parts @ lows), float(parts @ np.append(highs[1:], self.most))
        off = 2.0**-46 * (self.most - self.least)
        return Estimate(value, max(self.least, low - off), min(self.most, high + off))

    def negative(self) -> OneRun:
        """The same samples of the negative quantity."""
        return replace(self, values=-self.values, least=-self.most, most=-self.least)

    def _between(self, p: float, error: float) -> tuple[float, float]:
        """Interval of the p-quantile."""
        n = self.values.size
        if error == 0:  # nothing is random
            return max(self.least, float((self.values - self.hidden)[0])), float((self.values + self.hidden)[0])
        low, high = self.sampling.quantile_ranks(p, n, error)
        least = float(np.sort(self.values - self.hidden)[low - 1]) if low else -math.inf
        most = float(np.sort(self.values + self.hidden)[high - 1]) if high <= n else math.inf
        return max(self.least, least), min(self.most, most)


@dataclass(frozen=True, eq=False)
class Regret(OneRun):
    """Distribution of the regret of an action: samples ≥ 0 of max_b Z(b) − Z(action), the worst being the largest."""

    action: str


_LEVELS = 16
"""Number of quantiles in the interval of `cvar`."""


_SMALLEST = 2.0**-40
"""Smallest chance of a tail: it must be many times the rounding error of 1 − p."""


def _chance(p: object) -> float:
    number = real_number(p)
    if not _SMALLEST <= number <= 1 - _SMALLEST:
        raise SettingsError(f"p is {short(p)}. Give a probability between 0 and 1, e.g. 0.95; at least 1e-12.")
    return number
