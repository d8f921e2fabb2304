"""What is known of a distribution: intervals of its moments, its support, and bounds on expectations."""

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
_NARROW = Fraction(1, 1000)  # No other nodes are tried where the intervals' widths cost less than this.
_TRIES = 3


@dataclass(frozen=True)
class MomentBox:
    """All that is known, in units of a power of two near the standard deviation: nothing overflows, all is exact."""

    lows: list[Fraction]  # of the moments 0, 1, …, up to an even one
    highs: list[Fraction]
    low: Fraction | None  # end of the support; None where it has none
    high: Fraction | None
    scale: Fraction

    @classmethod
    def of(cls, moments: Sequence[Interval], support: Interval) -> MomentBox | None:
        """None where not even the second moment is finite."""
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
        """Whether X is 0 with certainty."""
        return self.highs[2] <= 0

    @property
    def levels(self) -> range:
        """Half the degrees that the moments allow."""
        return range(1, len(self.lows) // 2 + 1)

    @cached_property
    def middle(self) -> Canonical:
        """The extremal distributions of the intervals' middles."""
        return self.canonical([(low + high) / 2 for low, high in zip(self.lows, self.highs, strict=True)])

    @cached_property
    def variance(self) -> Fraction:
        """At most."""
        nearest = max(self.lows[1], -self.highs[1], _0)
        return max(self.highs[2] - nearest * nearest, _0)

    def canonical(self, moments: Sequence[Fraction]) -> Canonical:
        """The extremal distributions of these moments."""
        return Canonical(moments, self.low, self.high)

    def worst(self, q: Polynomial) -> list[Fraction]:
        """The moments in their intervals that make E[q(X)] greatest."""
        return [high if c > 0 else low for c, low, high in zip(q, self.lows, self.highs, strict=False)]

    def least_of_most(self, m: int, find: Callable[[Canonical, int], Polynomial | None]) -> Fraction | None:
        """The least of what E[q(X)] is at most, over polynomials q that `find` builds from extremal distributions.

        The bound is concave in the moments, and each polynomial its tangent there. Those that touch at distributions
        nearer to the worst moments are lower at these: steps half the way, for intervals wide enough to matter (Frank
        and Wolfe).
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
            # Where q has fewer terms than there are moments, the others stay.
            worst += canonical.moments[len(worst) :]
            canonical = self.canonical([(s + t) / 2 for s, t in zip(canonical.moments, worst, strict=True)])
        return best


def dot(q: Sequence[Fraction], moments: Sequence[Fraction]) -> Fraction:
    """E[q(X)] for these moments; there may be more of them than q has terms."""
    return sum((c * m for c, m in zip(q, moments, strict=False)), _0)


def up(value: Fraction) -> float:
    """The least float that is not below."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def down(value: Fraction) -> float:
    """The greatest float that is not above."""
    return -up(-value)
