"""The discount, which belongs to the problem: a model or simulator has it, or the verb is given it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jmdp.errors import ModelError, SettingsError


def checked_discount(discount: Any) -> float:
    """The discount of a table as a float, or a `ModelError`."""
    gamma = _number(discount)
    if math.isnan(gamma):
        raise ModelError(f"discount is {discount!r}. Give a number γ with 0 ≤ γ < 1.")
    if not 0 <= gamma < 1:
        raise ModelError(f"discount is {gamma!r}. Returns are finite for 0 ≤ γ < 1; take 1 − 1/horizon for a long one.")
    return gamma


def problem_discount(own: float | None, given: Any) -> float:
    """The problem's own discount, or the one given to the verb where it has none; another one is refused."""
    if own is not None:
        if given is not None and given != own:
            raise SettingsError(f"discount is {given!r}, and the problem's own is {own!r}. Leave it out.")
        return own
    if given is None:
        raise SettingsError("This simulator has no discount of its own. Give one, e.g. discount=0.99.")
    gamma = _number(given)
    if not 0 <= gamma <= 1:
        raise SettingsError(f"discount is {given!r}. Give a number from 0 to 1.")
    return gamma


def _number(discount: Any) -> float:
    try:
        return math.nan if isinstance(discount, (bool, np.bool_, str, bytes)) else float(discount)
    except (TypeError, ValueError, OverflowError):
        return math.nan
