"""Validation of settings, shared by all methods. Each check stores the value as a plain Python number."""

from __future__ import annotations

import math
import operator
from numbers import Real

import numpy as np

from jmdp.errors import SettingsError

_LARGEST_MOMENT = 2.0**960
"""Moments (on rewards of size 1) and their weights must stay well within the range of a float."""


def refuse_overflow(order: int, discount: float) -> None:
    """Raise if moments of this order, up to (4/(1 − γ))^order, may be too large for a float."""
    most = math.floor(math.log(_LARGEST_MOMENT) / math.log(4 / (1 - discount)))
    if order > most:
        raise SettingsError(
            f"order is {order}. Give at most {most}: higher moments can overflow with discount {discount!r}."
        )


def nonnegative(settings: object, name: str, *, optional: bool = False) -> None:
    """Require a finite number ≥ 0, or None if optional."""
    value = getattr(settings, name)
    if optional and value is None:
        return
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 <= float(value) < math.inf):
        raise SettingsError(f"{name} is {value!r}. Give a finite number ≥ 0.")
    object.__setattr__(settings, name, float(value))


def boolean(settings: object, name: str) -> None:
    """Require True or False: other objects with a truth value are probably mistakes."""
    value = getattr(settings, name)
    if not isinstance(value, (bool, np.bool_)):
        raise SettingsError(f"{name} is {value!r}. Give True or False.")
    object.__setattr__(settings, name, bool(value))


def short(value: object, most: int = 80) -> str:
    """The value as text for a message; long ones are cut."""
    try:
        said = repr(value)
    except Exception:  # of any kind: it is the caller's class, or a list of integers that are too long to print
        said = object.__repr__(value)
    return said if len(said) <= most else f"{said[: most - 1]}…"


def probability(settings: object, name: str) -> None:
    """Require a number strictly between 0 and 1."""
    value = getattr(settings, name)
    if not (isinstance(value, Real) and 0 < float(value) < 1):
        raise SettingsError(f"{name} is {value!r}. Give a probability, e.g. 0.95.")
    object.__setattr__(settings, name, float(value))


def whole(settings: object, name: str, least: int, most: int = 2**62, *, optional: bool = False) -> None:
    """Require an integer from `least` to `most`, NumPy's included, or None if optional."""
    value = getattr(settings, name)
    if not (optional and value is None):
        object.__setattr__(settings, name, whole_number(name, value, least, most))


def whole_number(name: str, value: object, least: int, most: int = 2**62) -> int:
    """Return a value that satisfies `whole` as an int."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least:
        raise SettingsError(f"{name} is {value!r}. Give a whole number of at least {least}.")
    if number > most:
        raise SettingsError(f"{name} is {value!r}. Give a whole number of at most {most}.")
    return number
