"""The gap G = Z(s, a) − Z(s, b) between the returns of two actions under the same randomness.

Correlations and their intervals.

A gap as text: a sentence that states the result, then its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from jmdp.base import rounding
from jmdp.base.arrays import Floats
from jmdp.base.interval import ANYWHERE, Estimate, Interval, Verdict
from jmdp.base.settings import number, number_or_infinity, whole_number
from jmdp.errors import UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.results.gaps.distribution import GapDistribution
from jmdp.results.result import Quantity, who_gives
from jmdp.results.text import NO_BOUNDS, confidence, facts, html_of, wrapped


def correlations(covariance: Floats, floor: Floats) -> Floats:
    """Correlations [S, A, A] from covariances [S, A, A]; nan where a variance is at most its `floor` [S, A].

    √v √v is not v, so covariances of returns with equal variances are divided by these: equal returns have exactly 1.
    """
    variance = np.einsum("saa->sa", covariance)
    variance = np.where(variance > floor, variance, np.nan)
    one, other = variance[:, :, None], variance[:, None, :]
    rho = np.clip(covariance / np.where(one == other, one, np.sqrt(one) * np.sqrt(other)), -1, 1)
    np.einsum("saa->sa", rho)[...] = np.where(np.isnan(variance), np.nan, 1.0)
    return np.asarray(rho)


def clipped(correlation: float, error: float) -> Interval:
    """Interval correlation ± error, clipped to [−1, 1]."""
    wide = Interval.around(correlation, error)
    return Interval(max(-1.0, wide.low), min(1.0, wide.high))


def fisher(correlation: float, error: float) -> Interval:
    """Interval of a sampled correlation with this error, from Fisher's z-transformation."""
    if abs(correlation) >= 1 or error == 0 or error > 1 - correlation * correlation:  # outside its domain
        return clipped(correlation, error)
    middle, radius = math.atanh(correlation), error / (1 - correlation * correlation)
    flat = clipped(correlation, error)  # tanh excludes ±1, the correlation of actions that share all randomness
    return Interval(min(flat.low, math.tanh(middle - radius)), max(flat.high, math.tanh(middle + radius)))


def estimates(gap: Gap) -> dict[str, Estimate]:
    """Mean, standard deviation and correlation of a gap with their intervals."""
    return {
        "mean": Estimate.within(gap.mean, gap.mean_interval),
        "std": Estimate.within(gap.std, gap.std_interval),
        "correlation": Estimate.within(gap.correlation, gap.correlation_interval),
    }


def no_better(gap: Gap) -> tuple[Estimate | None, bool]:
    """P(gap ≤ 0), the chance that the first action is no better, None if unknown; and whether it is a bound."""
    if (distribution := known_distribution(gap)) is not None:
        return distribution.cdf(0.0), False
    if gap.mean_interval is None or gap.variance_interval is None:
        return None, True
    most = gap.inferiority_bound()
    return Estimate(most, 0.0, most), True


def known_distribution(gap: Gap) -> GapDistribution | None:
    """The distribution of a gap, if it has one."""
    try:
        return gap.distribution()
    except UnavailableError:
        return None


def gap_text(gap: Gap) -> str:
    """The sentence and the numbers of a gap."""
    distribution = known_distribution(gap)
    named: dict[str, object] = {
        "gap": f"Z({gap.first}) − Z({gap.second}), {type(gap.coupling).__name__} coupling, {_trust(gap)}",
        "mean": _shown(gap.mean, gap.mean_interval),
        "std": _shown(gap.std, gap.std_interval),
        "correlation": _shown(gap.correlation, gap.correlation_interval),
    }
    if distribution is not None:
        named |= {"P(gap > 0)": distribution.superiority(), "P(gap < 0)": distribution.inferiority()}
    elif gap.mean_interval is not None and gap.std_interval is not None and gap.inferiority_bound() < 1:
        bound = rounding.at_most(gap.inferiority_bound())
        named["P(gap ≤ 0)"] = (
            f"not computed; certainly at most {bound} by mean and std. ExactDistribution() computes it"
        )
    return "\n".join([wrapped(sentence(gap, distribution)), *facts(named)])


def sentence(gap: Gap, distribution: GapDistribution | None) -> str:
    """Which alternative earns more on average, how certain that is, and how often the other one does."""
    where = {"here": "", "start": "from the start distribution, "}.get(gap.state, f"in state {gap.state}, ")
    found = where + _on_average(gap)
    if distribution is not None and gap.mean:
        found += f"; {_otherwise(gap, distribution)}"
    return found[:1].upper() + found[1:] if where else found


def _on_average(gap: Gap) -> str:
    one, other, interval = gap.first, gap.second, gap.mean_interval
    if interval is not None and interval.low == interval.high == 0:
        return f"{one} and {other} earn the same on average ({_certainty(gap)})"
    more = "more" if gap.mean > 0 else "less"
    if interval is None:
        size = rounding.significant(abs(gap.mean), 3)
        return f"{one} earns about {size} {more} than {other} on average (an estimate without an interval)"
    if interval.low <= 0 <= interval.high:
        mean = rounding.plus_minus(Estimate.within(gap.mean, interval))
        return f"{one} and {other} cannot be told apart: the mean gap is {mean} ({_certainty(gap)})"
    found = Estimate(abs(gap.mean), *sorted((abs(interval.low), abs(interval.high))))
    size = rounding.supported(found, 3) if gap.confidence is None else rounding.plus_minus(found)
    return f"{one} earns {size} {more} than {other} on average ({_certainty(gap)})"


def _otherwise(gap: Gap, distribution: GapDistribution) -> str:
    """How often, and by how much, the outcome is the opposite of the average."""
    word = "less" if gap.mean > 0 else "more"
    chance = distribution.inferiority() if gap.mean > 0 else distribution.superiority()
    if chance.high == 0:
        return f"{gap.first} never earns {word}"
    return f"{gap.first} earns {word} in {rounding.share_of_cases(chance)}{_by(distribution, gap.mean < 0)}"


def _by(distribution: GapDistribution, more: bool) -> str:
    """How much more or less is earned on average in the cases where it is."""
    size = distribution.mean_size(above=more)
    certified, digits = distribution.confidence is None, rounding.supported_digits(size, 2)
    if not size > 0 or (certified and not math.isfinite(size.high)):
        return ""
    if certified and digits is None:
        return f", by {rounding.at_least(size.low, 2)} to {rounding.at_most(size.high, 2)} on average in these cases"
    return f", by about {rounding.significant(size, digits or 2)} on average in these cases"


def _certainty(gap: Gap) -> str:
    return confidence(gap.confidence, gap.large_sample)


def _trust(gap: Gap) -> str:
    if gap.mean_interval is None:
        return NO_BOUNDS
    return f"{'each interval at ' * (gap.confidence is not None)}{_certainty(gap)}"


def _shown(value: float, interval: Interval | None) -> str:
    """The value to the digits its interval supports."""
    if math.isnan(value):
        return "undefined: the variance of a return may be 0"
    if interval is None:
        return f"{value:.6g} (estimate without an interval)"
    return rounding.plus_minus(Estimate.within(value, interval))


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
