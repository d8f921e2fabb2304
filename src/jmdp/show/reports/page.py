"""A page about one result: its parts, their HTML, and its file.

The parts are the verdict, figures, tables of the result's own rows, how it was found, how far to trust it, and the
command line or the Python code that makes the result again.

The HTML is a self-contained file that loads nothing. All text is escaped, and characters that would hide or reorder
text are shown as symbols. Figures are embedded as images, in which nothing can run, and the Content-Security-Policy
allows no scripts.
"""

from __future__ import annotations

import ast
import base64
import io
import os
import platform
import re
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base import optional, rounding
from jmdp.base.interval import Estimate
from jmdp.base.settings import cut, short
from jmdp.base.whole_files import whole_file
from jmdp.errors import FileError, SettingsError
from jmdp.files.opening import path_text
from jmdp.models.coupling import Coupling
from jmdp.results.text import UNDEFINED, Written, written

if TYPE_CHECKING:
    import matplotlib.figure


MOST_ROWS = 100
"""Rows of a table in a page."""

_WIDEST = 500
"""Points; wider figures scroll on a phone."""

MOST_DRAWN = 30
"""Alternatives in a figure."""


def sentence(text: str) -> str:
    """A text with a capital letter and a full stop; a number of samples keeps its small n."""
    said = text.strip()
    first = said[:1] if said.startswith("n =") else said[:1].upper()
    return first + said[1:] + ("" if said.endswith((".", "!", "?", "…")) else ".")


def name(text: str, most: int = 120) -> str:
    """A name of any length in a cell or a sentence."""
    return cut(text, most)


def short_name(simulator: str) -> str:
    """A simulator without the class that adapts it: FrozenLake-v1 for GymnasiumSimulator(FrozenLake-v1)."""
    inner = re.fullmatch(r"(?:Gymnasium|ALE|Gymnax|Object)Simulator\((.+)\)", simulator, re.DOTALL)
    short = simulator if inner is None else inner[1].partition(", copied by ")[0]
    return name(f"a {short}" if short.startswith("table of ") else short)


def coupling_words(coupling: Coupling, what: str) -> str:
    """Which randomness is shared by the alternatives, e.g. "actions"."""
    shared = {
        (True, True): f"all {what} meet the same randomness in every step",
        (True, False): f"{what} meet the same randomness while they are in the same state",
        (False, False): f"all {what} have randomness of their own",
    }[coupling.shared_in_a_state, coupling.shared_between_states]
    luck = "with the same number in each step" if coupling.policy_luck == "shared" else "independently"
    return f"{type(coupling).__name__}: {shared}; policies that act at random draw {luck}"


_MODULES = {
    "Evaluation": "evaluation_page",
    "RunComparisons": "comparison_page",
    "Comparison": "comparison_page",
    "LearnedEvaluation": "evaluation_page",
    "RegressedEvaluation": "evaluation_page",
    "Calibration": "evaluation_page",
    "Study": "study_page",
    "Review": "review_page",
    "Reviews": "review_page",
}
"""Modules in this folder by class or base class, each with a function ``page(result, command, …)``; imported on use."""


def page_of(result: Any, command: str | None = None, **focus: Any) -> Page:
    """The page of a result; `command` is the command line that made it, and `focus` the state to show, if any."""
    for kind in type(result).__mro__:
        if kind.__module__.startswith("jmdp.") and kind.__name__ in _MODULES:
            found: Page = import_module(f"jmdp.show.reports.{_MODULES[kind.__name__]}").page(result, command, **focus)
            return found
    raise SettingsError(f"{short(result)} has no page. Give a result of jmdp.")


def html_of(result: Any, command: str | None = None, **focus: Any) -> str:
    """The page of a result as HTML."""
    return render(page_of(result, command, **focus))


def write(result: Any, path: str | os.PathLike[str], command: str | None = None, **focus: Any) -> None:
    """Write the page of a result, replacing an existing file as a whole."""
    place = Path(path_text(path))
    page = html_of(result, command, **focus).encode("utf-8")
    try:
        with whole_file(place) as file:
            file.write(page)
    except OSError as error:
        raise FileError(
            f"{short(str(place), 300)} cannot be written: {error.strerror or error}. Give a file in a writable folder."
        ) from error


def again(command: str | None, given: Sequence[tuple[str, str]], call: str, arguments: Iterable[str]) -> Again:
    """The command if there is one, else a call in Python; `given` are names and descriptions of the caller's objects.

    A description is one line of a comment, so that no text of a user becomes code.
    """
    if command is not None:
        return Again(code=command, note="The same numbers by this command:")
    assigned = [f"{name} = ...  # {comment(said)}" for name, said in given]
    code = ["import jmdp", "", *assigned, "", f"found = {call}(", *(f"    {text}" for text in arguments), ")"]
    return Again(
        code="\n".join([*code, 'found.report("page.html")']),
        note="The same numbers by this code, with your own objects in place of the three dots:",
    )


