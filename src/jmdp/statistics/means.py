"""Large-sample intervals of means: of a number of samples fixed in advance, or of samples examined at several looks.

They say what the samples seen can say. Outcomes that were not seen are the subject of `unseen`.

Means over starts that are drawn in proportional shares: their errors come from the variance within starts alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, TypeAlias

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.interval import Interval
from jmdp.statistics import anytime

_FLAT = 1e-12
"""Share of the size of values below which a deviation within a start is due to rounding."""


@dataclass(frozen=True, eq=False)
class Strata:
    """Start of each sample, and the probability of each start.

    The mean over all starts is estimated by Σ p_s m_s, with m_s the mean of the n_s samples from start s. It has the
    variance Σ p_s² v_s/n_s, with v_s the variance within start s. If a start has fewer than two samples, samples are
    treated as independent, and intervals are wider.
    """

    numbers: Integers  # [samples]
    shares: Floats  # [starts]

    def of_starts(self, values: Floats) -> tuple[Integers, Floats]:
        """Numbers of samples [starts], and means [starts, A] of values [n, A] of the first n samples."""
        counts = np.bincount(self.numbers[: len(values)], minlength=self.shares.size)
        return counts, self._sums(values) / np.maximum(counts, 1)[:, None]

    def _sums(self, values: Floats) -> Floats:
        numbers = self.numbers[: len(values)]
        return np.stack([np.bincount(numbers, column, self.shares.size) for column in values.T], axis=1)

    def centred(self, values: Floats, error: float) -> Floats:
        """Values whose mean, and whose standard error if they were independent, are those of the stratified mean.

        Deviations from the mean of a start are weighted by its share, and multiplied by the ratio of the quantiles of
        Student's t for the degrees of freedom that the variances within starts have (Satterthwaite) and for n − 1.
        Columns that do not vary within starts are only moved.
        """
        from scipy.special import stdtrit

        n, (counts, means) = len(values), self.of_starts(values)
        if counts.min() < 2:
            return values
        deviations, numbers = values - means[self.numbers[:n]], self.numbers[:n]
        weights = self.shares * n / counts * np.sqrt(counts / (counts - 1) * (n - 1) / n)
        weighted = weights[numbers, None] * deviations
        parts = self._sums(weighted**2)
        flat = np.abs(deviations).max(axis=0) <= _FLAT * np.abs(values).max(axis=0)
        parts[:, flat] = 1.0
        freedom = parts.sum(axis=0) ** 2 / (parts**2 / (counts - 1)[:, None]).sum(axis=0)
        wider = stdtrit(freedom, error / 2) / stdtrit(n - 1, error / 2)
        return np.asarray(self.shares @ means + np.where(flat, values - values.mean(axis=0), wider * weighted))


def mean_of(values: Floats, strata: Strata | None) -> Floats:
    """Means over all starts of values [n, A] of the first n samples; plain ones without strata."""
    if strata is not None:
        counts, means = strata.of_starts(values)
        if counts.min() > 1:
            return np.asarray(strata.shares @ means)
    return np.asarray(values.mean(axis=0))


def centred(values: Floats, strata: Strata | None, error: float) -> Floats:
    """`Strata.centred`, or the values themselves without strata."""
    return values if strata is None else strata.centred(values, error)


ENOUGH = 32
"""Samples before the first look that can decide, and before the first interval of sequential samples."""

FEW = 8
"""Samples that must differ from the most frequent value for an interval of a fixed number of samples."""

_EFFECTIVE = 6
"""Smallest effective sample size n/kurtosis for an interval of sequential samples."""

_SHARPEST_AT = 150
"""Sample size for which intervals of sequential samples are optimised; at other sizes they are nearly optimal."""

Shape: TypeAlias = tuple[Floats, Floats, Floats]
"""Standard deviation, skewness and kurtosis, [A] each."""

_PLANNED_LOOKS = 5
"""Number of equally spaced looks of ``looks="planned"``."""


@dataclass(frozen=True)
class Sampling:
    """When samples are examined, on which the width of intervals depends.

    ``"fixed"``: one look, at a number of samples chosen in advance. ``"sequential"``: those of `looks`, and sampling
    may stop at any of them. ``"planned"``: five equally spaced looks. ``"histories"``: resampled histories, whose
    spread, and not its n-th part, is the variance of the mean: only one history was recorded.
    """

    kind: Literal["fixed", "sequential", "planned", "histories"] = "sequential"
    most: int = 0  # samples at the last look, if planned
    looks: int = 1  # at a fixed number of samples so far, or schedules of looks: more than one if it was continued
    freedom: float = 0.0  # degrees of freedom of the spread of resampled histories; 0: no interval
    widening: float = 1.0  # by which this spread is multiplied

    def next_look(self, n: int) -> int:
        """The first look after n samples, whatever the budget. Those that are not of a plan decide nothing."""
        for found in looks():
            if found > n:
                break
        return found if n >= self.most else min([found, *(look for look in planned_looks(self.most) if look > n)])

    def mean_errors(self, values: Floats, error: float) -> tuple[Floats, Floats]:
        """How far the means of values [n, A] may be below and above the true ones, with this error probability each.

        Infinite if the samples are too few for a large-sample interval.
        """
        n = len(values)
        if self.kind == "fixed":
            return fixed_errors(values, error)
        if self.kind == "histories":
            return history_errors(values, self.radius(n, error))
        if n < ENOUGH:
            none = np.full(values.shape[1], np.inf)
            return none, none
        both = sequential_errors(n, shape_of(values), self.radius(n, error), error)
        return both, both

    def radius(self, n: int, error: float) -> float:
        """Half-width of the interval of a mean of normal samples, in estimated standard errors."""
        if self.kind == "histories":
            return self.widening * history_radius(n, error, self.freedom)
        if self.kind == "fixed":
            from scipy.special import stdtrit

            return -float(stdtrit(n - 1, error / 2))
        return planned_radius(n, error, self.most) if self.kind == "planned" else sequential_radius(n, error)

    def chance_interval(self, count: float, n: int, error: float) -> Interval:
        """Interval of the probability of an event observed `count` times in n, a tie counting ½; any distribution."""
        if self.kind == "histories":
            return Interval(-math.inf, math.inf)
        found = anytime.fixed_chance_interval if self.kind == "fixed" else anytime.chance_interval
        return found(count, n, error)

    def quantile_ranks(self, p: float, n: int, error: float) -> tuple[int, int]:
        """Ranks (from 1) of the sorted samples that enclose the p-quantile; 0 and n + 1 stand for ∓∞."""
        if self.kind == "histories":
            return 0, n + 1
        return (anytime.fixed_quantile_ranks if self.kind == "fixed" else anytime.quantile_ranks)(p, n, error)


FIXED = Sampling("fixed")


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
        return cls.of(FIXED, samples, confidence, 1 - confidence if error is None else error)

    @classmethod
    def of(cls, sampling: Sampling, samples: int, confidence: float, error: float) -> IntervalRule:
        """Rule for samples that were examined in this way, with this error probability each."""
        means = partial(sampling.mean_errors, error=error)
        if sampling.kind == "fixed" and samples > 1:
            return cls(confidence, anytime.fixed_slack, sampling.radius(samples, error), means, error=error)
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
        middle, near, moved = median(values), np.empty_like(values, np.bool_), False
        for rows in _parts(values):
            near[rows] = np.abs(values[rows] - middle) <= rounding
            moved = moved or bool((near[rows] & (values[rows] != middle)).any())
        return self.mean_errors(np.where(near, middle, values) if moved else values)

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


def looks() -> Iterator[int]:
    """Sample sizes at which sequential samples are examined: 1, 2, 4, …, 32, 48, 64, 80, then + 25%.

    Those below 32 can decide only within a known range, or if nothing is random.
    """
    yield from (1, 2, 4, 8, 16)
    n = ENOUGH
    while True:
        yield n
        n += max(ENOUGH // 2, n // 4)


def planned_looks(most: int) -> list[int]:
    """Sample sizes of the looks of a plan."""
    return [math.ceil(most * k / _PLANNED_LOOKS) for k in range(1, _PLANNED_LOOKS + 1)]


def fixed_errors(values: Floats, error: float) -> tuple[Floats, Floats]:
    """Student's t for n samples [n, A], n chosen in advance, with a correction for skewness.

    t s/√n, and on the side of the longer tail f |g| s (t²/3 + 1/6)/n in addition: the second term of the Cornish–Fisher
    expansion of the t statistic (Johnson, "Modified t tests and confidence intervals for asymmetrical populations",
    JASA 1978), which there shifts the interval and here only widens it. g is the skewness. f = 20 κ/n, between 1 and 2,
    for heavy tails, with κ the kurtosis, times (5%/error)^(1/4): far in the tails the expansion is less accurate.

    If most samples are equal, the few others may all be on the side of the shorter tail. The interval is then widened
    on both sides, as long as n/κ < 10. There is none if fewer than 8 samples differ from the most frequent value.
    """
    n = len(values)
    if n <= FEW:
        none = np.full(values.shape[1], np.inf)
        return none, none
    shape, differ = shape_of(values), differ_from_median(values)
    both_sides = (differ < n / 2) & (n < 10 * shape[2])
    below, above = fixed_errors_of(n, shape, error, both_sides)
    return np.where(differ < FEW, np.inf, below), np.where(differ < FEW, np.inf, above)


def fixed_errors_of(n: int, shape: Shape, error: float, both: Booleans | bool = False) -> tuple[Floats, Floats]:
    """`fixed_errors` of n samples with this shape, n > 2; on both sides where `both` is true."""
    std, skewness, kurtosis = shape
    t = FIXED.radius(n, error)
    skewness = skewness * math.sqrt(n * (n - 1)) / (n - 2)
    factor = np.clip(20 * kurtosis / n, 1, 2) * max(1.0, 0.05 / error) ** 0.25
    tail = factor * skewness * std * (t * t / 3 + 1 / 6) / n
    near = t * std / math.sqrt(n)
    below = near + np.where(both, np.abs(tail), np.maximum(-tail, 0))
    return below, near + np.where(both, np.abs(tail), np.maximum(tail, 0))


def differ_from_median(values: Floats) -> Floats:
    """[A], how many samples differ from the median, which is the most frequent value if most samples are equal."""
    return np.asarray((values != median(values)).sum(axis=0), dtype=float)


def rare_error(values: Floats, low: float, high: float, error: float, rounding: float) -> float:
    """How far the mean of n values [n] may be off, n chosen in advance, for any distribution on [low, high].

    It is small if nearly all values are the same, m. If c of them differ from m by more than rounding, P(Z ≠ m) is at
    most the upper limit u of Clopper and Pearson for c of n − 1 with error probability α (n − c)/n: for a sample chosen
    at random this holds with α, and it is m with probability (n − c)/n. The mean is then in
    [m − u (m − low), m + u (high − m)].
    """
    n, middle, mean = len(values), float(median(values[:, None])[0]), float(values.mean())
    differ = int((np.abs(values - middle) > rounding).sum())
    most = anytime.fixed_chance_interval(differ, n - 1, 2 * error * (n - differ) / n).high
    below, above = most * max(0.0, middle - low), most * max(0.0, high - middle)
    return max(mean - middle + below, middle - mean + above)


def median(values: Floats) -> Floats:
    """The lower median [A] of samples [n, A]."""
    middle = (len(values) - 1) // 2
    if len(values) <= _ROWS:
        return np.asarray(np.partition(values, middle, axis=0)[middle])
    return np.array([_of_rank(column, middle) for column in values.T])


def _of_rank(values: Floats, k: int) -> float:
    """Value of rank k of samples [n] near the median: of those between two quantiles of some, not of a copy of all."""
    some = np.sort(values[:: max(1, len(values) // 1000)])
    low, high = some[len(some) * 2 // 5], some[len(some) * 3 // 5]
    below, between = int((values < low).sum()), (low <= values) & (values <= high)
    if below <= k < below + int(between.sum()):
        if low == high:
            return float(low)
        k, values = k - below, values[between]
    return float(np.partition(values, k)[k])


def sequential_radius(n: int, error: float) -> float:
    """Half-width, in estimated standard errors, of an interval that is valid at all `looks` together.

    √((n − 1)(q − 1)/(1 − q/(1 + w))) with w = nρ² and q = (√(1 + w)/a)^(2/n): the mixture of t statistics, which are
    scale-invariant (Lai, "On confidence sequences", Annals of Statistics 1976; Wang & Ramdas, "Anytime-valid t-tests
    and confidence sequences for Gaussian means with unknown variance", Sequential Analysis 2025). With a = error the
    interval is valid at every n. At the looks alone it then fails with less than half that probability, so a is about
    twice the error: `tests/statistics/test_means.py` measures what is left. Infinite for too small n.
    """
    spent = error * min(2.0, max(1.0, 2.1 - 2 * error))
    late = -2 * math.log(spent)
    weight = n * (late + math.log1p(late)) / _SHARPEST_AT
    q = (math.sqrt(1 + weight) / spent) ** (2 / n)
    return math.inf if q >= 1 + weight or n < 2 else math.sqrt((n - 1) * (q - 1) / (1 - q / (1 + weight)))


def history_radius(n: int, error: float, freedom: float) -> float:
    """√(n + 1) times the quantile of Student's t: the mean of n resampled histories is as uncertain as one of them.

    The spread is that of n histories, and each history was made from blocks: the variance has 1/(1/f + 1/(n − 1))
    degrees of freedom, with those of the blocks, f. The mean of n varies by a further n-th part.
    """
    from scipy.special import stdtrit

    if freedom <= 0 or n < 2:
        return math.inf
    return -float(stdtrit(1 / (1 / freedom + 1 / (n - 1)), error / 2)) * math.sqrt(n + 1)


def history_errors(values: Floats, radius: float) -> tuple[Floats, Floats]:
    """Errors of the means of n resampled histories: radius × s/√n, and the correction for skewness of `fixed_errors`.

    The sum over a history is itself the statistic whose skewness is corrected, g s (t²/3 + 1/6) on the side of the
    longer tail, with t the radius of one history. Infinite where histories do not differ.
    """
    n = len(values)
    none = np.full(values.shape[1], np.inf)
    if math.isinf(radius):
        return none, none
    std, skewness, _ = shape_of(values)
    near, t = radius * std / math.sqrt(n), radius / math.sqrt(n + 1)
    tail = skewness * std * (t * t / 3 + 1 / 6)
    below, above = (np.where(std > 0, near + np.maximum(side, 0), none) for side in (-tail, tail))
    return below, above


def planned_radius(n: int, error: float, most: int) -> float:
    """Half-width, in estimated standard errors, at five equally spaced looks up to `most` (O'Brien & Fleming 1979).

    c √(most/n) for known variance, as the quantile of Student's t with the same tail probability.
    """
    from scipy.special import ndtr, stdtrit

    bound = _planned_constant(error) * math.sqrt(max(1.0, most / n))
    return math.inf if n < 2 else -float(stdtrit(n - 1, max(ndtr(-bound), 1e-300)))


@lru_cache(maxsize=64)
def _planned_constant(error: float) -> float:
    """c for which a Wiener process passes ± c at none of the looks k/K, k = 1, …, K, with probability 1 − error."""
    low, high = 0.5, 10.0
    for _ in range(50):
        c = (low + high) / 2
        low, high = (c, high) if _crossed(c) > error else (low, c)
    return high


def _crossed(c: float) -> float:
    """Probability that a sum of K standard normal steps passes ± c √K at some step: by Gauss–Legendre quadrature."""
    points, weights = (c * math.sqrt(_PLANNED_LOOKS) * found for found in np.polynomial.legendre.leggauss(60))
    kernel = np.exp(-((points[:, None] - points) ** 2) / 2) / math.sqrt(2 * math.pi)
    density = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    for _ in range(_PLANNED_LOOKS - 1):
        density = kernel @ (weights * density)
    return float(1 - weights @ density)


def sequential_errors(n: int, shape: Shape, radius: float, error: float) -> Floats:
    """Radius × s/√n, and a correction for skewness on both sides: f |g| s radius²/(3n), f = 60 κ/n between 1 and 3.

    f is multiplied by (5%/error)^(1/8): far in the tails the expansion is less accurate. Infinite if the fourth moment
    rests on fewer than 6 samples: n/κ < 6.
    """
    std, skewness, kurtosis = shape
    if math.isinf(radius):
        return np.full(std.shape, np.inf)
    factor = np.clip(60 * kurtosis / n, 1, 3) * max(1.0, 0.05 / error) ** 0.125
    tail = factor * np.abs(skewness) * std * radius**2 / (3 * n)
    return np.where((n >= _EFFECTIVE * kurtosis) & (std > 0), radius * std / math.sqrt(n) + tail, np.inf)


def errors_with_spread(n: int, shape: Shape, radius: float, spread: float) -> Floats:
    """Radius × σ/√n + U radius²/(3n), with U the largest of σ, `spread` and a correction for skewness.

    The correction is |m₃|/σ² times 60 κ/n, between 1 and 8, with κ the kurtosis. Gaps that were always the same may be
    as large as returns vary.
    """
    std, skewness, kurtosis = shape
    tail = std * np.abs(skewness) * np.clip(60 * kurtosis / n, 1, 8)
    return radius * std / math.sqrt(n) + np.maximum(np.maximum(tail, std), spread) * radius**2 / (3 * n)


def shape_of(values: Floats) -> Shape:
    """Standard deviation, skewness and kurtosis [A] of samples [n, A]; of a constant 0, 0 and n."""
    n, first = len(values), values[0]
    middle = _mean(values, lambda x: x - first)

    def about(x: Floats) -> Floats:
        found: Floats = x - first  # of a constant exactly 0, whereas its mean may be rounded
        found -= middle
        return found

    variance = _mean(values, lambda x: np.square(about(x)))
    varies = variance > 0
    root = np.where(varies, np.sqrt(variance), 1.0)

    def cube(x: Floats) -> Floats:
        unit = about(x) / root
        return np.multiply(np.square(unit), unit, out=unit)

    skewness = _mean(values, cube)
    kurtosis = _mean(values, lambda x: np.square(np.square(about(x) / root)))
    return np.sqrt(variance * n / (n - 1)), skewness, np.where(varies, kurtosis, float(n))


_ROWS = 8192
"""Rows of samples of which temporary arrays are made: samples may be many."""


def _parts(values: Floats) -> Iterator[slice]:
    """Rows of values [n, A] in parts; all at once where NumPy does not add row after row, so that no sum changes."""
    in_rows = values.flags.c_contiguous and values.shape[1] > 1
    size = _ROWS if in_rows else max(1, len(values))
    return (slice(at, at + size) for at in range(0, len(values), size))


def _mean(values: Floats, of: Callable[[Floats], Floats]) -> Floats:
    """Mean of a function of values [n, A] over the samples."""
    first, *rest = _parts(values)
    total = of(values[first]).sum(axis=0)
    for rows in rest:
        total = np.concatenate([total[None], of(values[rows])]).sum(axis=0)
    return np.asarray(total / len(values))
