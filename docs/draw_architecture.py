"""Draw the layers of the package: ``python -m docs.draw_architecture`` writes docs/images/architecture.svg.

A module imports from its own layer and from those below it. Dashed: the three references upwards, which are looked up
by name when they are called. ``tests/project/test_imports.py`` checks the order, which is that of the table in
CONTRIBUTING.md, upside down.
"""

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
WIDTH, BOX, TALL, GAP, MARGIN = 5.4, 4.3, 0.56, 0.12, 0.06  # inches; on a phone a point is a pixel
HEADING = 0.36

Layer = tuple[str, str]  # names, what they do

PARTS: list[tuple[str, list[Layer]]] = [
    (
        "Users of the public names",
        [("cli", "command line")],
    ),
    (
        "What is done with results",
        [("testing   files   show   training", "checks; saving; figures and pages; callbacks")],
    ),
    (
        "Functions that users call",
        [
            ("studies   reviews", "study: many states; review: single episodes"),
            ("comparisons", "compare, compare_policies, compare_runs"),
        ],
    ),
    (
        "Computation",
        [
            ("methods", "evaluate: eight methods, shared code, kernels"),
            ("statistics", "what samples may say: intervals, decisions"),
            ("results", "Evaluation, Gap, Certificate"),
        ],
    ),
    (
        "Problems",
        [
            ("worlds", "built-in problems"),
            ("simulators", "interface, adapters, rollouts, checks; tabulate"),
            ("models", "tables, policies, couplings"),
        ],
    ),
    (
        "Foundations",
        [
            ("distribute", "pools of workers, ledger"),
            ("base   errors", "arrays, keys, files, memory; typed errors"),
        ],
    ),
]

UPWARD = [("results", "show", "plot()"), ("base", "files", "save()"), ("base", "show", "report()")]


def draw() -> Figure:
    """Layers from the top to the foundations, and the references upwards on the right."""
    height = 2 * MARGIN + sum(HEADING + len(layers) * (TALL + GAP) for _, layers in PARTS) - GAP
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, height))
    axes.axis("off")
    middles: dict[str, float] = {}
    top = height - MARGIN
    for title, layers in PARTS:
        axes.text(MARGIN, top - HEADING / 2, title, fontsize=10.5, color="#555555", va="center")
        top -= HEADING
        for names, work in layers:
            _box(axes, MARGIN, top - TALL)
            axes.text(MARGIN + 0.14, top - 0.18, names, fontsize=10.5, fontweight="bold", va="center")
            axes.text(MARGIN + 0.14, top - 0.4, work, fontsize=9.5, va="center")
            middles |= dict.fromkeys(names.split(), top - TALL / 2)
            top -= TALL + GAP
    for i, (start, end, method) in enumerate(UPWARD):
        shift = 0.16 * (i - 1)  # lines that start lower end higher, so that none cross
        _reference(axes, MARGIN + BOX + 0.3 * (i + 1), middles[start] - shift, middles[end] + shift, method)
    return figure


def _box(axes: Axes, x: float, y: float) -> None:
    pad = 0.04
    shape = FancyBboxPatch(
        (x + pad, y + pad), BOX - 2 * pad, TALL - 2 * pad,
        boxstyle=f"round,pad={pad}", facecolor="white", edgecolor=BLUE, linewidth=1.6,
    )  # fmt: skip
    axes.add_patch(shape)


def _reference(axes: Axes, x: float, start: float, end: float, method: str) -> None:
    """A dashed line from a layer on the right side up to another, with the method that follows it."""
    style = {"color": ORANGE, "lw": 1.6, "linestyle": (0, (4, 1.5))}
    axes.plot([MARGIN + BOX, x, x], [start, start, end], **style)
    axes.plot([x, MARGIN + BOX + 0.14], [end, end], **style)
    axes.add_patch(
        FancyArrowPatch(
            (MARGIN + BOX + 0.15, end),
            (MARGIN + BOX, end),
            arrowstyle="-|>",
            mutation_scale=11,
            shrinkA=0,
            shrinkB=1,
            color=ORANGE,
            lw=1.6,
        )
    )
    axes.text(
        x, (start + end) / 2, method, fontsize=10.5, rotation=90, ha="center", va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip


def main(also: list[str]) -> None:
    """Write the diagram as SVG, and in the other formats that are named (``png``)."""
    with matplotlib.rc_context({"svg.hashsalt": "jmdp", "font.family": "DejaVu Sans"}):
        figure = draw()
        figure.savefig(IMAGES / "architecture.svg", metadata={"Date": None, "Creator": None})
        record(IMAGES / "architecture.svg")
        for kind in also:
            figure.savefig(Path(f"architecture.{kind}"), dpi=100)


if __name__ == "__main__":
    main(sys.argv[1:])
