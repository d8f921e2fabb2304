"""Report of a comparison: rows of a table, goals, and their output."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from jmdp.errors import JMDPError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, str | float | int]
"""Row of a table, by column; units are in the column names."""


class DisagreementError(JMDPError, RuntimeError):
    """The results of two contenders differ by more than their accuracy."""


@dataclass(frozen=True)
class Goal:
    """Goal of a comparison with its measured value; `met` is True if it is reached."""

    goal: str
    measured: float
    met: bool

    @classmethod
    def at_most(cls, what: str, measured: float, limit: float) -> Goal:
        """Return the goal that a number is at most `limit`."""
        return cls(f"{what} ≤ {limit:g}", measured, measured <= limit)

    @classmethod
    def at_least(cls, what: str, measured: float, limit: float) -> Goal:
        """Return the goal that a number is at least `limit`."""
        return cls(f"{what} ≥ {limit:g}", measured, measured >= limit)


@dataclass
class Report:
    """Results of one comparison; those of `quick` runs with tiny sizes only show that the code runs."""

    name: str
    quick: bool
    goals: list[Goal] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: list[Row] = field(default_factory=list)  # saved, but not printed
    seeds: str = "none"  # of all random numbers
    figure: Figure | None = None  # not in the record

    def record(self) -> dict[str, object]:
        """Return the results as they are saved, with a description of the machine."""
        found = asdict(replace(self, figure=None))
        del found["figure"]
        return found | {"machine": machine()}

    def table(self) -> str:
        """Return the results as Markdown, which is also readable on a terminal."""
        goals: list[Row] = [
            {"goal": goal.goal, "measured": goal.measured, "met": "yes" if goal.met else "no"} for goal in self.goals
        ]
        parts = [markdown(goals), markdown(self.rows), *self.notes]
        return "\n\n".join(part for part in parts if part)


def agree(what: str, difference: float, allowed: float) -> float:
    """Return the difference of two results, or raise if it is larger than allowed."""
    if not difference <= allowed:
        raise DisagreementError(f"{what}: the results differ by {difference:.3g}; at most {allowed:.3g} is allowed.")
    return difference


def machine() -> dict[str, str | int]:
    """Return processor and versions, without anything that identifies the machine or its owner."""
    model = platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    packages = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {
        "cpu": model,
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        **packages,
        "date": date.today().isoformat(),
    }


def markdown(rows: list[Row]) -> str:
    """Return rows as a Markdown table, with columns in order of first appearance; cells may be missing."""
    if not rows:
        return ""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---" if isinstance(rows[0].get(c, ""), str) else "---:" for c in columns]]
    lines += [[_cell(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def _cell(value: str | float | int | None) -> str:
    if value is None:  # saved in place of a number that is not finite
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def save(record: object, path: Path) -> None:
    """Write one record, or several by name, as JSON. Replace numbers that are not finite by None before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
