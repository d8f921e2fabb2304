"""Figures of studies: a map of the best alternative if states are the cells of a grid, and the sorted gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.rounding import counted
from jmdp.base.settings import cut
from jmdp.errors import UnavailableError
from jmdp.show.plots.comparison_chart import plain
from jmdp.show.plots.style import COLOURS, EMPTY, SMALL, WIDTH, check_drawn, clear_spines, new_figure, wrapped
from jmdp.studies.study import DECIDED, Study, lattice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_ARROWS = {"U": "↑", "R": "→", "D": "↓", "L": "←"}
PALETTE = (
    *(colour for colour in COLOURS if colour != "#000000"),  # the pale form of black is that of an empty cell
    "#7B3294", "#A6761D", "#C2185B", "#1B4F3A", "#4DAF1C", "#2A2F8F", "#8C510A", "#00A6A6", "#E34A33", "#5B7083",
    "#B8B000", "#6A51A3", "#7F0000", "#3F8FD2",
)  # fmt: skip
_PALE = 0.62
"""Share of white in the colour of an undecided cell."""

_MOST_CELLS = 10_000_000
_LARGEST_CELL = 0.5  # inches
_LABELLED_CELL = 0.21  # inches; in smaller cells a label would not be legible
_LONGEST_LABEL = 3
_MOST_LISTED = 24
"""Alternatives in the legend."""
_LONGEST_NAME = 28


def study_map(study: Study, *, title: str | None = None) -> Figure:
    """Leading alternative in each state of a study, laid out as a grid, and its mean gap to the runner-up.

    The colour of a cell is the alternative with the largest mean: in full where it is known to be best (or within
    `indifference` of the best), pale where that is undecided. A cross marks a state whose comparison raised an error;
    cells without a result are grey. The second panel has the mean gap to the runner-up. The largest 2% of gaps
    above 0 share a colour if they are much larger than the others.

    Parameters
    ----------
    study
        Its states have two whole coordinates: the row, from the top, and the column.
    title
        Shown above.
    """
    check_drawn("study", study, Study, title)
    cells = _Cells.of(study)
    beside = cells.rows >= 0.8 * cells.columns
    side = _side(cells, beside)
    wide, high = side * cells.columns, side * cells.rows
    if max(cells.rows, cells.columns) > 5 * min(cells.rows, cells.columns):  # cells need not be squares
        wide, high = max(wide, 1.6), max(high, 1.6)
    listed = _listed(study.alternatives, cells.leader[cells.leader >= 0], leading=False)
    columns = legend_columns([text for _, text in listed], 2 * wide if beside else wide)
    below = 0.2 * (-(-len(listed) // columns) + 1) + 0.3
    size = (max(2 * wide + 2.4, 5.6), high + below + 1.3) if beside else (max(wide + 1.8, 5.6), 2 * high + below + 2)
    figure, axes = new_figure(*((1, 2) if beside else (2, 1)), size=size)
    figure.set_layout_engine("compressed")  # the colour bar is then as high as its panel
    left, right = axes[0] if beside else (axes[0][0], axes[1][0])
    aspect = "auto" if wide / cells.columns != high / cells.rows else cells.step[1] / cells.step[0]
    _draw_leaders(left, cells, aspect)
    if side >= _LABELLED_CELL:
        _write_labels(left, cells, short_names(study.alternatives), 72 * min(wide / cells.columns, high / cells.rows))
    left.set_title(f"leading {study.alternative}", fontsize=10)
    _draw_gaps(figure, right, cells, aspect)
    for panel in (left, right):
        _mark_failures(panel, cells, side)
        _frame(panel, cells, study.coordinates)
    _add_legend(figure, cells, listed, columns)
    progress = study.progress
    known = f"decided in {progress.decided:,} of {progress.states:,} states"
    characters = int(11 * size[0])
    figure.suptitle(wrapped(title or f"Best {study.alternative}: {known}", characters), fontsize=11)
    return figure


@dataclass(frozen=True)
class _Cells:
    """Results by cell of the grid."""

    first: tuple[int, int]  # coordinates of the cell at the top left
    step: tuple[int, int]  # between the coordinates of neighbours
    leader: Integers  # [rows, columns], −1 if there is none
    decided: Booleans  # [rows, columns]
    failed: Booleans  # [rows, columns]
    gap: Floats  # [rows, columns], nan if there is none

    @classmethod
    def of(cls, study: Study) -> _Cells:
        kinds = study.coordinates
        best, failures = study.best(), study.failures()
        if not len(best):
            raise UnavailableError("No state is finished yet. Open the study again later.")
        if len(kinds) != 2:
            raise _no_grid(f"they have {len(kinds)} coordinates")
        best, failures = (found.dropna(subset=kinds) for found in (best, failures))
        places, lost = (found[kinds].to_numpy(dtype=float) for found in (best, failures))
        everywhere = np.concatenate([places, lost])
        if not len(everywhere) or (everywhere % 1).any():
            raise _no_grid("their coordinates are not whole numbers")
        (top, down, rows), (left, across, columns) = lattice(everywhere)
        if rows * columns > _MOST_CELLS:
            raise _no_grid(f"they would be spread over {rows:,} × {columns:,} cells")
        first, step, shape = (top, left), (down, across), (rows, columns)
        leader, gap = np.full(shape, -1), np.full(shape, np.nan)
        decided, failed = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        at, wrong = (tuple(((where - first) / step).astype(int).T) for where in (places, lost))
        numbers = {name: a for a, name in enumerate(study.alternatives)}
        leader[at] = best["leader"].map(numbers).to_numpy()
        gap[at] = best["gap"].to_numpy(dtype=float)
        decided[at] = best["decided"].to_numpy(dtype=bool)
        failed[wrong] = True
        return cls(first, step, leader, decided, failed, gap)

    @property
    def rows(self) -> int:
        return int(self.leader.shape[0])

    @property
    def columns(self) -> int:
        return int(self.leader.shape[1])

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top of the grid, in coordinates."""
        (row, column), (down, across) = self.first, self.step
        top, left = row - down / 2, column - across / 2
        return left, left + across * self.columns, top + down * self.rows, top


