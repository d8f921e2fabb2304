"""Draw the variance factors of the tutorial on common random numbers: five questions, four ways of drawing.

The models are those of the page, docs/tutorials/common_random_numbers.md: its definitions are executed here.

``python -m docs.draw_variance_factors`` simulates for some minutes, prints the factors and writes
docs/images/variance_factors.svg, the same bytes every time.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.provenance import record
from jmdp.comparisons.pairing import Pairing
from jmdp.show.plots.style import COLOURS, clear_spines

DOCS = Path(__file__).parent
PAGE = DOCS / "tutorials" / "common_random_numbers.md"
OUT = DOCS / "images" / "variance_factors.svg"
SAMPLES = 200
QUESTIONS = {
    "5% faster service": ("call_centre", "faster"),
    "2 or 3 agents": ("two_agents", "three_agents"),
    "short calls first": ("two_kinds", "short_first"),
    "more vaccination": ("epidemic", "more_vaccine"),
    "fewer neighbours": ("epidemic", "fewer_contacts"),
}
MARKERS = ("v", "s", "D", "o")


def definitions() -> dict[str, Any]:
    """Functions, classes and dictionaries of the page; nothing that simulates."""
    page = PAGE.read_text()
    cells = re.findall(r"```\{code-cell\} ipython3\n(?::tags: .*?\n)?(.*?)```", page, flags=re.DOTALL)
    tree = ast.parse("\n".join(cells))
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, kept) or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict))
    ]
    names: dict[str, Any] = {}
    exec(compile(tree, "common_random_numbers.md", "exec"), names)
    return names


def measured() -> dict[str, dict[str, Pairing]]:
    """Factor of each question and way, printed as they come."""
    page, found = definitions(), dict[str, dict[str, Pairing]]()
    for question, (one, two) in QUESTIONS.items():
        found[question] = {}
        for name, way in page["WAYS"].items():
            pairing = page["compared"](page[one], page[two], way, SAMPLES).pairing
            found[question][name] = pairing
            gain = pairing.gain
            print(
                f"{question:20}{name:24}{float(gain):6.2f} ({gain.low:.2f} to {gain.high:.2f})"
                f"  ceiling {pairing.ceiling:.4g}  {pairing.samples} pairs",
                flush=True,
            )
    return found


def draw(found: dict[str, dict[str, Pairing]]) -> Figure:
    """One row for each question, one marker for each way."""
    figure = Figure(figsize=(6.8, 5.6), facecolor="white")
    axes = figure.add_axes((0.285, 0.2, 0.69, 0.62))
    for row, (question, ways) in enumerate(found.items()):
        draw_question(axes, -row, ways)
        axes.text(-0.02, -row, question, transform=axes.get_yaxis_transform(), ha="right", va="center", size=13)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set(xlim=(0.7, 300), ylim=(-len(found) + 0.45, 0.55), yticks=[], xticks=(1, 3, 10, 30, 100))
    axes.set_xticklabels(["1", "3", "10", "30", "100"])
    axes.minorticks_off()
    axes.tick_params(labelsize=12)
    axes.set_xlabel("variance factor: runs needed if independent", size=12.5)
    clear_spines(axes)
    figure.text(0.02, 0.945, "How the random numbers are drawn decides the gain", size=15, weight="bold")
    names = list(next(iter(found.values())))
    for i, name in enumerate(names):
        x, y = (0.03, 0.43)[i % 2], (0.895, 0.85)[i // 2]
        figure.add_artist(Line2D([x], [y + 0.008], marker=MARKERS[i], color=COLOURS[i], markersize=8, linestyle=""))
        figure.text(x + 0.022, y, name, color=COLOURS[i], size=12.5, weight="bold")
    figure.add_artist(Line2D([0.76, 0.76], [0.888, 0.918], color="black", linewidth=3))
    figure.text(0.78, 0.895, "ceiling", size=12.5, weight="bold")
    figure.text(
        0.02,
        0.02,
        f"{SAMPLES} runs of each design, seed 0; lines are 95% intervals. The ceiling\n"
        "(σa² + σb²)/(σa − σb)² is estimated from the runs by name, and drawn if below 300.",
        size=10.5,
        color="#555555",
    )
    return figure


def draw_question(axes: Axes, y: float, ways: dict[str, Pairing]) -> None:
    """Draw the factors of one question, and its ceiling, from the last way of drawing."""
    for i, pairing in enumerate(ways.values()):
        place, gain = y + 0.27 - 0.18 * i, pairing.gain
        axes.plot([gain.low, gain.high], [place, place], color=COLOURS[i], linewidth=2, solid_capstyle="butt")
        axes.plot([gain], [place], marker=MARKERS[i], color=COLOURS[i], markersize=7)
    ceiling = list(ways.values())[-1].ceiling
    if ceiling < 300:
        axes.plot([ceiling, ceiling], [y - 0.4, y + 0.4], color="black", linewidth=3)


if __name__ == "__main__":
    # Letters as outlines, which look the same everywhere; fixed names inside the file, and no date.
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "jmdp"}):
        draw(measured()).savefig(OUT, metadata={"Date": None, "Creator": None, "Title": "Variance factors"})
    record(OUT, seeds="0", sources=[PAGE])
