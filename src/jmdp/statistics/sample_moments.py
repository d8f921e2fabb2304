"""Joint moments of one state, with their errors, from samples of the returns of all its actions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from jmdp.base.arrays import Floats, Scale
from jmdp.base.interval import Interval
from jmdp.simulators.rollouts.draws import Draws
from jmdp.statistics.means import IntervalRule
from jmdp.statistics.selection import Limits


@dataclass(frozen=True, eq=False)
class SampleMoments:
    """Joint moments of A returns, and the half-width of each one's confidence interval."""

    mean: Floats  # [A]
    mean_error: Floats  # [A]
    covariance: Floats  # [A, A]
    covariance_error: Floats  # [A, A]
    correlation_error: Floats  # [A, A]
    gap_mean_error: Floats  # [A, A]
    gap_variance_error: Floats  # [A, A]

    @classmethod
    def zero(cls, actions: int) -> SampleMoments:
        """Moments of a state without further rewards: all 0."""
        mean, square = np.zeros(actions), np.zeros((actions, actions))
        return cls(mean, mean, square, square, square, square, square)

    def restored(self, scale: Scale) -> SampleMoments:
        """Moments in the original unit of the returns; errors include possible underflows."""

        def back(name: str, x: Floats) -> Floats:
            power = _POWERS[name]
            return scale.restore_error(x, power) if name.endswith("_error") and power else scale.restore(x, power)

        with np.errstate(over="ignore", under="ignore"):
            return SampleMoments(**{name: back(name, x) for name, x in vars(self).items()})

    def with_unknown(self, open_returns: Floats, open_gaps: Floats) -> SampleMoments:
        """The moments with infinite errors where truncated rollouts (fractions [A] and [A, A]) have no reward bound."""
        single = np.where(open_returns > 0, np.inf, 0.0)
        pair, gap = single[:, None] + single, np.where(open_gaps > 0, np.inf, 0.0)
        return replace(
            self,
            mean_error=self.mean_error + single,
            covariance_error=self.covariance_error + pair,
            correlation_error=self.correlation_error + pair,
            gap_mean_error=self.gap_mean_error + gap,
            gap_variance_error=self.gap_variance_error + gap,
        )


_POWERS = {
    "mean": 1,
    "mean_error": 1,
    "covariance": 2,
    "covariance_error": 2,
    "correlation_error": 0,
    "gap_mean_error": 1,
    "gap_variance_error": 2,
}
"""Power of the returns' unit in which each quantity is measured."""


Ranges = Callable[[int | None, int], Interval]
"""(a, b) → range of Z(a) − Z(b), or of Z(b) if a is None, in units of `Limits.scale`."""


def sample_moments(drawn: Draws, limits: Limits, rule: IntervalRule, ranges: Ranges | None = None) -> SampleMoments:
    """Joint moments of the rollouts, with errors, computed on returns scaled to size 1.

    The errors include truncation and rounding. If a fraction `part` of the samples was truncated, the truncation error
    of a mean is at most part × cut, and that of a product with a variable of standard deviation σ at most √part cut σ
    (Cauchy–Schwarz). Where the errors below and above a mean differ, this is the larger one. Known `ranges` give errors
    of means where nearly all samples are equal.
    """
    scale, unknown = limits.scale, math.isinf(limits.cut)
    cut, rounding = 0.0 if unknown else scale.divide(limits.cut), scale.divide(limits.rounding)
    parts = scale.divide(drawn.returns), drawn.open_returns, drawn.open_gaps
    found = _moments(*parts, cut, rounding, rule, ranges) if len(drawn.returns) > 1 else _of_one(*parts, cut, rounding)
    if unknown:
        found = found.with_unknown(drawn.open_returns, drawn.open_gaps)
    return found.restored(scale)


def mean_errors(drawn: Draws, limits: Limits, rule: IntervalRule) -> Floats:
    """`SampleMoments.mean_error` [A] alone, which takes less time than all moments."""
    scale, unknown = limits.scale, math.isinf(limits.cut)
    cut, rounding = 0.0 if unknown else scale.divide(limits.cut), scale.divide(limits.rounding)
    returns, part = scale.divide(drawn.returns), drawn.open_returns
    off = cut * part + rounding
    if len(returns) > 1:
        off = off + np.maximum(*rule.errors(returns, 2 * rounding))
    with np.errstate(over="ignore", under="ignore"):
        return scale.restore_error(off + np.where(unknown & (part > 0), np.inf, 0.0), 1)


