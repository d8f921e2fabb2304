"""The protocol of results, and its parts that are common to all kinds of results."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.errors import MissingExtraError, UnavailableError

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.figure import Figure


@runtime_checkable
class Result(Protocol):
    """The common interface of `Evaluation`, `Comparison` and ``learned.at(state)``."""

    @property
    def mean(self) -> Floats:
        """Means of the returns: [S, A], or [A] for a single state."""

    @property
    def gap(self) -> Any:
        """Method that returns the `Gap` of two alternatives, given by index or name."""

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each alternative, with intervals."""

    def to_xarray(self) -> xarray.Dataset:
        """Arrays with labels and errors."""

    def plot(self) -> Figure:
        """The main figure of this kind of result."""

    def _repr_html_(self) -> str:
        """HTML for notebooks."""


class Tabulated(ABC):
    """A result whose numbers are rows of a table; provides the dataframe, the labelled arrays and HTML."""

    index: ClassVar[tuple[str, ...]]  # the columns that identify a row

    @abstractmethod
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows: labels, and estimates with intervals, by the column titles of the printed table."""

    def to_dataframe(self) -> pd.DataFrame:
        """One row per alternative; an estimate has three columns: value, low and high (nan if it has no interval)."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError('Dataframes need pandas: pip install "jmdp[io]"') from None

        return pd.DataFrame([_flat(row) for row in self.rows()]).set_index(list(self.index))

    def to_xarray(self) -> xarray.Dataset:
        """The columns of `to_dataframe` as arrays with labels."""
        found: xarray.Dataset = labelled_arrays().Dataset.from_dataframe(self.to_dataframe())
        return found

    def _title(self) -> str:
        """The sentence above the HTML table."""
        return repr(self).partition("\n")[0]

    def _note(self) -> str:
        """The line below the HTML table: samples, seed and confidence, or the certificate."""
        return ""

    def _repr_html_(self) -> str:
        rows = self.rows()
        head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row.values()) + "</tr>"
            for row in rows[:_MOST_ROWS]
        )
        more = f"<p>… and {len(rows) - _MOST_ROWS} more rows</p>" if len(rows) > _MOST_ROWS else ""
        title = escape(self._title())
        note = f"<p>{escape(self._note())}</p>" if self._note() else ""
        return f"<p>{title}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{note}"


def labelled_arrays() -> Any:
    """The module xarray."""
    try:
        import xarray
    except ImportError:
        raise MissingExtraError('Labelled arrays need xarray: pip install "jmdp[io]"') from None
    return xarray


_MOST_ROWS = 60
"""Largest number of rows in HTML."""


def wrapped(sentence: str, indent: str = "") -> str:
    """The sentence in lines of at most 100 characters; all but the first begin with `indent`."""
    return fill(sentence, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def figure(name: str, *arguments: Any) -> Figure:
    """Draw with the function of this name in `jmdp.plots`, imported here because results do not depend on plots."""
    drawn: Figure = getattr(import_module("jmdp.plots"), name)(*arguments)
    return drawn


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Estimate):
            low, high = (value.low, value.high) if value.has_interval else (math.nan, math.nan)
            flat |= {name: float(value), f"{name} low": low, f"{name} high": high}
        else:
            flat[name] = value
    return flat


def _cell(value: Any) -> str:
    if isinstance(value, Estimate):
        return str(value) if value.has_interval else f"{float(value):.6g}"
    return str(value)


def forgotten(samples: int, given: Mapping[str, Any]) -> Any:
    """Raise: `continue_with` of a comparison that was pickled."""
    raise UnavailableError(
        "A pickled comparison has no simulator to continue with. Use save(path) and jmdp.load(path)."
    )
