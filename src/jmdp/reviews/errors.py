"""Errors of averages: large-sample intervals for a number of samples that is fixed in advance."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jmdp.base.arrays import Booleans, Floats
from jmdp.base.interval import Estimate
from jmdp.statistics.means import IntervalRule

_ROUNDING = 2.0**-40
"""Relative error of averages by rounding, generously."""


def mean_errors(samples: Floats, error: float, size: float) -> tuple[Floats, Booleans]:
    """Errors [m] of means of samples [n, m], n fixed in advance, and where fewer than 8 of them differ.

    The larger side of `IntervalRule.fixed`, where that has an interval. Where too few samples differ, the error is that
    of those seen alone, and outcomes that were not seen must be allowed for: `with_unseen`. Samples are sums of returns
    up to `size`, by which their rounding error is known.
    """
    n = len(samples)
    if n == 1:
        return np.zeros(samples.shape[1]), np.zeros(samples.shape[1], bool)
    errors = np.maximum(*IntervalRule.fixed(n, 1 - error, error).errors(samples, _ROUNDING * size))
    few = np.isinf(errors)
    errors[few] = _student(samples[:, few], error)
    return errors, few


def _student(samples: Floats, error: float) -> Floats:
    """t σ/√n + t² |m₃|/(3 n σ²), with the third central moment m₃, for n ≥ 2 samples of which any number may differ."""
    from scipy.special import stdtrit

    n = len(samples)
    deviations = samples - samples.mean(axis=0)
    std, t = deviations.std(axis=0, ddof=1), float(stdtrit(n - 1, 1 - error / 2))
    unit = deviations / np.where(std > 0, std, 1.0)
    skewness = np.abs((unit**3).mean(axis=0))
    return np.asarray(t * std / math.sqrt(n) + t**2 * std * skewness / (3 * n))


def unseen(spread: float, n: int, error: float) -> float:
    """Largest effect on a mean of an outcome that n samples did not show: its chance is at most ln(1/error)/n."""
    return spread * math.log(1 / error) / n


def with_unseen(errors: Floats, few: Booleans, spread: float, n: int, error: float) -> Floats:
    """Errors that allow for an outcome that was not seen, of the size of `spread`, where too `few` samples differ.

    √(x² + y²) with x the error of what was seen and y = `unseen`: with no or few of n samples showing a rare outcome,
    intervals then miss the mean at most as often as stated (tests/reviews).
    """
    return np.where(few, np.hypot(errors, unseen(spread, n, error)), errors)


def average(values: Floats, confidence: float) -> Estimate:
    """Mean of independent values with its interval; there is none if all values are equal.

    If fewer than 8 of them differ, it allows for unseen outcomes of the size of their spread.
    """
    error, mean = 1 - confidence, float(values.mean())
    if len(values) < 2:
        return Estimate.within(mean, None)
    spread = float(values.max() - values.min())
    if spread <= _ROUNDING * float(np.abs(values).max()):  # nothing varied, so nothing is known about other outcomes
        return Estimate.within(mean, None)
    errors, few = mean_errors(values[:, None], error, float(np.abs(values).max()))
    known = float(with_unseen(errors, few, spread, len(values), error)[0])
    return Estimate.around(mean, known + _ROUNDING * abs(mean))


def jackknife(statistic: Callable[[Floats], Floats], terms: Floats, confidence: float) -> Estimate:
    """A function of the means of terms [n, m] with its interval: Student's t and the jackknife's standard error.

    `statistic` maps means [..., m] to [...]. A large-sample interval. There is none if the statistic is not finite, or
    not without one of the rows.
    """
    from scipy.special import stdtrit

    total, n = terms.sum(axis=0), len(terms)
    value = float(statistic(total / n))
    if not math.isfinite(value) or n < 3:
        return Estimate.within(value, None)
    without = statistic((total - terms) / (n - 1))
    if not np.isfinite(without).all():
        return Estimate.within(value, None)
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    radius = float(stdtrit(n - 1, (1 + confidence) / 2))
    return Estimate.around(value, radius * error + _ROUNDING * abs(value))