def _of_one(returns: Floats, part: Floats, gap_part: Floats, cut: float, rounding: float) -> SampleMoments:
    """Moments of a single sample [1, A] of returns that are not random."""
    off, none = 2 * (cut * gap_part + rounding), np.zeros_like(gap_part)
    np.fill_diagonal(off, 0.0)
    return SampleMoments(returns[0], cut * part + rounding, none, none, none, off, none)


def _moments(
    returns: Floats,
    part: Floats,
    gap_part: Floats,
    cut: float,
    rounding: float,
    rule: IntervalRule,
    ranges: Ranges | None,
) -> SampleMoments:
    """Moments of samples [n, A], with fractions `part` [A] of returns and `gap_part` [A, A] of gaps truncated."""
    A = returns.shape[1]
    quantile = rule.quantile
    mean = returns.mean(axis=0)
    centred = returns - mean
    std = centred.std(axis=0, ddof=1)
    lost, lost_gap = cut * np.sqrt(part), 2 * cut * np.sqrt(gap_part)
    inverse = 1 / np.where(std > lost, std, np.inf)
    errors = np.empty((4, A, A))
    covariance = np.empty((A, A))
    for a in range(A):
        own = centred[:, [a]]
        covariance[a], noise = covariance_of(own, centred)
        errors[0, a] = quantile * noise + lost * std[a] + lost[a] * std + lost[a] * lost
        noise = _correlation_noise(own * inverse[a], centred * inverse)
        errors[1, a] = quantile * noise
        gaps = own - centred
        variance, noise = covariance_of(gaps, gaps)
        errors[1, a] += _correlation_lost(a, std, covariance[a], lost, lost_gap[a], variance, inverse)
        of_gaps = None if ranges is None else partial(ranges, a)
        errors[2, a] = rule.total_errors(returns[:, [a]] - returns, 2 * rounding, 2 * cut * gap_part[a], of_gaps)
        off = lost_gap[a] + 2 * rounding
        errors[3, a] = quantile * noise + 2 * off * np.sqrt(variance) + off**2
    errors[2, np.arange(A), np.arange(A)] = errors[3, np.arange(A), np.arange(A)] = 0.0
    mean_error = rule.total_errors(returns, rounding, cut * part, None if ranges is None else partial(ranges, None))
    return SampleMoments(mean, mean_error, covariance, *errors)


def _correlation_lost(
    a: int, std: Floats, covariance: Floats, lost: Floats, lost_gap: Floats, variance: Floats, inverse: Floats
) -> Floats:
    """Bounds on the errors of the correlations of one action due to truncated rollouts.

    They are at most 2 (l_a/σ_a + l_b/σ_b). For strongly correlated returns,
    1 − ρ = (Var G − (σ_a − σ_b)²)/2σ_aσ_b gives a tighter bound, since the truncation error of the gap is small; the
    factor 2 covers terms of second order.
    """
    part = lost[a] * inverse[a] + lost * inverse
    scale = inverse[a] * inverse
    near = lost_gap * np.sqrt(variance) + lost_gap**2 / 2 + np.abs(std[a] - std) * (lost[a] + lost)
    apart = np.clip(1 - covariance * scale, 0, 2)
    closer = np.where(part < 0.25, 2 * (near * scale + 2 * apart * part), np.inf)
    return np.asarray(np.minimum(2 * part, closer))


def covariance_of(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Covariance over axis 0 of centred samples, and its standard error.

    Var(ĉ) = (μ₂₂ − c²)/n + (σ_x² σ_y² + c²)/(n(n − 1)). The second term remains if x y is constant, as for a
    fair coin, whose sample variance has an error of order 1/n instead of 1/√n.
    """
    n = x.shape[0]
    product = x * y
    covariance = product.sum(axis=0) / (n - 1)
    spread = product.var(axis=0)
    variances = (x * x).mean(axis=0) * (y * y).mean(axis=0)
    return covariance, np.sqrt(spread / n + (variances + covariance**2) / (n * (n - 1)))


def _correlation_noise(x: Floats, y: Floats) -> Floats:
    """Standard errors of sample correlations: those of the mean of x y − ρ (x² + y²)/2 on standardised samples."""
    product = x * y
    influence = product - product.mean(axis=0) * (x * x + y * y) / 2
    return np.asarray(influence.std(axis=0) / math.sqrt(x.shape[0]))
