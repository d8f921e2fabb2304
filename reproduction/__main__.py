"""`python -m reproduction`: the figures and tables of the paper again, with a verdict on each claim."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from jmdp.base.settings import whole_number
from jmdp.cli.command import Command, Exit, Flag, Names, aside, print_json, show
from jmdp.cli.loading import unknown
from jmdp.cli.main import exit_code, run_command
from jmdp.errors import SettingsError
from reproduction.experiment import Work
from reproduction.paper import EXPERIMENTS
from reproduction.records import Record
from reproduction.report import measured_text
from reproduction.reproducing import Log, Run, reproduce

_NAMES = f"Experiments to run: {', '.join(EXPERIMENTS)}; or all (the default)."


@dataclass(frozen=True, kw_only=True)
class Reproduce(Command):
    """Reproduce the paper's experiments and write a report of claims, measured values and verdicts.

    Writes numbers/NAME.json, figures/NAME.svg and report.html, a self-contained HTML file, to the folder --out (quick
    runs: NAME-quick and report-quick.html). Running the same command again resumes an interrupted run and keeps
    finished results. The exit code is 1 if a claim was not reproduced.
    """

    examples: ClassVar = {
        "python -m reproduction gridworld_correlations chain_correlation --out report": "two figures, within seconds",
        "python -m reproduction all --quick --out quick": "all experiments with little data: a few minutes",
        "python -m reproduction all --out report": "all experiments in full: hours; the same command resumes",
    }

    names: Annotated[Names, tyro.conf.arg(help=_NAMES)] = ("all",)
    out: Path
    """Folder for numbers, figures and the report."""
    quick: Flag = False
    """Use little data and few samples, to test that everything runs."""
    workers: int = 2
    """Number of emulator processes. The results do not depend on it."""
    minutes: float | None = None
    """Processor time of each network on the authors' settings: a larger number continues, 0 trains nothing. Default:
    20; all of their updates take about 60."""
    further: int = 0
    """Paired rollouts in each of 200 further states of the authors' Atari settings: 128 take 80 minutes in all."""
    numbers: Path | None = None
    """Folder for the numbers, if not OUT/numbers."""

    def run(self) -> Exit:
        """Run the experiments in the order of the paper."""
        for name in self.names:
            if name not in {*EXPERIMENTS, "all"}:
                raise unknown("experiment", name, [*EXPERIMENTS, "all"])
        if self.out.exists() and not self.out.is_dir():
            raise SettingsError(f"--out {self.out} is not a folder. Give a folder, which is created if necessary.")
        workers = whole_number("workers", self.workers, 1)
        chosen = [name for name in EXPERIMENTS if "all" in self.names or name in self.names]
        if self.minutes is not None and not self.minutes >= 0:
            raise SettingsError(f"minutes is {self.minutes}. Give a number, at least 0.")
        further = whole_number("further", self.further, 0)
        records: list[Record] = []
        with Log(quiet=self.quiet) as log:
            work = Work(self.out / "work", not self.quiet, workers, log.tell)
            settings = Run(self.quick, self.minutes, further, self.numbers)
            found = reproduce(chosen, self.out, settings, work)
            for name in chosen:
                log.tell(f"{name}: running")
                with aside(self.quiet):
                    records.append(next(found))
                if not self.json:
                    show(_text(records[-1]))
        if self.json:
            print_json([record.document() for record in records])
        else:
            report = "report-quick.html" if self.quick else "report.html"
            show(f"Report: {self.out / report}")
        failed = any(finding.failed for record in records for finding in record.findings)
        return Exit.NO if failed else Exit.YES


def _text(record: Record) -> str:
    lines = [record.name]
    for finding in record.findings:
        lines += [
            f"  {finding.verdict.value:<16}  {finding.claim}",
            f"  {'':<16}  {measured_text(finding.measured)}; {finding.rule}",
        ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code."""
    return exit_code(lambda: run_command(Reproduce, "python -m reproduction", arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
