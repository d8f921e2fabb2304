"""Gaps of a study, sorted: the leader in each state, how far it is ahead of the runner-up, and where it is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.rounding import counted
from jmdp.base.settings import cut
from jmdp.errors import UnavailableError
from jmdp.results.certificate import Outcome
from jmdp.show.plots.comparison_chart import plain
from jmdp.show.plots.study_map import LONGEST_NAME, MOST_LISTED, PALETTE, legend_columns
from jmdp.show.plots.style import SMALL, WIDTH, check_drawn, clear_spines, new_figure, wrapped
from jmdp.studies.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DECIDED = tuple(outcome.name for outcome in (Outcome.BEST_FOUND, Outcome.GOOD_ENOUGH, Outcome.EQUAL_BEST))
_MOST_LABELLED = 30
"""States up to which their labels are on the axis."""
_LONGEST_LABEL = 16
_MOST_DRAWN = 1000
"""Points of each kind; of more, evenly spaced ones are drawn."""


def study_gaps(study: Study, *, title: str | None = None) -> Figure:
    """Mean gap of the leader to the runner-up in each state of a study, with its interval, smallest gap first.

    The colour of a point is the alternative with the largest mean. Filled points are states in which the comparison is
    decided. Of more than 1,000 states that are decided or not, 1,000 at evenly spaced ranks are drawn; the legend has
    the numbers of all.

    Parameters
    ----------
    study
        By `jmdp.study`.
    title
        Shown above.
    """
    check_drawn("study", study, Study, title)
    best = study.best().dropna(subset=["gap"]).sort_values("gap", kind="stable")
    if not len(best):
        raise UnavailableError("No state has a gap yet. Open the study again later.")
    decided = best["outcome"].isin(_DECIDED).to_numpy(dtype=bool)
    gaps = best[["gap", "gap_low", "gap_high"]].to_numpy(dtype=float)
    named = len(best) <= _MOST_LABELLED
    figure, [[axes]] = new_figure(size=(WIDTH, 3.9 if named else 3.6))
    axes.axhline(0, color="black", linewidth=0.8, zorder=1)
    leader = best["leader"].map({name: a for a, name in enumerate(study.alternatives)}).to_numpy(dtype=int)
    for kind, filled in ((decided, True), (~decided, False)):
        drawn = _thinned(np.flatnonzero(kind))
        for a in np.unique(leader[drawn]).tolist():
            _draw_points(axes, gaps, drawn[leader[drawn] == a], PALETTE[a % len(PALETTE)], filled, len(best))
    axes.set_xlim(-0.6 - 0.01 * len(best), len(best) - 0.4 + 0.01 * len(best))
    note = ""
    if named:
        labels = [plain(cut(str(state), _LONGEST_LABEL)) for state in best["state"]]
        upright = max(map(len, labels)) * len(labels) <= 44
        axes.set_xticks(range(len(best)), labels, rotation=0 if upright else 90, fontsize=SMALL)
    else:
        axes.locator_params(axis="x", integer=True, nbins=6)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        if max(decided.sum(), (~decided).sum()) > _MOST_DRAWN:
            note = f" (at most {_MOST_DRAWN:,} of each kind drawn)"
    axes.set_xlabel(f"states, sorted by gap{note}", fontsize=SMALL)
    axes.set_ylabel("mean gap to the runner-up", fontsize=SMALL)
    axes.tick_params(labelsize=SMALL)
    clear_spines(axes)
    _add_legend(figure, leader, decided, study)
    known = f"Leading {study.alternative} and gap to the runner-up in {len(best):,} of "
    known += counted(study.progress.states, "state")
    figure.suptitle(wrapped(title or known, 60), fontsize=11)
    return figure


def _add_legend(figure: Figure, leader: Integers, decided: Booleans, study: Study) -> None:
    from matplotlib.lines import Line2D

    def point(label: str, colour: str, filled: bool = True) -> Line2D:
        fill = colour if filled else "white"
        return Line2D([], [], linestyle="", marker="o", markersize=5, color=colour, markerfacecolor=fill, label=label)

    names, failed = study.alternatives, study.progress.failed
    counts = np.bincount(leader, minlength=len(names))
    often = sorted(a for a in np.argsort(-counts, kind="stable")[:MOST_LISTED].tolist() if counts[a])
    handles = [
        point(f"{plain(cut(names[a], LONGEST_NAME), LONGEST_NAME)} ({counts[a]:,})", PALETTE[a % len(PALETTE)])
        for a in often
    ]
    for kind, label, filled in ((decided, "filled: decided", True), (~decided, "open: undecided", False)):
        if kind.any():
            handles.append(point(f"{label} ({kind.sum():,})", "black", filled))
    if failed:
        handles.append(Line2D([], [], linestyle="", label=f"failed, not shown: {counted(failed, 'state')}"))
    columns = legend_columns([str(handle.get_label()) for handle in handles], WIDTH - 1.6)
    rows = -(-len(handles) // columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * max(0, rows - 3))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=SMALL,
                  columnspacing=1.3, handletextpad=0.4)  # fmt: skip


def _marker_size(states: int) -> float:
    return 5.0 if states <= _MOST_LABELLED else 3.0 if states <= 200 else 1.8


def _draw_points(axes: Axes, gaps: Floats, at: Integers, colour: str, filled: bool, states: int) -> None:
    """States at these ranks: a point each, and a line over its interval."""
    gap, low, high = gaps[at].T
    few = states <= _MOST_LABELLED
    drawn = np.isfinite(low) & np.isfinite(high)
    axes.vlines(at[drawn], low[drawn], high[drawn], color=colour, linewidth=1.6 if few else 0.8,
                alpha=1.0 if few else 0.35, zorder=2)  # fmt: skip
    axes.plot(at, gap, "o", color=colour, markersize=_marker_size(states), zorder=3,
              markerfacecolor=colour if filled else "white", markeredgewidth=1.2 if few else 0.7)  # fmt: skip


def _thinned(ranks: Integers) -> Integers:
    """At most `_MOST_DRAWN` of these ranks, evenly spaced, with the first and the last."""
    if ranks.size <= _MOST_DRAWN:
        return ranks
    chosen: Integers = ranks[np.linspace(0, ranks.size - 1, _MOST_DRAWN).round().astype(int)]
    return chosen
