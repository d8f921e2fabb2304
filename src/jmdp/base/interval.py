"""Intervals that contain a quantity, and the three-valued answers they give to yes/no questions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from jmdp.base import rounding
from jmdp.base.settings import number_or_infinity, real_number, short, whole_number
from jmdp.errors import SettingsError, UndecidedError


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

    def __post_init__(self) -> None:
        # Almost all intervals are made here from floats, so this check comes first.
        if type(self.low) is float and type(self.high) is float and self.low <= self.high:
            return
        low, high = number_or_infinity("low", self.low), number_or_infinity("high", self.high)
        if low > high:
            raise SettingsError(f"low is {low:g} and high is {high:g}. Give low ≤ high.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def around(cls, value: float, error: float) -> Interval:
        """[value − error, value + error], rounded outwards; the point itself when the error is 0."""
        if type(value) is not float or type(error) is not float:
            value, error = number_or_infinity("value", value), number_or_infinity("error", error)
        if not error >= 0:
            raise SettingsError(f"error is {error:g}. Give a number ≥ 0.")
        if error == 0:
            return cls(value, value)
        if math.isinf(value) and math.isinf(error):
            return cls(-math.inf, math.inf)
        return cls(math.nextafter(value - error, -math.inf), math.nextafter(value + error, math.inf))

    @classmethod
    def hull(cls, parts: Iterable[Interval]) -> Interval:
        """Return the smallest interval that contains all parts."""
        try:
            known = list(parts)
        except TypeError:
            raise SettingsError(f"parts is {short(parts)}. Give a list of intervals.") from None
        if not known or not all(isinstance(part, Interval) for part in known):
            raise SettingsError(f"parts is {short(parts)}. Give a list of at least one interval.")
        return cls(min(part.low for part in known), max(part.high for part in known))

    def exceeds(self, threshold: float) -> Verdict:
        """Answer whether the quantity is > threshold."""
        if type(threshold) is not float or threshold != threshold:
            threshold = number_or_infinity("threshold", threshold)
        if self.low > threshold:
            return Verdict.YES
        return Verdict.NO if self.high <= threshold else Verdict.UNKNOWN

    def __contains__(self, value: float) -> bool:
        if type(value) is not float or value != value:
            value = number_or_infinity("value", value)
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """High − low."""
        return self.high - self.low

    def __add__(self, other: Interval) -> Interval:
        if not isinstance(other, Interval):
            return _refused(other)
        return _outwards(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Interval) -> Interval:
        if not isinstance(other, Interval):
            return _refused(other)
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
        if type(n) is not int or not 0 <= n <= _LARGEST_POWER:
            n = whole_number("n", n, 0, _LARGEST_POWER)
        result = Interval(1.0, 1.0)
        if n % 2 == 0 and self.low < 0:
            size = Interval(0.0 if self.high >= 0 else -self.high, max(-self.low, self.high))
            return size.power(n)
        for _ in range(n):
            result = result * self
        return result


_LARGEST_POWER = 10_000
"""Powers are products, one factor at a time."""


def _refused(other: object) -> NoReturn:
    raise SettingsError(f"An interval cannot be combined with {short(other)}. Use Interval(x, x) for a number x.")


ANYWHERE = Interval(-math.inf, math.inf)
"""Interval of a quantity about which nothing is known."""


def _outwards(low: float, high: float) -> Interval:
    return Interval(math.nextafter(low, -math.inf) if low else 0.0, math.nextafter(high, math.inf) if high else 0.0)


_MOST_DIGITS = 1000
"""No float has more significant digits."""


def _estimated(value: object) -> float:
    """Return an estimate, which may be nan if there is none, as a float."""
    found = float(value) if isinstance(value, float) else real_number(value)
    if math.isnan(found) and not isinstance(value, float):
        raise SettingsError(f"value is {short(value)}. Give a number.")
    return found


class Estimate(float):
    """A float with error bounds: the best estimate of a quantity that lies in [low, high]."""

    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> Estimate:  # noqa: D102 (see the class)
        if type(value) is not float:
            value = _estimated(value)
        self = super().__new__(cls, value)
        self.low = low if type(low) is float and low == low else number_or_infinity("low", low)
        self.high = high if type(high) is float and high == high else number_or_infinity("high", high)
        return self

    @classmethod
    def around(cls, value: float, error: float) -> Estimate:
        """Return an estimate whose error is at most `error`."""
        return cls.within(value, Interval.around(value, error))

    @classmethod
    def within(cls, value: float, interval: Interval | None) -> Estimate:
        """Return an estimate with this interval; None if nothing is known about its error."""
        wide = ANYWHERE if interval is None else interval
        if not isinstance(wide, Interval):
            raise SettingsError(f"interval is {short(interval)}. Give an Interval, or None if nothing is known.")
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
        return rounding.to_digits(self, whole_number("digits", digits, 1, _MOST_DIGITS))

    def __repr__(self) -> str:
        narrow = self.error <= 1e-6 * abs(float(self))
        return rounding.plus_minus(self) if narrow else rounding.with_ends(self, " in ")

    __str__ = __repr__


def known_twice(one: Estimate, other: Estimate) -> Estimate:
    """Estimate of a quantity that lies in both intervals: the narrower one's value, and their intersection."""
    best = one if one.high - one.low <= other.high - other.low else other
    low, high = max(one.low, other.low), min(one.high, other.high)
    return Estimate(min(max(float(best), low), high), low, high) if low <= high else best
