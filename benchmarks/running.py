"""List of all comparisons, and a function that runs one."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from benchmarks.report import Report
from jmdp.errors import MissingExtraError

COMPARISONS = (
    "paper_operator", "sweep", "whole_solve", "acceleration", "mean", "scaling", "reachable", "orders", "distributions",
    "moment_bounds", "projection", "updates", "decisions", "selection", "policies", "simulators", "overheads",
    "neural", "ray_pong", "ray_driver", "ray_nodes", "other_tools",
)  # fmt: skip
"""Modules with a function `compare(quick)`, in the order of docs/benchmarks.md."""


def run(name: str, quick: bool, rows: Sequence[str] = ()) -> Report:
    """Run one comparison, in full or at tiny sizes; rows, if any, are those of `overheads` to measure."""
    try:
        compare = import_module(f"benchmarks.{name}").compare
        report: Report = compare(quick, rows) if rows else compare(quick)
    except ModuleNotFoundError as missing:
        raise MissingExtraError(f'The comparison {name!r} needs {missing.name}: pip install "jmdp[bench]"') from missing
    return report
