"""What users may know of returns beyond the samples."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from jmdp.base.settings import real_number, short
from jmdp.errors import SettingsError


@dataclass(frozen=True, kw_only=True, repr=False)
class Assumptions:
    """What is known of returns beyond the samples: rare settings of comparisons and studies.

    Parameters
    ----------
    return_range
        (lowest, highest) possible return, also of rollouts cut at the horizon. A return outside it raises an error.
        Intervals of means, regret and standard deviations of gaps are then valid for any distribution and sample size.
    reward_bound
        Largest possible |reward| after the horizon. It is known for a table, and a smaller value raises an error. For
        other simulators the default is the largest |reward| observed, and the result states this assumption.
    largest_loss
        The most that an outcome which was not seen can cost. Intervals of mean gaps then include it.
    rarest
        Sequential sampling decides only when an outcome of this probability has been seen with probability
        `confidence`: from 64 samples on with 1/20 and 95%.
    tie_tolerance
        Gaps of at most this absolute value count as ties.

    For runs with several measures, `return_range`, `largest_loss`, `rarest` and `tie_tolerance` may be dictionaries
    with the values of some of them.
    """

    return_range: Any = None  # (float, float)
    reward_bound: float | None = None
    largest_loss: Any = None  # float
    rarest: Any = 1 / 20
    tie_tolerance: Any = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward_bound", positive("reward_bound", self.reward_bound))
        for name in _OF_MEASURES:
            given = getattr(self, name)
            if isinstance(given, Mapping):
                found: Any = {key: _checked(name, one) for key, one in given.items()}
            else:
                found = _checked(name, given)
            object.__setattr__(self, name, found)

    @property
    def by_measure(self) -> dict[str, dict[str | None, Any]]:
        """The fields that have a value for each of some measures."""
        return {name: value for name, value in vars(self).items() if isinstance(value, dict)}

    def of_measure(self, measure: str | None) -> Assumptions:
        """The assumptions about one measure."""
        default = Assumptions()
        own = {name: values.get(measure, getattr(default, name)) for name, values in self.by_measure.items()}
        return replace(self, **own)

    def __repr__(self) -> str:
        default = Assumptions()
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        said = ", ".join(f"{name}={value!r}" for name, value in given.items() if value != getattr(default, name))
        return f"Assumptions({said})"

    def single(self) -> Assumptions:
        """Itself; raises if a field has values by measure."""
        for name, values in vars(self).items():
            if isinstance(values, Mapping):
                raise SettingsError(f"{name} is {short(values)}, but nothing has several measures. Give one value.")
        return self


def positive(name: str, value: Any) -> float | None:
    """The value as a finite float > 0, or None."""
    if value is None:
        return None
    number = real_number(value)
    if not 0 < number < np.inf:
        raise SettingsError(f"{name} is {short(value)}. Give a number > 0, or None.")
    return number


_OF_MEASURES = ("return_range", "largest_loss", "rarest", "tie_tolerance")
"""Fields that may have a value for each measure."""


def _checked(name: str, value: Any) -> Any:
    """The value of one of these fields."""
    if name == "return_range":
        return _range(value)
    if name == "largest_loss":
        return positive(name, value)
    number = real_number(value)
    if name == "rarest" and not 0 < number < 1:
        raise SettingsError(f"rarest is {short(value)}. Give a probability, e.g. 1/20.")
    if not 0 <= number < np.inf:
        raise SettingsError(f"{name} is {short(value)}. Give a number ≥ 0.")
    return number


def _range(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        ends = [] if isinstance(given, Mapping | Set) else [real_number(end) for end in islice(given, 3)]
    except TypeError:
        ends = []
    low, high = ends if len(ends) == 2 else (np.nan, np.nan)
    if not (-np.inf < low < high < np.inf and high - low <= _WIDEST_RANGE):
        raise SettingsError(f"return_range is {short(given)}. Give (lowest, highest), e.g. (0.0, 1.0).")
    return low, high


_WIDEST_RANGE = 2.0**1000
"""Sums of so large returns are finite."""
