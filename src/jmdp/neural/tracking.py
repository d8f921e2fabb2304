"""Curves while learning: JSON lines always, TensorBoard where tensorboardX is installed."""

from __future__ import annotations

import json
import math
from pathlib import Path


class Tracker:
    """Writes numbers of a run into a folder: ``curves.jsonl``, and event files for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lines = (folder / "curves.jsonl").open("a", encoding="utf-8")
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            self._board = None
        else:
            self._board = SummaryWriter(str(folder), flush_secs=10)

    def write(self, updates: int, values: dict[str, float]) -> None:
        """Numbers after this many updates; what is not a number is left out."""
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        self._lines.write(json.dumps({"updates": updates, **known}) + "\n")
        self._lines.flush()
        if self._board is not None:
            for name, value in known.items():
                self._board.add_scalar(name, value, updates)

    def close(self) -> None:
        """Finish both."""
        self._lines.close()
        if self._board is not None:
            self._board.close()
