"""Rows of a recorded history as one sample reads them: by period, never by how often they are asked for.

A whole simulation reads a `Record`, which checks that it asks for every period in order. A step of a simulator reads
the `Row` of its own period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.settings import cut, integer, short
from jmdp.errors import SettingsError

Number = int | float
"""A recorded value."""

Period = int | str
"""Label of a period."""


def period_label(period: Any) -> Any:
    """A period as it is stored: an integer, or a text; dates by their ISO text, without a time at midnight."""
    number = integer(period)
    if number is not None:
        return number
    if hasattr(period, "isoformat"):
        return str(period.isoformat()).removesuffix("T00:00:00")
    return str(period).removesuffix("T00:00:00") if type(period).__name__ == "datetime64" else period


@dataclass(frozen=True)
class Row:
    """The recorded values of one period, which a step of a simulator reads."""

    period: Period
    position: int  # from 0; where periods are not integers, they can be asked for by position too
    values: Mapping[str, Number]

    def value(self, purpose: str, period: Any = None) -> Number:
        """The recorded value. A period may be given, and must then be that of the step."""
        if period is not None and period_label(period) not in self._names:
            raise SettingsError(
                f"A step in period {self.period} asks for {short(purpose)} of period {short(period)}. Steps are "
                "periods, and every design reads the row of the same period: an index that depends on what a design "
                "did, or on how often it asked, would give designs different luck. Leave the period out: "
                f"luck.recorded({short(purpose)})."
            )
        if purpose not in self.values:
            raise unknown_purpose(purpose, self.values)
        return self.values[purpose]

    @property
    def _names(self) -> tuple[Period, ...]:
        return (self.period,) if isinstance(self.period, int) else (self.period, self.position)

    def at(self, step: int) -> Row:
        """Itself: it is the row of a step already."""
        return self


def unknown_purpose(purpose: Any, known: Mapping[str, Any]) -> SettingsError:
    """The error for a purpose that was not recorded."""
    return SettingsError(
        f"{short(purpose)} was not recorded: the columns of the history are {cut(', '.join(known))}. Name one of them, "
        "or draw it: luck.poisson(…)."
    )


class Record:
    """A history as one run reads it: row rows[i] of the columns takes the place of period i.

    A run must ask for a purpose in every period, in order: it may ask again in the same period. So the row of a period
    is the same in all designs, whatever they do.
    """

    __slots__ = ("_asked", "_columns", "_index", "_periods", "_rows")

    def __init__(
        self,
        columns: Mapping[str, Sequence[Number]],
        periods: Sequence[Period],
        index: Mapping[Any, int],
        rows: Sequence[int],
    ) -> None:
        self._columns, self._periods, self._index, self._rows = columns, periods, index, rows
        self._asked: dict[str, int] = {}  # by purpose: the position that was asked for last

    @property
    def periods(self) -> Sequence[Period]:
        """Labels of the periods."""
        return self._periods

    @property
    def used(self) -> bool:
        """Whether anything was asked for."""
        return bool(self._asked)

    def value(self, purpose: str, period: Any = None) -> Any:
        """The recorded value of this period; if `period` is `periods`, an array of all of them."""
        try:
            at = self._index[period]
        except (KeyError, TypeError):
            if period is self._periods:
                return self._all(purpose)
            at = self._position(purpose, period)
        before = self._asked.get(purpose, -1)
        if at - before not in (0, 1) or at < 0:
            raise self._out_of_order(purpose, at, before)
        try:
            found = self._columns[purpose][self._rows[at]]
        except (KeyError, TypeError):
            raise unknown_purpose(purpose, self._columns) from None
        self._asked[purpose] = at
        return found

    def _all(self, purpose: str) -> npt.NDArray[Any]:
        """The values of all periods, asked for at once."""
        if purpose not in self._columns:
            raise unknown_purpose(purpose, self._columns)
        if before := self._asked.get(purpose, -1) + 1:
            raise self._out_of_order(purpose, 0, before - 1)
        self._asked[purpose] = len(self._rows) - 1
        column = self._columns[purpose]
        return np.array([column[row] for row in self._rows])

    def at(self, step: int) -> Row:
        """The row of a step of a simulator: step 0 is the first period."""
        if step >= len(self._rows):
            raise SettingsError(
                f"The history has {len(self._rows)} periods, and step {step} (from 0) is simulated. Give a longer "
                f"history, or a smaller horizon: horizon={len(self._rows)}."
            )
        values = {name: column[self._rows[step]] for name, column in self._columns.items()}
        return Row(self._periods[step], step, values)

    def finish(self, who: str) -> None:
        """Raise unless the run has read every period of each purpose that it used."""
        for purpose, last in self._asked.items():
            if last + 1 < len(self._periods):
                raise SettingsError(
                    f"{who} read {short(purpose)} up to period {self._periods[last]}, number {last + 1} of "
                    f"{len(self._periods)}. {_RULE} To simulate fewer periods: history.part(first, last)."
                )

    def _position(self, purpose: str, period: Any) -> int:
        if period is None:
            raise SettingsError(
                f"luck.recorded({short(purpose)}) names no period. Rows are read by period, never by how often they "
                f"are asked for: for day in luck.periods: luck.recorded({short(purpose)}, day)."
            )
        label = period_label(period)
        if label not in self._index:
            first, last = self._periods[0], self._periods[-1]
            raise SettingsError(
                f"luck.recorded({short(purpose)}, {short(period)}): there is no such period. They run from {first} to "
                f"{last}; luck.periods has them all."
            )
        return self._index[label]

    def _out_of_order(self, purpose: str, at: int, before: int) -> SettingsError:
        last = "the first request" if before < 0 else f"a request for period {self._periods[before]}"
        asked = f"asks for {short(purpose)} of period {self._periods[at]}"
        where = f"{asked} as {last}" if before < 0 else f"{asked} after {last}"
        return SettingsError(f"A run {where}. {_RULE}")


_RULE = (
    "A run reads each recorded purpose in every period, in order, so that all designs meet the same row in the same "
    "period. An index that depends on the design, or counts requests, would give them different luck. Read the row at "
    "the beginning of each period, whether it is needed or not: for day in luck.periods: …"
)
