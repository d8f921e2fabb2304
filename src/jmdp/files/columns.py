"""Columns of a long table: their names, and names of states and actions as integer codes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers
from jmdp.base.settings import short
from jmdp.errors import FileError, ModelError

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
