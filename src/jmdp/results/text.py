"""Results as text: how numbers are written in cells, tables for print and for notebooks, and phrases results share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import Any

from jmdp.base import rounding
from jmdp.base.interval import Estimate

_DIGITS = 6
"""Significant digits of a number in a cell; an interval that rounds to these digits is left out."""

_MOST_ROWS = 60
"""Largest number of rows in HTML."""

ESTIMATES = "numbers without an interval are estimates"
NO_BOUNDS = "estimates without error bounds"


@dataclass(frozen=True)
class Written:
    """A cell as text: a number, and its interval if it has one."""

    value: str
    interval: str = ""
    exact: bool = True  # False: an estimate without an interval

    def __str__(self) -> str:
        return f"{self.value} {self.interval}".rstrip()


UNDEFINED = Written("–")


def written(cell: Any) -> Written:
    """A cell of a table: an estimate to the digits that its interval supports, a number without error, or a text."""
    if isinstance(cell, Written):
        return cell
    if not isinstance(cell, Estimate):
        text = f"{cell:.4g}" if isinstance(cell, float) else f"{cell:,}" if type(cell) is int else str(cell)
        return Written(text)
    if isinstance(cell, Percent):
        return cell.text
    if math.isnan(cell):
        return UNDEFINED
    if not cell.has_interval:
        return Written(f"{float(cell):.3g}", exact=False)
    digits = rounding.supported_digits(cell, _DIGITS)
    if digits is not None:
        return Written(rounding.without_zeros(cell, digits, digits + 3))
    return Written(*rounding.value_and_ends(cell, _DIGITS))


def shown(cell: Any) -> str:
    """A cell in a sentence."""
    return str(written(cell))


class Percent(Estimate):
    """A probability that is written in percent: ``31% [29, 34]``."""

    @property
    def text(self) -> Written:
        """As a cell."""
        value = rounding.whole_percent(self)
        if not self.has_interval:
            return Written(value, exact=False)
        floor, ceiling = rounding.percent_ends(self, 0)
        return Written(value, f"[{floor}, {ceiling}]")

    def __str__(self) -> str:
        return str(self.text)


def percent(chance: Estimate) -> Percent:
    """The same probability, to be written in percent."""
    return Percent(float(chance), chance.low, chance.high)


def lines(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> list[str]:
    """Rows of cells as lines below their titles; a row without a column has an empty cell there."""
    titles = list(rows[0]) if columns is None else list(columns)
    return aligned([titles, *([shown(row.get(title, "")) for title in titles] for row in rows)])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of texts as lines: the first column to the left, the others to the right."""
    flat = [[cell.replace("\n", " ") for cell in row] for row in rows]  # a name may be an array as NumPy prints it
    widths = [max(map(len, column)) for column in zip(*flat, strict=True)]
    return [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in flat
    ]


def indented(table: Sequence[str]) -> list[str]:
    """Lines, two spaces to the right."""
    return [f"  {line}" for line in table]


def facts(named: Mapping[str, Any], width: int = 12) -> list[str]:
    """Names and values, one to a line, below the first sentence of a result."""
    return [f"  {name:<{width}} {value}" for name, value in named.items()]


def paragraphs(parts: Sequence[str | Sequence[str]]) -> str:
    """Sentences, which are wrapped, and tables: lines that are not, with an empty line before and after; [] is one."""
    said: list[str] = []
    for part in parts:
        if isinstance(part, str):
            said.append(wrapped(part, "  "))
        else:
            said += [*[""] * bool(said and said[-1]), *part, *[""] * bool(part)]
    return "\n".join(said).rstrip("\n")


def wrapped(sentence: str, indent: str = "") -> str:
    """The sentence in lines of at most 100 characters; all but the first begin with `indent`."""
    return fill(sentence, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of cells as a table for notebooks."""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(shown(value))}</td>" for value in row.values()) + "</tr>"
        for row in rows[:_MOST_ROWS]
    )
    more = f"<p>… and {len(rows) - _MOST_ROWS} more rows</p>" if len(rows) > _MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def html_of(text: str) -> str:
    """For notebooks: the sentence as a paragraph, the indented lines below it as they are printed."""
    first, indent, rest = text.partition("\n  ")
    return f"<p>{escape(first)}</p><pre>{escape(indent[1:] + rest)}</pre>"


def confidence(level: float | None, large_sample: bool = False) -> str:
    """How sure an interval is; None: it is certain."""
    if level is None:
        return "certified"
    return f"{rounding.confidence_percent(level)} confidence" + ", large-sample" * large_sample
