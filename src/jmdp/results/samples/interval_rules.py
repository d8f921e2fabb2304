"""Widths of intervals from samples: for a sample size fixed in advance, or valid at any stopping time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jmdp.base.arrays import Floats
from jmdp.results import anytime


@dataclass(frozen=True)
class IntervalRule:
    """Rule for the errors of means, covariances and distributions from samples."""

    confidence: float
    distribution_slack: Callable[[int, float], float]  # (n, error probability) → half-width of the band
    quantile: float = 0.0  # half-width of an interval in standard errors, if `mean_errors` is None
    mean_errors: Callable[[Floats, Floats], Floats] | None = None  # (deviations [n, A], spreads [A]) → errors

    @classmethod
    def fixed(cls, samples: int, confidence: float) -> IntervalRule:
        """Rule for a fixed sample size: Student's t, and the band of Dvoretzky, Kiefer and Wolfowitz."""
        from scipy.special import stdtrit

        return cls(confidence, fixed_slack, quantile=float(stdtrit(samples - 1, (1 + confidence) / 2)))

    @classmethod
    def anytime(cls, confidence: float, error: float) -> IntervalRule:
        """Rule for any stopping time, with this error probability each. Without a range, variances have no interval."""
        return cls(confidence, anytime.distribution_slack, mean_errors=partial(_anytime_errors, error))

    @classmethod
    def certain(cls, confidence: float) -> IntervalRule:
        """Rule for samples of which each is exact, because nothing is random."""
        return cls(confidence, no_slack)

    @property
    def means_only(self) -> bool:
        """True if only means have intervals, not variances."""
        return self.mean_errors is not None


def fixed_slack(n: int, error: float) -> float:
    """Half-width of the band of the empirical distribution of n samples, n fixed in advance: √(ln(2/error)/2n)."""
    return math.sqrt(math.log(2 / error) / (2 * n))


def no_slack(n: int, error: float) -> float:
    """Half-width of the band if each sample is exact: 0."""
    return 0.0


def _anytime_errors(error: float, deviations: Floats, spread: Floats) -> Floats:
    return anytime.mean_errors(deviations, error, spread)
