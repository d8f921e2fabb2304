"""A page about one result: its parts, and their HTML.

The HTML is a self-contained file that loads nothing. All text is escaped, and characters that would hide or reorder
text are shown as symbols. Figures are embedded as images, in which nothing can run. The Content-Security-Policy allows
scripts only by the hash of a page's own one.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import platform
import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base import rounding
from jmdp.base.interval import Estimate
from jmdp.errors import MissingExtraError

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Number:
    """A cell with a number and its interval, as text."""

    value: str
    interval: str | None  # None: an estimate without an interval
    exact: bool = False  # no error at all, so that there is no interval to show


Cell = str | Estimate | Number
"""A cell of a table. An estimate is printed with its interval, rounded outwards."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; its first column has the names of the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""  # with n, seed and confidence if the numbers are from samples
    words: Mapping[str, str] = field(default_factory=dict)  # what columns mean

    def unbounded(self, column: int) -> bool:
        """True if no number of a column has an interval, so that its title says it once for all."""
        found = [number(row[column]) for row in self.rows]
        known = [part for part in found if part is not None and not part.exact]
        return bool(known) and all(part.interval is None for part in known)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture."""

    svg: bytes
    caption: str
    alt: str

    @classmethod
    def of(cls, drawn: matplotlib.figure.Figure, caption: str, alt: str) -> Figure:
        """A figure of matplotlib as SVG, in which letters are shapes; equal figures give equal bytes."""
        from matplotlib import rc_context

        file = io.BytesIO()
        with rc_context({"svg.hashsalt": "jmdp", "svg.fonttype": "path"}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script that the font does not have
            drawn.savefig(file, format="svg", metadata={"Date": None})
        return cls(svg=re.sub(rb"<!--.*?-->\s*", b"", file.getvalue(), flags=re.DOTALL), caption=caption, alt=alt)

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg).decode('ascii')}"


@dataclass(frozen=True, kw_only=True)
class Again:
    """How to make the result again."""

    code: str
    language: str = "Python"  # or "command line"
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """The parts of a page, in their order."""

    kind: str  # of the result, in a word or two
    title: str
    question: str
    verdict: str  # one sentence, or a line for each measure
    decided: bool | None = None  # None: there is nothing to decide
    status: str = ""  # the decision in a word or two
    sampling: str  # n, seed and confidence; or that nothing was sampled
    figures: Sequence[Figure] = ()
    no_figure: str = ""  # why there is none
    tables: Sequence[Table] = ()
    found: Sequence[tuple[str, str]] = ()  # names and values: how it was found
    trust: Sequence[str] = ()  # sentences: what the numbers assume
    again: Again
    template: str = "page.html.jinja"  # a file in this folder, which may extend that one
    extra: Mapping[str, Any] = field(default_factory=dict)  # what the template needs in addition
    script: str = ""  # code of this package, without any data


def check_extras() -> None:
    """Raise unless the packages of pages with figures are installed."""
    for package in ("Jinja2", "matplotlib"):
        try:
            import_module(package.lower())
        except ImportError:
            raise MissingExtraError(f'Reports need {package}: pip install "jmdp[report,plot]"') from None


def render(page: Page) -> str:
    """Return the HTML of a page."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError('Reports need Jinja2: pip install "jmdp[report]"') from None
    assert "</script" not in page.script.lower()
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: readable(value) if type(value) is str else value,
    )
    environment.filters["number"] = number
    environment.filters["code"] = lambda code: environment.filters["safe"](escape(visible(code)))  # in full
    environment.filters["embedded"] = lambda picture: environment.filters["safe"](picture.source)
    digest = base64.b64encode(hashlib.sha256(page.script.encode()).digest()).decode("ascii")
    return environment.get_template(page.template).render(
        page=page, versions=versions(), script=page.script, script_hash=digest, **page.extra
    )


def number(cell: Cell) -> Number | None:
    """The parts of a cell with a number; None for a text."""
    if isinstance(cell, Estimate):
        return estimate(cell)
    return cell if isinstance(cell, Number) else None


def estimate(value: Estimate, digits: int = 6) -> Number:
    """A number with its interval to the digits that the interval supports, the ends rounded outwards."""
    if math.isnan(value):
        return Number("–", None, exact=True)
    if not value.has_interval:
        return Number(rounding.significant(value, 3), None)
    if value.low == value.high:
        return Number(rounding.typeset(f"{float(value):.6g}"), None, exact=True)
    middle, ends = rounding.value_and_ends(value, digits)
    return Number(rounding.typeset(middle), rounding.typeset(ends))


def percent(value: Estimate) -> Number:
    """A probability with its interval in percent, the ends rounded outwards."""
    said = f"{100 * float(value):.0f}%"
    if not value.has_interval:
        return Number(said, None)
    if value.low == value.high:
        return Number(said, None, exact=True)
    low, high = rounding.percent_ends(value, 0)
    return Number(said, f"[{low}, {high}]%")


def visible(text: str) -> str:
    """The text without characters that hide or reorder others: those are shown as their code."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() or mark in "\n\t " else _shown(mark) for mark in text)


def _shown(mark: str) -> str:
    if unicodedata.category(mark) == "Zs":
        return mark
    return f"⟨U+{ord(mark):04X}⟩"


def readable(text: str) -> str:
    """Text that is `visible`, and in which long words and very long texts are cut."""
    said = _LONG_WORD.sub(lambda word: f"{word[0][:60]}…{word[0][-20:]} ({len(word[0]):,} characters)", visible(text))
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}… ({len(said):,} characters)"


_LONG_WORD = re.compile(r"\S{200,}")
_LONGEST = 20_000
"""Characters of a text in a page."""


def versions() -> str:
    """Versions of jmdp, NumPy and Python."""
    own = import_module("jmdp").__version__  # by name: it imports all layers
    return f"jmdp {own}, NumPy {np.__version__}, Python {platform.python_version()}"