def _listed(names: Sequence[str], leader: Integers, leading: bool) -> list[tuple[int, str]]:
    """Alternatives of the legend: the ones that lead most often, or of a few alternatives all unless `leading`."""
    counts = np.bincount(leader, minlength=len(names))
    shown = sorted(np.argsort(-counts, kind="stable")[:_MOST_LISTED].tolist())
    leading = leading or len(names) > _MOST_LISTED
    named = [(a, plain(cut(names[a], _LONGEST_NAME), _LONGEST_NAME)) for a in shown if counts[a] or not leading]
    return [(a, f"{name} ({counts[a]:,})") for a, name in named]


def _no_grid(reason: str) -> UnavailableError:
    return UnavailableError(f"The states are not the cells of a grid: {reason}. Use jmdp.plots.study_gaps.")


def _side(cells: _Cells, beside: bool) -> float:
    """Side of a cell in inches."""
    wide, high = (3.3, 4.6) if beside else (5.0, 3.6)
    return min(_LARGEST_CELL, wide / cells.columns, high / cells.rows)


def colours(count: int) -> Floats:
    """[count, 3], distinct colours of alternatives."""
    from matplotlib.colors import to_rgb

    return np.array([to_rgb(PALETTE[a % len(PALETTE)]) for a in range(count)])


def short_names(names: Sequence[str]) -> list[str] | None:
    """A distinct label of at most three characters for each alternative, without what all have in common."""
    if set(names) <= set(_ARROWS):
        return [_ARROWS[name] for name in names]
    ends = zip(min(names), max(names), strict=False)
    start = "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    start = start[: start.rfind(" ") + 1] or start.rstrip("0123456789")
    for tried in (list(names), [name[len(start) :] for name in names]):
        if all(0 < len(name) <= _LONGEST_LABEL for name in tried):
            return tried
    for length in range(1, _LONGEST_LABEL + 1):
        tried = [name[:length] for name in names]
        if len(set(tried)) == len(names):
            return tried
    return None


def _draw_leaders(axes: Axes, cells: _Cells, aspect: Any) -> None:
    from matplotlib.colors import to_rgb

    full = colours(int(cells.leader.max()) + 1)
    image = np.full((cells.rows, cells.columns, 3), to_rgb(EMPTY))
    led = cells.leader >= 0
    image[led] = full[cells.leader[led]]
    pale = led & ~cells.decided
    image[pale] += _PALE * (1 - image[pale])
    axes.imshow(image, extent=cells.extent, interpolation="nearest", aspect=aspect)


def _write_labels(axes: Axes, cells: _Cells, names: Sequence[str] | None, side: float) -> None:
    """Labels of the leaders, in cells of this side in points."""
    if names is None:
        return
    longest = max(map(len, names))
    size = min(0.6 * side, 11.0, 1.35 * side / longest)
    full = colours(len(names))
    dark = full @ [0.2126, 0.7152, 0.0722] < 0.45
    for row, column in np.argwhere(cells.leader >= 0).tolist():
        leader = int(cells.leader[row, column])
        colour = "white" if cells.decided[row, column] and dark[leader] else "black"
        x, y = column * cells.step[1] + cells.first[1], row * cells.step[0] + cells.first[0]
        axes.text(x, y, names[leader], ha="center", va="center", fontsize=size, color=colour,
                  parse_math=False)  # fmt: skip


