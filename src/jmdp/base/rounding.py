"""Text for numbers with errors, rounded so that the printed interval contains the original one.

Rounding to the nearest number can print an interval that excludes the true value. Here floats are converted to decimals
exactly, and ends are rounded outwards.

- `plus_minus` writes ``value ± error`` where that is the interval, `with_ends` ``value [low, high]``, both to the
  digits of the error;
- `to_digits` writes a given number of significant digits, `with_decimals` and `ends_to_decimals` of decimals;
- `whole_percent`, `share_of_cases` and `confidence_percent` write percents, and `at_most` and `at_least` a bound alone;
- `supported` writes the digits that the whole interval rounds to, without the interval if they are enough;
- `decimals_of`, `chance` and `significant` write numbers without their errors, `counted` and `between` whole ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jmdp.base.interval import Estimate

_EXACT = Context(prec=2500)
"""Enough digits for every sum, difference and rounding of float64 numbers."""

_FLOAT_DIGITS = 17
"""Significant digits that identify a float64."""

_MORE_DIGITS = 3
"""Most digits added so that an interval that excludes 0 is also printed as one."""

_NEGLIGIBLE = 1e-12
"""A probability this close to 0 or 1 differs from it by rounding only."""


def plus_minus(number: Estimate) -> str:
    """``value ± error``, or ``value [low, high]`` if the errors to both sides differ by more than the last digit.

    [value − error, value + error] as printed contains [low, high]. The error has two significant digits, or one if it
    is below a millionth of the value, where it is only a bound; the value ends at the same digit. Digits are added if
    the interval excludes 0 and would otherwise be printed with 0 in it.
    """
    value, low, high = float(number), number.low, number.high
    if not math.isfinite(value):
        return f"{value:.6g}"
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{value:.6g} ({_one_sided(low, high)})"
    if low == high == value:
        return exactly(value)
    error = _distance(Decimal(value), low, high)
    fewest = 1 if error <= abs(Decimal(value)) / 1_000_000 else 2
    other = min(_EXACT.subtract(Decimal(high), Decimal(value)), _EXACT.subtract(Decimal(value), Decimal(low)))
    if fewest == 2 and _EXACT.subtract(error, other) > Decimal((0, (1,), _last_digit(value, error, 2))):
        return with_ends(number)
    for digits in range(fewest, fewest + 1 + _MORE_DIGITS):
        middle = _rounded(Decimal(value), _last_digit(value, error, digits), ROUND_HALF_EVEN)
        off = _leading(_distance(middle, low, high), digits, ROUND_CEILING)
        if low <= 0 <= high or off < abs(middle):
            break
    return f"{_text(middle)} ± {_text(off)}"


def with_ends(number: Estimate, between: str = " ", digits: int = _FLOAT_DIGITS) -> str:
    """``value [low, high]``, the ends rounded outwards, all to the second significant digit of the larger error.

    The value has at most `digits` significant digits.
    """
    middle, ends = value_and_ends(number, digits)
    return middle + between + ends


def value_and_ends(number: Estimate, digits: int = _FLOAT_DIGITS) -> tuple[str, str]:
    """Return the two parts of `with_ends`.

    Digits are added if an interval that excludes 0 would be printed with an end at 0.
    """
    value, low, high = float(number), number.low, number.high
    finite = [end for end in (low, high) if math.isfinite(end)]
    if not math.isfinite(value) or not finite:
        return f"{value:.6g}", f"[{at_least(low)}, {at_most(high)}]"
    if low == high == value and (digits == _FLOAT_DIGITS or len(exactly(value)) <= 2 * digits):
        return exactly(value), f"[{exactly(low)}, {exactly(high)}]"
    error = max(abs(Decimal(end) - Decimal(value)) for end in finite)
    last = _last_digit(value, error or abs(Decimal(value)) / 10**_FLOAT_DIGITS, 2, digits)
    nearest = low if low > 0 else -high if high < 0 else math.inf
    if nearest < math.inf:
        last = max(min(last, _magnitude(Decimal(nearest))), last - _MORE_DIGITS)
    middle = _rounded(Decimal(value), last, ROUND_HALF_EVEN)
    floor, ceiling = (
        _text(_rounded(Decimal(end), last, rounding)) if math.isfinite(end) else f"{end:g}"
        for end, rounding in ((low, ROUND_FLOOR), (high, ROUND_CEILING))
    )
    return _text(middle), f"[{floor}, {ceiling}]"


def to_digits(number: Estimate, digits: int) -> str:
    """``value in [low, high]``, each to this many significant digits, or ``value ± error`` if the error is small.

    The error is small if it is below the last digit: then the value has three digits more, and the error one digit.
    """
    value, low, high = float(number), number.low, number.high
    if max(high - value, value - low) <= 10.0**-digits * abs(value):
        text = f"{value:.{digits + 3}g}"
        return f"{text} ± {_text(_leading(_distance(Decimal(text), low, high), 1, ROUND_CEILING))}"
    middle, floor, ceiling = (
        _text(_leading(Decimal(x), digits, rounding).normalize()) if math.isfinite(x) else f"{x:g}"
        for x, rounding in ((value, ROUND_HALF_EVEN), (low, ROUND_FLOOR), (high, ROUND_CEILING))
    )
    return f"{middle} in [{floor}, {ceiling}]"


def decimals_of(value: float, decimals: int) -> str:
    """Return a number with this many decimals, 0 without any; with three significant digits if that is too long."""
    plain = _has_decimals(value, decimals)
    if plain and abs(value) < 0.5 * 10.0**-decimals:
        return "0"
    return typeset(f"{value:.{decimals}f}" if plain else f"{value:.3g}")


def chance(value: float, decimals: int = 3) -> str:
    """Return a probability as text: 0.312; 0 and 1 only if exact, else <0.001 and >0.999."""
    least = 10.0**-decimals
    if value <= _NEGLIGIBLE or value >= 1 - _NEGLIGIBLE:
        return f"{round(value)}"
    if value < least / 2:
        return f"<{least:.{decimals}f}"
    if value > 1 - least / 2:
        return f">{1 - least:.{decimals}f}"
    return f"{value:.{decimals}f}"


def with_decimals(
    number: Estimate, decimals: int, write: Callable[[float, int], str] = decimals_of, between: str = " "
) -> str:
    """``value [low, high]`` with this many decimals; the value alone if its interval rounds to it."""
    value = write(float(number), decimals)
    texts = {value, write(number.low, decimals), write(number.high, decimals)}
    for sign, end in (("<", "0"), (">", "1")):  # "<0.001" is true of 0 too, and ">0.999" of 1
        bounds = texts - {end}
        if len(bounds) == 1 and min(bounds)[0] == sign:
            return min(bounds)
    if len(texts) == 1:
        return value
    return value + between + ends_to_decimals(number, decimals, write)


def ends_to_decimals(number: Estimate, decimals: int, write: Callable[[float, int], str] = decimals_of) -> str:
    """``[low, high]``, rounded outwards to this many decimals and written by `decimals_of` or by `chance`."""
    floor, ceiling = (
        _end_to_decimals(end, decimals, rounding, write)
        for end, rounding in ((number.low, ROUND_FLOOR), (number.high, ROUND_CEILING))
    )
    return f"[{floor}, {ceiling}]"


def percent_ends(number: Estimate, decimals: int) -> tuple[str, str]:
    """Both ends of a probability's interval in percent, rounded outwards to this many decimals: 18.4 and 22.1."""
    low, high = (
        _rounded(_EXACT.multiply(Decimal(end), 100), -decimals, rounding)
        for end, rounding in ((number.low, ROUND_FLOOR), (number.high, ROUND_CEILING))
    )
    return f"{float(low):g}", f"{float(high):g}"


