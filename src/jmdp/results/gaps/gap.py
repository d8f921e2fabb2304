"""The gap G = Z(s, a) − Z(s, b) between the returns of two actions under the same randomness."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from jmdp.base.interval import ANYWHERE, Estimate, Interval, Verdict
from jmdp.base.settings import number, number_or_infinity, whole_number
from jmdp.errors import UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.results.gaps.distribution import GapDistribution
from jmdp.results.gaps.gap_text import gap_text, html_of
from jmdp.results.quantities import Quantity, who_gives


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Moments of Z(state, first) − Z(state, second), with the intervals their certificate supports.

    Var G = Var Z(a) + Var Z(b) − 2 Cov(Z(a), Z(b)). The paper's Eq. (35) has the wrong sign before the second moment of
    the second action; it is a plus.

    An interval is None if no error bound is available. Statistical intervals hold at the confidence of the certificate,
    each separately; with `large_sample` they are approximations for many samples (see `Certificate`).
    """

    state: str
    first: str
    second: str
    coupling: Coupling
    mean: float
    variance: float
    correlation: float  # of the two returns; nan if a variance may be 0
    mean_interval: Interval | None
    variance_interval: Interval | None
    correlation_interval: Interval | None
    confidence: float | None = None  # of each interval; None if they are certain
    large_sample: bool = False  # True if the intervals are approximations for many samples
    support: Interval = ANYWHERE  # contains every possible gap
    central_moments: tuple[Estimate, ...] = ()  # of orders 0, 1, 2, …, as far as available
    find_distribution: Callable[[float | None], GapDistribution] | None = field(default=None, compare=False, repr=False)

    @property
    def std(self) -> float:
        """Standard deviation of the gap."""
        return math.sqrt(self.variance)

    @property
    def std_interval(self) -> Interval | None:
        """Interval of the standard deviation, from that of the variance."""
        return None if self.variance_interval is None else self.variance_interval.square_root()

    def central_moment(self, n: int) -> Estimate:
        """E[(G − E[G])ⁿ]."""
        n = whole_number("n", n, 0)
        if n >= len(self.central_moments):
            raise UnavailableError(
                f"This gap has moments up to order {len(self.central_moments) - 1}. Use ExactPairs(order={n})."
            )
        return self.central_moments[n]

    def moment(self, n: int) -> Estimate:
        """E[Gⁿ]."""
        n = whole_number("n", n, 0)
        self.central_moment(n)  # raises if unavailable
        value, wide = 0.0, Interval(0.0, 0.0)
        mean = ANYWHERE if self.mean_interval is None else self.mean_interval
        for k in range(n + 1):
            times, central = float(math.comb(n, k)), self.central_moment(k)
            value += times * central * math.prod([self.mean] * (n - k))  # a power would raise where it overflows
            wide += Interval(times, times) * central.interval * mean.power(n - k)
        return Estimate(value, max(wide.low, 0.0) if n % 2 == 0 else wide.low, wide.high)

    @property
    def skewness(self) -> Estimate:
        """E[(G − μ)³]/σ³. nan if the variance may be 0."""
        return self._standardised(3)

    @property
    def kurtosis(self) -> Estimate:
        """E[(G − μ)⁴]/σ⁴, 3 for a normal distribution. nan if the variance may be 0."""
        return self._standardised(4)

    def _standardised(self, n: int) -> Estimate:
        central, variance = self.central_moment(n), self._certified(self.variance_interval)
        if variance.low <= 0:
            return Estimate(math.nan, -math.inf, math.inf)
        corners = [
            _divided(m, math.sqrt(v), n) * (1 + direction * 2.0**-48)
            for m in (central.low, central.high)
            for v in (variance.low, variance.high)
            for direction in (-1, 1)
        ]
        low = min(corners) if n % 2 else max(min(corners), 1.0)  # every kurtosis is at least 1 (Pearson)
        high = max(max(corners), low)
        return Estimate(min(max(_divided(central, self.std, n), low), high), low, high)

    def distribution(self, *, tolerance: float | None = None) -> GapDistribution:
        """Return the distribution of the gap: cdf, quantiles, CVaR, the chance that one action earns more.

        With `tolerance`, `ExactDistribution` computes it again for this gap alone, until its own intervals are this
        narrow.
        """
        if self.find_distribution is None:
            raise UnavailableError(
                "The distribution of this gap is unavailable: it was evaluated for moments only. Evaluate with "
                f"{who_gives(Quantity.DISTRIBUTIONS)}."
            )
        return self.find_distribution(None if tolerance is None else number("tolerance", tolerance, 0.0))

    def cdf_bounds(self, x: float) -> Interval:
        """Sharp bounds on P(G ≤ x) from an even number of moments (Chebyshev–Markov).

        They use the conservative ends of all intervals. If the distribution is available, `distribution().cdf(x)` is
        much narrower.
        """
        from jmdp.results.gaps.bounds import cdf_bounds

        x = number_or_infinity("x", x)
        mean, moments, around = self._moment_problem()
        low = cdf_bounds(math.nextafter(x - mean.high, -math.inf), moments, around).low
        return Interval(low, cdf_bounds(math.nextafter(x - mean.low, math.inf), moments, around).high)

    def _moment_problem(self) -> tuple[Interval, list[Interval], Interval]:
        """Intervals of E[G], of the central moments, and of G − E[G]."""
        mean = self._certified(self.mean_interval)
        low = math.nextafter(self.support.low - mean.high, -math.inf)
        high = math.nextafter(self.support.high - mean.low, math.inf)
        return mean, [m.interval for m in self.central_moments], Interval(low, high)

    def cvar_bounds(self, p: float) -> Interval:
        """Bounds from the moments on the mean of the worst p of all outcomes."""
        from jmdp.results.gaps.bounds import cvar_bounds

        mean, moments, around = self._moment_problem()
        return cvar_bounds(p, moments, around) + mean

    def is_better(self) -> Verdict:
        """Whether the first action is better on average, E[G] > 0: a `Verdict`."""
        return self._certified(self.mean_interval).exceeds(0.0)

    def inferiority_bound(self) -> float:
        """Upper bound on P(G ≤ 0), the chance that the first action earns no more than the second.

        Cantelli's inequality, σ²/(σ² + μ²) for μ = E[G] > 0, with the smallest mean and the largest variance in their
        intervals; 1 if the mean may be 0 or negative. (Paper, Section 5.4, where it is called Chebyshev's and μ > 0 is
        assumed.)
        """
        from jmdp.results.gaps.bounds import cantelli

        mean, variance = self._certified(self.mean_interval), self._certified(self.variance_interval)
        return cantelli(mean.low, variance.high)

    def _certified(self, interval: Interval | None) -> Interval:
        if interval is None:
            raise UnavailableError(
                "This gap has no interval, because its evaluation has no certificate. Evaluate with "
                f"{who_gives(Quantity.VARIANCE_INTERVALS)}, or use compare with "
                "assume=jmdp.Assumptions(return_range=(least, most))."
            )
        return interval

    def __str__(self) -> str:
        return gap_text(self)

    def _repr_html_(self) -> str:
        return html_of(gap_text(self))


def _divided(moment: float, std: float, n: int) -> float:
    """Moment / stdⁿ by repeated division, because stdⁿ may underflow or overflow."""
    for _ in range(n):
        moment /= std
    return moment
