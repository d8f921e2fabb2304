"""Figure of TD errors during training for several games, as in the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jmdp.experiments.reproduction.findings import Floats
from jmdp.plots.style import COLOURS, DASHES, clear_spines, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def td_figure(rows: Mapping[str, Mapping[str, tuple[Floats, Floats]]], blocks: Sequence[str]) -> Figure:
    """Plot one row per kind of network, one column per game: geometric mean over seeds (bold), single seeds (faint).

    Data of a game: updates [T], and mean square TD errors [seeds, T, blocks]. Each curve is divided by its first value.
    """
    columns = max(len(curves) for curves in rows.values())
    figure, axes = new_figure(len(rows), columns, size=(3.1 * columns, 2.7 * len(rows) + 0.5))
    for row, (name, curves) in zip(axes, rows.items(), strict=True):
        for panel, (game, (updates, square)) in zip(row, curves.items(), strict=False):
            shown = square / square[:, :1]
            for i, block in enumerate(blocks):
                style = {"color": COLOURS[i], "linestyle": DASHES[i]}
                for single in shown[:, :, i]:
                    panel.semilogy(updates, single, alpha=0.3, linewidth=1, **style)
                panel.semilogy(updates, np.exp(np.log(shown[:, :, i]).mean(axis=0)), linewidth=2, label=block, **style)
            panel.set_title(game, fontsize=10)
            panel.grid(alpha=0.3)
            clear_spines(panel)
        least, most = np.array([panel.get_ylim() for panel in row]).T
        for panel in row:
            panel.set_ylim(min(least.min(), 0.3), max(most.max(), 3.0))
        row[0].set_ylabel(f"{name}\nmean square TD error / start", fontsize=9)
    for panel in axes[-1]:
        panel.set_xlabel("updates")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure
