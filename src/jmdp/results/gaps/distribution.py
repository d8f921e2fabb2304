"""The distribution of a return or of a gap, as a band that contains the true distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jmdp.base import arrays, rounding
from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate, Interval
from jmdp.base.settings import boolean_value, number_or_infinity, real_number, short
from jmdp.errors import SettingsError

_UNIT = 2.0**-53
_ANY_CHANCE = Interval(0.0, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(arrays.FrozenArrays):
    """The distribution of a discounted return, as probability masses that are each located within an interval.

    Moving every mass to the lower end of its interval gives a distribution that is stochastically smaller than the true
    one, moving it to the upper end a larger one; every answer is the interval between these two. `slack` is an
    additional error of the probability of any half-line: rounding if the distribution is certified, the confidence band
    (Dvoretzky, Kiefer, Wolfowitz, with Massart's constant) if it was sampled. The band holds for all questions jointly.
    """

    low: Floats  # [N], ends of the intervals
    high: Floats  # [N]
    value: Floats  # [N], point estimate within each interval
    mass: Floats  # [N]
    slack: float
    support: Interval  # contains every possible value
    confidence: float | None = None  # of the whole band; None if it is certain

    def __post_init__(self) -> None:
        for array in (self.low, self.high, self.value, self.mass):
            arrays.frozen(array)

    def cdf(self, x: float) -> Estimate:
        """P(Z ≤ x)."""
        return self._up_to(x, "right")

    def below(self, x: float) -> Estimate:
        """P(Z < x)."""
        return self._up_to(x, "left")

    def quantile(self, p: float) -> Estimate:
        """The least x with P(Z ≤ x) ≥ p."""
        p = part(p)
        (low, from_low), (high, from_high), (value, from_value) = self._steps
        i = int(np.searchsorted(from_low + self._slack, p))
        j = int(np.searchsorted(from_high - self._slack, p))
        k = min(int(np.searchsorted(from_value, p * (1 - 4 * self.mass.size * _UNIT))), value.size - 1)
        least = self.support.low if self._slack >= p or i == low.size else float(low[i])
        most = self.support.high if j == high.size else float(high[j])
        return Estimate(min(max(float(value[k]), least), most), least, most)

    def cvar(self, p: float) -> Estimate:
        """The mean of the worst p of all outcomes, (1/p) ∫₀ᵖ quantile(u) du; for p = 1 the mean."""
        p = part(p)
        (low, from_low), (high, from_high), (value, from_value) = self._steps
        least = _tail(np.insert(low, 0, self.support.low), np.insert(from_low + self._slack, 0, self._slack), p)
        most = _tail(np.append(high, self.support.high), np.append(from_high - self._slack, np.inf), p)
        ends = (self.support.low, self.support.high, float(low[0]), float(high[-1]))
        size = max(abs(end) for end in ends if math.isfinite(end))
        rounding = (self.mass.size + 8) * (4 * _UNIT * size + (2.0**-1073 if size else 0.0))
        middle = _tail(value, np.append(from_value[:-1], np.inf), p)
        return Estimate(min(max(middle, least), most), least - rounding, most + rounding)

    @property
    def mean(self) -> Estimate:
        """The expectation."""
        return self.cvar(1.0)

    def _up_to(self, x: float, side: str) -> Estimate:
        x = number_or_infinity("x", x)
        (low, from_low), (high, from_high), (value, from_value) = self._steps

        def total(points: Floats, sums: Floats) -> float:
            at = int(np.searchsorted(points, x, side=side))  # type: ignore[call-overload]
            return float(sums[at - 1]) if at else 0.0

        least, most = total(high, from_high) - self._slack, total(low, from_low) + self._slack
        outside = self.support.high <= x if side == "right" else self.support.high < x
        if outside:
            least = most = 1.0
        elif x < self.support.low or (x == self.support.low and side == "left"):
            least = most = 0.0
        least, most = max(0.0, least), min(1.0, most)
        return Estimate(min(max(total(value, from_value), least), most), least, most)

    @cached_property
    def _slack(self) -> float:
        """`slack` and the rounding of the cumulative sums."""
        return self.slack + (self.mass.size + 2) * 2 * _UNIT

    @cached_property
    def _steps(self) -> list[tuple[Floats, Floats]]:
        """Lower ends, upper ends and values, each sorted, with the cumulative sums of their masses."""
        steps = []
        for points in (self.low, self.high, self.value):
            order = np.argsort(points, kind="stable")
            steps.append((points[order], np.cumsum(self.mass[order])))
        return steps

    @property
    def confidence_text(self) -> str:
        """Confidence of the band as text, or 'certified' if it is certain."""
        return (
            "certified"
            if self.confidence is None
            else f"band at {rounding.confidence_percent(self.confidence)} confidence"
        )

    def __repr__(self) -> str:
        lines = [
            f"{self._sentence()} ({self.confidence_text})",
            f"  {'outer bounds':<14} {_ends(self.support)}",
            *(f"  {name:<14} {value}" for name, value in self._shown().items()),
        ]
        return "\n".join(lines)

    def _sentence(self) -> str:
        low, high, mean = (_stated(x) for x in (self.quantile(0.05), self.quantile(0.95), self.mean))
        return f"The return is between {low} and {high} in 90% of cases, {mean} on average"

    def _shown(self) -> dict[str, Estimate]:
        return {
            "mean": self.mean,
            "5% quantile": self.quantile(0.05),
            "median": self.quantile(0.5),
            "95% quantile": self.quantile(0.95),
            "worst 5%": self.cvar(0.05),
        }


@dataclass(frozen=True, eq=False, repr=False)
class GapDistribution(Distribution):
    """The distribution of a gap G = Z(s, a) − Z(s, b) under shared randomness."""

    tied: Interval = _ANY_CHANCE  # separate bounds on P(G = 0)

    @classmethod
    def zero(cls) -> GapDistribution:
        """Return the distribution of the gap of a return to itself, which is 0."""
        nothing = Interval(0.0, 0.0)
        return cls(np.zeros(1), np.zeros(1), np.zeros(1), np.ones(1), 0.0, nothing, tied=Interval(1.0, 1.0))

    def _sentence(self) -> str:
        more, less = (rounding.share_of_cases(p) for p in (self.superiority(), self.inferiority()))
        return f"The mean gap is {_stated(self.mean)}; the gap is positive in {more} and negative in {less}"

    def superiority(self) -> Estimate:
        """P(Z(s, a) > Z(s, b)): the first action earns strictly more; ties do not count."""
        least = self.cdf(0.0)
        return Estimate(1 - least, max(0.0, 1 - least.high), min(1.0, 1 - least.low))

    def inferiority(self) -> Estimate:
        """P(Z(s, a) < Z(s, b)): the first action earns strictly less."""
        return self.below(0.0)

    def ties(self) -> Estimate:
        """P(Z(s, a) = Z(s, b)): both earn exactly the same."""
        certain = float(self.mass[(self.low == 0) & (self.high == 0)].sum())
        possible = float(self.mass[(self.low <= 0) & (self.high >= 0)].sum())
        middle = float(self.mass[self.value == 0].sum())
        least, most = max(self.tied.low, certain - 2 * self._slack), min(self.tied.high, possible + 2 * self._slack)
        return Estimate(min(max(middle, least), most), least, most)

    def mean_size(self, *, above: bool) -> Estimate:
        """E[|G| | G > 0] if `above`, else E[|G| | G < 0]; nan if there are no such cases."""
        sign, chance = (1.0, self.superiority()) if boolean_value("above", above) else (-1.0, self.inferiority())
        top = max(0.0, self.support.high if above else -self.support.low)
        least, value, most = (
            float(self.mass @ np.maximum(sign * ends, 0.0)) for ends in (self.low, self.value, self.high)
        )
        least, most = min(least, most), max(least, most)
        rounding = (self.mass.size + 8) * (4 * _UNIT * most + (2.0**-1073 if most else 0.0))
        off = rounding + (self._slack * top if top else 0.0)
        if not (chance > 0 and value > 0):
            return Estimate.within(math.nan, None)
        low, high = max(0.0, least - off) / chance.high, (most + off) / chance.low if chance.low else math.inf
        low, high = low * (1 - 4 * _UNIT), min(high * (1 + 4 * _UNIT), top)
        return Estimate(min(max(value / chance, low), high), low, high)

    def _shown(self) -> dict[str, Estimate]:
        chances = {"P(gap > 0)": self.superiority(), "P(gap = 0)": self.ties(), "P(gap < 0)": self.inferiority()}
        return {**chances, **super()._shown()}


def part(p: object) -> float:
    """Return a probability p with 0 < p ≤ 1 as a float."""
    found = real_number(p)
    if not 0 < found <= 1:
        raise SettingsError(f"p is {short(p)}. Give a probability above 0 and at most 1, e.g. 0.05 for the worst 5%.")
    return found


def _stated(number: Estimate) -> str:
    """A number of the first sentence: the digits that its interval supports; an estimate if that is not bounded."""
    return rounding.supported(number, 3) if math.isfinite(number.error) else f"about {rounding.significant(number, 3)}"


def _ends(support: Interval) -> str:
    return f"[{rounding.at_least(support.low, 6)}, {rounding.at_most(support.high, 6)}]"


def _tail(points: Floats, sums: Floats, p: float) -> float:
    """(1/p) × the integral over (0, p) of the step function that is points[i] up to sums[i]."""
    weights = np.diff(np.clip(sums, 0.0, p), prepend=0.0) / p  # divide first: with a tiny p the product may underflow
    return float(points[weights > 0] @ weights[weights > 0])
