"""What every result offers, and the parts of it that do not depend on the kind of result."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.figure import Figure


@runtime_checkable
class Result(Protocol):
    """What every result offers, with the same meaning: `Evaluation`, `Comparison`, and ``learned.at(state)``."""

    @property
    def mean(self) -> Floats:
        """Means of the returns: [S, A], or [A] where there is one state."""

    @property
    def gap(self) -> Any:
        """A method: the `Gap` of two alternatives, by index or name."""

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each alternative, with intervals."""

    def to_xarray(self) -> xarray.Dataset:
        """Arrays with their labels and errors."""

    def plot(self) -> Figure:
        """The figure that answers the question the result is about."""

    def _repr_html_(self) -> str:
        """As notebooks show it."""


class Tabulated(ABC):
    """A result whose numbers are the rows of a table: as a dataframe, and as HTML."""

    index: ClassVar[tuple[str, ...]]  # the columns that say what a row is about

    @abstractmethod
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows: labels, and estimates with their intervals."""

    def to_dataframe(self) -> pd.DataFrame:
        """One row an alternative; an estimate has three columns: itself, and _low and _high of its interval or nan."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError('Dataframes need pandas: pip install "jmdp[io]"') from None

        return pd.DataFrame([_flat(row) for row in self.rows()]).set_index(list(self.index))

    def _repr_html_(self) -> str:
        rows = self.rows()
        head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row.values()) + "</tr>"
            for row in rows[:_MOST_ROWS]
        )
        more = f"<p>… and {len(rows) - _MOST_ROWS} more rows</p>" if len(rows) > _MOST_ROWS else ""
        title = escape(repr(self).partition("\n")[0])
        return f"<p>{title}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


_MOST_ROWS = 60
"""Rows that a notebook shows."""


def figure(name: str, *arguments: Any) -> Figure:
    """Draw with the function of this name in `jmdp.plots`, which is looked up now: results do not import figures."""
    drawn: Figure = getattr(import_module("jmdp.plots"), name)(*arguments)
    return drawn


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Estimate):
            low, high = (value.low, value.high) if value.has_interval else (math.nan, math.nan)
            flat |= {name: float(value), f"{name}_low": low, f"{name}_high": high}
        else:
            flat[name] = value
    return flat


def _cell(value: Any) -> str:
    if isinstance(value, Estimate):
        return str(value) if value.has_interval else f"{float(value):.6g}"
    return str(value)
