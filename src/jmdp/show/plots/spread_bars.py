"""Bars of one standard deviation to each side of a mean gap: with shared random numbers, and with independent draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jmdp.base.interval import Interval
from jmdp.show.plots.style import COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARED, INDEPENDENT = ("#A9D3EF", COLOURS[0]), ("#F4F4F4", "#999999")
"""Fill and edge of the bars of standard deviations."""
INDEPENDENT_LABEL = "± 1 std with independent draws (std in brackets)"

_FAR = 1.5
"""An interval that goes farther beyond all bars than their width times this is cut, with an arrow."""

_WIDEST = 1.0
"""The same for bars of independent draws relative to all else, so that they do not compress the rest."""


@dataclass(frozen=True)
class Spread:
    """Mean gap with its interval and both standard deviations."""

    gap: float
    interval: Interval
    std: float
    independent_std: float  # standard deviation with independent draws for each alternative


def draw_bar(
    axes: Axes, y: int, ends: tuple[float, float], limits: tuple[float, float], height: float, colours: tuple[str, str]
) -> bool:
    """A bar, with arrows where it goes beyond the limits. Returns False if there is nothing to show."""
    left, right = max(ends[0], limits[0]), min(ends[1], limits[1])
    if not left < right:
        return False
    axes.barh(
        y, right - left, left=left, height=height, color=colours[0], edgecolor=colours[1], linewidth=0.7,
        zorder=1 - height,
    )  # fmt: skip
    for cut, at, arrow in ((left > ends[0], 0.015, "<"), (right < ends[1], 0.985, ">")):
        if cut:
            axes.plot(at, y, arrow, transform=axes.get_yaxis_transform(), color=GREY, markersize=5, zorder=2)
    return True


def bar_limits(rows: Sequence[Spread]) -> tuple[float, float]:
    """Limits around 0, means, bars and intervals; ends so far away that they would hide the rest are left out."""
    within = _finite([0.0, *(row.gap + side * row.std for row in rows for side in (-1, 0, 1))])
    independent = _finite([row.gap + side * row.independent_std for row in rows for side in (-1, 1)])
    ends = _finite([end for row in rows for end in (row.interval.low, row.interval.high)])
    low, high = min(within + independent), max(within + independent)
    far = _FAR * (high - low) or math.inf
    within += [end for end in ends if low - far <= end <= high + far]
    low, high = min(within), max(within)
    most = _WIDEST * (high - low) or math.inf
    if all(low - most <= end <= high + most for end in independent):
        low, high = min([low, *independent]), max([high, *independent])
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _finite(values: list[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