def _draw_gaps(figure: Figure, axes: Axes, cells: _Cells, aspect: Any) -> None:
    axes.set_facecolor(EMPTY)
    known = cells.gap[np.isfinite(cells.gap)]
    low, high = (min(0.0, float(known.min())), float(known.max())) if known.size else (0.0, 1.0)
    most = float(np.quantile(known[known > 0], 0.98)) if high > 0 and known.size else high
    cropped = 0 < 3 * most < high
    high = most if cropped else high if high > low else 1.0
    image = axes.imshow(cells.gap, extent=cells.extent, interpolation="nearest", aspect=aspect, cmap="YlGnBu",
                        vmin=low, vmax=high)  # fmt: skip
    bar = figure.colorbar(image, ax=axes, extend="max" if cropped else "neither", aspect=25)
    bar.set_label("mean gap to the runner-up", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)
    axes.set_title("gap to the runner-up", fontsize=10)


def _mark_failures(axes: Axes, cells: _Cells, side: float) -> None:
    at = np.argwhere(cells.failed) * cells.step + cells.first
    if len(at):
        size = float(np.clip(36 * side, 2.0, 9.0))
        axes.plot(at[:, 1], at[:, 0], "x", color="black", markersize=size, markeredgewidth=max(0.6, size / 6))


def _frame(axes: Axes, cells: _Cells, names: Sequence[str]) -> None:
    """Ticks at cells, and thin lines between cells that are large."""
    from matplotlib.ticker import MaxNLocator

    axes.set_ylabel(plain(names[0]), fontsize=SMALL)
    axes.set_xlabel(plain(names[1]), fontsize=SMALL)
    for axis, count, first, step in zip(
        (axes.yaxis, axes.xaxis), cells.leader.shape, cells.first, cells.step, strict=True
    ):
        if count <= 10 or step > 1:
            axis.set_ticks(range(first, first + count * step, step * -(-count // 10)))
        else:
            axis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.tick_params(length=2, labelsize=SMALL)
    axes.spines[:].set_visible(False)
    left, right, bottom, top = cells.extent
    if max(cells.rows, cells.columns) <= 40:
        axes.hlines(np.linspace(top, bottom, cells.rows + 1)[1:-1], left, right, color="white", linewidth=0.7)
        axes.vlines(np.linspace(left, right, cells.columns + 1)[1:-1], top, bottom, color="white", linewidth=0.7)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)


def legend_columns(texts: Sequence[str], inches: float) -> int:
    """Columns of the legend that fit into this width."""
    widest = max(map(len, texts))
    return max(1, min(6, len(texts), int((inches + 1.6) / (0.075 * widest + 0.45))))


def _add_legend(figure: Figure, cells: _Cells, listed: Sequence[tuple[int, str]], columns: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    full = colours(max(a for a, _ in listed) + 1)
    led = cells.leader >= 0
    undecided, empty = int((led & ~cells.decided).sum()), int((~led & ~cells.failed).sum())
    handles: list[Any] = [Patch(facecolor=tuple(full[a].tolist()), label=text) for a, text in listed]
    grey = 0.35 + _PALE * (1 - 0.35)
    handles.append(Patch(facecolor=(grey, grey, grey), label=f"pale: undecided ({undecided:,})"))
    if cells.failed.any():
        count = int(cells.failed.sum())
        handles.append(Line2D([], [], color="black", marker="x", linestyle="", label=f"failed ({count:,})"))
    if empty:
        handles.append(Patch(facecolor=EMPTY, edgecolor="#bbbbbb", label="no result"))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=SMALL,
                  handlelength=1.1, columnspacing=1.3)  # fmt: skip


_MOST_LABELLED = 30
"""States up to which their labels are on the axis."""
_LONGEST_STATE = 16
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
    decided = best["outcome"].isin([outcome.name for outcome in DECIDED]).to_numpy(dtype=bool)
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
        labels = [plain(cut(str(state), _LONGEST_STATE)) for state in best["state"]]
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
    _add_legend_of_gaps(figure, leader, decided, study)
    known = f"Leading {study.alternative} and gap to the runner-up in {len(best):,} of "
    known += counted(study.progress.states, "state")
    figure.suptitle(wrapped(title or known, 60), fontsize=11)
    return figure


def _add_legend_of_gaps(figure: Figure, leader: Integers, decided: Booleans, study: Study) -> None:
    from matplotlib.lines import Line2D

    def point(label: str, colour: str, filled: bool = True) -> Line2D:
        fill = colour if filled else "white"
        return Line2D([], [], linestyle="", marker="o", markersize=5, color=colour, markerfacecolor=fill, label=label)

    failed = study.progress.failed
    listed = _listed(study.alternatives, leader, leading=True)
    handles = [point(text, PALETTE[a % len(PALETTE)]) for a, text in listed]
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
