"""Correlation matrices of the actions' returns, one for each cell of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.labels import Label
from jmdp.results.evaluation import Evaluation
from jmdp.show.plots.style import EMPTY, SMALL, check_drawn, checked_grid, hatch, ink, marked, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MOST_CELLS_WITH_NUMBERS = 40
"""Matrix entries in one row of the figure up to which numbers are written."""


def correlation_grid(
    evaluation: Evaluation,
    grid: tuple[int, int] | None,
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
    check_drawn("evaluation", evaluation, Evaluation, title)
    S, A = evaluation.mean.shape
    rows, columns = checked_grid(evaluation, grid)
    ends = marked(evaluation, terminal)
    numbers = columns * A <= _MOST_CELLS_WITH_NUMBERS
    tile = max(0.9, 0.36 * A) if numbers else 0.9
    size = (max(tile * columns + 0.6, 4.0), max((tile + 0.3) * rows + 1.3, 2.8))
    figure, axes = new_figure(rows, columns, size=size)
    images = []
    for s in range(S):
        r, c = divmod(s, columns)
        corner = (r == rows - 1, c == 0)
        images.append(_tile(axes[r][c], evaluation, s, corner, s in ends, numbers))
    bar = figure.colorbar(images[0], ax=np.array(axes), location="bottom", aspect=40, ticks=[-1, -0.5, 0, 0.5, 1])
    bar.set_label("correlation of two actions' returns")
    coupling = type(evaluation.coupling).__name__
    figure.suptitle(title or f"Correlation of actions' returns\nin each state, {coupling} coupling", fontsize=11)
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
    axes.set_xticks(range(A), names if labelled[0] else [""] * A, fontsize=SMALL, rotation=90 if long else 0)
    axes.set_yticks(range(A), names if labelled[1] else [""] * A, fontsize=SMALL)
    axes.tick_params(length=0)
    axes.set_title(evaluation.states.name(s), fontsize=SMALL, pad=2)
    if np.isnan(rho).all():
        hatch(axes.patch)
        axes.text((A - 1) / 2, (A - 1) / 2, "end" if ends else "no\nvariance", ha="center", va="center",
                  fontsize=SMALL)  # fmt: skip
    elif numbers:
        for (a, b), value in np.ndenumerate(rho):
            if a != b and not np.isnan(value):
                axes.text(b, a, _short(value), ha="center", va="center", fontsize=SMALL, color=ink(image, value))
    return image


def _short(value: float) -> str:
    """Two decimals; 1 only if it is 1 to four decimals."""
    if abs(value) >= 0.99995:
        return "1" if value > 0 else "−1"
    if abs(value) >= 0.995:
        return ">.99" if value > 0 else "<−.99"
    return f"{value:.2f}".replace("0.", ".").replace("-", "−")
