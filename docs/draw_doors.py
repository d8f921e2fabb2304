"""Draw the small pictures of two doors of the front page: a table of scenarios, and scores of two agents.

``python -m docs.draw_doors`` writes docs/images/door_table.png and door_scores.png.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from benchmarks.provenance import record

IMAGES = Path(__file__).parent / "images"
BLUE, ORANGE, GREEN, WORDS = "#0072B2", "#D55E00", "#1a7f55", "#1f2328"


def sheet() -> tuple[Figure, object]:
    """An empty picture of the size of those of the gallery."""
    figure = Figure(figsize=(4.8, 3.6), dpi=100, facecolor="#F6F8FA")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 48), ylim=(36, 0))
    axes.axis("off")
    return figure, axes


def table() -> Figure:
    """Scenarios with their probabilities, and the reward of two actions in each."""
    figure, axes = sheet()
    rows = [("demand", "chance", "order 3", "order 0"), ("1", "15%", "−1", "0"), ("2", "22%", "+2", "0")]
    rows += [("3", "22%", "+5", "0"), ("4", "17%", "+5", "0")]
    for i, row in enumerate(rows):
        y = 5.5 + 6.2 * i
        if i:
            axes.fill_between([2, 46], y - 2.9, y + 2.9, color="white" if i % 2 else "#EAEEF2", linewidth=0)
        for j, (cell, x) in enumerate(zip(row, (6.5, 18.5, 30, 41), strict=True)):
            colour = WORDS if j < 2 else (BLUE, ORANGE)[j - 2]
            axes.text(x, y, cell, fontsize=14 if i else 12.5, weight="bold" if i == 0 or j > 1 else "normal",
                      color=colour, ha="center", va="center")  # fmt: skip
    return figure


def scores() -> Figure:
    """Tasks, and which of two agents solved each."""
    figure, axes = sheet()
    for x, name, colour in ((24, "agent A", BLUE), (39, "agent B", ORANGE)):
        axes.text(x, 4.5, name, fontsize=14, weight="bold", color=colour, ha="center", va="center")
    for i, (first, second) in enumerate(((1, 1), (0, 1), (1, 1), (0, 0), (0, 1))):
        y = 10 + 5.4 * i
        axes.text(3, y, f"task {i + 1}", fontsize=14, color=WORDS, va="center")
        for x, solved in ((24, first), (39, second)):
            axes.text(x, y, "✓" if solved else "✗", fontsize=19, color=GREEN if solved else "#b42318",
                      ha="center", va="center", family="DejaVu Sans")  # fmt: skip
    return figure


if __name__ == "__main__":
    for name, draw in {"door_table": table, "door_scores": scores}.items():
        canvas = FigureCanvasAgg(draw())
        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3].copy())
        out = IMAGES / f"{name}.png"
        picture.quantize(48, dither=Image.Dither.NONE).save(out, optimize=True)
        record(out)
        print(f"{out.name}: {out.stat().st_size / 1000:.0f} KB")
