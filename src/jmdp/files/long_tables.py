"""Models in long tables: a row for each state, scenario and action, as people write them in spreadsheets.

The columns, with names of states and actions as integer codes; the rules of a long table, each checked with the row
that violates it; and the scenario table of its rows. The last step of all formats: the discount, and the model from
arrays that nobody else holds.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.guard import Plain
from jmdp.base.labels import is_integer
from jmdp.base.settings import integer, real_number, short
from jmdp.errors import FileError, ModelError, SettingsError
from jmdp.files.opening import damage
from jmdp.models.tabular import TabularJMDP, with_read_labels

COLUMNS = ("state", "scenario", "probability", "action", "reward", "next")
NUMBERS = ("probability", "reward")
LONGEST_NAME = 1000

_WANTED = ", ".join(COLUMNS)


class Coded(NamedTuple):
    """A column of names."""

    codes: Integers  # [rows], index of the name; −1 for an empty cell
    names: list[str]  # in order of appearance


class Rows(NamedTuple):
    """A long table."""

    name: str  # of the file, for messages
    place: Callable[[int], str]  # a row's place in it
    state: Coded
    scenario: Coded
    probability: Floats  # nan for an empty cell
    action: Coded
    reward: Floats
    next: Coded

    def at(self, row: int) -> str:
        """File and place of a row, for messages."""
        return f"{self.name}, {self.place(row)}"


class _Index(dict[str, int]):
    """Codes by name; a new name gets the next one."""

    def __missing__(self, name: str) -> int:
        self[name] = code = len(self) - 1  # "" is in it from the start
        return code


class Coder:
    """Codes of names that are added piece by piece."""

    def __init__(self) -> None:
        self._index = _Index({"": -1})
        self._pieces: list[npt.NDArray[np.int32]] = []

    def add(self, names: Sequence[str]) -> None:
        """Add cells; "" is an empty one."""
        self._pieces.append(np.fromiter(map(self._index.__getitem__, names), np.int32, len(names)))

    def done(self) -> Coded:
        """All cells."""
        return Coded(np.concatenate(self._pieces or [np.empty(0, np.int32)]).astype(np.int64), list(self._index)[1:])


def coded_integers(numbers: npt.NDArray[Any], name: Callable[[int], str] = str) -> Coded:
    """Codes of a column of integers, whose names are written by `name`."""
    distinct, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return Coded(rank[inverse], [name(n) for n in distinct[order].tolist()])


def _meant(column: Any, columns: Sequence[Any]) -> str | None:
    """The missing column for which this is probably another name, or None."""
    text = str(column).strip().lower()
    missing = [known for known in COLUMNS if known not in columns]
    found = [known for known in missing if text and (known.startswith(text) or text.startswith(known))]  # prob
    found = found or difflib.get_close_matches(text, missing, cutoff=0.75)
    return found[0] if len(found) == 1 else None


def check_columns(name: str, columns: Sequence[Any]) -> None:
    """Raise unless the columns are those of a long table, in any order."""
    if not any(column in COLUMNS for column in columns):
        found = ", ".join(short(column, 40) for column in columns[:8])
        raise FileError(f"{name} has no column of a model. Its columns are {found}; a model has {_WANTED}.")
    for i, column in enumerate(columns):
        if column == "":
            raise ModelError(f"{name}: column {i + 1} has no name. Delete it (pandas: to_csv(FILE, index=False)).")
        if column not in COLUMNS:
            meant = _meant(column, columns)
            fix = "Delete it" if meant is None else f"Rename it to {meant}"
            raise ModelError(f"{name} has a column {short(column)}. {fix}: a model has {_WANTED}.")
        if column in columns[:i]:
            raise ModelError(f"{name} has two columns {short(column)}. Delete one.")
    if missing := [column for column in COLUMNS if column not in columns]:
        raise ModelError(f"{name} has no column {' and no column '.join(missing)}. A model has {_WANTED}.")


class _Axis(NamedTuple):
    """Entries of an axis, and where each code stands on it."""

    size: int
    place: Integers  # [codes]
    names: list[str] | None  # None if the indices are the names

    @classmethod
    def of(cls, names: list[str]) -> _Axis:
        """Integers in increasing order, then other names in order of appearance; 0 … n − 1 alone are the indices."""
        size = len(names)
        order = sorted(range(size), key=lambda i: (0, int(names[i])) if is_integer(names[i]) else (1, i))
        place = np.empty(size, np.int64)
        place[order] = np.arange(size)
        ordered = [names[i] for i in order]
        return cls(size, place, None if all(name == str(i) for i, name in enumerate(ordered)) else ordered)


class _Pairs(NamedTuple):
    """Scenarios of states, with one row of the table for each action."""

    state: Integers  # [P], codes
    scenario: Integers  # [P], codes
    rows: Integers  # [P, A], by code of the action

    @property
    def first(self) -> Integers:
        """First row of each pair [P]."""
        first: Integers = self.rows.min(axis=1)
        return first


def long_model(rows: Rows) -> Plain:
    """Names and arrays of the model of a long table; raise `ModelError` for the first row that violates a rule."""
    _check_cells(rows)
    pairs = _pairs(rows)
    probability = _probabilities(rows, pairs)
    ends, next_codes = _with_terminal_states(rows)
    states, scenarios, actions = (
        _Axis.of(rows.state.names + ends),
        _Axis.of(rows.scenario.names),
        _Axis.of(rows.action.names),
    )
    S, K, A = states.size, scenarios.size, actions.size
    arrays.refuse_large(
        f"The table of {S:,} states × {K:,} scenarios × {A:,} actions in {rows.name} (if scenarios of different states "
        "have different names, number them 0, 1, … in each state)",
        8.0 * S * K + 29.0 * S * K * A,
    )
    s, k = states.place[pairs.state], scenarios.place[pairs.scenario]
    prob = np.zeros((S, K))
    prob[s, k] = probability
    reward = np.zeros((S, K, A))
    next_state = np.empty((S, K, A), np.int64)
    next_state[...] = np.arange(S)[:, None, None]  # for scenarios that a state does not have
    for code, a in enumerate(actions.place.tolist()):
        chosen = pairs.rows[:, code]
        reward[s, k, a] = rows.reward[chosen]
        next_state[s, k, a] = states.place[next_codes[chosen]]
    terminal = np.zeros(S, bool)
    terminal[states.place[len(rows.state.names) :]] = True
    names = {"state_names": states.names, "action_names": actions.names}
    return names, {"prob": prob, "reward": reward, "next_state": next_state, "terminal": terminal}


def _check_cells(rows: Rows) -> None:
    """Raise for the first cell of a column that is empty or out of range."""
    if rows.reward.size == 0:
        raise ModelError(f"{rows.name} has no rows. Give a row for each state, scenario and action.")
    for column, labels in (
        ("state", rows.state),
        ("scenario", rows.scenario),
        ("action", rows.action),
        ("next", rows.next),
    ):
        if (row := _first(labels.codes < 0)) is not None:
            raise ModelError(f"{rows.at(row)}: {column} is empty. Give a name or an integer.")
        _check_lengths(rows, column, labels)
    if (row := _first(~np.isfinite(rows.reward))) is not None:
        found = "empty" if np.isnan(rows.reward[row]) else f"{rows.reward[row]}"
        raise ModelError(f"{rows.at(row)}: reward is {found}. Give a finite number.")
    p = rows.probability
    if (row := _first(~(np.isnan(p) | ((p >= 0) & (p <= 1 + arrays.ROW_SUM_TOLERANCE))))) is not None:
        raise ModelError(f"{rows.at(row)}: probability is {p[row]}. Give a number from 0 to 1.")


def _check_lengths(rows: Rows, column: str, labels: Coded) -> None:
    for code, name in enumerate(labels.names):
        if len(name) > LONGEST_NAME:
            row = int(np.argmax(labels.codes == code))
            raise ModelError(
                f"{rows.at(row)}: {column} has {len(name):,} characters. Give a name of at most {LONGEST_NAME}."
            )


def _pairs(rows: Rows) -> _Pairs:
    """Rows sorted by state, scenario and action; raise unless each scenario of a state has each action once."""
    K, A = len(rows.scenario.names), len(rows.action.names)
    found, pair = np.unique(rows.state.codes * K + rows.scenario.codes, return_inverse=True)
    cell = pair * A + rows.action.codes
    order = np.argsort(cell, kind="stable")
    again = order[1:][np.diff(cell[order]) == 0]
    if again.size:
        row = int(again.min())
        before = int(np.argmax(cell == cell[row]))
        raise ModelError(
            f"{rows.at(row)}: {_of(rows, row)} has action {_name(rows.action, row)} already in {rows.place(before)}. "
            "Delete one of the two rows, or give them different scenarios."
        )
    if found.size * A != order.size:
        few = int(np.argmax(np.bincount(pair) < A))
        present = {*rows.action.codes[pair == few].tolist()}
        missing = next(name for code, name in enumerate(rows.action.names) if code not in present)
        row = int(np.argmax(pair == few))
        raise ModelError(f"{rows.at(row)}: {_of(rows, row)} has no row for action {short(missing)}. Add it.")
    return _Pairs(found // K, found % K, order.reshape(-1, A))


def _probabilities(rows: Rows, pairs: _Pairs) -> Floats:
    """Probability of each pair; raise unless it has one, and they sum to 1."""
    first = pairs.first
    probability: Floats = rows.probability[first]
    if (at := _earliest(np.isnan(probability), first)) is not None:
        raise ModelError(
            f"{rows.at(at)}: probability is empty in the first row of {_of(rows, at)}. Only rows after it may leave "
            "it out."
        )
    every = rows.probability[pairs.rows]
    differs = ~np.isnan(every) & (every != probability[:, None])
    if (at := _earliest(differs, pairs.rows)) is not None:
        pair = int(np.argmax((pairs.rows == at).any(axis=1)))
        raise ModelError(
            f"{rows.at(at)}: probability is {rows.probability[at]}, but {probability[pair]} in "
            f"{rows.place(int(first[pair]))}. A scenario has one probability in a state, for all actions: correct "
            "one of them."
        )
    sums = np.bincount(pairs.state, probability)
    if (s := _first(np.abs(sums - 1) > arrays.ROW_SUM_TOLERANCE)) is not None:
        row = int(np.argmax(rows.state.codes == s))
        raise ModelError(
            f"{rows.at(row)}: the probabilities of state {short(rows.state.names[s])}, which begins here, sum to "
            f"{sums[s]:.9g}, not 1. Correct them, or add the missing scenario."
        )
    return probability


def _with_terminal_states(rows: Rows) -> tuple[list[str], Integers]:
    """Names of terminal states, and the code of the next state of each row: states first, then terminal states."""
    code = {name: i for i, name in enumerate(rows.state.names)}
    spelled = {name.casefold(): name for name in rows.state.names}
    ends = []
    for i, name in enumerate(rows.next.names):
        if name in code:
            continue
        if name.casefold() in spelled:
            row = int(np.argmax(rows.next.codes == i))
            raise ModelError(
                f"{rows.at(row)}: next is {short(name)}, and the state is {short(spelled[name.casefold()])}. Write "
                "both alike, or rename the terminal state."
            )
        code[name] = len(code)
        ends.append(name)
    return ends, np.array([code[name] for name in rows.next.names])[rows.next.codes]


def _first(bad: Booleans) -> int | None:
    """Index of the first True."""
    at = int(bad.argmax())
    return at if bad[at] else None


def _earliest(bad: Booleans, rows: Integers) -> int | None:
    """Smallest row number that is bad."""
    return int(rows[bad].min()) if bad.any() else None


def _name(column: Coded, row: int) -> str:
    return short(column.names[column.codes[row]])


def _of(rows: Rows, row: int) -> str:
    return f"scenario {_name(rows.scenario, row)} of state {_name(rows.state, row)}"


class HandedOver:
    """An array that is given away when it is converted: it is freed as soon as the model has its own copy."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array: npt.NDArray[Any] | None = array
        self.shape = array.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array, self._array = self._array, None
        assert array is not None
        return array


