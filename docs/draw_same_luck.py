"""Draw the picture of docs/tables.md: two orders under the same demand, and each under its own.

Left, the returns of both orders, one dot for each simulated future. Each order alone fares the same whether or not luck
is shared, but under one demand the two rise and fall together. Right, what that does to the gap between them. Means and
standard deviations are exact, dots and bars simulated.

``python docs/draw_same_luck.py`` writes docs/images/same_luck.svg, the same bytes every time.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import jmdp
from jmdp.plots.style import COLOURS, GREY, clear_spines

OUT = Path(__file__).parent / "images" / "same_luck.svg"
DOTS, DRAWS, SEED = 500, 100_000, 0
EDGES = np.arange(-70, 71, 5)  # of the bars; 0 is one, so no bar is on both sides of it
SAME, OWN = COLOURS[0], COLOURS[1]
COUPLINGS = {OWN: jmdp.Independent(), SAME: jmdp.Synchronous()}  # what is drawn last is on top

world = jmdp.worlds.inventory(capacity=10)
model, policy = world.model, world.policies["base_stock"]
gaps = {colour: jmdp.evaluate(model, policy, c).gap("3", "order 3", "order 0") for colour, c in COUPLINGS.items()}


def draw() -> Figure:
    """Two panels under one message."""
    figure = Figure(figsize=(8, 4.2), facecolor="white", dpi=600)  # finely, for the widths of words below
    draw_returns(figure.add_axes((0.095, 0.212, 0.345, 0.545)))
    draw_gaps(figure.add_axes((0.555, 0.212, 0.43, 0.545)))
    x = 0.02
    for words, colour in (
        ("Same luck, different action: a gap of", "black"),
        (f"±{gaps[SAME].std:.1f},", SAME),
        ("not", "black"),
        (f"±{gaps[OWN].std:.1f}", OWN),
    ):
        part = figure.text(x, 0.925, words, color=colour, size=18, weight="bold")
        x = part.get_window_extent().x1 / figure.bbox.width + 0.011
    question = "3 in stock: order 3 more, or nothing? The same demand would meet either."
    figure.text(0.02, 0.855, question, size=13)
    small_print = (
        f"Return: profit, discounted by {model.discount:g} a day; policy base_stock from day two. "
        "Means and std: exact.\n"
        f"Simulated with seed {SEED}: {DOTS} dots of each colour; bars, 5 wide, from {DRAWS:,} draws of each."
    )
    figure.text(0.02, 0.02, small_print, size=8.5, color=GREY)
    return figure


def draw_returns(axes: Axes) -> None:
    """Draw the pairs of returns."""
    for colour, coupling in COUPLINGS.items():
        # The precision is out of reach, so that all samples are drawn.
        drawn = jmdp.compare(
            model, 3, policy, ["order 0", "order 3"],
            seed=SEED, coupling=coupling, samples=DOTS, precision=1e-9, horizon=300, progress=False,
        )  # fmt: skip
        fade = 0.45 if colour == OWN else 0.8  # so that a grey print tells them apart
        axes.plot(*drawn.draws.returns.T, "o", color=colour, markersize=2.8, markeredgewidth=0, alpha=fade)
    axes.axline((140, 140), slope=1, color="black", linewidth=0.8, zorder=0)
    axes.set(xlim=(88, 218), ylim=(88, 218), xticks=(100, 150, 200), yticks=(100, 150, 200))
    axes.text(90, 217, "same demand\nfor both", color=SAME, size=12, weight="bold", va="top")
    axes.text(218, 90, "each its\nown demand", color=OWN, size=12, weight="bold", ha="right")
    axes.text(218, 189, "equal", size=11, ha="right", va="center")  # under the end of the diagonal
    axes.set_title("one dot: one simulated future", size=12)
    finish(axes, "return of order 0 (money)", "return of order 3 (money)")


def draw_gaps(axes: Axes) -> None:
    """Draw the distributions of the gap."""
    axes.axvline(0, color="black", linewidth=0.8)
    for colour, coupling in COUPLINGS.items():
        drawn = jmdp.gap_samples(model, policy, "3", "order 3", "order 0", seed=SEED, samples=DRAWS, coupling=coupling)
        chances = 100 * np.histogram(drawn, EDGES)[0] / DRAWS
        axes.stairs(chances, EDGES, fill=True, color=colour, alpha=0.75)
        if colour == OWN:  # its outline goes over the other's bars
            axes.stairs(chances, EDGES, color=colour, linewidth=1.5, baseline=None, zorder=3)
    axes.set(xlim=(-70, 70), ylim=(0, 72), xticks=(-60, -30, 0, 30, 60), yticks=(0, 20, 40, 60))
    axes.text(-3, 75, "◀ order 0 better", size=12, ha="right")
    axes.text(3, 75, "order 3 better ▶", size=12)
    axes.plot(gaps[SAME].mean, 68, "v", color="black", markersize=7)
    axes.text(5, 68, f"mean {gaps[SAME].mean:.2f} for both", size=12, va="center")
    axes.text(9, 38, f"same demand\nstd {gaps[SAME].std:.1f}", color=SAME, size=12, weight="bold")
    axes.text(-68, 14, f"each its own\nstd {gaps[OWN].std:.1f}", color=OWN, size=12, weight="bold")
    finish(axes, "gap: order 3 − order 0 (money)", "chance (%)")


def finish(axes: Axes, x: str, y: str) -> None:
    """Name the axes, and leave out what carries nothing."""
    axes.set_xlabel(x, size=12)
    axes.set_ylabel(y, size=12)
    axes.tick_params(labelsize=11)
    clear_spines(axes)


if __name__ == "__main__":
    # Letters as outlines, which look the same everywhere; fixed names inside the file, and no date.
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "jmdp"}):
        draw().savefig(OUT, metadata={"Date": None, "Creator": None, "Title": "Same luck, different action"})
