"""Correlations of the returns of a state's actions, one small matrix per cell of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.labels import Label
from jmdp.plots.grid import EMPTY, checked_grid, hatch
from jmdp.plots.style import new_figure
from jmdp.results.evaluation import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MOST_CELLS_WITH_NUMBERS = 40
"""Most matrix cells in a row of tiles for which numbers fit into them."""


def correlation_grid(
    evaluation: Evaluation,
    grid: tuple[int, int] | None,
    *,
    terminal: Sequence[Label] = (),
    title: str | None = None,
) -> Figure:
    """Plot the correlation matrices of all states of a gridworld, laid out as the grid (paper, Figure 4).

    Parameters
    ----------
    evaluation
        Evaluation whose states are the cells, row by row from the top.
    grid
        (rows, columns), e.g. `World.grid`.
    terminal
        Terminal states, to mark as such. Cells without variance, and so without correlation, are hatched.
    title
        Title of the figure.
    """
    S, A = evaluation.mean.shape
    rows, columns = checked_grid(evaluation, grid)
    ends = {evaluation.states.index(s) for s in terminal}
    tile = max(0.9, 0.42 * A) if columns * A <= _MOST_CELLS_WITH_NUMBERS else 0.9
    size = (max(tile * columns + 1.5, 4.0), max(tile * rows * 1.12 + 0.9, 2.8))
    figure, axes = new_figure(rows, columns, size=size)
    images = []
    for s in range(S):
        r, c = divmod(s, columns)
        corner = (r == rows - 1, c == 0)
        images.append(_tile(axes[r][c], evaluation, s, corner, s in ends, columns * A <= _MOST_CELLS_WITH_NUMBERS))
    bar = figure.colorbar(images[0], ax=np.array(axes), shrink=0.8, ticks=[-1, -0.5, 0, 0.5, 1])
    bar.set_label("correlation of two actions' returns")
    coupling = type(evaluation.coupling).__name__
    figure.suptitle(title or f"Correlation of actions' returns\nin each state, {coupling} luck", fontsize=10)
    return figure


def _tile(
    axes: Axes, evaluation: Evaluation, s: int, labelled: tuple[bool, bool], ends: bool, numbers: bool
) -> AxesImage:
    rho = evaluation.correlation[s]
    A = rho.shape[0]
    axes.set_facecolor(EMPTY)
    image = axes.imshow(rho, cmap="PuOr", vmin=-1, vmax=1)
    names = [evaluation.actions.name(a) for a in range(A)]
    long = max(map(len, names)) > 3
    axes.set_xticks(range(A), names if labelled[0] else [""] * A, fontsize=7, rotation=90 if long else 0)
    axes.set_yticks(range(A), names if labelled[1] else [""] * A, fontsize=7)
    axes.tick_params(length=0)
    axes.set_title(evaluation.states.name(s), fontsize=7, pad=2)
    if np.isnan(rho).all():
        hatch(axes.patch)
        axes.text((A - 1) / 2, (A - 1) / 2, "end" if ends else "no\nvariance", ha="center", va="center", fontsize=7)
    elif numbers:
        for (a, b), value in np.ndenumerate(rho):
            if a != b and not np.isnan(value):
                colour = "white" if abs(value) > 0.6 else "black"
                axes.text(b, a, _short(value), ha="center", va="center", fontsize=6, color=colour)
    return image


def _short(value: float) -> str:
    """Return a number with two decimals, or three if two would round it to 1."""
    text = f"{value:.2f}" if abs(value) < 0.995 or abs(value) > 0.9995 else f"{value:.3f}"
    return text.replace("0.", ".")
