"""`python -m benchmarks`: comparisons with other software and with bare loops, on this machine."""

from __future__ import annotations

import errno
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from benchmarks.provenance import digest, record, sources, stale
from benchmarks.report import Report, markdown, save
from benchmarks.running import COMPARISONS, Parts, UnfinishedError, run
from jmdp.cli.command import Command, Exit, Flag, Names, Optionally, aside, plain, print_json
from jmdp.cli.loading import unknown
from jmdp.cli.main import exit_code, run_command

_NAMES = f"Comparisons to run (default: all): {', '.join(COMPARISONS)}."


@dataclass(frozen=True, kw_only=True)
class Benchmarks(Command):
    """Compare the speed of jmdp with that of alternatives, on this machine.

    A comparison gives the same problem to jmdp and to an alternative (the paper's operator in NumPy and SciPy,
    QuantEcon, Storm), or to a part of jmdp alone. It checks that the results agree, then times both alternately in one
    process. A full comparison takes from seconds to some minutes and has goals; the exit code is 1 if a goal is
    missed. Results are in docs/benchmarks.md.
    """

    examples: ClassVar = {
        "python -m benchmarks orders --quick": "a test run with tiny sizes, some seconds",
        "python -m benchmarks sweep whole_solve": "two comparisons in full",
        "python -m benchmarks overheads import study": "two rows of `overheads`",
        "python -m benchmarks --out results": "all comparisons, saved as JSON files and figures",
        "python -m benchmarks policies --out results --minutes 20": "a piece of a long comparison; again: the next one",
        "python -m benchmarks --stale": "stored numbers and figures that the present code has not made",
    }

    names: Annotated[Names, tyro.conf.arg(help=_NAMES)] = ()
    quick: Flag = False
    """Use tiny sizes, for a test run; its times and goals are not meaningful."""
    out: Optionally[Path] = None
    """Save the results in this folder: one JSON file per comparison, and figures."""
    minutes: Annotated[float, tyro.conf.arg(help_behavior_hint="")] = math.inf
    """Begin no comparison, and no part of a long one, after this time. Exit code 75: the same command continues."""
    stale: Flag = False
    """List files with numbers, and figures, that are older than the code they depend on, and run nothing."""

    def run(self) -> Exit:
        """Run the comparisons in order, each once."""
        if self.stale:
            older = stale()
            print_json(older) if self.json else print(markdown(older) or "All stored files are of the present code.")
            return Exit.NO if older else Exit.YES
        chosen = _chosen(self.names or COMPARISONS)
        if self.out is not None:
            _writable(self.out)
        until = time.time() + 60 * self.minutes
        records, met = {}, True
        for name, rows in chosen.items():
            if time.time() > until:
                raise UnfinishedError(f"{name} is next.")
            parts = Parts(self.out and self.out / "unfinished" / f"{name}-{digest(sources())}", until)
            with aside(self.quiet):
                report = run(name, self.quick, rows, parts)
                records[name] = plain(report.record())
                if self.out is not None:
                    self._save(report, records[name])
                parts.forget()
            met &= self.quick or all(goal.met for goal in report.goals)
            if not self.json:
                sizes = " at tiny sizes (goals are not meaningful)" if self.quick else ""
                print(f"## {name}{sizes}\n\n{report.table()}\n", flush=True)
        if self.json:
            print_json(records)
        return Exit.YES if met else Exit.NO

    def _save(self, report: Report, made: object) -> None:
        """Save a report as JSON, and its figure, and record how they were made."""
        assert self.out is not None
        files = [self.out / f"{report.name}.json"]
        save(made, files[0])
        if report.figure is not None:
            files.append(files[0].with_suffix(".svg"))
            report.figure.savefig(files[-1], metadata={"Date": None})
        for file in files:
            record(file, seeds=report.seeds)


def _chosen(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the comparisons, each with the rows that are named after it; only `overheads` has rows."""
    chosen: dict[str, list[str]] = {}
    last = ""
    for name in names:
        if name in COMPARISONS:
            last = name
            chosen.setdefault(name, [])
        elif last != "overheads":
            raise unknown("comparison", name, COMPARISONS)
        else:
            from benchmarks.overheads import ROWS

            if name not in ROWS:
                raise unknown("comparison or row of overheads", name, [*COMPARISONS, *ROWS])
            chosen[last] = list(dict.fromkeys([*chosen[last], name]))
    return chosen


def _writable(folder: Path) -> None:
    """Create the folder, or raise before minutes of work are lost."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code."""

    def command() -> int:
        try:
            return run_command(Benchmarks, "python -m benchmarks", arguments)
        except UnfinishedError as unfinished:
            print(f"The time is over. {unfinished}", file=sys.stderr)
            return 75

    return exit_code(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
