"""Learned gaps against simulated ones, gap by gap: variances on logarithmic axes, and means."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import Booleans, Floats
from jmdp.base.interval import Estimate
from jmdp.base.rounding import decimals_of, ends_to_decimals
from jmdp.results.calibration import Calibration, held_out, seeds
from jmdp.show.plots.style import COLOURS, GREY, SMALL, WIDTH, check_drawn, clear_spines, new_figure, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_DOT, _INDEPENDENT, _BAR = COLOURS[0], COLOURS[1], "#9BBFD6"

_WIDE = 1.96
"""Half-width of the intervals of simulated numbers, in standard errors."""

_CROWDED = 250
"""With more dots than this, dots are smaller and fainter."""

_DECADES = 6.0
"""Variances that are this many decades below the largest are drawn at the edge, like those that are 0."""


def calibration_scatter(calibration: Calibration, *, title: str | None = None) -> Figure:
    """Scatter plot of learned (across) against simulated values (up) of each gap, with the line of equality.

    Above, the variance of a gap on logarithmic axes, and the variance of independent marginals, Var Z(first) +
    Var Z(second); variances that are 0 or less, or too small to be shown, are triangles at the edge. Below, its mean.
    Bars are 95% intervals of the simulation: the dots of a perfect learner would deviate from the line by as much.

    Parameters
    ----------
    calibration
        Of gaps in held-out states.
    title
        Shown above the axes.
    """
    check_drawn("calibration", calibration, Calibration, title)
    c = calibration
    figure, [[upper], [lower]] = new_figure(2, 1, size=(WIDTH, 9.0))
    _draw_variances(upper, c)
    _draw_means(lower, c)
    for axes in (upper, lower):
        axes.set_axisbelow(True)
        axes.grid(True, which="major", color="#e6e6e6", linewidth=0.6)
        clear_spines(axes)
    answer = wrapped(title or "Learned and simulated gaps", 46)
    figure.suptitle(answer, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    handles, labels = upper.get_legend_handles_labels()
    about = f"{c.gaps:,} gaps in {held_out(c)} · {c.rollouts} rollouts each\n{seeds(c)} · intervals: 95%, over states"
    figure.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False, fontsize=SMALL,
                  title=wrapped(about, 70), title_fontsize=SMALL, alignment="left")  # fmt: skip
    return figure


def _draw_variances(axes: Axes, c: Calibration) -> None:
    learned, simulated, error = c.variance, c.simulated_variance, c.simulated_variance_error
    factor = np.exp(_WIDE * np.divide(error, simulated, out=np.zeros(c.gaps), where=simulated > 0))
    ends = (learned, simulated / factor, simulated * factor)
    positive = np.concatenate([values[values > 0] for values in ends])
    high = float(positive.max()) if positive.size else 1.0
    low = max(float(positive.min()) if positive.size else 0.1, high * 10.0**-_DECADES)
    independent = c.independent[c.independent > 0]
    margin = 1.15 * (high / low) ** 0.03
    edge, far = low / margin, high * margin
    reach = max(far, float(independent.max()) * margin) if independent.size else far
    hidden = (learned < low) | (simulated < low)
    if hidden.any():
        edge /= margin
    axes.set(xscale="log", yscale="log", xlim=(edge, reach), ylim=(edge, far))
    axes.plot([edge, far], [edge, far], color="black", linewidth=1, zorder=2, label="learned = simulated")
    x, y = np.clip(learned, edge, None), np.clip(simulated, edge, None)
    shown = simulated >= low
    axes.vlines(x[shown], (y / factor)[shown], (y * factor)[shown], color=_BAR, linewidth=0.7, alpha=0.6, zorder=1,
                label="95% interval of the simulation")  # fmt: skip
    size, faint = _dots(c.gaps)
    if independent.size:
        axes.plot(c.independent, y, "x", color=_INDEPENDENT, markersize=size, markeredgewidth=0.8, alpha=faint,
                  zorder=2.5, label="independent marginals")  # fmt: skip
    axes.plot(x[~hidden], y[~hidden], "o", color=_DOT, markersize=size, markeredgewidth=0, alpha=faint, zorder=3,
              label="one gap")  # fmt: skip
    _draw_hidden(axes, x, y, hidden, learned < low)
    for axis, end in ((axes.xaxis, reach), (axes.yaxis, far)):
        _plain_ticks(axis, edge, end)
    axes.set_xlabel("learned variance of the gap (return²)")
    axes.set_ylabel("simulated variance of the gap (return²)")
    ratio = _named_estimate("learned / simulated variance", c.ratio)
    rank = _named_estimate("rank correlation", c.rank_correlation) + _ceiling(c.rank_ceiling)
    axes.set_title(f"{ratio}\n{rank}", loc="left", fontsize=9.5)


def _draw_hidden(axes: Axes, x: Floats, y: Floats, hidden: Booleans, to_the_left: Booleans) -> None:
    for which, marker in ((hidden & to_the_left, "<"), (hidden & ~to_the_left, "v")):
        if which.any():
            name = "learned" if marker == "<" else "simulated"
            axes.plot(x[which], y[which], marker, color=_DOT, markersize=6, markerfacecolor="white", clip_on=False,
                      zorder=4, label=f"{name} ≤ 0 or off the axis")  # fmt: skip


def _plain_ticks(axis: Axis, low: float, high: float) -> None:
    """Plain numbers 0.1, 1, 10, and some in between if powers of ten alone would be too few."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_minor_formatter(NullFormatter())
    if high / low < 500:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 100 else (1, 3)))
    if low >= 1e-4 and high <= 1e5:
        axis.set_major_formatter("{x:g}")


