"""Models in long tables: a row for each state, scenario and action, as people write them in spreadsheets."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.settings import integer, real_number, short
from jmdp.errors import ModelError, SettingsError
from jmdp.files.columns import COLUMNS, NUMBERS, Coded, Coder, Rows, check_columns, coded_integers
from jmdp.files.damage import damage
from jmdp.files.finishing import finished_model
from jmdp.files.row_rules import long_model
from jmdp.models.tabular import TabularJMDP

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
