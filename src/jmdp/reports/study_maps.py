"""Maps of a study whose states are cells of a grid, as SVG inside its page.

Cells of one colour are a single path of horizontal strokes, so that a map of 10,000 cells takes about 100 kB. The
script of the page finds the state below the pointer by its coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.plots.study_map import PALETTE, short_names
from jmdp.reports.page import visible
from jmdp.reports.study_data import States
from jmdp.studies.study import lattice

MOST_CELLS = 20_000
"""States up to which a map is drawn."""

_PALE = ".4"  # opacity of undecided cells
_SIDE = 400  # pixels of a map, without its axes
_LARGEST_CELL = 40
_LABELLED_CELL = 22
_LEFT, _BOTTOM, _TOP = 46, 40, 6
_STEPS = ("#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#0c2c84")  # of gaps, small to large


class Swatch(NamedTuple):
    """An entry of a legend."""

    colour: str
    text: str
    kind: str = "full"  # or "pale", "failed", "decided", "undecided"


@dataclass(frozen=True)
class Drawing:
    """A picture, safe as HTML, and its legend."""

    title: str
    svg: str
    legend: Sequence[Swatch]
    note: str = ""


def colour(alternative: int) -> str:
    """Colour of an alternative, by its index."""
    return PALETTE[alternative % len(PALETTE)]


def study_maps(states: States, axes: Sequence[str], alternative: str) -> list[Drawing]:
    """Two maps: the leader in each cell, and its gap to the runner-up."""
    grid = _Grid.of(states)
    leaders = _strokes(_by_leader(states, grid))
    if grid.square and min(grid.cell) >= _LABELLED_CELL:
        leaders += _cell_labels(states, grid)
    crosses = _crosses(grid.cells[states.failed[grid.known]])
    limits = _limits(states.gap)
    gaps = _strokes(
        (f'stroke="{_STEPS[k]}"', grid.cells[step]) for k, step in enumerate(_steps(states.gap[grid.known], limits))
    )
    return [
        Drawing(
            f"Leading {alternative}",
            grid.svg(leaders + crosses, axes, f"Map of the leading {alternative} in each state"),
            _leader_legend(states),
        ),
        Drawing(
            "Mean gap to the runner-up",
            grid.svg(gaps + crosses, axes, "Map of the gap to the runner-up in each state"),
            _gap_legend(limits),
        ),
    ]


@dataclass(frozen=True)
class _Grid:
    """Where the cells are."""

    known: Booleans  # [S], states that have coordinates
    cells: Integers  # [known, 2], row and column from the top left
    first: tuple[int, int]  # coordinates of the cell at the top left
    step: tuple[int, int]  # between the coordinates of neighbours
    size: tuple[int, int]

    @classmethod
    def of(cls, states: States) -> _Grid:
        assert states.place is not None
        known = np.asarray(~np.isnan(states.place).any(axis=1))
        (top, down, rows), (left, across, columns) = lattice(states.place[known])
        first, step = (top, left), (down, across)
        cells = (states.place[known].astype(np.int64) - first) // step
        return cls(known, cells, first, step, (rows, columns))

    @property
    def square(self) -> bool:
        return max(self.size) <= 5 * min(self.size)

    @property
    def cell(self) -> tuple[float, float]:
        """Height and width of a cell in pixels."""
        high, wide = (min(_LARGEST_CELL, _SIDE / count) for count in self.size)
        return (min(high, wide),) * 2 if self.square else (high, wide)

    def svg(self, content: str, axes: Sequence[str], label: str) -> str:
        """The map with its axes; `content` is in units of cells."""
        (rows, columns), (high, wide) = self.size, self.cell
        width, height = max(columns * wide, 160) + _LEFT + 6, rows * high + _TOP + _BOTTOM
        lines = ""
        if max(self.size) <= 40:
            across = "".join(f"M0 {r}h{columns}" for r in range(1, rows))
            down = "".join(f"M{c} 0v{rows}" for c in range(1, columns))
            lines = f'<path class="lines" d="{across}{down}"/>'
        return (
            f'<svg class="map" viewBox="0 0 {width:g} {height:g}" style="max-width: {1.2 * width:.0f}px" role="img" '
            f'aria-label="{escape(visible(label))}" data-first="{self.first[0]} {self.first[1]}" '
            f'data-step="{self.step[0]} {self.step[1]}" data-size="{rows} {columns}">'
            f'<g class="axes">{self._ticks(axes)}</g>'
            f'<g class="cells" transform="translate({_LEFT} {_TOP}) scale({wide:g} {high:g})">'
            f'<rect class="empty" width="{columns}" height="{rows}"/>{content}{lines}</g></svg>'
        )

    def _ticks(self, axes: Sequence[str]) -> str:
        (rows, columns), (high, wide) = self.size, self.cell
        width, height = columns * wide, rows * high
        down = "".join(
            f'<text x="{_LEFT - 5}" y="{_TOP + (k + 0.5) * high + 4:g}" text-anchor="end">'
            f"{self.first[0] + k * self.step[0]}</text>"
            for k in _ticks(self.first[0] // self.step[0], rows, high)
        )
        across = "".join(
            f'<text x="{_LEFT + (k + 0.5) * wide:g}" y="{_TOP + height + 14:g}" text-anchor="middle">'
            f"{self.first[1] + k * self.step[1]}</text>"
            for k in _ticks(self.first[1] // self.step[1], columns, wide / 2)
        )
        names = [escape(visible(name[:24])) for name in axes]
        return (
            f'{down}{across}<text transform="translate(11 {_TOP + height / 2:g}) rotate(-90)" text-anchor="middle">'
            f'{names[0]}</text><text x="{_LEFT + width / 2:g}" y="{_TOP + height + 32:g}" '
            f'text-anchor="middle">{names[1]}</text>'
        )


def _ticks(first: int, count: int, pixels: float) -> range:
    """Positions of cells with a number: multiples of a round step, at least 18 pixels apart."""
    step = next(step * 10**k for k in range(20) for step in (1, 2, 5) if step * 10**k * pixels >= 18)
    return range(-first % step, count, step)


def _by_leader(states: States, grid: _Grid) -> Iterator[tuple[str, Integers]]:
    leader, decided = states.leader[grid.known], states.decided[grid.known]
    for a in np.unique(leader[leader >= 0]).tolist():
        for chosen, pale in ((decided, ""), (~decided, f' stroke-opacity="{_PALE}"')):
            yield f'stroke="{colour(a)}"{pale}', grid.cells[(leader == a) & chosen]


def _strokes(groups: Iterator[tuple[str, Integers]]) -> str:
    """A path for each group of cells; neighbours in a row are one stroke."""
    return "".join(f'<path {how} d="{_runs(cells)}"/>' for how, cells in groups if len(cells))


def _runs(cells: Integers) -> str:
    cells = cells[np.lexsort(cells.T[::-1])]
    starts = np.flatnonzero(np.r_[True, (np.diff(cells[:, 0]) != 0) | (np.diff(cells[:, 1]) > 1)])
    ends = np.r_[starts[1:], len(cells)] - 1
    runs = zip(cells[starts].tolist(), cells[ends, 1].tolist(), strict=True)
    return "".join(f"M{column} {row}.5H{last + 1}" for (row, column), last in runs)


def _crosses(cells: Integers) -> str:
    marks = "".join(f"M{c}.2 {r}.2l.6 .6m0-.6l-.6 .6" for r, c in cells.tolist())
    return f'<path class="crosses" d="{marks}"/>' if marks else ""


def _cell_labels(states: States, grid: _Grid) -> str:
    short = short_names([visible(name[:100]) for name in states.names])
    if short is None:
        return ""
    size = min(0.5, 1.25 / max(map(len, short)))
    leader, decided = states.leader[grid.known].tolist(), states.decided[grid.known].tolist()
    return "".join(
        f'<text class="{_ink(a) if sure else "pale"}" x="{c}.5" y="{r + 0.5 + 0.35 * size:g}" font-size="{size:.2g}">'
        f"{escape(visible(short[a]))}</text>"
        for (r, c), a, sure in zip(grid.cells.tolist(), leader, decided, strict=True)
        if a >= 0
    )


def _ink(alternative: int) -> str:
    """Class of the text on a colour: "light" on dark ones."""
    code = colour(alternative)
    parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "dark" if (luminance + 0.05) ** 2 >= 1.05 * 0.05 else "light"


_MOST_SWATCHES = 24


def _leader_legend(states: States) -> list[Swatch]:
    counts = np.bincount(states.leader[states.leader >= 0], minlength=len(states.names))
    shown = sorted(np.argsort(-counts, kind="stable")[:_MOST_SWATCHES].tolist())
    legend = [Swatch(colour(a), f"{states.names[a][:28]} ({counts[a]:,})") for a in shown if counts[a]]
    undecided = int((~states.decided & ~states.failed).sum())
    if undecided:
        legend.append(Swatch("#595959", f"pale: undecided ({undecided:,})", "pale"))
    if states.failed.any():
        legend.append(Swatch("", f"failed ({states.failed.sum():,})", "failed"))
    return legend


def _limits(gaps: Floats) -> list[float]:
    """Round limits between the steps of colour."""
    known = gaps[np.isfinite(gaps) & (gaps > 0)]
    if not known.size:
        return []
    top = float(np.quantile(known, 0.98)) or float(known.max())
    step = top / len(_STEPS)
    power = 10.0 ** math.floor(math.log10(step))
    step = next((m * power for m in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if m * power >= step), 10 * power)
    return [float(f"{k * step:.3g}") for k in range(1, len(_STEPS)) if k * step <= known.max()]


def _steps(gaps: Floats, limits: Sequence[float]) -> list[Booleans]:
    """[S] each: the states of each step of colour."""
    step = np.where(np.isnan(gaps), -1, np.searchsorted(np.array(limits), gaps, side="right"))
    return [step == k for k in range(len(limits) + 1)]


def _gap_legend(limits: Sequence[float]) -> list[Swatch]:
    said = [f"{limit:g}" for limit in limits]
    if not said:
        return [Swatch(_STEPS[0], "no gap above 0")]
    middle = [f"{a} to {b}" for a, b in pairwise(said)]
    return [Swatch(c, text) for c, text in zip(_STEPS, (f"below {said[0]}", *middle, f"from {said[-1]}"), strict=False)]