def finished_model(name: str, plain: Plain, discount: float | None) -> TabularJMDP:
    """Model of the file `name` from its names and arrays, which are taken out of `plain`; errors name the file."""
    about, arrays = plain
    gamma = _discount(name, about.get("discount"), discount)
    names = {key: about.get(key) for key in ("state_names", "action_names")}
    parts: dict[str, Any] = {
        key: HandedOver(arrays.pop(key)) for key in ("prob", "reward", "next_state", "terminal") if key in arrays
    }
    try:
        model = TabularJMDP(discount=gamma, **parts, **names)
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error
    return with_read_labels(model)


def _discount(name: str, own: float | None, given: float | None) -> float:
    """Discount of the file, or the given one; raise if both differ or both are missing."""
    if own is None and given is None:
        raise SettingsError(f"{name} has no discount. Give one, e.g. discount=0.99.")
    if own is None:
        assert given is not None
        return given
    if given is not None and real_number(given) != own:
        raise SettingsError(f"discount is {short(given)}, but that of {name} is {own!r}. Omit discount.")
    return own


_NAME = "The DataFrame"
_ROW_BYTES = 400.0
"""Memory for each row: its cells as Python objects, a column at a time, and the codes of all columns."""


def table_model(frame: Any, discount: float) -> TabularJMDP:
    """Scenario table from a long table: a row for each state, scenario and action.

    The columns are ``state``, ``scenario``, ``probability``, ``action``, ``reward`` and ``next``, in any order. States,
    scenarios and actions are text or integers: integers are sorted, and names follow in order of appearance. A `next`
    that is no `state` is a terminal state. The same scenario name in two states is the same scenario k, which
    `Synchronous` couplings share; a state without it has probability 0 for it.

    Each scenario of a state needs every action once, and one probability, which may be left empty after its first row.
    Probabilities of a state sum to 1.

    Parameters
    ----------
    frame
        A pandas DataFrame.
    discount
        γ, 0 ≤ γ < 1.
    """
    pandas = sys.modules.get("pandas")  # who has a DataFrame has imported it
    if pandas is None or not isinstance(frame, pandas.DataFrame):
        raise SettingsError(f"frame is {short(frame)}. Give a pandas DataFrame with columns {', '.join(COLUMNS)}.")
    with damage(_NAME, "Build it from plain columns, e.g. pd.DataFrame({'state': [...], ...})."):
        check_columns(_NAME, list(frame.columns))
        arrays.refuse_large(f"{_NAME} of {len(frame):,} rows", _ROW_BYTES * len(frame))
        cells = {name: _column(name, frame[name], pandas) for name in COLUMNS}
    rows = Rows(_NAME, lambda i: f"row {i} (from 0)", **cells)
    return finished_model(_NAME, long_model(rows), discount)


