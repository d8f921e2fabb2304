"""Chart of one action's gaps to the others in a state, under shared randomness and under independent sampling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.labels import Label
from jmdp.base.rounding import at_most
from jmdp.errors import SettingsError
from jmdp.plots.style import COLOURS, GREY, clear_spines, new_figure
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def gap_chart(evaluation: Evaluation, state: Label, *, action: Label | None = None, title: str | None = None) -> Figure:
    """Plot the gaps Z(action) − Z(other) of one state: mean with interval, and one standard deviation to each side.

    The broad bar is the standard deviation under the evaluation's coupling; the line below it is the standard deviation
    for independent returns with the same marginals. At the right is Cantelli's bound on P(gap ≤ 0). The other actions
    are sorted by their means.

    Parameters
    ----------
    evaluation
        Evaluation by any method.
    state
        State, by index or name.
    action
        Action to compare with all others; by default the one with the largest mean.
    title
        Title of the figure.
    """
    s = evaluation.states.index(state)
    first = int(evaluation.mean[s].argmax()) if action is None else evaluation.actions.index(action)
    others = [b for b in range(evaluation.actions.size) if b != first]
    if not others:
        raise SettingsError("There is one action, so there is no gap to show.")
    others.sort(key=lambda b: -evaluation.mean[s, b])
    figure, [[axes]] = new_figure(size=(8.0, 1.7 + 0.55 * len(others)))
    for y, b in enumerate(others):
        independent_std = math.sqrt(evaluation.covariance[s, first, first] + evaluation.covariance[s, b, b])
        _row(axes, y, evaluation.gap(s, first, b), independent_std, legend=y == 0)
    coupling = type(evaluation.coupling).__name__
    axes.axvline(0, color="black", linewidth=0.8)
    name = evaluation.actions.name
    axes.set_yticks(range(len(others)), [f"{name(first)} − {name(b)}" for b in others])
    axes.set_ylim(len(others) - 0.4, -0.6)
    axes.margins(x=0.06)
    axes.set_xlabel(f"difference of discounted returns; right of 0 the first {evaluation.actions.kind} did better")
    where = f"state {evaluation.states.name(s)}"
    axes.set_title(title or f"Gaps at {where}, {coupling} luck", loc="left")
    right = axes.secondary_yaxis("right")
    bounds = [evaluation.gap(s, first, b) for b in others]
    right.set_yticks(range(len(others)), [_bound(gap) for gap in bounds])
    right.tick_params(length=0)
    right.set_ylabel("chance that the first\nis no better, at most", fontsize=8)
    right.spines["right"].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    clear_spines(axes)
    return figure


def _row(axes: Axes, y: int, gap: Gap, independent_std: float, *, legend: bool) -> None:
    def label(text: str) -> str:
        return text if legend else "_nolegend_"

    axes.barh(y, 2 * gap.std, left=gap.mean - gap.std, height=0.34, color=COLOURS[0], alpha=0.35,
              label=label(f"± 1 std, {type(gap.coupling).__name__} luck"))  # fmt: skip
    axes.hlines(y + 0.27, gap.mean - independent_std, gap.mean + independent_std, color=GREY, linestyle=(0, (4, 2)),
                linewidth=1.5, label=label("± 1 std, if luck were independent"))  # fmt: skip
    error = [[0.0], [0.0]]
    if gap.mean_interval is not None:
        error = [[gap.mean - gap.mean_interval.low], [gap.mean_interval.high - gap.mean]]
    axes.errorbar(gap.mean, y, xerr=np.array(error), fmt="o", color=COLOURS[0], ecolor=COLOURS[1], elinewidth=2,
                  capsize=4, markersize=4, label=label("mean and its interval"))  # fmt: skip


def _bound(gap: Gap) -> str:
    if gap.mean_interval is None:
        return ""
    return at_most(gap.inferiority_bound(), 3)
