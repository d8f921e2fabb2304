"""Gaps of one action over the others in one state, with shared randomness and with independent draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.interval import Interval
from jmdp.base.labels import Label
from jmdp.base.rounding import at_most, significant
from jmdp.errors import SettingsError
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap
from jmdp.show.plots.comparison_chart import INDEPENDENT, INDEPENDENT_LABEL, SHARED, Spread, bar_limits, draw_bar, plain
from jmdp.show.plots.style import SMALL, WIDTH, check_drawn, clear_spines, new_figure, wrapped

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
        _draw_row(axes, y, row, (low, high), legend=y == 0)
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
    figure.legend(loc="outside lower left", frameon=False, fontsize=SMALL)
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


def _draw_row(axes: Axes, y: int, row: _Row, limits: tuple[float, float], *, legend: bool) -> None:
    def label(text: str) -> str:
        return text if legend else "_nolegend_"

    bars = (
        (row.independent_std, 0.62, INDEPENDENT, INDEPENDENT_LABEL),
        (row.std, 0.36, SHARED, f"± 1 std, {row.coupling} coupling"),
    )
    for std, height, colours, text in bars:
        if draw_bar(axes, y, (row.gap - std, row.gap + std), limits, height, colours):
            axes.containers[-1].set_label(label(text))
    known = "mean with its interval" if row.bound else "mean, without an interval"
    error = [[row.gap - row.interval.low], [row.interval.high - row.gap]]
    axes.errorbar(row.gap, y, xerr=np.array(error), fmt="o", color="black", elinewidth=1.5, capsize=4,
                  markersize=4, zorder=4, label=label(known))  # fmt: skip
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
