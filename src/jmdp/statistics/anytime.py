"""Intervals of probabilities, quantiles and distributions for any distribution, and of means within a known range.

An ordinary confidence interval is valid for a sample size fixed in advance. If the stopping time depends on the data,
the intervals must be valid simultaneously at all sample sizes: these are anytime-valid, at about twice the width.

Outcomes that were not seen: how likely they may be, and what they would have to cost to reverse a verdict.

No statistic of the samples seen bounds the unseen ones. An outcome of one kind that did not occur in n samples has a
probability of at most p_n = 1 − 0.01^(1/n), with 99% confidence. If unseen outcomes have probability p_n, and the mean
gap of the others is at least `low`, the mean gap is positive unless they cost more than low (1 − p_n)/p_n on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from jmdp.base import rounding
from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval

_MISSED = 0.01
"""Probability that an outcome of probability p_n does not occur in n samples."""


def unseen_chance(n: int) -> float:
    """p_n = 1 − 0.01^(1/n): the probability that an outcome which was not seen in n samples does not exceed, at 99%."""
    return -math.expm1(math.log(_MISSED) / n)


@dataclass(frozen=True)
class Unseen:
    """What unseen outcomes would have to cost on average to reverse the sign of a mean gap or a verdict on a margin."""

    low: float  # lower limit of the mean gap, or of its distance from the margin, > 0
    samples: int
    whole: float  # what a whole return is worth: the largest seen, or a given bound of the loss
    included: bool = False  # `low` allows for unseen outcomes that cost `whole`

    @property
    def chance(self) -> float:
        """Upper limit of the probability of unseen outcomes."""
        return unseen_chance(self.samples)

    @property
    def break_even(self) -> float:
        """Average loss in unseen outcomes at which the mean gap is 0."""
        return self.low * (1 - self.chance) / self.chance

    @property
    def firm(self) -> bool:
        """Whether the break-even is at least one whole return, or unseen outcomes are included."""
        return self.included or self.break_even >= self.whole

    def sentence(self, run: str, does: str = "loses more than {}") -> str:
        """What would reverse the verdict; the numbers are rounded to the side that keeps the sentence true."""
        if self.included:
            return f"This allows for outcomes that were not seen and cost at most {rounding.exactly(self.whole)}."
        return (
            f"This reverses only if something that happens in fewer than 1 of {rarest(self.samples)} {run}s, and was "
            f"not seen, {does.format(rounding.at_least(self.break_even, 2))} on average."
        )


def rarest(samples: int) -> str:
    """1/p_n, rounded down: an outcome that was not seen happens in fewer than one of so many samples."""
    return f"{math.floor(1 / unseen_chance(samples)):,}"


def missing(samples: int, run: str) -> str:
    """What may be missing from the samples."""
    return f"Something that happens in fewer than 1 of {rarest(samples)} {run}s may not have been seen"


def with_largest_loss(error: Floats, largest_loss: float, samples: int, probability: float) -> Floats:
    """Half-widths of intervals that include an unseen outcome which costs at most `largest_loss`.

    √(e² + u²), u = L ln(2/α)/n, with e the half-width for what was seen. An event of probability t ln(2/α)/n is missed
    with probability (α/2)^t, and the samples must then deviate by √(e² + u²) − t u, of probability about
    (α/2)^(that/e)². The product is at most α/2 for every t.
    """
    return np.asarray(np.hypot(error, largest_loss * math.log(2 / probability) / samples))


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


def fixed_slack(n: int, error: float) -> float:
    """Half-width of the band of the empirical distribution of n samples, n fixed in advance: √(ln(2/error)/2n)."""
    return math.sqrt(math.log(2 / error) / (2 * n))


def no_slack(n: int, error: float) -> float:
    """Half-width of the band if each sample is exact: 0."""
    return 0.0


def fixed_chance_interval(count: float, n: int, error: float) -> Interval:
    """Interval of the probability of an event observed `count` times in n, n fixed in advance (Clopper & Pearson).

    A tie may count one half: its sum varies less than the number of events if ties were decided by a coin.
    """
    from scipy.special import betaincinv

    low = float(betaincinv(count, n - count + 1, error / 2)) if count else 0.0
    return Interval(low, float(betaincinv(count + 1, n - count, 1 - error / 2)) if count < n else 1.0)


@lru_cache(maxsize=4096)
def chance_interval(count: float, n: int, error: float) -> Interval:
    """Interval of the probability of an event observed `count` times in n, valid at all n; not asymptotic.

    It contains all p whose likelihood is at least `error` times that of the Beta(½, ½) mixture (Ville's inequality). A
    tie may count one half: the ratio is convex in `count`, so it is at most its mean if ties were decided by a coin.
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


@lru_cache(maxsize=4096)
def fixed_quantile_ranks(p: float, n: int, error: float) -> tuple[int, int]:
    """Ranks (from 1) of the sorted samples that enclose the p-quantile, n fixed in advance; 0 and n + 1 for ∓∞."""
    from scipy.special import bdtr

    below = bdtr(np.arange(n + 1), n, p)  # P(at most so many samples are below the quantile)
    low = int(np.searchsorted(below, error / 2, side="right"))
    high = int(np.searchsorted(below, 1 - error / 2, side="left")) + 1
    return low, high


def _refused(p: float, count: int, n: int, error: float) -> bool:
    """True if the likelihood of p is too small relative to that of the mixture."""
    return _log_likely(p, count, n) < _least_likely(count, n, error)


def _log_likely(p: float, count: float, n: int) -> float:
    return (count * math.log(p) if count else 0.0) + ((n - count) * math.log1p(-p) if count < n else 0.0)


def _least_likely(count: float, n: int, error: float) -> float:
    return _log_beta(count + 0.5, n - count + 0.5) - _log_beta(0.5, 0.5) + math.log(error)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
