"""Checks of the discount factor, a property of the model or simulator or else an argument."""

from __future__ import annotations

import math
from typing import Any

from jmdp.base.settings import real_number, short
from jmdp.errors import ModelError, SettingsError


def checked_discount(discount: Any) -> float:
    """Discount of a table as a float; raise `ModelError` if it is invalid."""
    gamma = real_number(discount)
    if math.isnan(gamma):
        raise ModelError(f"discount is {short(discount)}. Give a number γ with 0 ≤ γ < 1.")
    if not 0 <= gamma < 1:
        raise ModelError(f"discount is {gamma!r}. Give 0 ≤ γ < 1, e.g. 1 − 1/horizon, so that returns are finite.")
    return gamma


def problem_discount(own: float | None, given: Any, *, horizon: Any = None) -> float:
    """Discount of the model or simulator, or the given one if it has none; raise if both differ.

    With a `horizon` that was given, a discount of 1 is the sum of the rewards of its steps, whatever the problem's own.
    """
    if own is not None:
        if given is None or real_number(given) == own:
            return own
        if horizon is not None and real_number(given) == 1:
            return 1.0
        summed = "" if horizon is None else ", or give discount=1 for the plain sum of the rewards"
        raise SettingsError(f"discount is {short(given)}, but the problem's own is {own!r}. Omit discount{summed}.")
    if given is None:
        raise SettingsError(
            "This simulator has no discount. Give one: discount=1.0 for the plain sum of an episode's rewards (with "
            "horizon=… if the simulator has no time limit), or e.g. discount=0.99."
        )
    gamma = real_number(given)
    if not 0 <= gamma <= 1:
        raise SettingsError(f"discount is {short(given)}. Give a number from 0 to 1.")
    return gamma
