"""TD errors of several games while networks learn, as in the paper's figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jmdp.arrays import Floats
from jmdp.plots.style import COLOURS, DASHES, clear_spines, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def td_figure(curves: Mapping[str, tuple[Floats, Floats]], blocks: Sequence[str]) -> Figure:
    """A panel for each of four games: bold is the mean of the seeds, faint the single ones.

    Of a game: updates [T], and mean squares of TD errors [seeds, T, blocks].
    """
    figure, axes = new_figure(2, 2, size=(9.6, 7.0))
    panels = [panel for row in axes for panel in row]
    for panel, (game, (updates, square)) in zip(panels, curves.items(), strict=False):
        for i, block in enumerate(blocks):
            start = square[:, 0, i].mean()
            for single in square[:, :, i]:
                panel.semilogy(updates, single / start, color=COLOURS[i], alpha=0.3, linewidth=1)
            panel.semilogy(updates, square[:, :, i].mean(axis=0) / start, color=COLOURS[i], linestyle=DASHES[i],
                           linewidth=2, label=block)  # fmt: skip
        panel.set_title(game, fontsize=11)
        panel.grid(alpha=0.3, which="both")
        clear_spines(panel)
    least, most = np.array([panel.get_ylim() for panel in panels]).T
    for panel in panels:
        panel.set_ylim(least.min(), most.max())
    for panel in axes[-1]:
        panel.set_xlabel("updates")
    for row in axes:
        row[0].set_ylabel("mean square TD error, start = 1")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure
