"""Confidence that holds whenever one stops: for means, chances and whole laws of samples that keep coming.

An ordinary interval holds at a number of samples fixed before. Whoever looks after every batch and stops when the
answer pleases needs intervals that hold at all times at once; these do, and cost about a factor of two in width.
"""

from __future__ import annotations

import math

import numpy as np

from jmdp.arrays import Floats
from jmdp.interval import Interval

_SHARPEST_AT = 500
"""Samples at which intervals of means are as narrow as they can be; elsewhere they are nearly so."""


ENOUGH = 64
"""Samples below which intervals that are for large numbers of them decide nothing."""


def mean_radius(n: int, error: float) -> float:
    """How many standard errors the mean of n samples is off at most, at all n at once, but for a chance of `error`.

    √(2 (nρ² + 1)/(nρ²) ln(√(nρ² + 1)/error)): the normal mixture, for n not small (Waudby-Smith, Arbour, Sinha, Kennedy
    & Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences", Annals of Statistics 2024).
    """
    late = -2 * math.log(error)
    weight = n * (late + math.log1p(late)) / _SHARPEST_AT
    return math.sqrt(2 * (weight + 1) / weight * math.log(math.sqrt(weight + 1) / error))


def mean_errors(deviations: Floats, error: float, spread: Floats | float = 0.0) -> Floats:
    """How far means over axis 0 may be off, given each sample's deviation from its mean.

    To the normal part comes Bernstein's term for what is rare, spread × radius²/(3n), with the largest deviation seen;
    or with `spread` where none was seen at all, for that a thing did not happen in n samples does not mean it cannot.
    """
    n = deviations.shape[0]
    radius = mean_radius(n, error)
    largest = np.abs(deviations).max(axis=0)
    largest = np.where(largest > 1e-9 * np.asarray(spread), largest, spread)  # what is less is rounding
    return np.asarray(radius * deviations.std(axis=0, ddof=1) / math.sqrt(n) + largest * radius**2 / (3 * n))


def bounded_mean(values: Floats, error: float) -> Interval:
    """Where the mean of a law on [0, 1] is, given samples [n] in the order they were drawn; no approximation.

    Σλ_i x_i/Σλ_i ± (ln(2/error) + Σ (x_i − μ_{i−1})² ψ(λ_i))/Σλ_i with ψ(λ) = −ln(1 − λ) − λ, where μ and λ follow from
    what was drawn before: the empirical Bernstein sequence of Waudby-Smith & Ramdas, "Estimating means of
    bounded random variables by betting", JRSS B 2024, Theorem 2.
    """
    n = values.size
    t = np.arange(1, n + 1)
    middle = (0.5 + np.cumsum(values)) / (t + 1)
    before = np.insert(middle[:-1], 0, 0.5)
    variance = (0.25 + np.cumsum((values - middle) ** 2)) / (t + 1)
    late = math.log(2 / error)
    bet = np.minimum(np.sqrt(2 * late / (np.insert(variance[:-1], 0, 0.25) * t * np.log1p(t))), 0.5)
    total = bet.sum()
    radius = (late + ((values - before) ** 2 * (-np.log1p(-bet) - bet)).sum()) / total
    at = float((bet * values).sum() / total)
    return Interval(max(0.0, at - float(radius)), min(1.0, at + float(radius)))


def law_slack(n: int, error: float) -> float:
    """How far the empirical law of n samples is off at most, everywhere and at all n at once.

    0.85 √((ln ln(e n) + 0.8 ln(1612/error))/n) (Howard & Ramdas, "Sequential estimation of quantiles with applications
    to A/B testing and best-arm identification", Bernoulli 2022, Theorem 2).
    """
    return 0.85 * math.sqrt((math.log(math.log(math.e * n)) + 0.8 * math.log(1612 / error)) / n)


def chance_interval(count: int, n: int, error: float) -> Interval:
    """Where the chance of something is that happened `count` times in n, at all n at once; no approximation.

    All p that the mixture of all chances, by Beta(½, ½), is not 1/error times as likely as (Ville's inequality).
    """

    def edge(inside: float, outside: float) -> float:
        for _ in range(60):
            middle = (inside + outside) / 2
            if 0 < middle < 1 and _refused(middle, count, n, error):
                outside = middle
            else:
                inside = middle
        return outside

    seen = count / n
    return Interval(edge(seen, 0.0) if count else 0.0, edge(seen, 1.0) if count < n else 1.0)


def quantile_ranks(p: float, n: int, error: float) -> tuple[int, int]:
    """Between which of n samples in order, counted from 1, the quantile of p is, at all n at once: 0 and n + 1 are ∓∞.

    As many samples as are below the quantile are a count whose chance is p; those counts that p is not refused for.
    """
    near = min(n, max(0, round(n * p)))
    low, high = near, near
    step = 1 << n.bit_length()
    while step := step // 2:  # refused counts are those far from n p, so the first ones are found by halving
        if low - step >= 0 and not _refused(p, low - step, n, error):
            low -= step
        if high + step <= n and not _refused(p, high + step, n, error):
            high += step
    return low, high + 1


def _refused(p: float, count: int, n: int, error: float) -> bool:
    """Is p too unlikely beside the mixture of all chances?"""
    mixture = _log_beta(count + 0.5, n - count + 0.5) - _log_beta(0.5, 0.5)
    likely = (count * math.log(p) if count else 0.0) + ((n - count) * math.log1p(-p) if count < n else 0.0)
    return mixture + math.log(error) > likely


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
