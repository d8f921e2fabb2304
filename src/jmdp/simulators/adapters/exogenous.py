"""Inputs of steps that no action changes: recorded where there is a history, otherwise drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jmdp.base.luck import Shock
from jmdp.base.luck_by_purpose import Luck
from jmdp.base.luck_sources import HISTORY
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.records import Row
from jmdp.base.settings import cut, short
from jmdp.errors import SettingsError
from jmdp.simulators.simulator import Simulator

Source = RecordedLuck | Callable[[Luck], Any]


class ExogenousInputs:
    """Keyword arguments of a step, by name, and how each is drawn where it was not recorded."""

    def __init__(self, given: Mapping[str, Source] | None) -> None:
        if not isinstance(given, Mapping | None):
            raise SettingsError(f"exogenous is {short(given)}. Give a dictionary: {{'demand': history}}.")
        self.sources = dict(given or {})
        for name, source in self.sources.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise SettingsError(f"exogenous names {short(name)}. Give the name of a keyword argument of the step.")
            if isinstance(source, RecordedLuck):
                source.column(name)  # raises if it has none
            elif not callable(source):
                raise SettingsError(
                    f"exogenous[{name!r}] is {short(source)}. Give a RecordedLuck with this column, or a function that "
                    f"draws it: lambda luck: luck.poisson({name!r}, mean=20)."
                )

    def __bool__(self) -> bool:
        return bool(self.sources)

    def of(self, shock: Shock) -> dict[str, Any]:
        """The inputs of the step with this shock."""
        row = shock.recorded.values if isinstance(shock.recorded, Row) else {}
        return {name: row[name] if name in row else self._drawn(name, shock) for name in self.sources}

    def _drawn(self, name: str, shock: Shock) -> Any:
        """An input that was not recorded; those of one history come from one of its rows, each with equal chance."""
        source = self.sources[name]
        if not isinstance(source, RecordedLuck):
            return source(Luck(shock))
        u = shock.of_source(HISTORY).derived(b"recorded row").uniform()
        return source.row(int(u * len(source))).values[name]


def read_by(simulator: Simulator, history: RecordedLuck) -> list[str]:
    """Columns of a history that the steps of a simulator read; raise if there are none."""
    if found := [name for name in simulator.exogenous if name in history.purposes]:
        return found
    reads = f"It reads {cut(', '.join(simulator.exogenous))}" if simulator.exogenous else "It reads none"
    raise SettingsError(
        f"{simulator!r} reads nothing of this history, whose columns are {cut(', '.join(history.purposes))}. "
        f"{reads}: give ObjectSimulator(…, exogenous={{'demand': history}}) or FunctionSimulator(…, exogenous=…), "
        "or list the names in the attribute `exogenous` of a simulator whose steps use "
        "jmdp.Luck(shock).recorded('demand')."
    )
