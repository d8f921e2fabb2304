"""Numbers as text that stays true: bounds are rounded outwards, and a value is written to the digit of its error.

Rounding to the nearest number can print an interval that excludes the truth. Here every printed interval contains the
interval it stands for: floats are converted to decimals exactly, and rounded in the safe direction.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

_EXACT = Context(prec=2500)
"""Enough digits for every sum, difference and rounding of float64 numbers."""

_FLOAT_DIGITS = 17
"""Significant digits that identify a float64."""

_MORE_DIGITS = 3
"""Added at most, so that an interval that excludes 0 is printed as one that does."""


def plus_minus(value: float, low: float, high: float) -> str:
    """``value ± error``, where [value − error, value + error] as printed contains [low, high].

    The error has two significant digits, or one where it is below a millionth of the value; the value ends at the same
    digit. Some digits are added where the interval excludes 0 and would not be printed so.
    """
    if not math.isfinite(value):
        return f"{value:.6g}"
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{value:.6g} ± ∞"
    if low == high == value:
        return exactly(value)
    error = _distance(Decimal(value), low, high)
    fewest = 1 if error <= abs(Decimal(value)) / 1_000_000 else 2
    for digits in range(fewest, fewest + 1 + _MORE_DIGITS):
        middle = _rounded(Decimal(value), _last_digit(value, error, digits), ROUND_HALF_EVEN)
        off = _leading(_distance(middle, low, high), digits, ROUND_CEILING)
        if low <= 0 <= high or off < abs(middle):
            break
    return f"{_text(middle)} ± {_text(off)}"


def with_ends(value: float, low: float, high: float, between: str = " ", digits: int = _FLOAT_DIGITS) -> str:
    """``value [low, high]``, the ends rounded outwards, all to the second significant digit of the larger error.

    The value has no more than so many digits.
    """
    middle, ends = value_and_ends(value, low, high, digits)
    return middle + between + ends


def value_and_ends(value: float, low: float, high: float, digits: int = _FLOAT_DIGITS) -> tuple[str, str]:
    """The two parts of `with_ends`.

    Some digits are added where an interval that excludes 0 would be printed with an end at 0.
    """
    finite = [end for end in (low, high) if math.isfinite(end)]
    if not math.isfinite(value) or not finite:
        return f"{value:.6g}", f"[{at_least(low)}, {at_most(high)}]"
    if low == high == value:
        return exactly(value), f"[{exactly(low)}, {exactly(high)}]"
    last = _last_digit(value, max(abs(Decimal(end) - Decimal(value)) for end in finite), 2, digits)
    nearest = low if low > 0 else -high if high < 0 else math.inf
    if nearest < math.inf:
        last = max(min(last, _magnitude(Decimal(nearest))), last - _MORE_DIGITS)
    middle = _rounded(Decimal(value), last, ROUND_HALF_EVEN)
    floor, ceiling = (
        _text(_rounded(Decimal(end), last, rounding)) if math.isfinite(end) else f"{end:g}"
        for end, rounding in ((low, ROUND_FLOOR), (high, ROUND_CEILING))
    )
    return _text(middle), f"[{floor}, {ceiling}]"


def at_most(bound: float, digits: int = 4) -> str:
    """An upper bound, rounded up to this many significant digits."""
    return _bound(bound, digits, ROUND_CEILING)


def at_least(bound: float, digits: int = 4) -> str:
    """A lower bound, rounded down to this many significant digits."""
    return _bound(bound, digits, ROUND_FLOOR)


def outwards(low: float, high: float, decimals: int) -> tuple[float, float]:
    """The ends of an interval rounded outwards to this many decimals."""
    ends = (
        float(_rounded(Decimal(end), -decimals, rounding)) if math.isfinite(end) else end
        for end, rounding in ((low, ROUND_FLOOR), (high, ROUND_CEILING))
    )
    return next(ends), next(ends)


def percent(value: float, low: float, high: float) -> str:
    """A probability and its interval in percent, the ends rounded outwards."""
    floor, ceiling = (
        _rounded(_EXACT.multiply(Decimal(end), 100), 0, rounding)
        for end, rounding in ((low, ROUND_FLOOR), (high, ROUND_CEILING))
    )
    return f"{100 * value:.0f}% [{floor}, {ceiling}]"


def exactly(value: float) -> str:
    """A number without error: the digits that identify it."""
    return repr(float(value)).removesuffix(".0")


def _bound(bound: float, digits: int, rounding: str) -> str:
    return _text(_leading(Decimal(bound), digits, rounding)) if math.isfinite(bound) else f"{bound:g}"


def _distance(middle: Decimal, low: float, high: float) -> Decimal:
    """How far the ends of an interval are from `middle`, at most."""
    return max(_EXACT.subtract(Decimal(high), middle), _EXACT.subtract(middle, Decimal(low)))


def _last_digit(value: float, error: Decimal, digits: int, most: int = _FLOAT_DIGITS) -> int:
    """The exponent of the last digit to print: of the error, but the value has no more than `most`."""
    wanted = _magnitude(error) - digits + 1
    return max(wanted, _magnitude(Decimal(value)) - most + 1) if value else wanted


def _leading(number: Decimal, digits: int, rounding: str) -> Decimal:
    """The first significant digits of a number; trailing zeros of a number with fewer are not added."""
    last = _magnitude(number) - digits + 1
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return number if exponent >= last else _rounded(number, last, rounding)


def _rounded(number: Decimal, last: int, rounding: str) -> Decimal:
    return number.quantize(Decimal((0, (1,), last)), rounding, _EXACT)


def _magnitude(number: Decimal) -> int:
    """The exponent of the first significant digit."""
    return number.adjusted() if number else 0


def _text(number: Decimal) -> str:
    """Plain digits where there are few zeros around them, else with an exponent."""
    if not number:
        return format(abs(number), "f") if number.as_tuple().exponent in range(-8, 1) else "0"
    if -5 <= number.adjusted() < 16:
        return format(number, "f")
    digits, exponent = format(number, "e").split("e")
    return f"{digits}e{int(exponent):+03d}"
