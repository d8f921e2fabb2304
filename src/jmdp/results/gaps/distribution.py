"""The distribution of a return or of a gap, known up to a band that holds the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jmdp.base import arrays, rounding
from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate, Interval
from jmdp.errors import SettingsError

_UNIT = 2.0**-53
_ANY_CHANCE = Interval(0.0, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(arrays.FrozenArrays):
    """The distribution of a discounted return, as masses of which each is known to lie in an interval.

    Moving every mass to the lower end of its interval gives a distribution that is stochastically smaller than the true
    one, to the upper end a larger one; every answer is the interval between what these two say. `slack` is how far the
    chance of any half-line may be off besides: rounding where the distribution is certified, the confidence band
    (Dvoretzky, Kiefer, Wolfowitz, with Massart's constant) where it was sampled. The band holds for all questions at
    once.
    """

    low: Floats  # [N], ends of the intervals
    high: Floats  # [N]
    value: Floats  # [N], the best guess within each
    mass: Floats  # [N]
    slack: float
    support: Interval  # nothing lies outside
    confidence: float | None = None  # that the whole band holds; None where it is certain

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
        refuse_no_part(p)
        (low, from_low), (high, from_high), (value, from_value) = self._steps
        i = int(np.searchsorted(from_low + self._slack, p))
        j = int(np.searchsorted(from_high - self._slack, p))
        k = min(int(np.searchsorted(from_value, p * (1 - 4 * self.mass.size * _UNIT))), value.size - 1)
        least = self.support.low if self._slack >= p or i == low.size else float(low[i])
        most = self.support.high if j == high.size else float(high[j])
        return Estimate(min(max(float(value[k]), least), most), least, most)

    def cvar(self, p: float) -> Estimate:
        """The mean of the worst p of all outcomes, (1/p) ∫₀ᵖ quantile(u) du; for p = 1 the mean."""
        refuse_no_part(p)
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
        if math.isnan(x):
            raise SettingsError("x is nan. Give a number.")
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
        """With the rounding of the running sums."""
        return self.slack + (self.mass.size + 2) * 2 * _UNIT

    @cached_property
    def _steps(self) -> list[tuple[Floats, Floats]]:
        """Lower ends, upper ends and values, each in order, with the running sums of their masses."""
        steps = []
        for points in (self.low, self.high, self.value):
            order = np.argsort(points, kind="stable")
            steps.append((points[order], np.cumsum(self.mass[order])))
        return steps

    @property
    def confidence_text(self) -> str:
        """Certified, or the confidence of the band: in words."""
        return "certified" if self.confidence is None else f"band at {100 * self.confidence:g}% confidence"

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} on {_ends(self.support)}, {self.confidence_text}"]
        lines += [f"  {name:<14} {value}" for name, value in self._shown().items()]
        return "\n".join(lines)

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
    """The distribution of a gap G = Z(s, a) − Z(s, b) under the shared luck."""

    tied: Interval = _ANY_CHANCE  # what is known of P(G = 0) besides

    @classmethod
    def zero(cls) -> GapDistribution:
        """Return the distribution of a return against itself."""
        nothing = Interval(0.0, 0.0)
        return cls(np.zeros(1), np.zeros(1), np.zeros(1), np.ones(1), 0.0, nothing, tied=Interval(1.0, 1.0))

    def superiority(self) -> Estimate:
        """P(Z(s, a) > Z(s, b)): the first action does strictly better; ties are apart."""
        least = self.cdf(0.0)
        return Estimate(1 - least, max(0.0, 1 - least.high), min(1.0, 1 - least.low))

    def inferiority(self) -> Estimate:
        """P(Z(s, a) < Z(s, b)): the first action does strictly worse."""
        return self.below(0.0)

    def ties(self) -> Estimate:
        """P(Z(s, a) = Z(s, b)): both do equally well, to the last bit."""
        surely = float(self.mass[(self.low == 0) & (self.high == 0)].sum())
        perhaps = float(self.mass[(self.low <= 0) & (self.high >= 0)].sum())
        middle = float(self.mass[self.value == 0].sum())
        least, most = max(self.tied.low, surely - 2 * self._slack), min(self.tied.high, perhaps + 2 * self._slack)
        return Estimate(min(max(middle, least), most), least, most)

    def _shown(self) -> dict[str, Estimate]:
        chances = {"P(gap > 0)": self.superiority(), "P(gap = 0)": self.ties(), "P(gap < 0)": self.inferiority()}
        return {**chances, **super()._shown()}


def refuse_no_part(p: float) -> None:
    """A part of all outcomes is more than none of them and at most all."""
    if not 0 < p <= 1:
        raise SettingsError(f"p is {p!r}. Give a probability above 0, e.g. 0.05 for the worst twentieth.")


def _ends(support: Interval) -> str:
    return f"[{rounding.at_least(support.low, 6)}, {rounding.at_most(support.high, 6)}]"


def _tail(points: Floats, sums: Floats, p: float) -> float:
    """(1/p) × the integral over (0, p) of the step function that is points[i] up to sums[i]."""
    weights = np.diff(np.clip(sums, 0.0, p), prepend=0.0) / p  # now, for with a tiny p a product may underflow
    return float(points[weights > 0] @ weights[weights > 0])
