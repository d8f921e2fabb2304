"""Finished states of a study as columns, rounded and cut so that 10,000 of them fit into a page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.settings import cut
from jmdp.reports.page import visible
from jmdp.results.outcome import Outcome
from jmdp.studies.parts import arrow
from jmdp.studies.study import Study

if TYPE_CHECKING:
    import pyarrow

MOST_LISTED = 10_000
"""States in the table of a page."""

ESTIMATES = ("gap", "mean", "better")

_TEXT_BYTES = 600_000
"""Most bytes of labels and names in a page."""
_LENGTHS = (80, 60, 40, 28, 20, 14, 9)
"""Characters to which labels and names are cut: the first that fit."""

_DIGITS = 5
_EXACT = Context(prec=2500)
_ESCAPED = {mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class States:
    """Finished states [S], those with the largest gaps first, failed ones last."""

    rows: pyarrow.Table  # [S], the columns of the study
    leader: Integers  # [S], index of the alternative; −1 if it failed
    rival: Integers  # [S]
    decided: Booleans  # [S]
    failed: Booleans  # [S]
    gap: Floats  # [S], nan if there is none
    n: Floats  # [S], samples of the leader; nan if there are none
    place: Floats | None  # [S, 2], row and column if the states are cells of a grid; nan if one has none
    names: Sequence[str]  # of the alternatives

    @classmethod
    def of(cls, study: Study) -> States:
        """Read the states of a study, once."""
        pa = arrow()
        from pyarrow import compute

        table, names = study.to_arrow(), study.alternatives
        failed = compute.and_(
            compute.equal(table["outcome"], Outcome.FAILED.name), compute.equal(table[study.alternative], names[0])
        )
        rows = table.filter(compute.or_(table["leader"], failed))
        gaps = _numbers(rows["gap"])
        bad = compute.equal(rows["outcome"], Outcome.FAILED.name).to_numpy().astype(bool)
        order = np.lexsort((np.arange(len(gaps)), -np.nan_to_num(gaps, nan=-math.inf), bad))
        rows, bad, gaps = rows.take(order), bad[order], gaps[order]
        known = pa.array(names)
        leader, rival = (
            compute.fill_null(compute.index_in(rows[name], value_set=known), -1).to_numpy().astype(np.int64)
            for name in (study.alternative, "rival")
        )
        leader[bad] = -1
        return cls(
            rows=rows,
            leader=leader,
            rival=rival,
            decided=rows["best"].to_numpy().astype(bool),
            failed=bad,
            gap=gaps,
            n=_numbers(rows["n"]),
            place=_places(study, rows, bad),
            names=names,
        )

    @property
    def listed(self) -> int:
        """Number of states in the table of the page: the first ones."""
        return min(len(self.leader), MOST_LISTED)

    def estimate(self, name: str, at: int) -> tuple[float | None, float | None, float | None]:
        """Value and interval of a state; None where it is unknown or infinite."""
        value, low, high = (self.rows[column][at].as_py() for column in (name, f"{name}_low", f"{name}_high"))
        return value, low, high


def columns(states: States) -> dict[str, list[Any]]:
    """The listed states by column: texts, indices of names, and rounded numbers."""
    rows = states.rows.slice(0, states.listed)
    used = sorted({*states.leader[: states.listed].tolist(), *states.rival[: states.listed].tolist()} - {-1})
    labels, names = _cut_texts(rows["state"].to_pylist(), [states.names[a] for a in used])
    at = {a: i for i, a in enumerate(used)} | {-1: -1}
    outcomes = rows["outcome"].to_pylist()
    ends = sorted(set(outcomes))
    found: dict[str, list[Any]] = {
        "names": names,
        "alternatives": used,
        "outcomes": ends,
        "label": labels,
        "number": rows["number"].to_pylist(),
        "leader": [at[a] for a in states.leader[: states.listed].tolist()],
        "rival": [at[a] for a in states.rival[: states.listed].tolist()],
        "outcome": [ends.index(outcome) for outcome in outcomes],
        "decided": states.decided[: states.listed].astype(int).tolist(),
        "n": rows["n"].to_pylist(),
        "key": [str(key) for key in rows["key"].to_pylist()],  # larger than the integers of JavaScript
    }
    for name in ESTIMATES:
        three = [rows[column].to_pylist() for column in (name, f"{name}_low", f"{name}_high")]
        rounded = [_percent(*one) if name == "better" else outward(*one) for one in zip(*three, strict=True)]
        for end, column in zip(("", "_low", "_high"), zip(*rounded, strict=True), strict=True):
            found[name + end] = list(column)
    if states.place is not None:
        for name, places in zip(("row", "column"), states.place[: states.listed].T.tolist(), strict=True):
            found[name] = [None if math.isnan(at) else int(at) for at in places]
    return found


def outward(value: float | None, low: float | None, high: float | None) -> tuple[float | int | None, ...]:
    """A number and its interval with about five digits, fewer if the interval is wide; ends are rounded outwards.

    An interval without 0 is also printed as one.
    """
    given = [Decimal(end) for end in (value, low, high) if end is not None]
    if not given:
        return None, None, None
    last = max(end.adjusted() if end else -400 for end in given) - _DIGITS + 1
    errors = [abs(Decimal(end) - Decimal(value)) for end in (low, high) if end is not None and value is not None]
    widest = max(errors, default=Decimal(0))
    if widest:
        last = max(last, widest.adjusted() - 1)
    ways = (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING)
    return tuple(_rounded(end, last, way) for end, way in zip((value, low, high), ways, strict=True))


def _percent(value: float | None, low: float | None, high: float | None) -> tuple[float | int | None, ...]:
    """A probability and its interval in percent, with a decimal; ends are rounded outwards."""
    ways = (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING)
    return tuple(
        None if end is None else _plain(_quantized(100 * Decimal(end), -1, way))
        for end, way in zip((value, low, high), ways, strict=True)
    )


def _rounded(end: float | None, last: int, way: str) -> float | int | None:
    if end is None or not end:
        return None if end is None else 0
    number = Decimal(end)
    away = way == (ROUND_CEILING if end > 0 else ROUND_FLOOR)  # then it cannot become 0
    return _plain(_quantized(number, last if away else min(last, number.adjusted()), way))


def _quantized(number: Decimal, last: int, way: str) -> Decimal:
    return number.quantize(Decimal((0, (1,), last)), way, _EXACT)


def _plain(number: Decimal) -> float | int:
    """As short as possible in JSON."""
    found = float(number)
    return int(found) if found.is_integer() and abs(found) < 2**53 else found


def number_text(value: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    """Texts of a rounded number and of its interval, with the same decimals; as in the script."""
    given = [repr(end) for end in (value, low, high) if end is not None]
    most = max((len(text.partition(".")[2]) for text in given), default=0)
    fixed = most <= 2 * _DIGITS and not any("e" in text for text in given)
    said = [None if end is None else f"{end:.{most}f}" if fixed else repr(end) for end in (value, low, high)]
    if not given:
        return "–", ""
    ends = f"[{said[1] or '-∞'}, {said[2] or '∞'}]"
    return (said[0] or "–").replace("-", "−"), ends.replace("-", "−")


def embedded(data: Any) -> str:
    """JSON for a script element: without characters that could end it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for mark, escape in _ESCAPED.items():
        text = text.replace(mark, escape)
    return text


def _cut_texts(labels: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Labels and names without hidden characters, cut so that they fit."""
    labels, names = ([visible(text[:1000]) for text in texts] for texts in (labels, names))
    for most in _LENGTHS:
        short = [cut(text, most) for text in labels], [cut(text, most) for text in names]
        if len(embedded(short).encode()) <= _TEXT_BYTES:
            break
    return short


def _numbers(column: Any) -> Floats:
    found: Floats = column.to_numpy().astype(float)
    return found


def _places(study: Study, rows: pyarrow.Table, failed: Booleans) -> Floats | None:
    if len(study.coordinates) != 2:
        return None
    found = np.stack([_numbers(rows[name]) for name in study.coordinates], axis=1)
    return found if study._is_grid(found[~failed]) else None
