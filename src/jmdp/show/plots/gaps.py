"""Figures of gaps: of one action over the others, their distribution, what explains their variance, and a frontier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.base.labels import Label
from jmdp.base.rounding import at_most, chance, confidence_percent, decimals_of, significant, with_decimals
from jmdp.base.settings import real_number, short
from jmdp.comparisons.explanation import Explanation, share_text
from jmdp.control.frontier import Frontier
from jmdp.errors import SettingsError
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import GapDistribution
from jmdp.results.gaps.gap import Gap
from jmdp.show.plots.comparison_chart import INDEPENDENT, INDEPENDENT_LABEL, SHARED, Spread, bar_limits, draw_bar, plain
from jmdp.show.plots.style import (
    COLOURS,
    GREY,
    SMALL,
    WIDTH,
    check_drawn,
    clear_spines,
    legend_handles,
    new_figure,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def gap_chart(evaluation: Evaluation, state: Label, *, action: Label | None = None, title: str | None = None) -> Figure:
    """Gaps Z(action) − Z(other) of one state: mean with its interval, and one standard deviation to each side.

    The inner bar is the spread under the evaluation's coupling, the outer one the spread with independent draws for
    each action, cut off with arrows if it would compress the rest. The column at the right is Cantelli's upper
    bound on P(gap ≤ 0), the chance that the first action is no better. The other actions are ordered by their means.

    Parameters
    ----------
    evaluation
        Of any method.
    state
        By index or name.
    action
        The action to compare with all others; by default the one with the largest mean.
    title
        Shown above the axes.
    """
    check_drawn("evaluation", evaluation, Evaluation, title)
    s = evaluation.states.index(state)
    first = int(evaluation.mean[s].argmax()) if action is None else evaluation.actions.index(action)
    others = [b for b in range(evaluation.actions.size) if b != first]
    if not others:
        raise SettingsError("There is one action, so there is no gap to show.")
    others.sort(key=lambda b: -evaluation.mean[s, b])
    rows = [_row(evaluation, s, first, b) for b in others]
    low, high = bar_limits(rows)
    figure, [[axes]] = new_figure(size=(WIDTH, 2.5 + 0.45 * len(others)))
    for y, row in enumerate(rows):
        _draw_row(axes, y, row, (low, high))
    coupling = type(evaluation.coupling).__name__
    axes.axvline(0, color="black", linewidth=0.8, zorder=2)
    names = [plain(evaluation.actions.name(a)) for a in range(evaluation.actions.size)]
    axes.set_yticks(range(len(others)), [f"{names[first]} − {names[b]}" for b in others])
    axes.set_ylim(len(others) - 0.5, -1.1)
    axes.set_xlim(low, high)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel(f"difference of discounted returns\n(positive: the first {evaluation.actions.kind} is better)")
    state_name = evaluation.states.name(s)
    where = "the current state" if state_name == "here" else f"state {plain(state_name)}"
    figure.suptitle(wrapped(title or f"Gaps at {where}, {coupling} coupling"), x=0.01, ha="left")
    if any(row.bound for row in rows):
        axes.text(1.02, -0.75, "P(gap ≤ 0)", transform=axes.get_yaxis_transform(), va="center", fontsize=SMALL)
    handles = legend_handles([axes])
    figure.legend(list(handles.values()), list(handles), loc="outside lower left", frameon=False, fontsize=SMALL)
    clear_spines(axes)
    return figure


@dataclass(frozen=True)
class _Row(Spread):
    coupling: str
    bound: str


def _row(evaluation: Evaluation, s: int, a: int, b: int) -> _Row:
    gap = evaluation.gap(evaluation.states[s], evaluation.actions[a], evaluation.actions[b])
    interval = Interval(gap.mean, gap.mean) if gap.mean_interval is None else gap.mean_interval
    independent_std = math.sqrt(evaluation.covariance[s, a, a] + evaluation.covariance[s, b, b])
    return _Row(gap.mean, interval, gap.std, independent_std, type(gap.coupling).__name__, _bound(gap))


def _draw_row(axes: Axes, y: int, row: _Row, limits: tuple[float, float]) -> None:
    bars = (
        (row.independent_std, 0.62, INDEPENDENT, INDEPENDENT_LABEL),
        (row.std, 0.36, SHARED, f"± 1 std, {row.coupling} coupling"),
    )
    for std, height, colours, text in bars:
        if draw_bar(axes, y, (row.gap - std, row.gap + std), limits, height, colours):
            axes.containers[-1].set_label(text)
    known = "mean with its interval" if row.bound else "mean, without an interval"
    error = [[row.gap - row.interval.low], [row.interval.high - row.gap]]
    axes.errorbar(row.gap, y, xerr=np.array(error), fmt="o", color="black", elinewidth=1.5, capsize=4,
                  markersize=4, zorder=4, label=known)  # fmt: skip
    column = axes.get_yaxis_transform()
    axes.text(1.02, y - 0.02, row.bound, transform=column, va="bottom", fontsize=SMALL)
    spread = f"std {significant(row.std, 2)} ({significant(row.independent_std, 2)})"
    axes.text(1.02, y + 0.04, spread, transform=column, va="top", fontsize=SMALL, color="#505050")


def _bound(gap: Gap) -> str:
    """Upper bound on P(gap ≤ 0); below 1 it is never written as 1."""
    if gap.mean_interval is None:
        return ""
    bound = gap.inferiority_bound()
    if bound >= 1:
        return "≤ 1"
    text = at_most(bound, 3)
    return "< 1" if float(text) >= 1 else f"≤ {text}"


_BETTER, _WORSE, _TIE = COLOURS[0], COLOURS[1], GREY
_CURVE, _BAND = COLOURS[4], "#56B4E9"

_CUT = 50
"""The axis covers at least the quantiles of p/50 and 1 − p/50."""

_LEAST = 1e-9
"""Smallest probability of a tail: that of its ends must differ from 0 and 1."""

_RARE = 1e-5
"""Outcomes beyond the axis that are likelier than this are mentioned in the figure."""

_BINS = 1000
"""Steps closer than the width of the axis over this number are drawn as one; that is less than a pixel."""


def gap_distribution(gap: Gap, *, p: float = 0.05, title: str | None = None) -> Figure:
    """Distribution function of a gap Z(first) − Z(second), with the band that contains it.

    Marked on the curve are the quantiles of p, ½ and 1 − p; in the strip below p, CVaR_p, the mean of the worst p of
    all outcomes. The line at 0 is split at the chances that the first action does worse, equally well and better,
    which are written above the axes. The axis ends where almost no mass is left, possibly far inside the support.

    Parameters
    ----------
    gap
        Of an evaluation that has distributions, e.g. ``evaluate(…, method=ExactDistribution()).gap(s, a, b)``.
    p
        Probability of the lower tail, below ½.
    title
        Shown above the axes.
    """
    check_drawn("gap", gap, Gap, title)
    given, p = p, real_number(p)
    if not _LEAST <= p < 0.5:
        raise SettingsError(
            f"p is {short(given)}. Give a probability between 0 and ½, e.g. 0.05 for the worst twentieth."
        )
    distribution = gap.distribution()
    figure, [[axes]] = new_figure(size=(WIDTH, 5.0))
    left, right = _limits(distribution, p)
    _draw_curve(axes, distribution, left, right)
    _draw_marks(axes, distribution, p, 3 - math.floor(math.log10(right - left)))
    _draw_zero(axes, distribution)
    _note_beyond(axes, distribution, left, right)
    lines = _write_chances(axes, distribution, gap)
    axes.set_xlim(left, right)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(f"gap: discounted return, {gap.first} − {gap.second}")
    axes.set_ylabel("P(gap ≤ x)")
    of = wrapped(f"Distribution of the gap Z({gap.first}) − Z({gap.second}) at state {gap.state}", 56)
    words = title or f"{of}\n{type(gap.coupling).__name__} coupling, {distribution.confidence_text}"
    axes.set_title(words, loc="left", fontsize=11, pad=8 + 13 * lines)
    figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=SMALL, labelspacing=0.6)
    clear_spines(axes)
    return figure


def _limits(distribution: GapDistribution, p: float) -> tuple[float, float]:
    """Ends of the axis: around the mass and all marks, and 0 unless it is far away."""
    left = min(float(distribution.quantile(p / _CUT)), float(distribution.cvar(p)))
    right = float(distribution.quantile(1 - p / _CUT))
    width = right - left
    if left - width <= 0 <= right + width:
        left, right = min(left, 0.0), max(right, 0.0)
    # The width is 0 for a distribution of one point.
    margin = 0.06 * (right - left) or 0.5 * abs(left) or 1.0
    return left - margin, right + margin


def _draw_curve(axes: Axes, distribution: GapDistribution, left: float, right: float) -> None:
    x = _steps(distribution, left, right)
    after, before = [distribution.cdf(point) for point in x], [distribution.below(point) for point in x[1:]]
    low = [estimate.low for estimate in after]
    # Between two steps the cdf is constant. If steps were left out, the largest value in between bounds it.
    high = [*(estimate.high for estimate in before), after[-1].high]
    seen = float(np.sum((np.array(high) - low)[:-1] * np.diff(x))) > 2e-3 * (right - left)
    axes.step(x, np.array(after), where="post", color=_CURVE, linewidth=1.4, zorder=2, label="best estimate")
    axes.fill_between(x, low, high, step="post", color=_BAND, alpha=0.4, linewidth=0, zorder=1,
                      label="band that contains the whole cdf" if seen else "_nolegend_")  # fmt: skip


def _steps(distribution: GapDistribution, left: float, right: float) -> Floats:
    """Positions of all steps of the curve and its band; of steps closer than a pixel, the first and last."""
    steps = np.unique(
        np.concatenate(
            (
                distribution.low,
                distribution.high,
                distribution.value,
                [distribution.support.low, distribution.support.high],
            )
        )
    )
    steps = steps[(steps > left) & (steps < right)]
    new_bin = np.diff(np.floor((steps - left) / (right - left) * _BINS)) > 0
    drawn = np.append(True, new_bin) | np.append(new_bin, True) if steps.size else np.zeros(0, bool)
    return np.concatenate(([left], steps[drawn | (steps == 0)], [right]))


def _note_beyond(axes: Axes, distribution: GapDistribution, left: float, right: float) -> None:
    """Mention outcomes far beyond the axis: they are rare, but may dominate the mean."""
    there, width = distribution.value[distribution.mass > _RARE], right - left
    if there.size and left - there.min() > width:
        below = f"{100 * distribution.below(left):.2g}%"
        text = f"← {below} of all outcomes\n    far beyond, down to {decimals_of(there.min(), 0)}"
        axes.text(0.01, 0.1, text, transform=axes.transAxes, fontsize=SMALL, color=_WORSE)
    if there.size and there.max() - right > width:
        beyond = 100 * (1 - distribution.cdf(right))
        text = f"{beyond:.2g}% of all outcomes →\nfar beyond, up to {decimals_of(there.max(), 0)}    "
        axes.text(0.99, 0.86, text, transform=axes.transAxes, fontsize=SMALL, color=_BETTER, ha="right", va="top")


def _draw_marks(axes: Axes, distribution: GapDistribution, p: float, decimals: int) -> None:
    axes.axhspan(0, p, color=_WORSE, alpha=0.12, linewidth=0, zorder=0)
    marks = (
        (distribution.quantile(1 - p), 1 - p, "^", f"{100 * (1 - p):g}% quantile"),
        (distribution.quantile(0.5), 0.5, "o", "median"),
        (distribution.quantile(p), p, "v", f"{100 * p:g}% quantile"),
        (distribution.cvar(p), p / 2, "D", f"mean of the worst {100 * p:g}%"),
    )
    for x, y, marker, name in marks:
        colour = _WORSE if marker == "D" else _CURVE
        axes.errorbar(x, y, xerr=[[x - x.low], [x.high - x]], fmt=marker, color=colour, markersize=6, elinewidth=1,
                      capsize=2, zorder=4, markerfacecolor=colour if marker == "D" else "white",
                      label=f"{name}\n{with_decimals(x, max(decimals, 0))}")  # fmt: skip


def _draw_zero(axes: Axes, distribution: GapDistribution) -> None:
    """Line at 0, split in proportion to the mass: worse at the bottom, better on top."""
    worse, no_better = float(distribution.below(0.0)), float(distribution.cdf(0.0))
    for low, high, colour in ((0.0, worse, _WORSE), (worse, no_better, _TIE), (no_better, 1.0, _BETTER)):
        axes.plot([0, 0], [low, high], color=colour, linewidth=4, alpha=0.8, solid_capstyle="butt", zorder=1.5)


def _write_chances(axes: Axes, distribution: GapDistribution, gap: Gap) -> int:
    """Write the three chances above the axes and return the number of lines."""
    chances = (
        ("left", f"{gap.first} worse", "<", distribution.inferiority(), _WORSE),
        ("center", "tie", "=", distribution.ties(), _TIE),
        ("right", f"{gap.first} better", ">", distribution.superiority(), _BETTER),
    )
    written = [with_decimals(estimate, 3, chance, between="\nin ") for *_, estimate, _ in chances]
    lines = max(text.count("\n") for text in written) + 2
    for x, text, (side, words, sign, _, colour) in zip((0.0, 0.5, 1.0), written, chances, strict=True):
        whole = f"{words}\nP(gap {sign} 0) = {text}"
        whole += "\n" * (lines - 1 - whole.count("\n"))  # so that all start at the same height
        axes.text(x, 1.02, whole, transform=axes.transAxes, ha=side, va="bottom", color=colour, fontsize=SMALL)
    return lines


def explanation_chart(explanation: Explanation, *, title: str | None = None) -> Figure:
    """Bars of the shares of each source, the largest first: alone, and with interactions; lines are intervals.

    Parameters
    ----------
    explanation
        By `Comparison.explain`.
    title
        Shown above instead of the gap.
    """
    check_drawn("explanation", explanation, Explanation, title)
    rows = [(plain(name), explanation.first_order(name), explanation.total(name)) for name in explanation.sources]
    figure, [[axes]] = new_figure(size=(WIDTH, 1.5 + 0.52 * len(rows)))
    said = f"What explains the variance of {plain(explanation.first)} − {plain(explanation.second)}"
    figure.suptitle(wrapped(title or said, 54), x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    ends = [0.0, 1.0]
    for y, (_, alone, whole) in enumerate(rows):
        for at, share, (fill, edge), words in (
            (y - 0.19, alone, ("#0072B2", SHARED[1]), "on its own"),
            (y + 0.19, whole, INDEPENDENT, "with its interactions"),
        ):
            axes.barh(at, float(share), height=0.34, color=fill, edgecolor=edge, linewidth=0.8,
                      label=words if y == 0 else None)  # fmt: skip
            low, high = (share.low, share.high) if share.has_interval else (float(share),) * 2
            axes.plot([low, high], [at, at], color="black", linewidth=1.3, solid_capstyle="butt")
            axes.text(1.02, at, share_text(share), transform=axes.get_yaxis_transform(), va="center", fontsize=SMALL)
            ends += [max(low, -0.5), min(high, 1.5)]
    axes.set_yticks(range(len(rows)), [wrapped(name, 18) for name, *_ in rows])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(labelsize=SMALL)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_xlim(min(ends) - 0.02 * (min(ends) < 0), max(ends))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("share of the variance of the gap", fontsize=SMALL)
    clear_spines(axes)
    drawn = f"{explanation.samples:,} samples · seed {explanation.seed}" if explanation.samples else "from the table"
    sure = "" if explanation.confidence is None else f" · {confidence_percent(explanation.confidence)} confidence each"
    figure.legend(loc="outside lower left", frameon=False, fontsize=SMALL, alignment="left", ncols=2,
                  title=f"{drawn}{sure}", title_fontsize=SMALL)  # fmt: skip
    return figure


def frontier_chart(frontier: Frontier, *, title: str | None = None) -> Figure:
    """Draw the gain of each policy against its shortfall, or against its weighted risk.

    Dots are single policies. The solid line needs a coin before the first step; the dashed one is a coin between the
    incumbent and the policy with the largest gain. Open dots are the same policies in the second model.
    """
    check_drawn("frontier", frontier, Frontier, title)
    figure, ((axes,),) = new_figure(size=(WIDTH, 3.9))
    own, risk = [one.statistics for one in frontier.points], frontier.measure.of
    best = frontier.optimum.statistics
    ends = np.array([(0.0, 0.0), (risk(best), float(best.gain))])
    if frontier.objective != "cvar":
        corners = frontier.hull
        ends = corners[[0, -1]]
        axes.plot(
            corners[:, 0], corners[:, 1], color=COLOURS[0], linewidth=1.2, zorder=2, label="with one coin at the start"
        )
        axes.plot(
            ends[:, 0], ends[:, 1], color=GREY, linestyle="--", linewidth=1, zorder=1, label="coin: incumbent or best"
        )
    axes.plot([risk(x) for x in own], [float(x.gain) for x in own], "o", color=COLOURS[0], markersize=5, zorder=3)
    second = [one.under for one in frontier.points if one.under is not None]
    if second:
        axes.plot(
            [risk(x) for x in second], [float(x.gain) for x in second], "o", color=COLOURS[1], zorder=3,
            markersize=5, markerfacecolor="none", label="same policies, second model",
        )  # fmt: skip
    _mark(axes, (0.0, 0.0), "incumbent", (8, -4))
    _mark(axes, (float(ends[-1, 0]), float(ends[-1, 1])), "largest gain", (-6, 12))
    axes.axhline(0, color="#cccccc", linewidth=0.8, zorder=0)
    axes.set_xlabel(_risk_title(frontier), fontsize=SMALL)
    axes.set_ylabel("gain over the incumbent", fontsize=SMALL)
    axes.tick_params(labelsize=SMALL)
    axes.margins(0.08)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=SMALL, frameon=False, loc="lower right")
    clear_spines(axes)
    axes.set_title(wrapped(_half_title(frontier) if title is None else title, 62), fontsize=SMALL + 1, loc="left")
    return figure


def _mark(axes: Axes, at: tuple[float, float], text: str, offset: tuple[int, int]) -> None:
    """Name a point."""
    right = offset[0] < 0
    axes.plot(*at, "s", color="black", markersize=5, zorder=4)
    axes.annotate(
        text, at, xytext=offset, textcoords="offset points", fontsize=SMALL, ha="right" if right else "left",
        va="center",
    )  # fmt: skip


def _risk_title(frontier: Frontier) -> str:
    if frontier.objective == "cvar":
        return "mean loss in the worst 5%"
    if not frontier.measure.chance:
        return "shortfall"
    return f"shortfall + {frontier.measure.chance:.3g} × chance of being worse"


def _half_title(frontier: Frontier) -> str:
    best, half = frontier.optimum.statistics, frontier.measure.of(frontier.optimum.statistics) / 2
    if frontier.objective == "cvar" or not float(best.gain) > 0 or half <= 0:
        return frontier.answer
    kept = float(np.interp(half, frontier.hull[:, 0], frontier.hull[:, 1])) / float(best.gain)
    risk = "risk" if frontier.measure.chance else "shortfall"
    return f"Half of the {risk} keeps {kept:.0%} of the gain; a coin keeps 50%"
