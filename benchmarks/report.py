"""What a comparison found: rows of a table, the goals it was held to, and where both are written."""

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
"""One line of a table, by column; numbers carry their unit in the column's name."""


class DisagreementError(JMDPError, RuntimeError):
    """Contenders differ by more than their accuracy: how fast a wrong answer comes is of no interest."""


@dataclass(frozen=True)
class Goal:
    """What was aimed at, what was measured, and whether that is enough."""

    goal: str
    measured: float
    met: bool

    @classmethod
    def at_most(cls, what: str, measured: float, limit: float) -> Goal:
        """A number that is to be small."""
        return cls(f"{what} ≤ {limit:g}", measured, measured <= limit)

    @classmethod
    def at_least(cls, what: str, measured: float, limit: float) -> Goal:
        """A number that is to be large."""
        return cls(f"{what} ≥ {limit:g}", measured, measured >= limit)


@dataclass
class Report:
    """The findings of one comparison; `quick` ones come from tiny sizes and say only that the code runs."""

    name: str
    quick: bool
    goals: list[Goal] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figure: Figure | None = None  # not in the record

    def record(self) -> dict[str, object]:
        """Return what is saved: the findings, and the machine they were made on."""
        found = asdict(replace(self, figure=None))
        del found["figure"]
        return found | {"machine": machine()}

    def table(self) -> str:
        """Return the findings as Markdown, which also reads well on a terminal."""
        goals: list[Row] = [
            {"goal": goal.goal, "measured": goal.measured, "met": "yes" if goal.met else "no"} for goal in self.goals
        ]
        parts = [markdown(goals), markdown(self.rows), *self.notes]
        return "\n\n".join(part for part in parts if part)


def agree(what: str, difference: float, allowed: float) -> float:
    """Return the difference of two answers, or raise where it is more than their accuracy allows."""
    if not difference <= allowed:
        raise DisagreementError(f"{what}: the answers differ by {difference:.3g}, and {allowed:.3g} is allowed.")
    return difference


def machine() -> dict[str, str | int]:
    """What a time depends on, and nothing that names the machine or its owner."""
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
    """Rows as a Markdown table, columns in the order they first appear; a row may leave cells empty."""
    if not rows:
        return ""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---" if isinstance(rows[0].get(c, ""), str) else "---:" for c in columns]]
    lines += [[_cell(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def _cell(value: str | float | int | None) -> str:
    if value is None:  # what was saved of a number that is not finite
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def save(record: object, path: Path) -> None:
    """Write one record, or several by name, as JSON, which has no number that is not finite: give None for those."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
