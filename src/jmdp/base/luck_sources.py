"""Sources of randomness, of which some are drawn again while the others stay as they are.

A *source* is all draws whose keys begin with the same name, such as "demand". In simulators, the start of an episode is
the source "start", the draws of random policies are "policy", each generator of an ordinary object has its own name,
and all other draws are "unnamed". Which rows a resampled history has is the source "history": columns are resampled
together. Distinct sources are independent, so a run in which one is drawn again differs from the run itself by that
source alone: samples of such pairs give the source's share of a variance.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from jmdp.base.luck import STEP, Shock, Usage
from jmdp.base.luck_by_purpose import UNNAMED, Key, Luck, source_of
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.records import Number

Drawn = tuple[int, float, float, float]
"""Number of draws of a source, their mean, the smallest and the largest one."""

HISTORY = "history"
"""The source of the rows of resampled histories."""

_OWN = (b"start", b"policy")
"""Purposes of a sample's shock that are sources; all steps of a sample derive from the others."""


class Redraw:
    """Which sources are drawn again, and a record of those that are used."""

    def __init__(
        self, sources: Collection[str] = (), *, others: bool = False, number: int = 0, notes: bool = False
    ) -> None:
        self.sources, self.number = frozenset(sources), number  # other numbers give other draws
        self.others = others  # True: all but these sources are drawn again
        self.used: set[str] = set()
        self._notes: dict[int, dict[Any, Any]] | None = {} if notes else None  # of each sample: draws by source and key
        self.noted: dict[Any, Any] | None = None  # those of one sample

    def root(self, seed: int, sample: int, history: RecordedLuck | None = None) -> Shock:
        """Shock from which all randomness of a sample derives."""
        shock, own = Shock.of_sample(seed, sample), self
        if history is not None:
            shock.recorded = history.record(self.shock(shock, HISTORY))
        if self._notes is not None:
            own = copy.copy(self)
            own.noted = self._notes.setdefault(sample, {})
        return SourcedShock(shock, own)

    def shock(self, shock: Shock, source: str) -> Shock:
        """The shock of one source, whose use is recorded."""
        again = (source in self.sources) != self.others
        chosen = Shock((shock.derived(b"again", self.number) if again else shock).peek())
        chosen.usage, chosen.recorded = _SourceUsage(self.used, source), shock.recorded
        return chosen

    def described(self, sample: int) -> dict[str, Drawn]:
        """What a sample drew, if draws are noted: equal keys under equal shocks are one draw."""
        found: dict[str, list[float]] = {}
        for (_, key), value in (self._notes or {}).get(sample, {}).items():
            if isinstance(value, (int, float)):
                found.setdefault(source_of(key), []).append(float(value))
        return {name: (len(some), sum(some) / len(some), min(some), max(some)) for name, some in found.items()}


def root_shock(
    seed: int, sample: int, usage: Usage | None, history: RecordedLuck | None, redraw: Redraw | None
) -> Shock:
    """Shock from which all randomness of a sample derives, with its record if there is a history."""
    if redraw is not None:
        return redraw.root(seed, sample, history)
    shock = Shock.of_sample(seed, sample, usage)
    return shock if history is None else history.given_to(shock)


class _SourceUsage(Usage):
    """Records the name of a source when it is used."""

    __slots__ = ("_name", "_names")

    def __init__(self, names: set[str], name: str) -> None:
        self._names, self._name = names, name

    @property
    def used(self) -> bool:
        return self._name in self._names

    @used.setter
    def used(self, value: bool) -> None:
        if value:
            self._names.add(self._name)


class SourcedShock(Shock):
    """A shock whose sources have shocks of their own, some of them drawn again. It is that of unnamed draws itself."""

    __slots__ = ("_base", "luck", "redraw")

    def __init__(self, base: Shock, redraw: Redraw) -> None:
        own = redraw.shock(base, UNNAMED)
        super().__init__(own.peek())
        self.usage, self.recorded, self._base, self.redraw = own.usage, base.recorded, base, redraw
        self.luck = Luck if redraw.noted is None else _NotingLuck

    def derived(self, purpose: bytes, step: int = 0, where: bytes = b"") -> Shock:
        """Return the shock of the start or of a policy, of a step with its sources, or another of unnamed draws."""
        if purpose in _OWN:
            return self.of_source(purpose.decode()).derived(purpose, step, where)
        if purpose in (STEP, b"design"):
            return SourcedShock(self._base.derived(purpose, step, where), self.redraw)
        return super().derived(purpose, step, where)

    def of_source(self, source: str) -> Shock:
        """Return the shock of this source."""
        return self.redraw.shock(self._base, source)


class _NotingLuck(Luck):
    """Randomness by purpose that notes its draws."""

    __slots__ = ()

    def note(self, key: tuple[Key, ...], value: Any) -> None:
        """Note a draw; the last one of a key counts, since other draws are made from a uniform one."""
        shock = self._shock
        assert isinstance(shock, SourcedShock)
        assert shock.redraw.noted is not None
        shock.redraw.noted[shock.peek(), key] = value

    def recorded(self, purpose: str, period: Any = None) -> Number:
        """Return what was recorded, and note it."""
        value: Number = super().recorded(purpose, period)
        self.note((purpose, str(period)), value)
        return value


def _noting(draw: Any) -> Any:
    def noted(self: _NotingLuck, *key: Key, **given: Any) -> Any:
        value = draw(self, *key, **given)
        self.note(key, value)
        return value

    return noted


for _name in ("uniform", "exponential", "normal", "poisson", "choice"):
    setattr(_NotingLuck, _name, _noting(getattr(Luck, _name)))
