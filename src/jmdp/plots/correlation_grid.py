"""How the returns of a state's actions move together, a small matrix for each cell of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jmdp.errors import SettingsError
from jmdp.evaluation import Evaluation
from jmdp.labels import Label
from jmdp.plots.style import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MOST_CELLS_WITH_NUMBERS = 40
"""Cells of a tile row that still leave room for numbers in them."""


def correlation_grid(
    evaluation: Evaluation,
    grid: tuple[int, int],
    *,
    terminal: Sequence[Label] = (),
    title: str | None = None,
) -> Figure:
    """Correlation matrices of all states of a gridworld, laid out as the grid (paper, Figure 4).

    Parameters
    ----------
    evaluation
        Its states are the cells, row by row from the top.
    grid
        (rows, columns); `World.grid` has it.
    terminal
        States to mark as such. Cells without a correlation, for want of variance, are hatched.
    title
        Shown above.
    """
    rows, columns = grid
    S, A = evaluation.mean.shape
    if rows * columns != S:
        raise SettingsError(f"grid is {grid}, that is {rows * columns} cells, for {S} states.")
    ends = {evaluation.states.index(s) for s in terminal}
    tile = max(0.9, 0.42 * A) if columns * A <= _MOST_CELLS_WITH_NUMBERS else 0.9
    figure, axes = new_figure(rows, columns, size=(tile * columns + 1.5, tile * rows * 1.12 + 0.6))
    images = []
    for s in range(S):
        r, c = divmod(s, columns)
        corner = (r == rows - 1, c == 0)
        images.append(_tile(axes[r][c], evaluation, s, corner, s in ends, columns * A <= _MOST_CELLS_WITH_NUMBERS))
    bar = figure.colorbar(images[0], ax=np.array(axes), shrink=0.8, ticks=[-1, -0.5, 0, 0.5, 1])
    bar.set_label("correlation of two actions' returns")
    figure.suptitle(
        title or f"How actions' returns move together, state by state ({type(evaluation.coupling).__name__})"
    )
    return figure


def _tile(
    axes: Axes, evaluation: Evaluation, s: int, labelled: tuple[bool, bool], ends: bool, numbers: bool
) -> AxesImage:
    rho = evaluation.correlation[s]
    A = rho.shape[0]
    axes.set_facecolor("#eeeeee")
    image = axes.imshow(rho, cmap="PuOr", vmin=-1, vmax=1)
    names = [evaluation.actions.name(a) for a in range(A)]
    axes.set_xticks(range(A), names if labelled[0] else [""] * A, fontsize=7)
    axes.set_yticks(range(A), names if labelled[1] else [""] * A, fontsize=7)
    axes.tick_params(length=0)
    axes.set_title(evaluation.states.name(s), fontsize=7, pad=2)
    if np.isnan(rho).all():
        axes.patch.set_hatch("///")
        axes.patch.set_edgecolor("#bbbbbb")
        axes.text((A - 1) / 2, (A - 1) / 2, "end" if ends else "no\nvariance", ha="center", va="center", fontsize=7)
    elif numbers:
        for (a, b), value in np.ndenumerate(rho):
            if not np.isnan(value):
                colour = "white" if abs(value) > 0.6 else "black"
                axes.text(b, a, f"{value:.2f}".replace("0.", "."), ha="center", va="center", fontsize=6, color=colour)
    return image
