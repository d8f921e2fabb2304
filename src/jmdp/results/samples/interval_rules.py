"""How wide intervals from samples are: for a number of samples fixed before, or whenever one stops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jmdp.base.arrays import Floats
from jmdp.results import anytime


@dataclass(frozen=True)
class IntervalRule:
    """How errors of means, covariances and distributions follow from samples."""

    confidence: float
    distribution_slack: Callable[[int, float], float]  # of n samples and a chance of error: the band of a distribution
    quantile: float = 0.0  # standard errors that an interval reaches to each side, if `mean_errors` is None
    mean_errors: Callable[[Floats, Floats], Floats] | None = None  # of deviations [n, A] and spreads [A]

    @classmethod
    def fixed(cls, samples: int, confidence: float) -> IntervalRule:
        """For a number of samples fixed before: Student's t, and the band of Dvoretzky, Kiefer and Wolfowitz."""
        from scipy.special import stdtrit

        return cls(confidence, fixed_slack, quantile=float(stdtrit(samples - 1, (1 + confidence) / 2)))

    @classmethod
    def anytime(cls, confidence: float, error: float) -> IntervalRule:
        """Whenever one stops, each with this chance of error. No interval of a variance holds so without a range."""
        return cls(confidence, anytime.distribution_slack, mean_errors=partial(_anytime_errors, error))

    @property
    def means_only(self) -> bool:
        """Are there intervals of means and of no variances?"""
        return self.mean_errors is not None


def fixed_slack(n: int, error: float) -> float:
    """How far the empirical distribution of n samples, n fixed before, is off at most: √(ln(2/error)/2n)."""
    return math.sqrt(math.log(2 / error) / (2 * n))


def _anytime_errors(error: float, deviations: Floats, spread: Floats) -> Floats:
    return anytime.mean_errors(deviations, error, spread)
