"""The split of a return into expectation, skill and luck, as rows with bars."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jmdp.reports.page import Cell, Number
from jmdp.reports.review_futures import with_interval
from jmdp.reviews.decision import NONE
from jmdp.reviews.review import Review


@dataclass(frozen=True)
class Part:
    """A row of the split; its bar and the interval of its end are in percent of the width."""

    name: str
    words: str
    value: Cell
    kind: str  # "total", "up" or "down"
    bar: tuple[float, float]  # left, width
    whisker: tuple[float, float] | None


def split(r: Review) -> list[Part]:
    """Expectation + skill + luck = return, as a waterfall."""
    over = r.final.low == r.final.high == 0
    rows = [
        ("Expectation", "what the reference policy earns on average from here", r.expectation, 0.0),
        ("+ skill", "what the decisions added on average", r.skill, float(r.expectation)),
        ("+ luck", _luck(r), r.luck, float(r.expectation) + float(r.skill)),
        ("= return", "what was earned" if over else f"{_earned(r)} is the value of the last state", r.total, 0.0),
    ]
    ends = [0.0]
    for _, _, value, start in rows:
        ends += [start + x for x in (float(value), value.low, value.high) if math.isfinite(x)]
    low, high = min(ends), max(ends)

    def share(x: float) -> float:
        return round(100 * (x - low) / (high - low), 2) if high > low else 0.0

    parts = []
    for name, words, value, start in rows:
        first, last = sorted((start, start + float(value)))
        bar = share(first), round(share(last) - share(first), 2)
        whisker = None
        if math.isfinite(value.error) and value.low < value.high:
            whisker = share(start + value.low), round(share(start + value.high) - share(start + value.low), 2)
        kind = "total" if name[0] in "E=" else "up" if float(value) > 0 else "down"
        cell: Cell = Number(with_interval(r.total), None, exact=True) if name[0] == "=" and over else value
        parts.append(Part(name, words, cell, kind, bar, whisker))
    return parts


def _luck(r: Review) -> str:
    if any(one.fortune != NONE for one in r.decisions):
        return "what chance added"
    return "negligible" if r.exact else "nothing was random"


def _earned(r: Review) -> str:
    return f"{with_interval(r.earned)} was earned, and {with_interval(r.final)}"
