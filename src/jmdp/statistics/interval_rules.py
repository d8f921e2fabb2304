"""Rules for the errors of means, covariances and distributions: which statement the samples allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.statistics import anytime
from jmdp.statistics.means import FIXED, Sampling, median, rare_error
from jmdp.statistics.strata import Strata, centred


@dataclass(frozen=True)
class IntervalRule:
    """Rule for the errors of means, covariances and distributions from samples."""

    confidence: float
    distribution_slack: Callable[[int, float], float]  # (n, error probability) → half-width of the band
    quantile: float = 0.0  # half-width of the interval of a variance, in standard errors
    mean_errors: Callable[[Floats], tuple[Floats, Floats]] | None = None  # values [n, A] → errors below and above
    means_only: bool = False  # variances and covariances have no interval
    strata: Strata | None = None  # starts that were drawn in shares
    error: float = 0.0  # error probability of one interval

    @classmethod
    def fixed(cls, samples: int, confidence: float, error: float | None = None) -> IntervalRule:
        """Rule for a number of samples chosen in advance, with this error probability each."""
        from scipy.special import stdtrit

        error = 1 - confidence if error is None else error
        means = partial(FIXED.mean_errors, error=error)
        return cls(confidence, anytime.fixed_slack, -float(stdtrit(samples - 1, error / 2)), means, error=error)

    @classmethod
    def of(cls, sampling: Sampling, samples: int, confidence: float, error: float) -> IntervalRule:
        """Rule for samples that were examined in this way, with this error probability each."""
        if sampling.kind == "fixed" and samples > 1:
            return cls.fixed(samples, confidence, error)
        means = partial(sampling.mean_errors, error=error)
        return cls(confidence, anytime.distribution_slack, mean_errors=means, means_only=True, error=error)

    @classmethod
    def certain(cls, confidence: float) -> IntervalRule:
        """Rule for samples of which each is exact, because nothing is random."""
        return cls(confidence, anytime.no_slack)

    def errors(self, values: Floats, rounding: float) -> tuple[Floats, Floats]:
        """How far the means of values [n, A] may be below and above the true ones.

        Values that differ by at most `rounding` from the median count as equal to it: otherwise rounding would be
        taken for a spread that was seen.
        """
        if self.mean_errors is None:
            return np.zeros(values.shape[1]), np.zeros(values.shape[1])
        values = centred(values, self.strata, self.error)
        middle = median(values)
        return self.mean_errors(np.where(np.abs(values - middle) <= rounding, middle, values))

    def total_errors(
        self, values: Floats, rounding: float, cut: Floats, ranges: Callable[[int], Interval] | None
    ) -> Floats:
        """Errors [A] of means of values [n, A] that have these errors by rounding and, on average, by truncation.

        The larger of the errors below and above. Where too few samples differ for an interval, and n was chosen in
        advance, it is that of any distribution within the ranges of the values, if they are known.
        """
        found = np.maximum(*self.errors(values, 2 * rounding))
        if ranges is not None:
            for a in np.flatnonzero(np.isinf(found)).tolist():
                low, high = ranges(a).low + cut[a], ranges(a).high - cut[a]
                found[a] = rare_error(values[:, a], low, high, 1 - self.confidence, 2 * rounding)
        return found + cut + rounding
