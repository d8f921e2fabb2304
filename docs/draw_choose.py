"""Draw the two diagrams of docs/choose.md: ``python -m docs.draw_choose`` writes docs/images/choose*.svg."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from benchmarks.provenance import record
from jmdp.show.plots.style import COLOURS

IMAGES = Path(__file__).parent / "images"
BLUE, ORANGE = COLOURS[:2]
WIDTH, LEFT, RIGHT = 5.4, 2.36, 2.52  # inches: of the page (on a phone a point is a pixel), of both columns
GAP, MARGIN = 0.26, 0.06

Row = tuple[str, str, str]  # question, choice if the answer is yes, remark; an empty question: the choice that is left
Part = tuple[str, list[Row]]

METHODS: list[Part] = [
    (
        "You have a table",
        [
            ("One state of a model\ntoo large to list?", "ReachablePairs(state)", "certified, any size"),
            (
                "Chances, quantiles or\nCVaR of a gap?",
                "ExactDistribution()",
                "certified, hundreds of states",
            ),
            ("Moments of three or\nmore returns?", "JIPE(order=3)", "certified, small tables"),
            ("Do you study learning\nfrom single steps?", "Incremental(seed=0)", "intervals, up to 10³ states"),
            ("Does a table of pairs of\nstates fit in memory?", "ExactPairs()", "certified, up to 10⁴ states"),
            ("Do a few features\ndescribe a state?", "LinearProjected(features)", "with samples=…; no certificate"),
            ("", "MonteCarlo(seed=0)", "intervals, any number of states"),
        ],
    ),
    (
        "You have a simulator",
        [
            ("Whole policies?", "jmdp.compare_policies(env)", "needs reset and step only"),
            ("One decision in\none state?", "jmdp.compare(simulator)", "stops when decided"),
            ("A list of states?", "jmdp.study(simulator)", "each until it is decided"),
            ("Whole simulations,\nSimPy or Mesa?", "jmdp.compare_runs(designs)", "functions of a jmdp.Luck"),
            ("Scores that exist?", "jmdp.compare_scores(files)", "the same tasks, paired by name"),
            ("", "LearnedMoments(seed=0)", "all states; tested on held-out ones"),
        ],
    ),
]

COUPLINGS: list[Part] = [
    (
        "Two branches in different states",
        [
            ("Same randomness for both?\n(demand, weather)", "Synchronous()", "one draw for all branches"),
            ("Separate randomness in each\nstate? (queues, roads)", "Local()", "one draw per state (the paper)"),
            ("", "Independent()", "nothing shared (for reference)"),
        ],
    ),
]


def draw(parts: list[Part]) -> Figure:
    """Questions on the left, choices on the right: yes leads right, no leads down."""
    heights = [0.46 + sum(_height(row) + GAP for row in rows) for _, rows in parts]
    height = sum(heights) - GAP + 2 * MARGIN
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, height))
    axes.axis("off")
    top = height - MARGIN
    for (title, rows), tall in zip(parts, heights, strict=True):
        axes.text(MARGIN, top - 0.2, title, fontsize=12.5, fontweight="bold", va="center")
        _ladder(axes, rows, top - 0.46)
        top -= tall
    return figure


def _height(row: Row) -> float:
    return 0.62 if row[0] else 0.56


def _ladder(axes: Axes, rows: list[Row], top: float) -> None:
    right = WIDTH - MARGIN - RIGHT
    for i, (question, answer, word) in enumerate(rows):
        tall = _height((question, answer, word))
        middle = top - tall / 2
        down = MARGIN + LEFT / 2
        _box(axes, right, top - tall, RIGHT, tall, ORANGE)
        axes.text(right + RIGHT / 2, middle + 0.12, answer, fontsize=10.5, fontweight="bold", ha="center", va="center")
        axes.text(right + RIGHT / 2, middle - 0.13, word, fontsize=9.5, ha="center", va="center")
        if question:
            _box(axes, MARGIN, top - tall, LEFT, tall, BLUE)
            axes.text(down, middle, question, fontsize=10.5, ha="center", va="center", linespacing=1.25)
            _arrow(axes, (MARGIN + LEFT, middle), (right, middle))
            axes.text((MARGIN + LEFT + right) / 2 - 0.02, middle + 0.1, "yes", fontsize=9.5, ha="center", va="center")
        if i + 1 < len(rows):
            last = not rows[i + 1][0]
            end = top - tall - GAP
            if last:  # down and to the right, to the choice that is left
                below = end - _height(rows[i + 1]) / 2
                axes.plot([down, down], [top - tall, below], color="black", lw=1.1, solid_capstyle="butt")
                _arrow(axes, (down, below), (right, below))
            else:
                _arrow(axes, (down, top - tall), (down, end))
            axes.text(down + 0.08, top - tall - GAP / 2, "no", fontsize=9.5, va="center")
        top -= tall + GAP


def _box(axes: Axes, x: float, y: float, width: float, height: float, colour: str) -> None:
    pad = 0.04
    shape = FancyBboxPatch(
        (x + pad, y + pad),
        width - 2 * pad,
        height - 2 * pad,
        boxstyle=f"round,pad={pad}",
        facecolor="white",
        edgecolor=colour,
        linewidth=1.6,
        linestyle="-" if colour == BLUE else (0, (4, 1.5)),  # told apart without colour too
    )
    axes.add_patch(shape)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, shrinkA=0, shrinkB=1, color="black", lw=1.1)
    )


def main(also: list[str]) -> None:
    """Write both diagrams as SVG, and in the other formats that are named (``png``)."""
    with matplotlib.rc_context({"svg.hashsalt": "jmdp", "font.family": "DejaVu Sans"}):
        for name, parts in (("choose", METHODS), ("choose_coupling", COUPLINGS)):
            figure = draw(parts)
            figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None, "Creator": None})
            record(IMAGES / f"{name}.svg")
            for kind in also:
                figure.savefig(Path(f"{name}.{kind}"), dpi=100)


if __name__ == "__main__":
    main(sys.argv[1:])
