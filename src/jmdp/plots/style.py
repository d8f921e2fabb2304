"""Shared style of all figures: creation without pyplot, and colours that suit print and colour-blind readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jmdp.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["COLOURS", "DASHES", "GREY", "clear_spines", "ink", "new_figure"]

# Okabe and Ito's palette, darkest first; lines also differ in dash, so that they are distinguishable in greyscale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
GREY = "#767676"


def new_figure(rows: int = 1, columns: int = 1, *, size: tuple[float, float]) -> tuple[Figure, list[list[Axes]]]:
    """Return a new figure with a grid of axes; the size is in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError('Figures need matplotlib: pip install "jmdp[plot]"') from None
    # pyplot is avoided because it keeps every figure until it is closed.
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def clear_spines(axes: Axes) -> None:
    """Hide the spines without ticks."""
    axes.spines[["top", "right"]].set_visible(False)


def ink(image: AxesImage, value: float) -> str:
    """Return black or white, whichever has more contrast with the image's colour of this value (WCAG 2)."""
    colour = image.to_rgba(np.array([value]))[0, :3]
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    return "black" if (luminance + 0.05) ** 2 >= 1.05 * 0.05 else "white"
