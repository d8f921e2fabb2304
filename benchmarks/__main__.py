"""The command: run comparisons, print and save what they find, or write the saved results into the docs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    acceleration,
    decisions,
    laws,
    mean,
    moment_bounds,
    neural,
    orders,
    page,
    paper_operator,
    projection,
    reachable,
    scaling,
    simulators,
    sweep,
    updates,
    whole_solve,
)
from benchmarks.report import RESULTS, Report, save

COMPARISONS: dict[str, Callable[[bool], Report]] = {
    "paper_operator": paper_operator.compare,
    "sweep": sweep.compare,
    "whole_solve": whole_solve.compare,
    "acceleration": acceleration.compare,
    "mean": mean.compare,
    "scaling": scaling.compare,
    "reachable": reachable.compare,
    "orders": orders.compare,
    "laws": laws.compare,
    "moment_bounds": moment_bounds.compare,
    "projection": projection.compare,
    "updates": updates.compare,
    "decisions": decisions.compare,
    "simulators": simulators.compare,
    "neural": neural.compare,
}
"""A comparison is a file with `compare(quick)`, listed here in the order of the page."""


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(COMPARISONS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; saved only with --out")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="save all that is run here instead")
    parser.add_argument("--page", action="store_true", help="run nothing; write the saved results into the docs")
    asked = parser.parse_args()
    names = asked.names or list(COMPARISONS)
    unknown = [name for name in names if name not in COMPARISONS]
    if unknown:
        parser.error(f"there is no comparison {unknown[0]!r}; there are {', '.join(COMPARISONS)}")
    if asked.page:
        page.rewrite(COMPARISONS)
        return
    records: dict[str, object] = {}
    for name in names:
        report = COMPARISONS[name](asked.quick)
        sizes = " at tiny sizes, where goals mean nothing" if asked.quick else ""
        print(f"## {name}{sizes}\n\n{report.table()}\n", flush=True)
        records[name] = report.record()
        if asked.out:
            save(records, asked.out)
        elif not asked.quick:
            save(records[name], RESULTS / f"{name}.json")


if __name__ == "__main__":
    main()
