"""Settings that all comparisons have in common."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jmdp.base.labels import Labels
from jmdp.base.settings import boolean, choice, cut, instance, probability, short, whole
from jmdp.distribute.pool_setting import check_pool
from jmdp.distribute.pools import Pool
from jmdp.errors import CouplingError, LabelError, SettingsError
from jmdp.methods.method import check_kind
from jmdp.methods.monte_carlo.monte_carlo import LONGEST
from jmdp.models.coupling import Coupling, Synchronous
from jmdp.statistics.assumptions import Assumptions, positive
from jmdp.statistics.margins import Margin
from jmdp.statistics.means import Sampling

_MOST = 10_000
"""Samples of each alternative, if no budget is given."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a comparison, as documented in `jmdp.compare`."""

    seed: int
    coupling: Coupling = Synchronous(policy_luck="shared")
    confidence: float = 0.95
    precision: float | None = None
    indifference: float | None = None
    margin: Margin | None = None
    samples: int | None = None
    max_samples: int | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    looks: Literal["scheduled", "planned"] = "scheduled"
    stratify: bool = False
    horizon: int | None = None
    assume: Assumptions = field(default_factory=Assumptions)
    pool: int | Pool | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        check_kind("coupling", self.coupling, Coupling, CouplingError)
        instance("assume", self.assume, Assumptions, hint="Give jmdp.Assumptions(return_range=…, largest_loss=…).")
        whole(self, "seed", 0)
        whole(self, "samples", 2, optional=True)
        whole(self, "max_samples", 2, optional=True)
        probability(self, "confidence")
        choice("looks", self.looks, ("scheduled", "planned"))
        whole(self, "horizon", 1, LONGEST, optional=True)
        for name in ("precision", "indifference", "max_steps", "max_seconds"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "pool", check_pool(self.pool))
        boolean(self, "stratify")
        boolean(self, "progress")
        if self.margin is not None:
            object.__setattr__(self, "margin", Margin.of(self.margin))
        self._check_together()

    def _check_together(self) -> None:
        """Raise if settings exclude each other."""
        if self.precision is not None and self.indifference is not None:
            raise SettingsError(
                "precision and indifference are both given. Give precision to know every gap, or indifference to find "
                "an alternative that is good enough."
            )
        if self.margin is not None and (self.precision is not None or self.indifference is not None):
            raise SettingsError("margin is given together with precision or indifference. Give one of them.")
        if self.samples is not None:
            for name in ("max_samples", "max_steps", "max_seconds", "precision", "indifference"):
                if getattr(self, name) is not None:
                    raise SettingsError(
                        f"samples and {name} are both given. samples={self.samples} draws so many and looks once. Omit "
                        f"it to sample until the comparison is decided, with {name} and at most max_samples."
                    )
        if self.stratify and self.assume.return_range is not None:
            raise SettingsError(
                "stratify and return_range are both given. Intervals within a range need starts that are drawn "
                "independently. Give one of them."
            )
        if self.looks == "planned" and (self.max_samples is None or self.samples is not None):
            raise SettingsError('looks="planned" needs max_samples, within which the five looks are, and no samples.')

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Settings from all arguments of a comparison; those that it does not have keep their defaults."""
        if given.get("seconds") is not None:
            raise SettingsError("seconds is not a setting of comparisons. Use max_seconds.")
        known = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        return cls(**{name: value for name, value in known.items() if name != "assume" or value is not None})

    @property
    def most(self) -> int:
        """Samples of each alternative at most."""
        return self.samples or self.max_samples or _MOST

    @property
    def sampling(self) -> Sampling:
        """When samples are examined."""
        if self.samples is not None:
            return Sampling("fixed")
        return Sampling("planned", self.most) if self.looks == "planned" else Sampling()


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
