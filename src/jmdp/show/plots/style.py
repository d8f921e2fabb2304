"""Shared by all figures: new figures without pyplot, sizes legible on a phone, colours that can be told apart.

Shared by figures of chances: texts of their cells, and the largest error of the chances.

Shared by figures laid out as a gridworld: a check that the grid fits, and the look of empty cells.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base import settings
from jmdp.base.interval import Estimate
from jmdp.base.labels import Label, is_unicode
from jmdp.base.rounding import at_most, chance, confidence_percent, ends_to_decimals
from jmdp.base.settings import instance, short
from jmdp.errors import MissingExtraError, SettingsError
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.patches import Patch


__all__ = [
    "COLOURS",
    "DASHES",
    "GREY",
    "SMALL",
    "WIDTH",
    "check_drawn",
    "check_title",
    "clear_spines",
    "empty_figure",
    "ink",
    "new_figure",
    "span_row",
    "wrapped",
]

WIDTH = 5.6
"""Inches. Text of `SMALL` points is then 9.4 px high where a figure is shown 420 px wide."""
SMALL = 9
"""Points: the smallest text of a figure of this width."""

# Okabe and Ito's palette, darkest first; lines also differ in dash, so that grey prints stay readable.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
GREY = "#767676"


def new_figure(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float], sharex: bool = False, sharey: bool = False
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with a grid of axes, size in inches."""
    figure = empty_figure(size)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey).tolist()


def empty_figure(size: tuple[float, float]) -> Figure:
    """A figure without axes, size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError('Figures need matplotlib: pip install "jmdp[plot]"') from None
    # Not through pyplot, which would keep every figure until it is closed.
    return Figure(figsize=size, layout="constrained")


_MADE_BY = {
    "Gap": " Give a gap: evaluation.gap(state, a, b).",
    "Evaluation": " Give a result of jmdp.evaluate.",
    "Comparison": " Give a result of jmdp.compare.",
    "Study": " Give a result of jmdp.study.",
    "Review": " Give a result of jmdp.review.",
    "Frontier": " Give a result of jmdp.frontier.",
    "Explanation": " Give a result of explain().",
    "Reviews": " Give a result of jmdp.review with episodes=….",
}


def check_drawn(name: str, value: object, kind: type, title: object) -> None:
    """Raise unless the first argument of a figure is of this kind, and its title is a text or None."""
    instance(name, value, kind, hint=_MADE_BY.get(kind.__name__, ""))
    check_title(title)


def check_title(title: object) -> None:
    """Raise unless this is a text that can be drawn, or None."""
    if title is not None and not (isinstance(title, str) and is_unicode(title)):
        raise SettingsError(f"title is {short(title)}. Give a text, or None for the default.")


def span_row(axes: list[Axes]) -> Axes:
    """Replace all axes of one row by a single one."""
    figure, grid = axes[0].figure, axes[0].get_subplotspec()
    assert grid is not None
    row = grid.rowspan.start
    for panel in axes:
        panel.remove()
    return figure.add_subplot(grid.get_gridspec()[row, :])


def wrapped(text: str, characters: int = 50) -> str:
    """The text in lines of at most this many characters; line breaks stay."""
    return "\n".join(textwrap.fill(line, characters) for line in text.split("\n"))


def clear_spines(axes: Axes) -> None:
    """Leave only the two spines that carry ticks."""
    axes.spines[["top", "right"]].set_visible(False)


def ink(image: AxesImage, value: float) -> str:
    """Black or white, whichever is read more easily on the image's colour of this value (contrast as in WCAG 2)."""
    colour = image.to_rgba(np.array([value]))[0, :3]
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    return "black" if (luminance + 0.05) ** 2 >= 1.05 * 0.05 else "white"


NOTABLE = 0.005
"""The smallest chance, or error of a chance, that is visible at two decimals."""


def short_chance(value: float) -> str:
    """Two decimals and no zero before them, for the cells of a matrix."""
    return chance(value, 2).replace("0.", ".")


def short_interval(estimate: Estimate) -> str:
    """An interval of a chance for the cells of a matrix."""
    return ends_to_decimals(estimate, 2, chance).replace("0.", ".")


def confidence_of_pairs(distributions: Iterable[Distribution]) -> str:
    """The lowest confidence of the distributions in words; each has its own band."""
    sure = [distribution.confidence for distribution in distributions if distribution.confidence is not None]
    return f"each pair at {confidence_percent(min(sure))} confidence" if sure else "certified"


def largest_error(estimates: Iterable[Estimate]) -> str:
    """The largest error, to two digits and rounded up, because it is a bound."""
    return at_most(max(estimate.error for estimate in estimates), 2)


def uneven(estimates: Iterable[Estimate]) -> bool:
    """True if errors differ so much that the largest one does not describe all."""
    errors = [estimate.error for estimate in estimates]
    return max(errors) - min(errors) >= NOTABLE


EMPTY = "#eeeeee"
"""Colour of cells without a number."""


def checked_grid(evaluation: Evaluation, grid: tuple[int, int] | None) -> tuple[int, int]:
    """Return (rows, columns) if their product is the number of states; raise SettingsError otherwise."""
    S = evaluation.states.size
    if grid is None:
        raise SettingsError(f"These {S} states are not the cells of a grid. Give (rows, columns) to lay them out.")
    return settings.checked_grid(grid, S)


def marked(evaluation: Evaluation, terminal: Sequence[Label]) -> set[int]:
    """Indices of the states to mark as terminal."""
    given = settings.listed(terminal, evaluation.states.size)
    if given is None:
        raise SettingsError(f"terminal is {settings.short(terminal)}. Give a list of states.")
    return {evaluation.states.index(s) for s in given}


def hatch(patch: Patch) -> None:
    """Hatch a cell that has no number."""
    patch.set_hatch("///")
    patch.set_edgecolor("#bbbbbb")
