"""Draw the figure of docs/tables.md: two orders with the same demand, and with independent demands.

Left, the returns of both orders, one mark for each simulated future. Each order alone has the same distribution in both
cases, but with the same demand the two returns rise and fall together. Right, the distribution of the gap between them.
Means and standard deviations are exact, marks and bars simulated.

``python -m docs.draw_same_luck`` writes docs/images/same_luck.svg, the same bytes every time.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import jmdp
from benchmarks.provenance import record
from jmdp.show.plots.style import COLOURS, clear_spines

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
    figure = Figure(figsize=(6.8, 4.6), facecolor="white", dpi=600)  # finely, for the widths of words below
    draw_returns(figure.add_axes((0.115, 0.275, 0.355, 0.48)))
    draw_gaps(figure.add_axes((0.585, 0.275, 0.4, 0.48)))
    x = 0.02
    for words, colour in (
        ("Std of the gap:", "black"),
        (f"{gaps[SAME].std:.1f} with the same demand,", SAME),
        (f"{gaps[OWN].std:.1f} if independent", OWN),
    ):
        part = figure.text(x, 0.925, words, color=colour, size=12, weight="bold")
        x = part.get_window_extent().x1 / figure.bbox.width + 0.011
    question = "3 in stock: order 3 more, or none? The demand is the same either way."
    figure.text(0.02, 0.855, question, size=12)
    small_print = (
        f"Return: profit, discounted by {model.discount:g} a day; policy base_stock from day two.\n"
        f"Mean and std: exact. Simulated with seed {SEED}: {DOTS} marks of each kind;\n"
        f"histograms with bins of width 5 from {DRAWS:,} draws of each kind."
    )
    figure.text(0.02, 0.02, small_print, size=10.5, color="#555555")
    return figure


def draw_returns(axes: Axes) -> None:
    """Draw the pairs of returns."""
    for colour, coupling in COUPLINGS.items():
        # The precision is out of reach, so that all samples are drawn.
        drawn = jmdp.compare(
            model, policy, state=3, actions=["order 0", "order 3"],
            seed=SEED, coupling=coupling, samples=DOTS, horizon=300, progress=False,
        )  # fmt: skip
        marker = {"marker": "x", "markeredgewidth": 0.8} if colour == OWN else {"marker": "o", "markeredgewidth": 0}
        axes.plot(*drawn.summary.samples.returns.T, linestyle="", color=colour, markersize=3, alpha=0.75, **marker)
    axes.axline((140, 140), slope=1, color="black", linewidth=0.8, zorder=0)
    axes.set(xlim=(88, 218), ylim=(88, 218), xticks=(100, 150, 200), yticks=(100, 150, 200))
    axes.text(90, 217, "same demand\nfor both", color=SAME, size=12, weight="bold", va="top")
    axes.text(218, 90, "independent\ndemands", color=OWN, size=12, weight="bold", ha="right")
    axes.text(218, 189, "equal", size=11, ha="right", va="center")  # under the end of the diagonal
    axes.set_title("one mark: one future", size=12)
    finish(axes, "return of order 0 (money)", "return of order 3 (money)")


def draw_gaps(axes: Axes) -> None:
    """Draw the distributions of the gap."""
    axes.axvline(0, color="black", linewidth=0.8)
    for colour, coupling in COUPLINGS.items():
        drawn = jmdp.methods.gap_samples(
            model, policy, "3", "order 3", "order 0", seed=SEED, samples=DRAWS, coupling=coupling
        )
        chances = 100 * np.histogram(drawn, EDGES)[0] / DRAWS
        if colour == OWN:  # an outline, so that both are seen without colour too
            axes.stairs(chances, EDGES, color=colour, linewidth=2, baseline=None, zorder=3)
        else:
            axes.stairs(chances, EDGES, fill=True, color=colour, alpha=0.75)
    axes.set(xlim=(-70, 70), ylim=(0, 72), xticks=(-50, 0, 50), yticks=(0, 20, 40, 60))
    axes.text(-3, 75, "◀ order 0 better", size=10.5, ha="right")
    axes.text(3, 75, "order 3 better ▶", size=10.5)
    axes.plot(gaps[SAME].mean, 68, "v", color="black", markersize=7)
    axes.text(5, 68, f"both: mean {gaps[SAME].mean:.2f}", size=10.5, va="center")
    axes.text(9, 38, f"same\ndemand:\nstd {gaps[SAME].std:.1f}", color=SAME, size=12, weight="bold")
    axes.text(-68, 14, f"independent:\nstd {gaps[OWN].std:.1f}", color=OWN, size=10.5, weight="bold")
    finish(axes, "order 3 − order 0 (money)", "chance (%)")


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
    record(OUT, seeds=str(SEED))
