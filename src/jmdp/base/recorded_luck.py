"""Recorded history as luck: what would other decisions have earned, had demand been what it was?

A history has a row for each period and a column for each purpose. It is used as it was recorded, or resampled: whole
histories of the same length are put together from blocks of successive rows, one for each sample.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.luck import Shock
from jmdp.base.records import Number, Period, Record, Row, period_label, unknown_purpose
from jmdp.base.settings import cut, short, whole_number
from jmdp.errors import SettingsError


class RecordedLuck:
    """A recorded history, in place of random numbers: demand as it was, lead times as they were.

    Give it as ``luck=history`` to `compare_runs`, `compare_policies` or `review`. The result then says what would have
    happened in this very history: exactly, without an interval. Purposes that are not among its columns are still
    drawn. ``luck=history.resampled()`` says more: what to expect of a period of this length.

    A run reads it by period, ``luck.recorded("demand", day)``; simulators get the row of each step (`exogenous` of
    `ObjectSimulator` and `FunctionSimulator`, or ``jmdp.Luck(shock).recorded("demand")`` in a step).

    Parameters
    ----------
    frame
        A pandas DataFrame, or a dictionary of columns: a row for each period, in order, and a column of numbers for
        each purpose.
    period
        The column (or the index of a DataFrame) with the names of the periods: dates, integers or texts. Where they are
        no integers, an integer is the position of a period, from 0.
    season
        Number of periods after which conditions recur: 7 days. Resampled histories then take the place of each period
        with one of the same weekday.
    censored
        Columns that are limited by what was possible, each with the column that is not 0 where this happened:
        ``{"demand": "stockout"}`` for sales that hide demand. Answers say how much of the gap falls in such periods.
    """

    def __init__(
        self,
        frame: Any,
        period: str = "day",
        season: int | None = None,
        *,
        censored: Mapping[str, str] | None = None,
    ) -> None:
        columns, labels = _columns(frame, period)
        self.period, self.season = period, 1 if season is None else whole_number("season", season, 1)
        self._labels = _periods(period, labels)
        self._columns = {name: _numbers(name, column, self._labels) for name, column in columns.items()}
        self.censored = _censored(censored, self._columns)
        if self.season > len(self._labels) // 2:
            raise SettingsError(f"season is {season}, but there are {len(self._labels)} periods. Give two or more.")
        self.block: int | None = None  # length of the blocks of resampled histories, if it is known
        self.is_resampled = False
        self._set_span(range(len(self._labels)))
        self._sources: Integers | None = None  # rows at which blocks may begin; None: all of the span

    def _set_span(self, span: range) -> None:
        """Let the history consist of these rows of the frame."""
        self.span, self.periods = span, self._labels[span.start : span.stop]
        self._index: dict[Any, int] = {label: i for i, label in enumerate(self.periods)}
        if not isinstance(self.periods[0], int):
            self._index |= {i: i for i in range(len(self.periods))}

    def __len__(self) -> int:
        return len(self.periods)

    @property
    def purposes(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def row(self, position: int) -> Row:
        """The recorded row of a period, by position."""
        at = self.span.start + position
        return Row(self.periods[position], position, {name: column[at] for name, column in self._columns.items()})

    def column(self, purpose: str) -> Floats:
        """[T], the recorded values of a purpose."""
        if purpose not in self._columns:
            raise unknown_purpose(purpose, self._columns)
        return np.array(self._columns[purpose][self.span.start : self.span.stop], float)

    def part(self, first: Any, last: Any) -> Self:
        """The periods from `first` to `last`, both included: the history of a month, say.

        The other periods are still known: the expectations of a `review` come from them.
        """
        ends = []
        for one in (first, last):
            label = period_label(one)
            if label not in self._index:
                raise SettingsError(
                    f"There is no period {short(one)}. They run from {self.periods[0]} to {self.periods[-1]}."
                )
            ends.append(self.span.start + self._index[label])
        if ends[1] <= ends[0]:
            raise SettingsError(f"The part from {short(first)} to {short(last)} has no two periods. Give a later end.")
        found = copy.copy(self)
        found._set_span(range(ends[0], ends[1] + 1))
        return found

    def resampled(self, block: int | None = None) -> Self:
        """Histories of the same length that are put together from blocks of successive periods, one for each sample.

        Each sample is run once, from the real start to the end, without a restart where blocks join. Rows are kept
        whole, so that columns stay as dependent as they are, and a season keeps its phase. All columns together are
        therefore one source of randomness. The question is then what to expect of a period of this length.

        Parameters
        ----------
        block
            Length of a block, in periods. None: it is chosen from the gaps of each period in the recorded history, so
            that runs must return one number for each period.
        """
        found = copy.copy(self)
        found.is_resampled = True
        found.block = None if block is None else whole_number("block", block, 1, len(self))
        return found

    def as_recorded(self) -> Self:
        """The history as it was, not resampled."""
        found = copy.copy(self)
        found.is_resampled = False
        return found

    def in_blocks(self, block: int) -> Self:
        """The history with blocks of this length."""
        found = copy.copy(self)
        found.block = block
        return found

    def first(self, periods: int) -> Self:
        """The first periods of the history."""
        found = copy.copy(self)
        found._set_span(self.span[:periods])
        return found

    def later(self, periods: int) -> Self:
        """The history without its first periods."""
        found = copy.copy(self)
        found._set_span(self.span[periods:])
        return found

    def whole(self) -> Self:
        """All periods, of a part."""
        found = copy.copy(self)
        found._set_span(range(len(self._labels)))
        return found

    def outside(self, block: int, purposes: Sequence[str]) -> Self:
        """Resampled histories of some columns for the periods of this part, from blocks that lie outside it."""
        found, rows = self.resampled(), range(len(self._labels))
        found.block, starts = block, np.arange(len(rows))
        inside = np.isin(self._wrapped(starts[:, None] + np.arange(block), rows), self.span)
        found._sources = starts[~inside.any(axis=1)]
        found._columns = {name: self._columns[name] for name in purposes}
        return found

    def given_to(self, root: Shock) -> Shock:
        """The root shock of a sample, with the record that its run or its steps read.

        Record and sample are pure functions of the shock: equal shocks have equal histories.
        """
        root.recorded = self.record(root)
        return root

    def record(self, root: Shock) -> Record:
        """The history of the sample with this root."""
        rows = self.span if not self.is_resampled else self.rows(root).tolist()
        return Record(self._columns, self.periods, self._index, rows)

    def rows(self, root: Shock) -> Integers:
        """Rows [T] that take the places of the periods, in a resampled history."""
        if self.block is None:
            raise SettingsError("The length of the blocks is not known: history.resampled(block=14).")
        rng = root.derived(b"recorded").generator()
        places = self.span.start + np.arange(0, len(self), self.block)
        numbers, phases = rng.random(len(places)), places % self.season
        begin = np.empty(len(places), np.int64)
        for phase in np.unique(phases):
            here, starts = phases == phase, self._starts(int(phase))
            begin[here] = starts[(numbers[here] * len(starts)).astype(np.int64)]
        source = self.span if self._sources is None else range(len(self._labels))
        found: Integers = self._wrapped(begin[:, None] + np.arange(self.block), source).ravel()[: len(self)]
        return found

    def _starts(self, phase: int) -> Integers:
        """Rows of this phase of the season at which blocks may begin."""
        starts = np.arange(self.span.start, self.span.stop) if self._sources is None else self._sources
        found: Integers = starts[starts % self.season == phase]
        if not found.size:
            raise SettingsError(
                f"No block of {self.block} periods outside {self.periods[0]} to {self.periods[-1]} has the right phase "
                f"of the season of {self.season}. Give a longer history, or shorter blocks."
            )
        return found

    def _wrapped(self, rows: Integers, source: range) -> Integers:
        """Rows of the source: after its end it continues at its beginning, in the same phase of the season."""
        whole = len(source) - len(source) % self.season
        return np.asarray(np.where(rows >= source.stop, rows - whole, rows))

    def hidden(self, purposes: Sequence[str] | None = None) -> Integers:
        """Positions of the periods in which a censored purpose hides what it would have been."""
        found = np.zeros(len(self), bool)
        for purpose, mark in self.censored.items():
            if purposes is None or purpose in purposes:
                found |= self.column(mark) != 0
        return np.flatnonzero(found)

    def __repr__(self) -> str:
        about = f"{len(self)} periods, {self.periods[0]} to {self.periods[-1]}: {cut(', '.join(self.purposes))}"
        if self.is_resampled:
            about += "; resampled" + ("" if self.block is None else f" in blocks of {self.block}")
        return f"RecordedLuck({about})"


def _columns(frame: Any, period: str) -> tuple[dict[str, list[Any]], list[Any]]:
    """Columns by name, without the one of the periods, and the periods."""
    if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
        raise SettingsError(
            f"frame is {short(frame)}. Give a pandas DataFrame, or a dictionary of columns: "
            "{'day': […], 'demand': […]}."
        )
    names = list(frame.columns) if hasattr(frame, "columns") else list(frame)
    found = {str(name): _listed(frame[name]) for name in names}
    if period in found:
        labels = found.pop(period)
    elif getattr(getattr(frame, "index", None), "name", None) == period:
        labels = list(frame.index)
    else:
        raise SettingsError(
            f"The history has no column {short(period)} of periods. Its columns are {cut(', '.join(found))}: "
            "RecordedLuck(frame, period=…)."
        )
    sizes = {name: len(column) for name, column in found.items() if len(column) != len(labels)}
    if sizes or not found or len(labels) < 2:
        raise SettingsError(
            f"The history has {len(labels)} periods and {short(sizes or found)}. Give two or more periods, and one "
            "number of each purpose in each of them."
        )
    return found, labels


def _listed(column: Any) -> list[Any]:
    """A column as a list of Python's own numbers."""
    try:
        return column.tolist() if hasattr(column, "tolist") else list(column)
    except TypeError:
        raise SettingsError(f"A column of the history is {short(column)}. Give a list of numbers.") from None


