"""Run experiments in turn: numbers, then figures, then a report of all results."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from benchmarks.provenance import record as record_provenance
from jmdp.base.whole_files import whole_file
from jmdp.show.plots.style import new_figure
from reproduction.experiment import Experiment, Work
from reproduction.paper import EXPERIMENTS
from reproduction.paper.atari_on_theirs import OnTheirSettings
from reproduction.records import Record, run_and_save, saved_record
from reproduction.report import Part, html, svg


@dataclass(frozen=True)
class Run:
    """What is run, beside the names."""

    quick: bool = False
    minutes: float | None = None
    """Processor time of each network on the authors' settings; None is the default of the experiment."""
    further: int = 0
    """Paired rollouts in each of the states further apart, on the authors' settings."""
    numbers: Path | None = None
    """Folder for the numbers; None is a folder of the run."""

    def configured(self, kind: type[Experiment]) -> Experiment:
        """Return an experiment with its settings."""
        found = kind.configured(self.quick)
        if not isinstance(found, OnTheirSettings):
            return found
        minutes = found.minutes if self.minutes is None else self.minutes
        return replace(found, minutes=minutes, further=self.further or found.further)


def reproduce(names: Sequence[str], folder: Path, run: Run, work: Work) -> Iterator[Record]:
    """Run experiments by name and yield the record of each as soon as it is done.

    Writes numbers/NAME.json, figures/NAME.svg and report.html to `folder`; quick runs write NAME-quick and
    report-quick. Existing numbers with the same settings are reused, so repeating the call resumes an interrupted run,
    and the report includes them. Numbers inside the repository are recorded with the code that made them.
    """
    # Missing packages raise an error now instead of after an hour.
    new_figure(size=(1.0, 1.0))
    html([], quick=run.quick)
    for name in names:
        EXPERIMENTS[name].require()
    mode = "-quick" if run.quick else ""
    experiments = {name: run.configured(kind) for name, kind in EXPERIMENTS.items()}
    numbers = {name: (run.numbers or folder / "numbers") / f"{name}{mode}.json" for name in experiments}
    parts: dict[str, Part] = {}

    def show(name: str, record: Record) -> None:
        picture = svg(experiments[name].figure(record.data))
        with whole_file(folder / "figures" / f"{name}{mode}.svg") as file:
            file.write(picture)
        parts[name] = Part(experiments[name], record, picture)

    for name, experiment in experiments.items():
        if (record := saved_record(experiment, numbers[name])) is not None:
            show(name, record)
    for name in names:
        if name not in parts:
            show(name, run_and_save(experiments[name], numbers[name], work))
            record_provenance(numbers[name], seeds=parts[name].record.seeds)
        shown = [parts[name] for name in experiments if name in parts]
        with whole_file(folder / f"report{mode}.html") as file:
            file.write(html(shown, quick=run.quick).encode())
        yield parts[name].record


SILENCE = 25.0
"""Seconds without a line after which the last one is repeated."""


class Log:
    """Lines on standard error with what is being done: each new text at once, the same again in a while."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._text, self._begun, self._said = quiet, "", time.monotonic(), 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def tell(self, text: str) -> None:
        """Say what begins now, at most once in ten seconds for parts of the same."""
        kind = text.partition(":")[0] != self._text.partition(":")[0]
        self._text = text
        if kind or time.monotonic() - self._said > 10:
            self._say()

    def _repeat(self) -> None:
        while not self._over.wait(SILENCE / 2):
            if self._text and time.monotonic() - self._said > SILENCE:
                self._say()

    def _say(self) -> None:
        self._said = time.monotonic()
        if not self._quiet:
            minutes, seconds = divmod(round(self._said - self._begun), 60)
            print(f"{minutes:3d}:{seconds:02d}  {self._text}", file=sys.stderr, flush=True)
