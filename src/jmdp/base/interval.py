"""Intervals that contain a quantity, and the three-valued answers they give to yes/no questions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from jmdp.base import rounding
from jmdp.errors import UndecidedError


class Verdict(Enum):
    """YES, NO, or UNKNOWN if the interval does not settle the question."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        if self is Verdict.UNKNOWN:
            raise UndecidedError(
                "The interval contains the threshold, so the answer is UNKNOWN. "
                "Use a smaller tolerance or more samples, or compare with Verdict.YES explicitly."
            )
        return self is Verdict.YES


@dataclass(frozen=True)
class Interval:
    """A closed interval [low, high] that contains a quantity."""

    low: float
    high: float

    @classmethod
    def around(cls, value: float, error: float) -> Interval:
        """[value − error, value + error], rounded outwards; the point itself when the error is 0."""
        if error == 0:
            return cls(value, value)
        return cls(math.nextafter(value - error, -math.inf), math.nextafter(value + error, math.inf))

    @classmethod
    def hull(cls, parts: Iterable[Interval]) -> Interval:
        """Return the smallest interval that contains all parts."""
        known = list(parts)
        return cls(min(part.low for part in known), max(part.high for part in known))

    def exceeds(self, threshold: float) -> Verdict:
        """Answer whether the quantity is > threshold."""
        if self.low > threshold:
            return Verdict.YES
        return Verdict.NO if self.high <= threshold else Verdict.UNKNOWN

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """High − low."""
        return self.high - self.low

    def __add__(self, other: Interval) -> Interval:
        return _outwards(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Interval) -> Interval:
        factors = [(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        corners = [x * y if x and y else 0.0 for x, y in factors]  # 0 × ∞ counts as 0 here
        hidden = any(x and y and not x * y for x, y in factors)  # a product lost to underflow
        low, high = min(corners), max(corners)
        wide = _outwards(low, high)
        return Interval(min(wide.low, -5e-324), max(wide.high, 5e-324)) if hidden else wide

    def square_root(self) -> Interval:
        """Return the square roots of the nonnegative part of the interval, rounded outwards."""
        high = max(0.0, self.high)
        return Interval(
            math.sqrt(max(0.0, self.low)) * (1 - 2**-52), math.nextafter(math.sqrt(high), math.inf) if high else 0.0
        )

    def power(self, n: int) -> Interval:
        """Return the n-th powers of the interval, rounded outwards; never below 0 for an even n."""
        result = Interval(1.0, 1.0)
        if n % 2 == 0 and self.low < 0:
            size = Interval(0.0 if self.high >= 0 else -self.high, max(-self.low, self.high))
            return size.power(n)
        for _ in range(n):
            result = result * self
        return result


ANYWHERE = Interval(-math.inf, math.inf)
"""Interval of a quantity about which nothing is known."""


def _outwards(low: float, high: float) -> Interval:
    return Interval(math.nextafter(low, -math.inf) if low else 0.0, math.nextafter(high, math.inf) if high else 0.0)


class Estimate(float):
    """A float with error bounds: the best estimate of a quantity that lies in [low, high]."""

    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> Estimate:  # noqa: D102 (see the class)
        self = super().__new__(cls, value)
        self.low, self.high = float(low), float(high)
        return self

    @classmethod
    def around(cls, value: float, error: float) -> Estimate:
        """Return an estimate whose error is at most `error`."""
        return cls.within(value, Interval.around(value, error))

    @classmethod
    def within(cls, value: float, interval: Interval | None) -> Estimate:
        """Return an estimate with this interval; None if nothing is known about its error."""
        wide = ANYWHERE if interval is None else interval
        return cls(value, wide.low, wide.high)

    @property
    def interval(self) -> Interval:
        """[low, high]."""
        return Interval(self.low, self.high)

    def negative(self) -> Estimate:
        """The estimate of the negative quantity."""
        return Estimate(0.0 - self, 0.0 - self.high, 0.0 - self.low)

    @property
    def has_interval(self) -> bool:
        """True if at least one end of the interval is finite."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    @property
    def error(self) -> float:
        """Largest possible error: max(high − value, value − low)."""
        value = float(self)
        return max(self.high - value, value - self.low)

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]  # float's has one
        return float(self), self.low, self.high

    def to_digits(self, digits: int) -> str:
        """Value and interval as text, each to this many significant digits, the ends rounded outwards."""
        return rounding.to_digits(self, digits)

    def __repr__(self) -> str:
        narrow = self.error <= 1e-6 * abs(float(self))
        return rounding.plus_minus(self) if narrow else rounding.with_ends(self, " in ")

    __str__ = __repr__