def _draw_means(axes: Axes, c: Calibration) -> None:
    learned, simulated, error = c.mean, c.simulated_mean, _WIDE * c.simulated_mean_error
    size, faint = _dots(c.gaps)
    ends = np.concatenate((learned, simulated - error, simulated + error))
    low, high = float(ends.min()), float(ends.max())
    margin = 0.04 * (high - low) or 0.5 * abs(high) or 1.0
    low, high = low - margin, high + margin
    axes.axhline(0, color=GREY, linewidth=0.6, zorder=0.5)
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=0.5)
    axes.plot([low, high], [low, high], color="black", linewidth=1, zorder=2)
    axes.vlines(learned, simulated - error, simulated + error, color=_BAR, linewidth=0.7, alpha=0.6, zorder=1)
    axes.plot(learned, simulated, "o", color=_DOT, markersize=size, markeredgewidth=0, alpha=faint, zorder=3)
    axes.set(xlim=(low, high), ylim=(low, high))
    axes.locator_params(nbins=6)
    axes.set_xlabel("learned mean of the gap (return)")
    axes.set_ylabel("simulated mean of the gap (return)")
    correlation = _named_estimate("correlation of means", c.mean_correlation) + _ceiling(c.mean_ceiling)
    beyond_noise = _named_estimate("rms error beyond noise", c.mean_error)
    axes.set_title(f"{correlation}\n{beyond_noise}", loc="left", fontsize=9.5)


def _dots(gaps: int) -> tuple[float, float]:
    return (4.5, 0.75) if gaps <= _CROWDED else (3.0, 0.5)


def _ceiling(ceiling: float) -> str:
    return "" if math.isnan(ceiling) else f"; perfect: about {ceiling:.2f}"


def _named_estimate(name: str, estimate: Estimate) -> str:
    if math.isnan(estimate):
        return f"{name}: not defined"
    size = abs(float(estimate)) or 1.0
    decimals = max(2, 1 - math.floor(math.log10(size)))
    value = decimals_of(estimate, decimals)
    unknown = not math.isfinite(estimate.high - estimate.low)
    return f"{name} {value}" + (", interval not known" if unknown else f" {ends_to_decimals(estimate, decimals)}")
