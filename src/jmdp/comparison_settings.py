"""Settings that all comparisons have in common."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from jmdp.base.labels import Labels
from jmdp.base.settings import boolean, cut, probability, real_number, short, whole
from jmdp.distribute.pool_setting import check_pool
from jmdp.distribute.pools import Pool
from jmdp.errors import CouplingError, LabelError, SettingsError
from jmdp.methods.method import check_kind
from jmdp.methods.monte_carlo.monte_carlo import LONGEST
from jmdp.models.coupling import Coupling, Synchronous
from jmdp.results.margins import Margin


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a comparison, as documented in `jmdp.compare`."""

    seed: int
    coupling: Coupling = Synchronous(policy_luck="shared")
    confidence: float = 0.95
    precision: float | None = None
    indifference: float | None = None
    margin: Margin | None = None
    samples: int = 10_000
    max_steps: int | None = None
    seconds: float | None = None
    horizon: int | None = None
    reward_bound: float | None = None
    return_range: tuple[float, float] | None = None
    tie_tolerance: float = 0.0
    pool: int | Pool | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        check_kind("coupling", self.coupling, Coupling, CouplingError)
        whole(self, "seed", 0)
        whole(self, "samples", 2)
        probability(self, "confidence")
        whole(self, "horizon", 1, LONGEST, optional=True)
        for name in ("precision", "indifference", "max_steps", "seconds", "reward_bound"):
            object.__setattr__(self, name, _positive(name, getattr(self, name)))
        object.__setattr__(self, "pool", check_pool(self.pool))
        boolean(self, "progress")
        if self.precision is not None and self.indifference is not None:
            raise SettingsError(
                "precision and indifference are both given. Give precision to know every gap, or indifference to find "
                "an alternative that is good enough."
            )
        if self.margin is not None:
            object.__setattr__(self, "margin", Margin.of(self.margin))
            if self.precision is not None or self.indifference is not None:
                raise SettingsError("margin is given together with precision or indifference. Give one of them.")
        object.__setattr__(self, "return_range", _range(self.return_range))
        object.__setattr__(self, "tie_tolerance", _tolerance(self.tie_tolerance))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Settings from all arguments of a comparison; those that it does not have keep their defaults."""
        return cls(**{name: given[name] for name in cls.__dataclass_fields__ if name in given})


def alternative_names(kind: str, given: Any, baseline: Any) -> tuple[Labels, str | None]:
    """Labels of the alternatives in a dictionary, and the name of the baseline, which must be one of them or None."""
    plural = Labels(kind, 0).plural
    if not isinstance(given, Mapping):
        raise SettingsError(
            f"The {plural} are a {type(given).__name__}. Give a dictionary from names to {plural}: "
            '{"old": …, "new": …}.'
        )
    names = [_name(name, plural) for name in given]
    if len(names) < 2 or len(set(names)) < len(names):
        raise SettingsError(
            f"The names of the {plural} are {short(names, 200)}. Give two or more {plural} with different names."
        )
    chosen = None if baseline is None else _name(baseline, plural)
    if chosen is not None and chosen not in names:
        close = difflib.get_close_matches(chosen[:100], names, n=1)
        hint = f" Did you mean {short(close[0])}?" if close else ""
        among = cut(", ".join(names))
        raise LabelError(f"baseline is {short(baseline)}. Give the name of one of the {plural}: {among}.{hint}")
    return Labels.of(kind, len(names), names), chosen


def _name(name: Any, plural: str) -> str:
    try:
        return str(name)
    except ValueError as error:  # an integer that is too long to print
        raise SettingsError(f"{short(name)} is given as the name of one of the {plural}. Give a string.") from error


def _positive(name: str, value: Any) -> float | None:
    """The value as a finite float > 0, or None."""
    if value is None:
        return None
    number = real_number(value)
    if not 0 < number < np.inf:
        raise SettingsError(f"{name} is {short(value)}. Give a number > 0, or None.")
    return number


def _tolerance(value: Any) -> float:
    number = real_number(value)
    if not 0 <= number < np.inf:
        raise SettingsError(f"tie_tolerance is {short(value)}. Give a number ≥ 0.")
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