def confidence_percent(level: float) -> str:
    """A confidence level in percent, rounded down so that its complement has three digits: 95%, 98.33%."""
    wrong = _leading(Decimal(f"{100 * (1 - level):.9g}"), 3, ROUND_CEILING)  # 1 − 0.95 is not exactly 0.05
    return f"{(100 - wrong).normalize():f}%"


def share_of_cases(number: Estimate) -> str:
    """A probability: ``31% of cases``, with a decimal or with its interval if that does not round to whole percents."""
    low, value, high = number.low, float(number), number.high
    nearest = whole_percent(value)
    rare, sure = nearest == "<1%" and high < 0.01, nearest == ">99%" and low > 0.99
    if rare or sure or all(whole_percent(end) == nearest for end in (low, high)):
        return f"{nearest} of cases"
    if f"{100 * low:.1f}" == f"{100 * high:.1f}":
        return f"{100 * value:.1f}% of cases"
    floor, ceiling = percent_ends(number, 1)
    return f"{nearest} of cases ({floor} to {ceiling}%)"


def at_most(bound: float, digits: int = 4) -> str:
    """An upper bound, rounded up to this many significant digits."""
    return _bound(bound, digits, ROUND_CEILING)


def at_least(bound: float, digits: int = 4) -> str:
    """A lower bound, rounded down to this many significant digits."""
    return _bound(bound, digits, ROUND_FLOOR)


def exactly(value: float) -> str:
    """Return a number without error, with all digits that identify it."""
    return repr(float(value)).removesuffix(".0")


def significant(value: float, digits: int) -> str:
    """A number without error to so many significant digits, and without an exponent if they are few: 430, 3.00."""
    text = without_zeros(value, digits, 6)
    if 10.0 ** (1 - digits) <= abs(value) and abs(float(text)) < 10.0**digits and value != round(value):
        text = f"{value:#.{digits}g}".rstrip(".")
    return typeset(text)


