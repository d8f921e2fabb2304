"""Anytime-valid confidence intervals for means, probabilities and distributions of sequential samples.

An ordinary confidence interval is valid for a sample size fixed in advance. If the stopping time depends on the data,
the intervals must be valid simultaneously at all sample sizes. These are, at about twice the width.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval

_SHARPEST_AT = 500
"""Sample size for which intervals of means are optimised; at other sizes they are nearly optimal."""


ENOUGH = 32
"""Minimum number of samples for a decision that rests on large-sample intervals."""

_FEW_EXTREMES, _HEAVIEST = 60, 8
"""Samples that the fourth moment must rest on for an observed skewness to be trusted, and the largest correction."""


def mean_radius(n: int, error: float) -> float:
    """Half-width, in standard errors, of an interval of the mean that is valid at all n with probability 1 − `error`.

    √(2 (nρ² + 1)/(nρ²) ln(√(nρ² + 1)/error)): the normal mixture, for large n (Waudby-Smith, Arbour, Sinha, Kennedy
    & Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences", Annals of Statistics 2024). The
    variance is known; see `student_radius`.
    """
    weight = _weight(n, error)
    return math.sqrt(2 * (weight + 1) / weight * math.log(math.sqrt(weight + 1) / error))


def student_radius(n: int, error: float) -> float:
    """`mean_radius` in units of the estimated standard error; exact for normal samples, infinite for too small n.

    √((n − 1)(q − 1)/(1 − q/(1 + w))) with w = nρ² and q = (√(1 + w)/error)^(2/n): the mixture of t statistics, which
    are scale-invariant (Lai, "On confidence sequences", Annals of Statistics 1976; Wang & Ramdas, "Anytime-valid
    t-tests and confidence sequences for Gaussian means with unknown variance", Sequential Analysis 2025).
    """
    weight = _weight(n, error)
    q = (math.sqrt(1 + weight) / error) ** (2 / n)
    return math.inf if q >= 1 + weight or n < 2 else math.sqrt((n - 1) * (q - 1) / (1 - q / (1 + weight)))


def _weight(n: int, error: float) -> float:
    """nρ², with ρ chosen so that intervals are narrowest at `_SHARPEST_AT`."""
    late = -2 * math.log(error)
    return n * (late + math.log1p(late)) / _SHARPEST_AT


def mean_errors(deviations: Floats, error: float, spread: Floats | float = 0.0) -> Floats:
    """Large-sample error bounds of means over axis 0, from the deviations of the samples from their mean.

    radius × σ/√n + U radius²/(3n) with `student_radius`. U is the largest of three. |m₃|/σ² corrects for skewness (m₃
    is the third central moment; this is the second-order term of the Cornish–Fisher expansion). It is multiplied by
    60 m₄/(n σ⁴), between 1 and 8: nσ⁴/m₄ is the number of samples that the fourth moment rests on, and few of them
    indicate a heavy tail with larger deviations not yet observed. σ; and `spread`, for outcomes that were not observed
    at all: one of size D has, with probability 1 − error, a chance of at most ln(1/error)/n, and changes the mean by at
    most D ln(1/error)/n, which is less than U radius²/(3n) for D up to about U. No such interval is valid for every
    distribution; if a range is known, `bounded_means` returns intervals that are.
    """
    n = deviations.shape[0]
    radius, std = student_radius(n, error), deviations.std(axis=0, ddof=1)
    if math.isinf(radius):
        return np.full(std.shape, math.inf)
    unit = deviations / np.where(std > 0, std, 1.0)
    square = unit * unit
    skewness, kurtosis = np.abs((square * unit).mean(axis=0)), (square * square).mean(axis=0)
    tail = std * skewness * np.clip(_FEW_EXTREMES * kurtosis / n, 1, _HEAVIEST)
    unseen = np.maximum(np.maximum(tail, std), spread)
    return np.asarray(radius * std / math.sqrt(n) + unseen * radius**2 / (3 * n))


def bounded_means(low: Floats, high: Floats, error: float) -> tuple[Floats, Floats]:
    """Limits [P] of the means of P distributions on [0, 1], from samples [n, P] in the order drawn; not asymptotic.

    Hedged capital (Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024,
    section 4.4): m is rejected as too small once Π_{i ≤ t} (1 + min(λ_i, 1/(2m)) (x_i − m)) ≥ 2/error at any t ≤ n,
    and as too large by the same test on 1 − x and 1 − m. The bet λ_i depends only on x_1, …, x_{i−1}, so the products
    are nonnegative supermartingales for every m that is at least the mean (Ville's inequality). They decrease in m, so
    the limits are found by bisection. The limits include rounding errors.

    If samples are known only up to an interval, `low` and `high` are its ends; otherwise both are the samples.
    """
    return _lower_mean(low, error), 1 - _lower_mean(1 - high, error)


def _lower_mean(x: Floats, error: float) -> Floats:
    n, threshold = x.shape[0], math.log(2 / error)
    bets = _bets(x, threshold)
    refused, kept = np.zeros(x.shape[1]), np.ones(x.shape[1])
    for _ in range(10 + n.bit_length()):  # precision 1/(1000 n), since no interval is narrower than 1/n
        m = (refused + kept) / 2
        gains = np.log1p(np.minimum(bets, 0.5 / m) * (x - m))
        rounding = (n + 8) * 2.0**-51 * np.abs(gains).sum(axis=0)
        too_small = np.cumsum(gains, axis=0).max(axis=0) - rounding >= threshold
        refused, kept = np.where(too_small, m, refused), np.where(too_small, kept, m)
    return np.maximum(0.0, refused - 2.0**-50)


def _bets(x: Floats, threshold: float) -> Floats:
    """λ_i [n, P] from the samples before i: √(2 threshold/(σ̂²_{i−1} i ln(i + 1))), with the initial value σ̂² = ¼."""
    i = np.arange(1, len(x) + 1)[:, None]
    mean = (0.5 + np.cumsum(x, axis=0)) / (i + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2, axis=0)) / (i + 1)
    before = np.concatenate([np.full((1, x.shape[1]), 0.25), variance[:-1]])
    return np.sqrt(2 * threshold / (before * i * np.log1p(i)))


def distribution_slack(n: int, error: float) -> float:
    """Half-width of a confidence band for the distribution function of n samples, valid at all n simultaneously.

    0.85 √((ln ln(e n) + 0.8 ln(1612/error))/n) (Howard & Ramdas, "Sequential estimation of quantiles with applications
    to A/B testing and best-arm identification", Bernoulli 2022, Theorem 2).
    """
    return 0.85 * math.sqrt((math.log(math.log(math.e * n)) + 0.8 * math.log(1612 / error)) / n)


@lru_cache(maxsize=4096)
def chance_interval(count: int, n: int, error: float) -> Interval:
    """Interval of the probability of an event observed `count` times in n, valid at all n; not asymptotic.

    It contains all p whose likelihood is at least `error` times that of the Beta(½, ½) mixture (Ville's inequality).
    """
    least = _least_likely(count, n, error)

    def edge(inside: float, outside: float) -> float:
        for _ in range(60):
            middle = (inside + outside) / 2
            if 0 < middle < 1 and _log_likely(middle, count, n) < least:
                outside = middle
            else:
                inside = middle
        return outside

    seen = count / n
    return Interval(edge(seen, 0.0) if count else 0.0, edge(seen, 1.0) if count < n else 1.0)


@lru_cache(maxsize=4096)
def quantile_ranks(p: float, n: int, error: float) -> tuple[int, int]:
    """Ranks (from 1) of the sorted samples that enclose the p-quantile, valid at all n; 0 and n + 1 stand for ∓∞.

    The number of samples below the quantile is binomial with probability p; the ranks are the counts for which p is
    not rejected.
    """
    near = min(n, max(0, round(n * p)))
    low, high = near, near
    step = 1 << n.bit_length()
    while step := step // 2:  # rejected counts are those far from n p, so the nearest ones are found by halving
        if low - step >= 0 and not _refused(p, low - step, n, error):
            low -= step
        if high + step <= n and not _refused(p, high + step, n, error):
            high += step
    return low, high + 1


def _refused(p: float, count: int, n: int, error: float) -> bool:
    """True if the likelihood of p is too small relative to that of the mixture."""
    return _log_likely(p, count, n) < _least_likely(count, n, error)


def _log_likely(p: float, count: int, n: int) -> float:
    return (count * math.log(p) if count else 0.0) + ((n - count) * math.log1p(-p) if count < n else 0.0)


def _least_likely(count: int, n: int, error: float) -> float:
    return _log_beta(count + 0.5, n - count + 0.5) - _log_beta(0.5, 0.5) + math.log(error)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
