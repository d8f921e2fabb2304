"""Gaps of a study in sorted order, as SVG inside its page."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.base import rounding
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.reports.study_data import States
from jmdp.reports.study_maps import Drawing, Swatch

_MOST_DRAWN = 1000
"""States of each kind; of more, those at evenly spaced ranks are drawn."""

_WIDE, _HIGH = 430, 250


def sorted_gaps(states: States) -> Drawing | None:
    """Gaps of all states with their intervals, the largest first; None if no state has one."""
    gaps = states.gap[np.isfinite(states.gap)]
    count = len(gaps)
    if not count:
        return None
    ends = np.stack([states.rows[name].to_numpy()[:count].astype(float) for name in ("gap_low", "gap_high")], axis=1)
    scale, decided = _Scale.of(gaps, ends), states.decided[:count]
    points = _points("decided", decided, scale, gaps, ends) + _points("undecided", ~decided, scale, gaps, ends)
    few = " few" if count <= 120 else ""
    svg = (
        f'<svg class="gaps{few}" viewBox="0 0 {_WIDE + 70} {_HIGH + 62}" role="img" data-count="{count}" '
        f'aria-label="Gaps of {count} states to the runner-up, largest first"><g transform="translate(60 12)">'
        f'{scale.axes()}<svg class="field" width="{_WIDE}" height="{_HIGH}" viewBox="0 0 {_WIDE} {_HIGH}">{points}'
        "</svg></g></svg>"
    )
    thinned = max(decided.sum(), (~decided).sum()) > _MOST_DRAWN
    note = f"Of each kind, {_MOST_DRAWN:,} states at evenly spaced ranks are drawn." if thinned else ""
    return Drawing("Gap to the runner-up", svg, _legend(decided), note)


@dataclass(frozen=True)
class _Scale:
    """Places of ranks and gaps in the picture."""

    count: int
    low: float
    high: float

    @classmethod
    def of(cls, gaps: Floats, ends: Floats) -> _Scale:
        """All gaps, and all ends but the most extreme ones."""
        known = ends[np.isfinite(ends)]
        spread = np.quantile(known, [0, 0.02, 0.98, 1]).tolist() if known.size else [0.0] * 4
        low, high = min(0.0, spread[1], float(gaps.min())), max(0.0, spread[2], float(gaps.max()))
        if spread[3] - spread[0] <= 2 * (high - low):
            low, high = min(low, spread[0]), max(high, spread[3])
        return cls(len(gaps), low, high if high > low else low + 1)

    def x(self, rank: int) -> str:
        return f"{_WIDE * (rank + 0.5) / self.count:.1f}"

    def y(self, gap: float) -> str:
        share = (self.high - gap) / (self.high - self.low)
        return f"{_HIGH * min(max(share, -0.04), 1.04):.1f}"

    def axes(self) -> str:
        levels = _levels(self.low, self.high)
        rules = "".join(f"M0 {self.y(level)}H{_WIDE}" for level in levels)
        left = "".join(
            f'<text x="-6" y="{float(self.y(level)) + 4:.1f}" text-anchor="end">{rounding.typeset(f"{level:g}")}</text>'
            for level in levels
        )
        below = "".join(
            f'<text x="{self.x(rank)}" y="{_HIGH + 18}" text-anchor="{"end" if rank > 998 else "middle"}">{rank + 1:,}'
            "</text>"
            for rank in sorted({0, self.count // 4, self.count // 2, 3 * self.count // 4, self.count - 1})
        )
        return (
            f'<path class="rules" d="{rules}"/><path class="zero" d="M0 {self.y(0)}H{_WIDE}"/><g class="axes">{left}'
            f'{below}<text transform="translate(-48 {_HIGH // 2}) rotate(-90)" text-anchor="middle">mean gap to the '
            f'runner-up</text><text x="{_WIDE // 2}" y="{_HIGH + 38}" text-anchor="middle">states, largest gap first'
            "</text></g>"
        )


def _points(name: str, kind: Booleans, scale: _Scale, gaps: Floats, ends: Floats) -> str:
    at = _thinned(np.flatnonzero(kind)).tolist()
    lines = "".join(
        f"M{scale.x(i)} {scale.y(ends[i, 0])}V{scale.y(ends[i, 1])}" for i in at if np.isfinite(ends[i]).all()
    )
    dots = "".join(f"M{scale.x(i)} {scale.y(gaps[i])}h0" for i in at)
    return f'<path class="{name} ends" d="{lines}"/><path class="{name} dots" d="{dots}"/>'


def _legend(decided: Booleans) -> list[Swatch]:
    yes, no = int(decided.sum()), int((~decided).sum())
    return [Swatch("", f"{kind} ({count:,})", kind) for kind, count in (("decided", yes), ("undecided", no)) if count]


def _levels(low: float, high: float) -> list[float]:
    """About five round numbers from low to high."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    return [float(f"{k * step:.6g}") for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _thinned(ranks: Integers) -> Integers:
    """At most `_MOST_DRAWN` of these ranks, evenly spaced, with the first and the last."""
    if ranks.size <= _MOST_DRAWN:
        return ranks
    chosen: Integers = ranks[np.linspace(0, ranks.size - 1, _MOST_DRAWN).round().astype(int)]
    return chosen
