"""Logging of learning curves: as JSON lines, and for TensorBoard if tensorboardX is installed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TextIO

from jmdp.base.whole_files import whole_file

CURVES = "curves.jsonl"


class Tracker:
    """Logger that writes the metrics of a run to ``curves.jsonl`` in a folder, and to TensorBoard event files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lines: TextIO | None = None
        self._board: Any = None

    def begin(self, updates: int) -> None:
        """Start or resume logging after this many updates; entries of later updates are removed."""
        path = self._folder / CURVES
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            lines = [line for line in text.splitlines() if _is_of(line, updates)]
            with whole_file(path) as file:
                file.write("".join(f"{line}\n" for line in lines).encode())
        self._lines = path.open("a", encoding="utf-8")
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            return
        self._board = SummaryWriter(str(self._folder), flush_secs=10, purge_step=updates + 1 if updates else None)

    def write(self, updates: int, values: dict[str, float]) -> None:
        """Log metrics after this many updates; values that are not finite are left out."""
        if self._lines is None:
            self.begin(0)
        assert self._lines is not None
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        self._lines.write(json.dumps({"updates": updates, **known}) + "\n")
        self._lines.flush()
        if self._board is not None:
            for name, value in known.items():
                self._board.add_scalar(name, value, updates)

    def close(self) -> None:
        """Close both files."""
        if self._lines is not None:
            self._lines.close()
        if self._board is not None:
            self._board.close()


def _is_of(line: str, updates: int) -> bool:
    """True if a line is complete and belongs to no later update."""
    try:
        return bool(json.loads(line)["updates"] <= updates)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
