"""Limits, labels and thinning of points in the charts of reviews."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.plots.style import SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DRAWN = 1000
"""Points of a chart."""


def thinned(importance: Floats) -> Integers:
    """At most `MOST_DRAWN` positions, in order: the most important one of each of as many equal parts."""
    count = len(importance)
    if count <= MOST_DRAWN:
        return np.arange(count)
    borders = np.linspace(0, count, MOST_DRAWN + 1).round().astype(int)
    return np.array([a + int(importance[a:b].argmax()) for a, b in pairwise(borders)])


def axis_limits(values: Floats, margin: float) -> tuple[float, float]:
    """Limits around finite values, also if they are all equal."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)) or high - low < 1e-300:
        size = abs(high) if abs(high) > 1e-300 else 1.0
        return low - size / 2, high + size / 2
    return low - margin * (high - low), high + margin * (high - low)


def finite_ends(values: Floats, errors: Floats, most: float = 2.0) -> list[Floats]:
    """Ends of intervals for the limits of an axis, without infinite ones: up to `most` times the values' range."""
    known = np.isfinite(errors)
    if not known.any():
        return []
    spread = float(values.max() - values.min())
    size = spread if spread > 0 else float(np.abs(values).max())
    short = np.minimum(errors[known], most * size if size > 0 else np.inf)
    return [values[known] - short, values[known] + short]


def label_points(axes: Axes, points: Sequence[tuple[float, float, str]], most: int) -> None:
    """Texts beside points, in this order, as far as they do not overlap."""
    placed: list[tuple[float, float]] = []
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    for x, y, text in points:
        at = (x - left) / (right - left), (y - low) / (high - low)
        if len(placed) == most or any(abs(at[0] - a) < 0.09 and abs(at[1] - b) < 0.07 for a, b in placed):
            continue
        placed.append(at)
        inwards = at[0] > 0.9
        axes.annotate(text, (x, y), xytext=(-5 if inwards else 5, 4), textcoords="offset points", fontsize=SMALL,
                      ha="right" if inwards else "left", zorder=5)  # fmt: skip


class Column:
    """Grey texts at the right side of axes."""

    def __init__(self, axes: Axes) -> None:
        self._axes = axes

    def write(self, height: float, text: str, side: str) -> None:
        """Write a text at this share of the height."""
        self._axes.text(0.99, height, text, transform=self._axes.transAxes, ha="right", va=side, fontsize=SMALL,
                        color="#505050", fontstyle="italic", zorder=0)  # fmt: skip
