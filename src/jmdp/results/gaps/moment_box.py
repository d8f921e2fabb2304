"""Intervals of the moments of a distribution, its support, and the resulting bounds on expectations."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from jmdp.base.interval import Interval
from jmdp.results.gaps.canonical import Canonical
from jmdp.results.gaps.touching import Polynomial

_0, _1 = Fraction(0), Fraction(1)
_NARROW = Fraction(1, 1000)  # No further nodes are tried if the intervals' widths cost less than this.
_TRIES = 3


@dataclass(frozen=True)
class MomentBox:
    """Intervals of moments and the support, exact, in units of a power of two near the standard deviation."""

    lows: list[Fraction]  # lower ends of the moments 0, 1, …, up to an even order
    highs: list[Fraction]
    low: Fraction | None  # end of the support; None if unbounded
    high: Fraction | None
    scale: Fraction

    @classmethod
    def of(cls, moments: Sequence[Interval], support: Interval) -> MomentBox | None:
        """Box of these moments; None if the second moment is not finite."""
        ends = [Fraction(end) if math.isfinite(end) else None for end in (support.low, support.high)]
        largest = None if ends[0] is None or ends[1] is None else max(abs(ends[0]), abs(ends[1]))
        lows, highs = [_1], [_1]
        for k, moment in enumerate(moments[1:], 1):
            low = Fraction(moment.low) if math.isfinite(moment.low) else None
            high = Fraction(moment.high) if math.isfinite(moment.high) else None
            if largest is not None:
                most = largest**k
                low, high = -most if low is None else max(low, -most), most if high is None else min(high, most)
            if k % 2 == 0:
                low = _0 if low is None else max(low, _0)
            if low is None or high is None:
                break
            lows.append(low)
            highs.append(high)
        n = (len(lows) - 1) // 2 * 2
        if n < 2:
            return None
        second = (lows[2] + highs[2]) / 2
        bits = second.numerator.bit_length() - second.denominator.bit_length() if second > 0 else 0
        scale = Fraction(2) ** (bits // 2)
        low, high = (None if end is None else end / scale for end in ends)
        units = [scale**k for k in range(n + 1)]
        return cls(
            [m / u for m, u in zip(lows, units, strict=False)],
            [m / u for m, u in zip(highs, units, strict=False)],
            low,
            high,
            scale,
        )

    @property
    def is_zero(self) -> bool:
        """True if X is certainly 0."""
        return self.highs[2] <= 0

    @property
    def levels(self) -> range:
        """Half degrees m of the polynomials that the moments allow."""
        return range(1, len(self.lows) // 2 + 1)

    @cached_property
    def middle(self) -> Canonical:
        """Extremal distributions of the midpoints of the intervals."""
        return self.canonical([(low + high) / 2 for low, high in zip(self.lows, self.highs, strict=True)])

    @cached_property
    def variance(self) -> Fraction:
        """Upper bound on the variance."""
        nearest = max(self.lows[1], -self.highs[1], _0)
        return max(self.highs[2] - nearest * nearest, _0)

    def canonical(self, moments: Sequence[Fraction]) -> Canonical:
        """Extremal distributions of these moments."""
        return Canonical(moments, self.low, self.high)

    def worst(self, q: Polynomial) -> list[Fraction]:
        """The moments within their intervals that maximise E[q(X)]."""
        return [high if c > 0 else low for c, low, high in zip(q, self.lows, self.highs, strict=False)]

    def least_of_most(self, m: int, find: Callable[[Canonical, int], Polynomial | None]) -> Fraction | None:
        """The smallest upper bound on E[q(X)] over polynomials q that `find` builds from extremal distributions.

        The bound is concave in the moments, and each polynomial is a tangent. Tangents at distributions nearer to the
        worst-case moments are tighter there, so for wide intervals the moments move half the way to the worst case in
        each try (Frank and Wolfe).
        """
        canonical, best = self.middle, None
        for _ in range(_TRIES):
            q = find(canonical, m)
            if q is None:
                return best
            worst = self.worst(q)
            value = dot(q, worst)
            best = value if best is None else min(best, value)
            if value - dot(q, canonical.moments) <= _NARROW:
                return best
            # If q has fewer terms than there are moments, the other moments stay unchanged.
            worst += canonical.moments[len(worst) :]
            canonical = self.canonical([(s + t) / 2 for s, t in zip(canonical.moments, worst, strict=True)])
        return best


def dot(q: Sequence[Fraction], moments: Sequence[Fraction]) -> Fraction:
    """E[q(X)] for these moments; moments beyond the degree of q are ignored."""
    return sum((c * m for c, m in zip(q, moments, strict=False)), _0)


def up(value: Fraction) -> float:
    """The smallest float that is at least `value`."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def down(value: Fraction) -> float:
    """The largest float that is at most `value`."""
    return -up(-value)
