"""Gaps of one action over the others in one state, with shared randomness and with independent draws."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.labels import Label
from jmdp.base.rounding import at_most
from jmdp.errors import SettingsError
from jmdp.plots.style import COLOURS, SMALL, WIDTH, clear_spines, new_figure, wrapped
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def gap_chart(evaluation: Evaluation, state: Label, *, action: Label | None = None, title: str | None = None) -> Figure:
    """Gaps Z(action) − Z(other) of one state: mean with its interval, and one standard deviation to each side.

    The inner bar is the spread under the evaluation's coupling, the outer one the spread with independent draws for
    each action. The column at the right is Cantelli's upper
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
    s = evaluation.states.index(state)
    first = int(evaluation.mean[s].argmax()) if action is None else evaluation.actions.index(action)
    others = [b for b in range(evaluation.actions.size) if b != first]
    if not others:
        raise SettingsError("There is one action, so there is no gap to show.")
    others.sort(key=lambda b: -evaluation.mean[s, b])
    figure, [[axes]] = new_figure(size=(WIDTH, 2.4 + 0.42 * len(others)))
    for y, b in enumerate(others):
        independent_std = math.sqrt(evaluation.covariance[s, first, first] + evaluation.covariance[s, b, b])
        _row(axes, y, evaluation.gap(s, first, b), independent_std, legend=y == 0)
    coupling = type(evaluation.coupling).__name__
    axes.axvline(0, color="black", linewidth=0.8, zorder=2)
    name = evaluation.actions.name
    axes.set_yticks(range(len(others)), [f"{name(first)} − {name(b)}" for b in others])
    axes.set_ylim(len(others) - 0.5, -1.1)
    axes.margins(x=0.06)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel(f"difference of discounted returns\n(positive: the first {evaluation.actions.kind} is better)")
    where = f"state {evaluation.states.name(s)}"
    figure.suptitle(wrapped(title or f"Gaps at {where}, {coupling} coupling"), x=0.01, ha="left")
    column = axes.get_yaxis_transform()
    axes.text(1.02, -0.75, "P(gap ≤ 0)", transform=column, va="center", fontsize=SMALL)
    for y, b in enumerate(others):
        axes.text(1.02, y, _bound(evaluation.gap(s, first, b)), transform=column, va="center", fontsize=SMALL)
    figure.legend(loc="outside lower left", frameon=False, fontsize=SMALL)
    clear_spines(axes)
    return figure


def _row(axes: Axes, y: int, gap: Gap, independent_std: float, *, legend: bool) -> None:
    def label(text: str) -> str:
        return text if legend else "_nolegend_"

    axes.barh(y, 2 * gap.std, left=gap.mean - gap.std, height=0.36, color="#A9D3EF", edgecolor=COLOURS[0],
              linewidth=0.7, zorder=1.5, label=label(f"± 1 std, {type(gap.coupling).__name__} coupling"))  # fmt: skip
    axes.barh(y, 2 * independent_std, left=gap.mean - independent_std, height=0.62, color="#F4F4F4",
              edgecolor="#999999", linewidth=0.7, zorder=1, label=label("± 1 std with independent draws"))  # fmt: skip
    error = [[0.0], [0.0]]
    if gap.mean_interval is not None:
        error = [[gap.mean - gap.mean_interval.low], [gap.mean_interval.high - gap.mean]]
    axes.errorbar(gap.mean, y, xerr=np.array(error), fmt="o", color="black", elinewidth=1.5, capsize=4,
                  markersize=4, zorder=4, label=label("mean with its interval"))  # fmt: skip


def _bound(gap: Gap) -> str:
    if gap.mean_interval is None:
        return ""
    bound = gap.inferiority_bound()
    if bound >= 1:
        return "≤ 1"
    written = at_most(bound, 3)
    return "< 1" if float(written) >= 1 else f"≤ {written}"
