"""Gain over an incumbent against the risk of falling short of it: the policies of a frontier, its hull, and a coin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jmdp.control.frontier import Frontier
from jmdp.show.plots.style import COLOURS, GREY, SMALL, WIDTH, check_drawn, clear_spines, new_figure, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def frontier_chart(frontier: Frontier, *, title: str | None = None) -> Figure:
    """Draw the gain of each policy against its shortfall, or against its weighted risk.

    Dots are single policies. The solid line needs a coin before the first step; the dashed one is a coin between the
    incumbent and the policy with the largest gain. Open dots are the same policies in the second model.
    """
    check_drawn("frontier", frontier, Frontier, title)
    figure, ((axes,),) = new_figure(size=(WIDTH, 3.9))
    own, risk = [one.statistics for one in frontier.points], frontier.measure.of
    best = frontier.optimum.statistics
    ends = np.array([(0.0, 0.0), (risk(best), float(best.gain))])
    if frontier.objective != "cvar":
        corners = frontier.hull
        ends = corners[[0, -1]]
        axes.plot(
            corners[:, 0], corners[:, 1], color=COLOURS[0], linewidth=1.2, zorder=2, label="with one coin at the start"
        )
        axes.plot(
            ends[:, 0], ends[:, 1], color=GREY, linestyle="--", linewidth=1, zorder=1, label="coin: incumbent or best"
        )
    axes.plot([risk(x) for x in own], [float(x.gain) for x in own], "o", color=COLOURS[0], markersize=5, zorder=3)
    second = [one.under for one in frontier.points if one.under is not None]
    if second:
        axes.plot(
            [risk(x) for x in second], [float(x.gain) for x in second], "o", color=COLOURS[1], zorder=3,
            markersize=5, markerfacecolor="none", label="same policies, second model",
        )  # fmt: skip
    _mark(axes, (0.0, 0.0), "incumbent", (8, -4))
    _mark(axes, (float(ends[-1, 0]), float(ends[-1, 1])), "largest gain", (-6, 12))
    axes.axhline(0, color="#cccccc", linewidth=0.8, zorder=0)
    axes.set_xlabel(_risk(frontier), fontsize=SMALL)
    axes.set_ylabel("gain over the incumbent", fontsize=SMALL)
    axes.tick_params(labelsize=SMALL)
    axes.margins(0.08)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=SMALL, frameon=False, loc="lower right")
    clear_spines(axes)
    axes.set_title(wrapped(_title(frontier) if title is None else title, 62), fontsize=SMALL + 1, loc="left")
    return figure


def _mark(axes: Axes, at: tuple[float, float], text: str, offset: tuple[int, int]) -> None:
    """Name a point."""
    right = offset[0] < 0
    axes.plot(*at, "s", color="black", markersize=5, zorder=4)
    axes.annotate(
        text, at, xytext=offset, textcoords="offset points", fontsize=SMALL, ha="right" if right else "left",
        va="center",
    )  # fmt: skip


def _risk(frontier: Frontier) -> str:
    if frontier.objective == "cvar":
        return "mean loss in the worst 5%"
    if not frontier.measure.chance:
        return "shortfall"
    return f"shortfall + {frontier.measure.chance:.3g} × chance of being worse"


def _title(frontier: Frontier) -> str:
    best, half = frontier.optimum.statistics, frontier.measure.of(frontier.optimum.statistics) / 2
    if frontier.objective == "cvar" or not float(best.gain) > 0 or half <= 0:
        return frontier.answer
    kept = float(np.interp(half, frontier.hull[:, 0], frontier.hull[:, 1])) / float(best.gain)
    risk = "risk" if frontier.measure.chance else "shortfall"
    return f"Half of the {risk} keeps {kept:.0%} of the gain; a coin keeps 50%"
