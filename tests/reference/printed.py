"""Numbers in printed texts: what each one claims, as an interval of exact rationals."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

FLOAT = r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[+\-−]?\d+)?"
END = rf"(?:{FLOAT}|-?inf)"
NUMBER = rf"{FLOAT}(?: ± {FLOAT}|(?: in)? \[{END}, {END}\])?"
"""``value``, ``value ± error``, ``value [low, high]`` or ``value in [low, high]``."""


def read(text: str) -> Fraction:
    return Fraction(Decimal(text.replace("−", "-").replace(",", "")))


def claimed(text: str, digits: int) -> tuple[Fraction | float, Fraction | float]:
    """The interval that a number claims. One without an interval claims that the truth rounds to its digits.

    It has `digits` significant digits, or more; zeros at its end may be missing, or stand for digits that are not said.
    """
    value, *ends = re.findall(END, text)
    middle = read(value)
    if "±" in text:
        return middle - read(ends[0]), middle + read(ends[0])
    if "[" in text:
        low, high = (float(end) if "inf" in end else read(end) for end in ends)
        return low, high
    if middle == 0:
        return Fraction(0), Fraction(0)
    exact = Decimal(value.replace("−", "-").replace(",", "")).normalize()
    shown = max(digits, len(exact.as_tuple().digits))
    half = Fraction(10) ** (exact.adjusted() - shown + 1) / 2
    return middle - half, middle + half


def is_true(text: str, truth: Fraction, digits: int) -> bool:
    """Whether a printed number agrees with the truth in every digit."""
    low, high = claimed(text, digits)
    return low <= truth <= high
