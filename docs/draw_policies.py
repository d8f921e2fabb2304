"""Draw the picture at the top of the README: an old and a new rule with the same demand, and in separate simulations.

Left, the returns of both rules, one dot for each simulated future. Right, the gap between them. Each rule alone fares
the same in both colours. Means, standard deviations and the chance are from exact methods, dots and bars simulated.

``python -m docs.draw_policies`` writes docs/images/policies.svg, the same bytes every time.
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

OUT = Path(__file__).parent / "images" / "policies.svg"
DOTS, DRAWS, SEED = 400, 100_000, 0
EDGES = np.arange(-80, 81, 4)  # of the bars; 0 is one, so no bar is on both sides of it
SAME, APART = COLOURS[0], COLOURS[1]
COUPLINGS = {APART: jmdp.Independent(), SAME: jmdp.Synchronous()}  # what is drawn last is on top

world = jmdp.worlds.inventory(capacity=10)
rules = {"old": world.policies["base_stock"], "new": world.policies["reorder"]}
exact = jmdp.evaluate(world.model, rules, jmdp.Synchronous(), jmdp.ExactDistribution(), starts=world.start)
gap = exact.gap("start", "new", "old")
variances = exact.covariance[-1].diagonal()  # of "start", the last row
STD = {SAME: gap.std, APART: float(variances.sum()) ** 0.5}  # separate simulations: variances add


def returns(coupling: jmdp.Coupling, samples: int) -> np.ndarray:
    """[n, 2], of the old and the new rule."""
    drawn = jmdp.compare_policies(
        world, rules, seed=SEED, coupling=coupling, samples=samples, progress=False
    )  # the precision is out of reach, so that all samples are drawn
    return drawn.episode_returns()


def draw() -> Figure:
    """Two panels under one message."""
    figure = Figure(figsize=(6.8, 4.5), facecolor="white", dpi=600)  # finely, for the widths of words below
    drawn = {colour: returns(coupling, DRAWS) for colour, coupling in COUPLINGS.items()}
    draw_returns(figure.add_axes((0.115, 0.275, 0.355, 0.49)), drawn)
    draw_gaps(figure.add_axes((0.585, 0.275, 0.4, 0.49)), drawn)
    chance = gap.distribution().superiority()
    figure.text(
        0.02, 0.925, f"New rule: {gap.mean:.1f} more on average, better in {100 * chance:.0f}% of futures",
        size=15, weight="bold",
    )  # fmt: skip
    x = 0.02
    for words, colour in (
        ("Std of the gap:", "black"),
        (f"{STD[SAME]:.1f} with the same demand,", SAME),
        (f"{STD[APART]:.1f} in separate simulations", APART),
    ):
        part = figure.text(x, 0.855, words, color=colour, size=12.5)
        x = part.get_window_extent().x1 / figure.bbox.width + 0.016
    small_print = (
        "Inventory. Old rule: order up to 6 every day; new rule: wait until 3 are left.\n"
        f"Return: profit, discounted by {world.model.discount:g} a day. Exact: mean, std, chance (to ± 2%).\n"
        f"Simulated with seed {SEED}: {DOTS} marks and {DRAWS:,} draws of each kind."
    )
    figure.text(0.02, 0.02, small_print, size=10.5, color="#555555")
    return figure


def draw_returns(axes: Axes, drawn: dict[str, np.ndarray]) -> None:
    """Draw the pairs of returns."""
    for colour, pairs in drawn.items():
        fade = 0.7 if colour == APART else 0.8
        marker = {"marker": "x", "markeredgewidth": 0.8} if colour == APART else {"marker": "o", "markeredgewidth": 0}
        axes.plot(*pairs[:DOTS].T, linestyle="", color=colour, markersize=3, alpha=fade, **marker)
    axes.axline((150, 150), slope=1, color="black", linewidth=0.8, zorder=0)
    axes.set(xlim=(85, 215), ylim=(85, 215), xticks=(100, 150, 200), yticks=(100, 150, 200))
    axes.text(87, 214, "same demand", color=SAME, size=12, weight="bold", va="top")
    axes.text(215, 87, "separate", color=APART, size=12, weight="bold", ha="right")
    axes.text(214, 177, "equal", size=11, ha="right", va="center")  # under the end of the diagonal
    axes.set_title("one mark: one future", size=12)
    finish(axes, "return of the old rule", "return of the new rule")


def draw_gaps(axes: Axes, drawn: dict[str, np.ndarray]) -> None:
    """Draw the distributions of the gap."""
    axes.axvline(0, color="black", linewidth=0.8)
    for colour, pairs in drawn.items():
        chances = 100 * np.histogram(pairs[:, 1] - pairs[:, 0], EDGES)[0] / len(pairs)
        if colour == APART:  # an outline, so that both are seen without colour too
            axes.stairs(chances, EDGES, color=colour, linewidth=2, baseline=None, zorder=3)
        else:
            axes.stairs(chances, EDGES, fill=True, color=colour, alpha=0.75)
    axes.set(xlim=(-70, 70), ylim=(0, 52), xticks=(-50, 0, 50), yticks=(0, 20, 40))
    axes.text(-3, 53.5, "◀ old better", size=12, ha="right")
    axes.text(3, 53.5, "new better ▶", size=12)
    axes.text(16, 30, "same\ndemand", color=SAME, size=12, weight="bold")
    axes.text(-68, 12, "separate", color=APART, size=12, weight="bold")
    finish(axes, "gap: new − old", "chance (%)")


def finish(axes: Axes, x: str, y: str) -> None:
    """Name the axes, and leave out what carries nothing."""
    axes.set_xlabel(x, size=12.5)
    axes.set_ylabel(y, size=12.5)
    axes.tick_params(labelsize=11)
    clear_spines(axes)


if __name__ == "__main__":
    # Letters as outlines, which look the same everywhere; fixed names inside the file, and no date.
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "jmdp"}):
        draw().savefig(OUT, metadata={"Date": None, "Creator": None, "Title": "Is the new rule better?"})
    record(OUT, seeds=str(SEED))