def _column(name: str, series: Any, pandas: Any) -> Any:
    return _numbers(name, series, pandas) if name in NUMBERS else _labels(name, series, pandas)


def _numbers(name: str, series: Any, pandas: Any) -> Floats:
    """Numbers of a column; empty cells are nan."""
    if pandas.api.types.is_complex_dtype(series.dtype) or not pandas.api.types.is_numeric_dtype(series.dtype):
        return np.array([_number(name, i, value, pandas) for i, value in enumerate(series.tolist())], np.float64)
    found: Floats = series.to_numpy(dtype=np.float64, na_value=math.nan)
    return found


def _number(name: str, i: int, value: Any, pandas: Any) -> float:
    if value is None or value is pandas.NA or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    number = real_number(value)
    if math.isnan(number):
        raise ModelError(f"{_NAME}, row {i} (from 0): {name} is {short(value)}. Give numbers, e.g. with pd.to_numeric.")
    return number


def _labels(name: str, series: Any, pandas: Any) -> Coded:
    """Names of a column, as codes; empty cells have code −1."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iu":
        return coded_integers(series.to_numpy())
    coder = Coder()
    values = series.tolist()
    if {*map(type, values)} == {str}:
        coder.add([*map(str.strip, values)])
    else:
        coder.add([_text(name, i, value, pandas) for i, value in enumerate(values)])
    return coder.done()


def _text(name: str, i: int, value: Any, pandas: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if value is None or value is pandas.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    number = integer(value)
    if number is None:
        raise ModelError(f"{_NAME}, row {i} (from 0): {name} is {short(value)}. Give text or integers.")
    return str(number)
