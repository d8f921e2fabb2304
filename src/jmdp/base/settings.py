"""Checks that the settings of methods share. Each stores the plain Python number it found good."""

from __future__ import annotations

import math
import operator
from numbers import Real

import numpy as np

from jmdp.errors import SettingsError

_LARGEST_MOMENT = 2.0**960
"""Moments (on rewards of size 1) and their weights must stay well within the range of a float."""


def refuse_overflow(order: int, discount: float) -> None:
    """Raise where moments of this order, up to (4/(1 − γ))^order, may be too large for a float."""
    most = math.floor(math.log(_LARGEST_MOMENT) / math.log(4 / (1 - discount)))
    if order > most:
        raise SettingsError(f"order is {order}. With discount {discount!r} moments of orders over {most} can overflow.")


def nonnegative(settings: object, name: str, *, optional: bool = False) -> None:
    """A finite number ≥ 0; None too where it is optional."""
    value = getattr(settings, name)
    if optional and value is None:
        return
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 <= float(value) < math.inf):
        raise SettingsError(f"{name} is {value!r}. Give a finite number ≥ 0.")
    object.__setattr__(settings, name, float(value))


def boolean(settings: object, name: str) -> None:
    """True or False; a word or a number that counts as true would go unnoticed."""
    value = getattr(settings, name)
    if not isinstance(value, (bool, np.bool_)):
        raise SettingsError(f"{name} is {value!r}. Give True or False.")
    object.__setattr__(settings, name, bool(value))


def probability(settings: object, name: str) -> None:
    """A number strictly between 0 and 1."""
    value = getattr(settings, name)
    if not (isinstance(value, Real) and 0 < float(value) < 1):
        raise SettingsError(f"{name} is {value!r}. Give a probability, e.g. 0.95.")
    object.__setattr__(settings, name, float(value))


def whole(settings: object, name: str, least: int, most: int = 2**62, *, optional: bool = False) -> None:
    """A whole number from `least` to `most`; NumPy's are welcome, and None where it is optional."""
    value = getattr(settings, name)
    if not (optional and value is None):
        object.__setattr__(settings, name, whole_number(name, value, least, most))


def whole_number(name: str, value: object, least: int, most: int = 2**62) -> int:
    """`whole` of a value that is no attribute."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least:
        raise SettingsError(f"{name} is {value!r}. Give a whole number of at least {least}.")
    if number > most:
        raise SettingsError(f"{name} is {value!r}. Give a whole number of at most {most}.")
    return number