def comment(text: str) -> str:
    """A text as one line."""
    return visible(cut(text, 160))


def settings(**values: Any) -> list[str]:
    """Keyword arguments, one to a line; those that are None are omitted."""
    return [f"{name}={_literal(value)}" for name, value in values.items() if value is not None]


def _literal(value: Any) -> str:
    """Numbers, text, lists of them and settings of jmdp as Python code with a comma; three dots for all others."""
    if isinstance(value, (str, int, float, bool, list, tuple, dict)):
        return f"{value!r},"
    said = f"jmdp.{short(value, 1000)}"
    try:
        ast.parse(said, mode="eval")
    except (SyntaxError, ValueError):
        return later(said)
    return f"{said}," if type(value).__module__.startswith("jmdp.") and "…" not in said else later(said)


def later(said: str) -> str:
    """Three dots in place of a value that the result does not contain as code."""
    return f"...,  # {comment(said)}"


Cell = str | Estimate | Written
"""A cell of a table. An estimate is printed with its interval, rounded outwards."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; its first column has the names of the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""  # the page adds n, seed and confidence
    words: Mapping[str, str] = field(default_factory=dict)  # what columns mean

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None, **more: Any) -> Table:
        """These columns of the `rows()` of a result, a cell is empty where a row has none; `more` are other fields."""
        chosen = list(rows[0]) if columns is None else columns
        shown = [[_cell(row.get(column, "")) for column in chosen] for row in rows[:MOST_ROWS]]
        left = (
            "" if len(rows) <= MOST_ROWS else f" The first {MOST_ROWS} of {len(rows):,} rows; to_dataframe() has all."
        )
        note = more.pop("note", "") + left
        return cls(columns=[name(column, 60) for column in chosen], rows=shown, note=note, **more)

    def unbounded(self, column: int) -> bool:
        """True if no number of a column has an interval, so that its title says it once for all."""
        found = [part for row in self.rows if (part := number(row[column])) is not None and part != UNDEFINED]
        return bool(found) and not any(part.exact or part.interval for part in found)


def _cell(value: Any) -> Cell:
    """An entry of a row: a number, or a text."""
    if isinstance(value, (Estimate, Written)):
        return value
    return written(value) if isinstance(value, float) else name(str(written(value)))


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture."""

    svg: bytes
    caption: str

    @classmethod
    def of(cls, drawn: matplotlib.figure.Figure, caption: str) -> Figure:
        """A figure of matplotlib as SVG, in which letters are shapes; equal figures give equal bytes."""
        from matplotlib import rc_context

        file = io.BytesIO()
        with rc_context({"svg.hashsalt": "jmdp", "svg.fonttype": "path"}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script that the font does not have
            drawn.savefig(file, format="svg", metadata={"Date": None})
        return cls(svg=re.sub(rb"<!--.*?-->\s*", b"", file.getvalue(), flags=re.DOTALL), caption=caption)

    @property
    def wide(self) -> bool:
        """True if its letters would be too small on a phone."""
        width = re.search(rb'width="([\d.]+)pt"', self.svg)
        return width is not None and float(width[1]) > _WIDEST

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg).decode('ascii')}"


@dataclass(frozen=True, kw_only=True)
class Again:
    """How to make the result again."""

    code: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """The parts of a page, in their order."""

    kind: str  # of the result, in a word or two
    question: str
    verdict: str  # one sentence, or a line for each measure
    decided: bool | None = None  # None: there is nothing to decide
    sampling: str  # n, seed and confidence, or that nothing was sampled: also below each figure and table
    figures: Sequence[Figure] = ()
    no_figure: str = ""  # why there is none
    tables: Sequence[Table] = ()
    found: Sequence[tuple[str, str]] = ()  # names and values: how it was found
    trust: Sequence[str] = ()  # sentences: what the numbers assume
    again: Again
    template: str = "page.html.jinja"  # a file in this folder, which may extend that one
    extra: Mapping[str, Any] = field(default_factory=dict)  # what the template needs in addition


def check_extras() -> None:
    """Raise unless the packages of pages with figures are installed."""
    for package in ("Jinja2", "matplotlib"):
        optional(package.lower(), f'Reports need {package}: pip install "jmdp[report]"')


def render(page: Page) -> str:
    """Return the HTML of a page."""
    check_extras()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

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
    environment.filters["sentence"] = sentence
    environment.filters["code"] = lambda code: environment.filters["safe"](escape(visible(code)))  # in full
    environment.filters["embedded"] = lambda picture: environment.filters["safe"](picture.source)
    return environment.get_template(page.template).render(page=page, versions=versions(), **page.extra)


def number(cell: Cell) -> Written | None:
    """The parts of a cell with a number; None for a text."""
    if isinstance(cell, str):
        return None
    parts = written(cell)
    return replace(parts, value=rounding.typeset(parts.value), interval=rounding.typeset(parts.interval))


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
