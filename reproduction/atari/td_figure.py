"""Figures of TD errors of several games: curves over training, and the change from start to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jmdp.show.plots.style import COLOURS, DASHES, GREY, SMALL, WIDTH, clear_spines, new_figure
from reproduction.findings import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def td_figure(curves: Mapping[str, tuple[Floats, Floats]], blocks: Sequence[str]) -> Figure:
    """A panel for each game: bold is the geometric mean of the seeds, thin lines are single seeds.

    Of a game: updates [T], and mean squares of TD errors [seeds, T, blocks]. Each curve is divided by its own start.
    """
    figure, grid = new_figure((len(curves) + 1) // 2, 2, size=(WIDTH, 2.4 * ((len(curves) + 1) // 2) + 0.9))
    panels = [panel for row in grid for panel in row]
    for panel, (game, (updates, square)) in zip(panels, curves.items(), strict=False):
        shown = square / square[:, :1]
        for i, block in enumerate(blocks):
            colour, dashes = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
            for single in shown[:, :, i]:
                panel.semilogy(updates, single, alpha=0.3, linewidth=1, color=colour, linestyle=dashes)
            mean = np.exp(np.log(shown[:, :, i]).mean(axis=0))
            panel.semilogy(updates, mean, linewidth=2, color=colour, linestyle=dashes, label=block)
        panel.set_title(game, fontsize=10)
        panel.set_xlabel("updates")
        panel.grid(alpha=0.3)
        clear_spines(panel)
    for row in grid:
        row[0].set_ylabel("mean square TD error\n/ its start")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=3, frameon=False,
                  fontsize=SMALL)  # fmt: skip
    return figure


def fall_figure(falls: Mapping[str, Mapping[str, Floats]], blocks: Sequence[str], claim: float) -> Figure:
    """A panel for each game, a row for each block: end over start of mean square TD errors, by kind of network.

    Of a kind and a game: [seeds, blocks]. Large markers are geometric means of the seeds, small ones single seeds.
    """
    from matplotlib.lines import Line2D

    games = list(next(iter(falls.values())))
    rows = (len(games) + 1) // 2
    figure, grid = new_figure(rows, 2, size=(WIDTH, 3.1 * rows + 1.2), sharex=True, sharey=True)
    styles = list(zip(COLOURS, ("o", "s", "^"), (-0.25, 0.0, 0.25), strict=False))
    for panel, game in zip([panel for row in grid for panel in row], games, strict=False):
        for curves, (colour, marker, up) in zip(falls.values(), styles, strict=True):
            fall = curves[game]
            y = np.arange(len(blocks)) + up
            for single in fall:
                panel.semilogx(single, y, marker, color=colour, markersize=3, alpha=0.4, markeredgewidth=0)
            panel.semilogx(np.exp(np.log(fall).mean(axis=0)), y, marker, color=colour, markersize=6,
                           markerfacecolor="white", markeredgewidth=1.5)  # fmt: skip
        panel.axvline(1.0, color=GREY, linewidth=1)
        panel.axvline(claim, color="black", linewidth=1, linestyle=":")
        panel.set_yticks(range(len(blocks)), blocks, fontsize=SMALL)
        panel.set_ylim(len(blocks) - 0.5, -0.5)
        panel.set_title(game, fontsize=10)
        panel.grid(axis="x", alpha=0.3)
        clear_spines(panel)
    for panel in grid[-1]:
        panel.set_xlabel("error at the end / at the start", fontsize=SMALL)
    figure.suptitle("Mean square TD error: end of training relative to its start", fontsize=10)
    handles = [
        Line2D([], [], color=colour, marker=marker, markerfacecolor="white", linestyle="", label=name)
        for name, (colour, marker, _) in zip(falls, styles, strict=True)
    ]
    handles += [
        Line2D([], [], color=GREY, linewidth=1, label="1: no change; left of it the error fell"),
        Line2D([], [], color="black", linestyle=":", linewidth=1, label=f"{claim:g}: threshold for the paper's claim"),
    ]
    figure.legend(handles=handles, loc="outside lower left", frameon=False, fontsize=SMALL, alignment="left",
                  title="Large: geometric mean of the seeds; small: single seeds.", title_fontsize=SMALL)  # fmt: skip
    return figure