def without_zeros(value: float, digits: int, legible: int) -> str:
    """A number to so many significant digits; without an exponent if it is short enough to be legible: 1370, 0.88."""
    return _general(Decimal(f"{value:.{digits}g}"), legible) if math.isfinite(value) else f"{value:g}"


def supported_digits(number: Estimate, wanted: int) -> int | None:
    """How many significant digits may be written without the interval, because all of it rounds to them.

    It is `wanted`, or up to three more at a tie, where ends round to different sides however near they are. None: the
    interval is too wide.
    """
    for digits in range(wanted, wanted + 1 + _MORE_DIGITS):
        low, high = (Decimal(f"{end:.{digits}g}") for end in (number.low, number.high))
        if low == high and low.is_finite():
            return digits
    return None


def supported(number: Estimate, wanted: int) -> str:
    """The number to so many significant digits if its interval supports them, else ``value ± error``."""
    digits = supported_digits(number, wanted)
    return plus_minus(number) if digits is None else significant(float(number), digits)


def whole_percent(part: float) -> str:
    """A share in whole percents; 0% and 100% only if exact, else <1% and >99%.

    Halves are rounded to even numbers, so a share and its complement add up to 100.
    """
    rounded = f"{round(100 * part, 9):.0f}%"
    if rounded == "0%" and part > 0:
        return "<1%"
    return ">99%" if rounded == "100%" and part < 1 else rounded


def counted(count: int, noun: str) -> str:
    """A number of things: 1 state, 1,200 states."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def between(least: float, most: float) -> str:
    """A whole number, or the range of several: ``64 to 1,200``."""
    return f"{most:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"


def typeset(text: str) -> str:
    """Replace the hyphen by a minus sign and inf by ∞, for figures and web pages."""
    return text.replace("-", "−").replace("inf", "∞")


def _end_to_decimals(end: float, decimals: int, rounding: str, write: Callable[[float, int], str]) -> str:
    """Return an end of an interval with decimals, or with three significant digits if that is too long."""
    if not math.isfinite(end):
        return write(end, decimals)
    rounded = float(_rounded(Decimal(end), -decimals, rounding))
    if _has_decimals(rounded, decimals):
        return write(rounded, decimals)
    return typeset(_general(_leading(Decimal(end), 3, rounding), 3))


def _has_decimals(value: float, decimals: int) -> bool:
    """True if a number is written with decimals, else with three significant digits."""
    return decimals <= 6 and abs(value) < 1e6


def _one_sided(low: float, high: float) -> str:
    """The end of an interval that is bounded on one side, or on none."""
    if math.isfinite(low):
        return f"at least {at_least(low)}, no upper bound"
    return f"at most {at_most(high)}, no lower bound" if math.isfinite(high) else "no error bound"


def _bound(bound: float, digits: int, rounding: str) -> str:
    return _text(_leading(Decimal(bound), digits, rounding)) if math.isfinite(bound) else f"{bound:g}"


def _distance(middle: Decimal, low: float, high: float) -> Decimal:
    """Largest distance of an end of the interval from `middle`."""
    return max(_EXACT.subtract(Decimal(high), middle), _EXACT.subtract(middle, Decimal(low)))


def _last_digit(value: float, error: Decimal, digits: int, most: int = _FLOAT_DIGITS) -> int:
    """Exponent of the last digit to print: that of the error, with at most `most` digits of the value."""
    wanted = _magnitude(error) - digits + 1
    return max(wanted, _magnitude(Decimal(value)) - most + 1) if value else wanted


def _leading(number: Decimal, digits: int, rounding: str) -> Decimal:
    """Round to significant digits; no trailing zeros are added to a number with fewer."""
    last = _magnitude(number) - digits + 1
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return number if exponent >= last else _rounded(number, last, rounding)


def _rounded(number: Decimal, last: int, rounding: str) -> Decimal:
    return number.quantize(Decimal((0, (1,), last)), rounding, _EXACT)


def _magnitude(number: Decimal) -> int:
    """Exponent of the first significant digit."""
    return number.adjusted() if number else 0


def _general(number: Decimal, digits: int) -> str:
    """Format like Python's g for floats, without a float, which may not exist so close to 0."""
    if not number:
        return "0"
    number = number.normalize()
    if -4 <= number.adjusted() < digits:
        return format(number, "f")
    return _with_exponent(number)


def _text(number: Decimal) -> str:
    """Plain digits if few zeros surround them, else with an exponent."""
    if not number:
        return format(abs(number), "f") if number.as_tuple().exponent in range(-8, 1) else "0"
    if -5 <= number.adjusted() < 16:
        return format(number, "f")
    return _with_exponent(number)


def _with_exponent(number: Decimal) -> str:
    digits, exponent = format(number, "e").split("e")
    return f"{digits}e{int(exponent):+03d}"
