"""The distribution of a return or of a gap, as a band that contains the true distribution.

Bounds on the mean of the worst outcomes, from expected shortfalls E(η − X)₊.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from jmdp.base import arrays, rounding
from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate, Interval
from jmdp.base.settings import boolean_value, number_or_infinity, real_number, short
from jmdp.errors import SettingsError
from jmdp.results.gaps.canonical import (
    Canonical,
    MomentBox,
    Nodes,
    Polynomial,
    down,
    shortfall_above,
    shortfall_below,
    up,
)
from jmdp.results.text import confidence, facts

Chance = Callable[[Fraction, MomentBox, Sequence[int]], Interval]
"""Function that bounds P(X ≤ x), from polynomials of twice these degrees."""

_TOLERANCE = Fraction(1, 1000)  # in standard deviations, of the search for the upper bound
_POINTS = 40
_APART = Fraction(1, 2**14)  # of an atom's two parts: the bound loses its square, and its inverse multiplies rounding


def cvar_low(p: Fraction, box: MomentBox) -> Fraction:
    """Lower bound on CVaR_p in units of the box."""
    spread = math.sqrt(up(box.variance)) * math.sqrt(1 - p) / math.sqrt(p) * (1 + 2**-50)
    bounds = [box.lows[1] - Fraction(spread)] if math.isfinite(spread) else []
    if box.high is not None:
        bounds.append((box.lows[1] - (1 - p) * box.high) / p)  # the other outcomes are at most the upper end

    def find(canonical: Canonical, m: int) -> Polynomial | None:
        nodes = _split(float(p), canonical, m)
        touched = None if nodes is None else shortfall_above(*nodes)
        if touched is None:
            return None
        eta, q = touched
        return [q[0] / p - eta, *(c / p for c in q[1:])]

    for m in box.levels:
        minus_least = box.least_of_most(m, find)
        if minus_least is not None:
            bounds.append(-minus_least)
    return max(bounds)


def _split(p: float, canonical: Canonical, m: int) -> tuple[Fraction, Nodes] | None:
    """Atoms of the extremal distribution of which those up to a point have mass p, and that point; by bisection."""
    _, mean, second, *_ = canonical.moments
    near = Interval(down(mean), up(mean))
    low, high = _quantile_range(p, near, second - mean * mean, canonical.low, canonical.high)
    if not (math.isfinite(low) and low < high < math.inf):
        return None
    for _ in range(50):
        x = (low + high) / 2
        distribution = canonical.at(Fraction(x), m)
        if distribution is None:
            return None
        low, high = (x, high) if distribution.up_to_x < p else (low, x)
    distribution = canonical.at(Fraction(high), m)
    if distribution is None:
        return None
    nodes, last = distribution.nodes(with_x=True), distribution.x
    nearest = min(distribution.others, key=lambda t: abs(t - distribution.x), default=None)
    if nearest is not None and abs(nearest - last) < _APART:
        # Mass p splits an atom in two. A larger distance between the parts bends the polynomial less.
        last, after = nearest - _APART, nearest + _APART
        rest = (t for t in distribution.others if t != nearest)
        nodes = replace(nodes, interior=tuple(sorted((*rest, last, after))))
    return last, nodes


def cvar_high(p: Fraction, box: MomentBox, chance: Chance) -> Fraction:
    """Upper bound on CVaR_p in units of the box.

    The maximum over η of η − h(η)/p, with h(η) = E(η − X)₊, is at the p-quantile. Between two points, h is above the
    line through the left one with the least slope there, and above the line through the right one with the greatest.
    """
    mean = Interval(*sorted((down(box.lows[1]), up(box.highs[1]))))  # in order, even if the moments contradict
    ends = _quantile_range(float(p), mean, box.variance, box.low, box.high)
    if not all(math.isfinite(end) for end in ends):
        return box.highs[1]

    def at(eta: Fraction) -> _Shortfall:
        return _Shortfall.at(eta, box, chance)

    left, right = at(Fraction(ends[0])), at(Fraction(ends[1]))
    best = max(left.value(p), right.value(p))
    top, where = left.maximum(right, p)
    waiting = [(-top, 0, where, left, right)]
    for count in range(1, _POINTS):
        minus_top, _, where, left, right = waiting[0]
        if -minus_top <= best + _TOLERANCE or left.eta == right.eta:
            break
        middle = at(where)
        best = max(best, middle.value(p))
        heapq.heappop(waiting)
        for i, (s, t) in enumerate(((left, middle), (middle, right))):
            top, where = s.maximum(t, p)
            heapq.heappush(waiting, (-top, 2 * count + i, where, s, t))
    return -waiting[0][0]


@dataclass(frozen=True)
class _Shortfall:
    """Bounds on h(η) = E(η − X)₊ and its slope at one η."""

    eta: Fraction
    least: Fraction  # lower bound on h
    slope: Interval  # h' = P(X ≤ η)

    @classmethod
    def at(cls, eta: Fraction, box: MomentBox, chance: Chance) -> _Shortfall:
        """Bounds from the two highest degrees; lower degrees rarely improve them."""
        least = max(Fraction(0), eta - box.highs[1])
        if box.high is not None and eta >= box.high:
            return cls(eta, least, Interval(1.0, 1.0))

        def find(canonical: Canonical, m: int) -> Polynomial | None:
            distribution = canonical.at(eta, m)
            q = None if distribution is None else shortfall_below(eta, distribution.nodes())
            return None if q is None else [-c for c in q]

        levels = box.levels[-2:]
        for m in levels:
            minus_least = box.least_of_most(m, find)
            if minus_least is not None:
                # Rounding down to a float shortens the fractions that follow.
                least = max(least, Fraction(down(-minus_least)))
        return cls(eta, least, chance(eta, box, levels))

    def value(self, p: Fraction) -> Fraction:
        """Upper bound on η − h/p at this η."""
        return self.eta - self.least / p

    def maximum(self, right: _Shortfall, p: Fraction) -> tuple[Fraction, Fraction]:
        """Upper bound on η − h/p between this point and `right`, and the point to evaluate next."""
        flat, steep = Fraction(self.slope.low), Fraction(right.slope.high)

        def most(eta: Fraction) -> Fraction:
            return eta - max(self.least + flat * (eta - self.eta), right.least - steep * (right.eta - eta)) / p

        width = right.eta - self.eta
        candidates = [self.eta, right.eta]
        if steep != flat:
            cross = self.eta + (self.least - right.least + steep * width) / (steep - flat)
            candidates.append(min(max(cross, self.eta), right.eta))
        where = max(candidates, key=most)
        # Any point in between is valid; this one is not close to an end and has few digits.
        share = Fraction(min(max(round(64 * (where - self.eta) / width), 6), 58), 64) if width else Fraction(0)
        return most(where), self.eta + share * width


def _quantile_range(
    p: float, mean: Interval, variance: Fraction, low: Fraction | None, high: Fraction | None
) -> tuple[float, float]:
    """Range of the p-quantile by Cantelli: μ − σ √((1 − p)/p) to μ + σ √(p/(1 − p)), inside the support."""
    std = math.sqrt(max(up(variance), 0.0)) * (1 + 1e-9)
    least = mean.low - std * math.sqrt(1 - p) / math.sqrt(p) - 1e-9
    most = mean.high + std * math.sqrt(p) / math.sqrt(1 - p) + 1e-9
    return least if low is None else max(least, down(low)), most if high is None else min(most, up(high))


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
        self.freeze()

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
        return f"{'band at ' * (self.confidence is not None)}{confidence(self.confidence)}"

    def __repr__(self) -> str:
        named = {"outer bounds": _ends(self.support), **self._shown()}
        return "\n".join([f"{self._sentence()} ({self.confidence_text})", *facts(named, 14)])

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
