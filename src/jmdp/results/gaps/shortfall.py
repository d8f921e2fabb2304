"""Bounds on the mean of the worst outcomes, from expected shortfalls E(η − X)₊."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from jmdp.base.interval import Interval
from jmdp.results.gaps import touching
from jmdp.results.gaps.canonical import Canonical
from jmdp.results.gaps.moment_box import MomentBox, down, up
from jmdp.results.gaps.touching import Nodes, Polynomial

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
        touched = None if nodes is None else touching.shortfall_above(*nodes)
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
            q = None if distribution is None else touching.shortfall_below(eta, distribution.nodes())
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