def _periods(name: str, given: Sequence[Any]) -> list[Period]:
    """Labels of the periods: all different, in order, and none left out, as far as that can be seen."""
    labels = [period_label(one) for one in given]
    if not all(isinstance(one, (int, str)) for one in labels) or len({type(one) for one in labels}) > 1:
        raise SettingsError(f"{name} has the periods {short(labels)}. Give dates, integers or texts.")
    seen: dict[Period, int] = {}
    for i, label in enumerate(labels):
        if label in seen:
            raise SettingsError(
                f"Period {label} is in rows {seen[label]} and {i} (from 0). Give one row for each period: add up or "
                "average what belongs together."
            )
        seen[label] = i
    if isinstance(labels[0], int):
        steps = np.diff(np.array(labels, float))
        wrong = steps != (steps[0] if steps[0] > 0 else np.nan)
    elif all(hasattr(one, "isoformat") for one in given):
        steps = np.diff(np.array(labels, "datetime64[s]").astype(float))
        wrong = steps <= 0 if (steps >= _MONTH).all() else steps != (steps[0] if steps[0] > 0 else np.nan)
    else:
        return labels
    if wrong.any():
        i = int(wrong.argmax())
        raise SettingsError(
            f"Period {labels[i]} is followed by {labels[i + 1]}. Give every period in order: a row that is missing "
            "would shift all later ones."
        )
    return labels


_MONTH = 28 * 86400.0
"""Seconds of the shortest month. Longer periods have different lengths."""


def _numbers(name: str, column: Sequence[Any], labels: Sequence[Period]) -> list[Number]:
    """The values of a column, which must be finite numbers."""
    found: list[Number] = []
    for label, value in zip(labels, column, strict=True):
        value = int(value) if isinstance(value, bool) else value
        if not isinstance(value, (int, float)) or not np.isfinite(value):
            raise SettingsError(
                f"{short(name)} is {short(value)} in period {label}. Give a finite number in every period, or leave "
                "the column out. Where sales hide demand, keep them, and say so: censored={'demand': 'stockout'}."
            )
        found.append(value)
    return found


def _censored(given: Any, columns: Mapping[str, Any]) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SettingsError(f"censored is {short(given)}. Give a dictionary: {{'demand': 'stockout'}}.")
    for name in (one for pair in given.items() for one in pair):
        if name not in columns:
            raise SettingsError(f"censored names {short(name)}. The columns are {cut(', '.join(columns))}.")
    return {str(purpose): str(mark) for purpose, mark in given.items()}
