"""Shared functions of both figures of correlation matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jmdp
from jmdp.show.plots.style import SMALL, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


def correlation(result: jmdp.results.Evaluation, s: int, a: int, b: int) -> jmdp.results.Estimate:
    """Return the correlation of the returns of two actions in a state, with its certified interval."""
    gap = result.gap(s, a, b)
    assert gap.correlation_interval is not None
    return jmdp.results.Estimate(gap.correlation, gap.correlation_interval.low, gap.correlation_interval.high)


def size(estimate: jmdp.results.Estimate) -> jmdp.results.Estimate:
    """Return the absolute value of an estimate."""
    least, most = sorted((abs(estimate.low), abs(estimate.high)))
    return jmdp.results.Estimate(abs(estimate), 0.0 if estimate.low <= 0 <= estimate.high else least, most)


def draw_matrix(axes: Axes, rho: Sequence[Sequence[float]]) -> AxesImage:
    """Plot a correlation matrix with the numbers in its cells."""
    image = axes.imshow(rho, cmap="PuOr", vmin=-1, vmax=1)
    axes.tick_params(length=0)
    for a, row in enumerate(rho):
        for b, value in enumerate(row):
            text = f"{value:.2f}".replace("0.", ".").replace("1.00", "1")
            axes.text(b, a, text, ha="center", va="center", fontsize=SMALL, color=ink(image, value))
    return image
