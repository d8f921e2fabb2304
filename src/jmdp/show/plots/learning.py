"""How a method ends: TD errors against updates, residuals of sweeps, and learned gaps against simulated ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.interval import Estimate
from jmdp.base.labels import is_unicode
from jmdp.base.rounding import decimals_of, ends_to_decimals
from jmdp.base.settings import instance, short
from jmdp.errors import SettingsError, UnavailableError
from jmdp.results.calibration import Calibration, held_out, seeds
from jmdp.results.evaluation import Evaluation
from jmdp.results.result import LearningCurve, Quantity, who_gives
from jmdp.show.plots.style import (
    COLOURS,
    DASHES,
    GREY,
    SMALL,
    WIDTH,
    check_drawn,
    check_title,
    clear_spines,
    new_figure,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from jmdp.methods.neural_gram.learned_evaluation import LearnedEvaluation


_MEANINGS = {"mean": "Z(s,a)", "diagonal": "Z(s,a)²", "same state": "Z(s,a) Z(s,b)", "cross": "Z(s,a) Z(t,b)"}

_CENTRED = {
    "mean": "E Z(s,a)", "diagonal": "Var Z(s,a)", "same state": "Cov(Z(s,a), Z(s,b))",
    "cross": "Cov(Z(s,a), Z(t,b))", "gap mean": "E[Z(s,a) − Z(t,b)]", "gap": "Var(Z(s,a) − Z(t,b))",
}  # fmt: skip
"""The same for `NeuralGram`, which learns covariances and gaps."""

_MEANS = ("mean", "gap mean")
"""Blocks in units of return; the others are in units of its square."""

_FLOOR = "noise of one sample"

_POINTS = 4
"""Points for each doubling of updates; more would mainly show the noise of single windows."""

_PLAIN = 1e3
"""Up to this ratio of the largest to the smallest error, ticks are plain numbers 1, 2, 5, …"""

_ROUNDING = 1e-17


def td_errors(
    evaluations: Evaluation | LearnedEvaluation | Sequence[Evaluation] | Sequence[LearnedEvaluation],
    *,
    title: str | None = None,
) -> Figure:
    """TD errors δ = target − estimate against updates, both on logarithmic scales, a line for each block.

    The figure follows the paper's figure of TD errors ("Incremental JIPE-2 with neural functional approximation",
    blocks μ, σ_diag, σ_same, σ_cross). Lines are moving averages; with several seeds the bold line is the mean over
    seeds up to the shortest run, and faint lines are the single runs. Above is √(average of δ²), which falls to the
    noise of one sample and stays there. Below is |average of δ|, in which noise averages out, so it keeps falling.
    Errors of different coordinates can cancel in it: it indicates convergence, while the certificate bounds the error.

    Unlike in the paper, an average after n updates is over the last n/2, which is equally smooth everywhere on a
    logarithmic axis, and errors are fractions of the returns' spread: errors of means of the largest standard
    deviation, errors of products of the largest variance, as in the tolerance of `Incremental`. If no return certainly
    varies, errors are in units of return and of its square. For `NeuralGram` the spread is the one first seen in its
    rollouts, and thin lines in the upper panel are the noise of one sample at the start of rollouts, if measured.

    Parameters
    ----------
    evaluations
        One evaluation by `Incremental` or `NeuralGram`, or several with the same settings but for their seeds.
    title
        Shown above the axes.
    """
    check_title(title)
    runs: list[Any] = list(evaluations) if isinstance(evaluations, (list, tuple)) else [evaluations]
    for run in runs:
        if not isinstance(run, Evaluation) and getattr(run, "network", None) is None:
            raise SettingsError(f"evaluations is {short(evaluations)}. Give an evaluation, or a list of them.")
    if not runs:
        raise SettingsError("There is no evaluation to show.")
    curves = [_curve(run) for run in runs]
    shared = _shared_windows(curves)
    centred = not isinstance(runs[0], Evaluation)
    std = max(float(run.network.std) for run in runs) if centred else _largest_std(runs)
    figure, [[upper], [lower]] = new_figure(2, 1, size=(WIDTH, 7.6))
    for i, block in enumerate(curves[0].blocks):
        scale = 1.0 if std is None else std if block in _MEANS else std * std
        sizes = [np.sqrt(_moving(curve, curve.rms[:, i] ** 2)) / scale for curve in curves]
        drifts = [np.abs(_moving(curve, curve.drift[:, i])) / scale for curve in curves]
        for axes, errors in ((upper, sizes), (lower, drifts)):
            _block(axes, i, _named(block, centred), curves, errors, shared)
        _draw_floor(upper, i, curves, scale)
    _label(upper, lower, std, centred)
    handles = upper.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower left", ncols=2, frameon=False, handlelength=3, fontsize=SMALL,
                  title=wrapped(_note(std, centred), 70), title_fontsize=SMALL, alignment="left")  # fmt: skip
    figure.suptitle(title or _title(runs), fontsize=11)
    return figure


def _label(upper: Axes, lower: Axes, std: float | None, centred: bool) -> None:
    if not (upper.get_lines() and lower.get_lines()):
        raise SettingsError("All TD errors are 0, so there is nothing to show on a logarithmic scale.")
    unit = "TD error, " + ("in units, see below" if std is None else "fraction of the spread")
    updates = "updates, each of all blocks" if centred else "updates, of all blocks together"
    for axes in (upper, lower):
        _dress(axes, updates, unit)
    upper.set_title("size √(mean of δ²): falls to the noise of one sample", fontsize=10)
    lower.set_title("drift |mean of δ|: keeps falling, as noise averages out", fontsize=10)


def _curve(evaluation: Any) -> LearningCurve:
    if evaluation.learning is None:
        raise UnavailableError(
            f"This evaluation by {type(evaluation.method).__name__} has no TD errors. "
            "Incremental(seed=…) has them, where some state is not terminal."
        )
    curve: LearningCurve = evaluation.learning
    if curve.updates.size == 0:
        raise UnavailableError("This evaluation was interrupted before its first TD errors.")
    return curve


def _shared_windows(curves: Sequence[LearningCurve]) -> int:
    """Number of windows common to all runs; a run that stopped early may have a shorter last window."""
    shortest = min((curve.updates for curve in curves), key=len)
    longest = max((curve.updates for curve in curves), key=len)
    shared = len(shortest) - int(shortest[-1] != longest[len(shortest) - 1])
    alike = all(curve.blocks == curves[0].blocks for curve in curves)
    if shared == 0 or not alike or any((curve.updates[:shared] != longest[:shared]).any() for curve in curves):
        raise SettingsError("The evaluations were not updated alike. Give runs that differ in their seed alone.")
    return shared


def _largest_std(runs: Sequence[Evaluation]) -> float | None:
    """Largest standard deviation of any return in any run; None if no return certainly varies."""
    largest = 0.0
    for run in runs:
        error = 0.0 if run.certificate is None else run.certificate.covariance_error
        certain = run.covariance > error
        variance = np.einsum("saa->sa", np.where(certain, run.covariance, 0.0))
        largest = max(largest, float(variance.max()))
    return math.sqrt(largest) if largest > 0 else None


def _places(updates: Floats) -> Integers:
    """Indices of the windows to draw: the first to reach updates[0] × 2^(k / _POINTS), and the last."""
    doublings = math.log2(updates[-1] / updates[0])
    wanted = updates[0] * 2 ** (np.arange(0, doublings * _POINTS) / _POINTS)
    return np.unique(np.append(np.searchsorted(updates, wanted), updates.size - 1))


def _moving(curve: LearningCurve, values: Floats) -> Floats:
    """[T], averages over the windows that ended within the last half of all updates so far.

    Windows are weighted by their number of updates; those without a value are left out.
    """
    lengths = np.where(np.isnan(values), 0.0, np.diff(curve.updates, prepend=0.0))
    total, known = np.full(values.shape, np.nan), np.nan_to_num(values)
    first = np.searchsorted(curve.updates, curve.updates / 2, side="right")
    for t, begin in enumerate(first):
        weight = lengths[begin : t + 1]
        if weight.any():
            total[t] = weight @ known[begin : t + 1] / weight.sum()
    return total


def _block(
    axes: Axes, i: int, name: str, curves: Sequence[LearningCurve], errors: Sequence[Floats], shared: int
) -> None:
    """Draw the mean of all runs over the single runs; nothing for a block without errors."""
    updates = curves[0].updates[:shared]
    at = _places(updates)
    mean = _positive(np.mean([error[:shared] for error in errors], axis=0)[at])
    if np.isnan(mean).all():
        return
    colour = COLOURS[i % len(COLOURS)]
    if len(curves) > 1:
        for curve, error in zip(curves, errors, strict=True):
            own = _places(curve.updates)
            axes.loglog(curve.updates[own], _positive(error[own]), color=colour, alpha=0.35, linewidth=0.8)
    axes.loglog(
        updates[at],
        mean,
        color=colour,
        linestyle=DASHES[i % len(DASHES)],
        linewidth=2.2,
        marker="o" if at.size <= 10 else "",
        markersize=4,
        label=name,
    )


def _named(block: str, centred: bool) -> str:
    meanings = _CENTRED if centred else _MEANINGS
    return f"{block}, {meanings[block]}" if block in meanings else block


def _draw_floor(axes: Axes, i: int, curves: Sequence[LearningCurve], scale: float) -> None:
    """Thin line at the noise of one sample, averaged over the runs in which it was measured."""
    known = [curve.floor[i] for curve in curves if curve.floor is not None]
    floor = float(np.mean(known)) / scale if known else math.nan
    if floor > 0:
        axes.axhline(floor, color=COLOURS[i % len(COLOURS)], linewidth=1, alpha=0.4, zorder=1, label=f"_{_FLOOR}")


def _positive(errors: Floats) -> Floats:
    """The errors, with nan for 0, which has no place on a logarithmic axis."""
    return np.where(errors > 0, errors, np.nan)


def _dress(axes: Axes, updates: str, unit: str) -> None:
    """Labels and limits; dips of single runs and values below rounding error are left out."""
    from matplotlib.ticker import LogLocator, NullFormatter

    lines = [(str(line.get_label()), np.asarray(line.get_ydata(), float)) for line in axes.get_lines()]
    high = max(float(np.nanmax(errors, initial=0.0)) for _, errors in lines)
    low = min(float(np.nanmin(errors)) for label, errors in lines if not label.startswith("_child"))
    low = max(low, high * _ROUNDING)
    margin = 1.1 * (high / low) ** 0.05
    axes.set_ylim(low / margin, high * margin)
    if high / low < _PLAIN:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(updates)
    axes.set_ylabel(unit)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    clear_spines(axes)


def _note(std: float | None, centred: bool) -> str:
    average = "Averages are over the last half of all updates so far; the lower ones dip where they change sign.\n"
    if std is None:
        return (
            average
            + "No return certainly varies, so units are those of return for the mean and of its square for products."
        )
    if centred:
        return average + (
            f"Spread: the standard deviation of a return as first seen, {std:.3g}; for variances and covariances its "
            f"square, {std * std:.3g}.\n"
            f"Thin lines in the upper panel: the {_FLOOR} at the start of rollouts, where known."
        )
    return average + (
        f"Spread: for the mean the largest standard deviation of a return, {std:.3g}; "
        f"for products its square, {std * std:.3g}."
    )


def _title(runs: Sequence[Any]) -> str:
    seeds = f"\nbold: mean of {len(runs)} seeds, faint: single seeds" if len(runs) > 1 else ""
    return f"TD errors, {type(runs[0].coupling).__name__} coupling{seeds}"


def residual_curve(evaluations: Evaluation | Mapping[str, Evaluation], *, title: str | None = None) -> Figure:
    """Residual against sweep, one line for each evaluation, beside the rate γ per sweep.

    Each method measures its residual in its own norm: `JIPE` in the paper's ‖·‖_λ, `ExactPairs` in the maximum norm of
    covariances. Slopes can be compared, heights cannot.

    Parameters
    ----------
    evaluations
        One evaluation, or several by the name to show.
    title
        Shown above the axes.
    """
    check_title(title)
    if isinstance(evaluations, Evaluation):
        evaluations = {type(evaluations.method).__name__: evaluations}
    instance("evaluations", evaluations, Mapping, hint=" Give one evaluation, or {name: evaluation}.")
    if not evaluations:
        raise SettingsError("There is no evaluation to show.")
    for name, evaluation in evaluations.items():
        if not isinstance(name, str) or not is_unicode(name):
            raise SettingsError(f"The name of an evaluation is {short(name)}. Give a text.")
        instance(f"evaluations[{short(name)}]", evaluation, Evaluation)
    figure, [[axes]] = new_figure(size=(WIDTH, 3.8))
    for i, (name, evaluation) in enumerate(evaluations.items()):
        residuals = evaluation.residuals
        if residuals.size == 0 or evaluation.method.step_name != "sweep":
            raise UnavailableError(
                f"{name} has no residuals: {type(evaluation.method).__name__} does not sweep. "
                f"{who_gives(Quantity.SWEEPS)} do."
            )
        sweeps = np.arange(1, residuals.size + 1)
        shown = residuals > 0
        axes.semilogy(
            sweeps[shown],
            residuals[shown],
            color=COLOURS[i % len(COLOURS)],
            linestyle=DASHES[i % len(DASHES)],
            marker="o" if residuals.size <= 30 else "",
            markersize=4,
            label=f"{name} ({residuals.size} sweeps)",
        )
    _rate_line(axes, evaluations)
    axes.set_xlabel("sweep")
    axes.set_ylabel("residual, in each method's own norm" if len(evaluations) > 1 else "residual")
    axes.locator_params(axis="x", integer=True)
    axes.set_title(title or "Residual of every sweep")
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False)
    clear_spines(axes)
    return figure


def _rate_line(axes: Axes, evaluations: Mapping[str, Evaluation]) -> None:
    """Draw the slope γ per sweep through the first point of the longest run."""
    longest = max(evaluations.values(), key=lambda evaluation: evaluation.residuals.size)
    gamma = 0.0 if longest.certificate is None else longest.certificate.discount
    if gamma == 0 or longest.residuals[0] == 0:
        return
    sweeps = np.arange(longest.residuals.size)
    rate = longest.residuals[0] * gamma**sweeps
    axes.semilogy(sweeps + 1, rate, color=GREY, linewidth=3, alpha=0.4, zorder=0, label=f"γ = {gamma:g} per sweep")


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
