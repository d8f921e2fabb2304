"""Chart of two futures of a reviewed decision: what each has earned up to each step, in the same luck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jmdp.reviews.trajectory import Trajectory
from jmdp.show.plots.comparison_chart import plain
from jmdp.show.plots.style import COLOURS, DASHES, SMALL, WIDTH, clear_spines, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def futures_chart(futures: Mapping[str, Trajectory], discount: float) -> Figure:
    """Sums of the rewards from the first step on, discounted to it, of trajectories by name."""
    figure, [[axes]] = new_figure(size=(WIDTH, 2.6))
    for (name, one), colour, dash in zip(futures.items(), COLOURS, DASHES, strict=False):
        weights = discount ** np.arange(len(one))
        sums = np.concatenate([[0.0], np.cumsum(weights * one.rewards)])
        at = one.first + np.arange(len(sums))
        end = "ends" if one.terminated else "goes on"
        axes.step(at, sums, where="post", color=colour, linestyle=dash, linewidth=1.8, label=f"{plain(name)}, {end}")
        axes.plot(at[-1], sums[-1], "o" if one.terminated else ">", color=colour, markersize=6)
    axes.set_title("earned since the decision" + (", discounted" if discount < 1 else ""), loc="left", fontsize=10)
    axes.set_xlabel("before step", fontsize=SMALL)
    axes.margins(y=0.15)
    axes.locator_params(axis="x", integer=True, nbins=8, min_n_ticks=1)
    axes.tick_params(labelsize=SMALL)
    clear_spines(axes)
    figure.legend(loc="outside lower left", frameon=False, fontsize=SMALL, ncols=2)
    return figure
