"""Checks that the settings of methods share."""

from __future__ import annotations

import math
import operator
from numbers import Real

from jmdp.errors import SettingsError


def nonnegative(name: str, value: float) -> None:
    """Refuse what is not a finite number ≥ 0."""
    if not (isinstance(value, Real) and math.isfinite(value) and value >= 0):
        raise SettingsError(f"{name} is {value!r}. Give a finite number ≥ 0.")


def at_least(name: str, value: int, least: int) -> None:
    """Refuse what is not a whole number ≥ `least`; NumPy's are welcome."""
    try:
        whole = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        whole = None
    if whole is None or whole < least:
        raise SettingsError(f"{name} is {value!r}. Give a whole number of at least {least}.")
