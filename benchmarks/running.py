"""List of all comparisons, a function that runs one, and the parts of long ones, which are kept between runs."""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.report import Report
from jmdp.base.machine import cores
from jmdp.base.whole_files import whole_file
from jmdp.errors import MissingExtraError

COMPARISONS = (
    "paper_operator", "sweep", "whole_solve", "acceleration", "mean", "scaling", "reachable", "orders", "distributions",
    "moment_bounds", "projection", "updates", "decisions", "selection", "policies", "simulators", "overheads",
    "neural", "ray_pong", "ray_driver", "ray_nodes", "other_tools",
)  # fmt: skip
"""Modules with a function `compare(quick)`, in the order of docs/benchmarks.md."""
IN_PARTS = ("selection", "policies", "neural")
"""Those that take more than 20 minutes in full: `compare(quick, parts)`."""

Found = TypeVar("Found")


class UnfinishedError(Exception):
    """The time of this run is over; the same command continues."""


@dataclass(frozen=True)
class Parts:
    """Parts of a comparison. Their results are kept in a folder, by function and number, and a later run continues."""

    folder: Path | None = None
    until: float = float("inf")
    """No part begins later: a time as of `time.time()`."""

    def each(self, job: Callable[[int], Found], count: int, processes: int = 0) -> list[Found]:
        """Return `job(i)` for each i, in worker processes: as many as there are cores by default.

        With one process all parts run in this one. Raises `UnfinishedError` if the time is over before the last part.
        """
        kept = partial(self._kept, job)
        if processes == 1:
            results = [kept(i) for i in range(count)]
        else:
            with ProcessPoolExecutor(processes or cores(), get_context("spawn")) as pool:
                results = list(pool.map(kept, reversed(range(count))))[::-1]  # the last ones are the largest
        found = [result for result in results if result is not None]
        if len(found) < count:
            raise UnfinishedError(f"{len(found)} of {count} parts are done. The same command continues.")
        return found

    def _kept(self, job: Callable[[int], Found], number: int) -> Found | None:
        """Return the result of a part, computed or of an earlier run; None if the time is over."""
        function: Any = job.func if isinstance(job, partial) else job
        path = None if self.folder is None else self.folder / f"{function.__name__}-{number}.pickle"
        if path is not None and path.exists():
            found: Found = pickle.loads(path.read_bytes())  # of this program itself
            return found
        if time.time() > self.until:
            return None
        found = job(number)
        if path is not None:
            with whole_file(path) as file:
                pickle.dump(found, file)
        return found

    def forget(self) -> None:
        """Delete what was kept."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def run(name: str, quick: bool, rows: Sequence[str] = (), parts: Parts | None = None) -> Report:
    """Run one comparison, in full or at tiny sizes; rows, if any, are those of `overheads` to measure."""
    try:
        compare = import_module(f"benchmarks.{name}").compare
        more = (parts or Parts(),) if name in IN_PARTS else (rows,) if rows else ()
        report: Report = compare(quick, *more)
    except ModuleNotFoundError as missing:
        raise MissingExtraError(f'The comparison {name!r} needs {missing.name}: pip install "jmdp[bench]"') from missing
    return report
