"""The gap G = Z(s, a) − Z(s, b): how two actions' returns differ under the same luck."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from jmdp.base import rounding
from jmdp.base.interval import ANYWHERE, Estimate, Interval, Verdict
from jmdp.errors import UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.results.gaps.distribution import GapDistribution
from jmdp.results.quantities import Quantity, who_gives


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Moments of Z(state, first) − Z(state, second), with the intervals their certificate supports.

    Var G = Var Z(a) + Var Z(b) − 2 Cov(Z(a), Z(b)). The paper (section 5.4) prints a minus before the second
    variance; it is a plus.

    An interval is None where nothing is known. Statistical intervals hold at the certificate's confidence, each on its
    own; with `large_sample` for many samples, as `Certificate` says.
    """

    state: str
    first: str
    second: str
    coupling: Coupling
    mean: float
    variance: float
    correlation: float  # of the two returns; nan where a variance is not certainly positive
    mean_interval: Interval | None
    variance_interval: Interval | None
    correlation_interval: Interval | None
    confidence: float | None = None  # of each interval; None where they are certain
    large_sample: bool = False  # are the intervals approximations for many samples?
    support: Interval = ANYWHERE  # no gap is outside
    central_moments: tuple[Estimate, ...] = ()  # of orders 0, 1, 2, …, as far as they are known
    find_distribution: Callable[[], GapDistribution] | None = field(default=None, compare=False, repr=False)

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
        if not 0 <= n < len(self.central_moments):
            raise UnavailableError(
                f"This gap has moments up to order {len(self.central_moments) - 1}. ExactPairs(order={n}) gives more."
            )
        return self.central_moments[n]

    def moment(self, n: int) -> Estimate:
        """E[Gⁿ]."""
        self.central_moment(n)  # or say that it is not there
        value, wide = 0.0, Interval(0.0, 0.0)
        mean = ANYWHERE if self.mean_interval is None else self.mean_interval
        for k in range(n + 1):
            times, central = float(math.comb(n, k)), self.central_moment(k)
            value += times * central * math.prod([self.mean] * (n - k))  # a power would raise where it overflows
            wide += Interval(times, times) * central.interval * mean.power(n - k)
        return Estimate(value, max(wide.low, 0.0) if n % 2 == 0 else wide.low, wide.high)

    @property
    def skewness(self) -> Estimate:
        """E[(G − μ)³]/σ³: which way the gap leans. nan where the variance is not certainly positive."""
        return self._standardised(3)

    @property
    def kurtosis(self) -> Estimate:
        """E[(G − μ)⁴]/σ⁴, 3 for a normal distribution. nan where the variance is not certainly positive."""
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
        low = (
            min(corners) if n % 2 else max(min(corners), 1.0)
        )  # the kurtosis of no distribution is smaller than 1 (Pearson)
        high = max(max(corners), low)
        return Estimate(min(max(_divided(central, self.std, n), low), high), low, high)

    def distribution(self) -> GapDistribution:
        """Return the distribution of the gap: cdf, quantiles, CVaR, the chance that one action beats the other."""
        if self.find_distribution is None:
            raise UnavailableError(
                f"This gap has moments only. Evaluations by {who_gives(Quantity.DISTRIBUTIONS)} have distributions."
            )
        return self.find_distribution()

    def cdf_bounds(self, x: float) -> Interval:
        """Bounds on P(G ≤ x) from the moments alone, an even number of them: the sharpest there are (Markov).

        Taken at the conservative ends of all intervals. With a distribution at hand, `distribution().cdf(x)` is far
        narrower.
        """
        from jmdp.results.gaps.bounds import cdf_bounds

        mean, moments, around = self._moment_problem()
        low = cdf_bounds(math.nextafter(x - mean.high, -math.inf), moments, around).low
        return Interval(low, cdf_bounds(math.nextafter(x - mean.low, math.inf), moments, around).high)

    def _moment_problem(self) -> tuple[Interval, list[Interval], Interval]:
        """Where E[G] is, where the moments of G − E[G] are, and where that is itself."""
        mean = self._certified(self.mean_interval)
        low = math.nextafter(self.support.low - mean.high, -math.inf)
        high = math.nextafter(self.support.high - mean.low, math.inf)
        return mean, [m.interval for m in self.central_moments], Interval(low, high)

    def cvar_bounds(self, p: float) -> Interval:
        """Bounds on the mean of the worst p of all outcomes, from the moments alone."""
        from jmdp.results.gaps.bounds import cvar_bounds

        mean, moments, around = self._moment_problem()
        return cvar_bounds(p, moments, around) + mean

    def is_better(self) -> Verdict:
        """Is the first action better on average, E[G] > 0?"""
        return self._certified(self.mean_interval).exceeds(0.0)

    def inferiority_bound(self) -> float:
        """Upper bound on P(G ≤ 0), the chance that the first action does no better than the second.

        Cantelli's inequality, σ²/(σ² + μ²) for μ = E[G] > 0, at the conservative end of the certificate: the least
        mean and the greatest variance in their intervals. 1 when the mean is not certainly positive. (Paper, section
        5.4, where it is called Chebyshev's; μ > 0 is assumed there.)
        """
        from jmdp.results.gaps.bounds import cantelli

        mean, variance = self._certified(self.mean_interval), self._certified(self.variance_interval)
        return cantelli(mean.low, variance.high)

    def _certified(self, interval: Interval | None) -> Interval:
        if interval is None:
            raise UnavailableError(
                "This evaluation has no certificate of it, so nothing can be said for certain of the gap. "
                f"{who_gives(Quantity.VARIANCE_INTERVALS)} give one, and compare with return_range=(least, most)."
            )
        return interval

    def __str__(self) -> str:
        if self.mean_interval is None:
            known = "no certificate"
        else:
            known = "certified" if self.confidence is None else f"each ± at {100 * self.confidence:g}% confidence"
            known += " (large-sample)" if self.large_sample else ""
        lines = [
            f"gap at state {self.state}: Z({self.first}) − Z({self.second})",
            f"  {type(self.coupling).__name__} luck, {known}",
            f"  mean         {_shown(self.mean, self.mean_interval)}",
            f"  std          {_shown(self.std, self.std_interval)}",
            f"  correlation  {_shown(self.correlation, self.correlation_interval)}",
        ]
        if self.mean_interval is not None and self.variance_interval is not None:
            lines.append(f"  P(gap ≤ 0) ≤ {rounding.at_most(self.inferiority_bound())}, by mean and variance alone")
        return "\n".join(lines)


def _shown(value: float, interval: Interval | None) -> str:
    """The value to the digits its interval supports."""
    return f"{value:.6g}" if interval is None else rounding.plus_minus(Estimate.within(value, interval))


def _divided(moment: float, std: float, n: int) -> float:
    """Moment / stdⁿ, step by step: the power alone may be too small or too large for a float."""
    for _ in range(n):
        moment /= std
    return moment
