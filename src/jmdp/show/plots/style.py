"""Shared by all figures: new figures without pyplot, sizes legible on a phone, colours that can be told apart."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base import optional
from jmdp.base.labels import is_unicode
from jmdp.base.settings import instance, short
from jmdp.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


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
    "legend_handles",
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
    matplotlib = optional("matplotlib.figure", 'Figures need matplotlib: pip install "jmdp[plot]"')
    # Not through pyplot, which would keep every figure until it is closed.
    figure: Figure = matplotlib.Figure(figsize=size, layout="constrained")
    return figure


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


def legend_handles(panels: Iterable[Axes]) -> dict[str, Artist]:
    """What a legend explains, by label: the first artist of each."""
    found: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return found


def clear_spines(axes: Axes) -> None:
    """Leave only the two spines that carry ticks."""
    axes.spines[["top", "right"]].set_visible(False)


def ink(image: AxesImage, value: float) -> str:
    """Black or white, whichever is read more easily on the image's colour of this value (contrast as in WCAG 2)."""
    colour = image.to_rgba(np.array([value]))[0, :3]
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    return "black" if (luminance + 0.05) ** 2 >= 1.05 * 0.05 else "white"


EMPTY = "#eeeeee"
"""Colour of cells without a number."""
