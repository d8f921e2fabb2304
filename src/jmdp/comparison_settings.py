"""Settings that all comparisons have in common."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from jmdp.base.labels import Labels
from jmdp.base.settings import probability, whole
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

    def __post_init__(self) -> None:
        check_kind("coupling", self.coupling, Coupling, CouplingError)
        whole(self, "seed", 0)
        whole(self, "samples", 2)
        probability(self, "confidence")
        whole(self, "horizon", 1, LONGEST, optional=True)
        for name in ("precision", "indifference", "max_steps", "seconds", "reward_bound"):
            _positive(name, getattr(self, name))
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


def alternative_names(kind: str, given: Any, baseline: Any) -> Labels:
    """Labels of the alternatives in a dictionary; `baseline` must be one of them or None."""
    plural = Labels(kind, 0).plural
    if not isinstance(given, Mapping):
        raise SettingsError(
            f"The {plural} are a {type(given).__name__}. Give a dictionary from names to {plural}: "
            '{"old": …, "new": …}.'
        )
    names = [str(name) for name in given]
    if len(names) < 2 or len(set(names)) < len(names):
        raise SettingsError(f"The names of the {plural} are {names}. Give two or more {plural} with different names.")
    if baseline is not None and str(baseline) not in names:
        close = difflib.get_close_matches(str(baseline), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise LabelError(f"baseline is {baseline!r}. Give the name of one of the {plural}: {', '.join(names)}.{hint}")
    return Labels.of(kind, len(names), names)


def _positive(name: str, value: Any) -> Any:
    """Check that a setting is a number > 0, or None."""
    if value is not None and (isinstance(value, bool) or not (isinstance(value, Real) and 0 < float(value) < np.inf)):
        raise SettingsError(f"{name} is {value!r}. Give a number > 0, or None.")
    return value


def _tolerance(value: Any) -> float:
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 <= float(value) < np.inf):
        raise SettingsError(f"tie_tolerance is {value!r}. Give a number ≥ 0.")
    return float(value)


def _range(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (-np.inf < low < high < np.inf and 2 * (high - low) < np.inf):
        raise SettingsError(f"return_range is {given!r}. Give (lowest, highest), e.g. (0.0, 1.0).")
    return low, high
