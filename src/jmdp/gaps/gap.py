"""The gap G = Z(s, a) − Z(s, b): how two actions' returns differ under the same luck."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jmdp.coupling import Coupling
from jmdp.errors import UnavailableError
from jmdp.gaps.bounds import cantelli
from jmdp.interval import Interval, Verdict


@dataclass(frozen=True)
class Gap:
    """Moments of Z(state, first) − Z(state, second), with the intervals their certificate supports.

    Var G = Var Z(a) + Var Z(b) − 2 Cov(Z(a), Z(b)). The paper (section 5.4) prints a minus before the second
    variance; it is a plus.

    An interval is None where the evaluation has no certificate. Statistical intervals hold at the certificate's
    confidence, each on its own.
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

    @property
    def std(self) -> float:
        """Standard deviation of the gap."""
        return math.sqrt(self.variance)

    @property
    def std_interval(self) -> Interval | None:
        """Interval of the standard deviation, from that of the variance."""
        v = self.variance_interval
        if v is None:
            return None
        high = v.high if v.high == 0 else math.nextafter(math.sqrt(v.high), math.inf)
        return Interval(math.sqrt(v.low) * (1 - 2**-52), high)

    def is_better(self) -> Verdict:
        """Is the first action better on average, E[G] > 0?"""
        return self._certified(self.mean_interval).exceeds(0.0)

    def inferiority_bound(self) -> float:
        """Upper bound on P(G ≤ 0), the chance that the first action does no better than the second.

        Cantelli's inequality, σ²/(σ² + μ²) for μ = E[G] > 0, at the conservative end of the certificate: the least
        mean and the greatest variance in their intervals. 1 when the mean is not certainly positive. (Paper, section
        5.4, where it is called Chebyshev's; μ > 0 is assumed there.)
        """
        mean, variance = self._certified(self.mean_interval), self._certified(self.variance_interval)
        return cantelli(mean.low, variance.high)

    def _certified(self, interval: Interval | None) -> Interval:
        if interval is None:
            raise UnavailableError(
                "This evaluation has no certificate, so nothing can be said for certain of the gap. "
                "ExactPairs() and MonteCarlo(seed=…) give one."
            )
        return interval

    def __str__(self) -> str:
        if self.mean_interval is None:
            trust = "no certificate"
        else:
            trust = "certified" if self.confidence is None else f"each ± at {100 * self.confidence:g}% confidence"
        lines = [
            f"gap at state {self.state}: Z({self.first}) − Z({self.second})",
            f"  {type(self.coupling).__name__} luck, {trust}",
            f"  mean         {_shown(self.mean, self.mean_interval)}",
            f"  std          {_shown(self.std, self.std_interval)}",
            f"  correlation  {_shown(self.correlation, self.correlation_interval)}",
        ]
        if self.mean_interval is not None:
            lines.append(f"  P(gap ≤ 0) ≤ {self.inferiority_bound():.4g}, by mean and variance alone")
        return "\n".join(lines)


def _shown(value: float, interval: Interval | None) -> str:
    """The value to the digits its interval supports, six at most."""
    if interval is None or math.isnan(value):
        return f"{value:.6g}"
    error = max(interval.high - value, value - interval.low)
    if not 1e-6 <= error <= 1e6 or error < 1e-6 * abs(value):
        return f"{value:.6g} ± {error:.0e}"
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
