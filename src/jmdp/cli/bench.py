"""`jmdp bench`: comparisons with peers and with the bare engine, on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jmdp.benchmarks.report import save
from jmdp.benchmarks.running import COMPARISONS, run
from jmdp.cli.command import Command, Exit, print_json
from jmdp.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Time jmdp beside what one would use instead, on this machine."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Which comparisons; all by default."""
    quick: bool = False
    """Tiny sizes, to see that it runs; goals mean nothing there."""
    out: Path | None = None
    """Save what is found in this folder, a JSON file each, and figures where there are some."""

    def run(self) -> Exit:
        """Run them in order."""
        unknown = [name for name in self.names if name not in COMPARISONS]
        if unknown:
            raise SettingsError(f"There is no comparison {unknown[0]!r}. There are {', '.join(COMPARISONS)}.")
        records, met = {}, True
        for name in self.names or COMPARISONS:
            report = run(name, self.quick)
            records[name] = report.record()
            met &= self.quick or all(goal.met for goal in report.goals)
            if self.out is not None:
                save(records[name], self.out / f"{name}.json")
                if report.figure is not None:
                    report.figure.savefig(self.out / f"{name}.svg", metadata={"Date": None})
            if not self.json:
                sizes = " at tiny sizes, where goals mean nothing" if self.quick else ""
                print(f"## {name}{sizes}\n\n{report.table()}\n", flush=True)
        if self.json:
            print_json(records)
        return Exit.YES if met else Exit.NO
