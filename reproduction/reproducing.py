"""Run experiments in turn: numbers, then figures, then a report of all results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from jmdp.base.whole_files import whole_file
from jmdp.show.plots.style import new_figure
from reproduction.experiment import Work
from reproduction.paper import EXPERIMENTS
from reproduction.records import Record, run_and_save, saved_record
from reproduction.report import Part, html, svg


def reproduce(names: Sequence[str], folder: Path, *, quick: bool, work: Work) -> Iterator[Record]:
    """Run experiments by name and yield the record of each as soon as it is done.

    Writes numbers/NAME.json, figures/NAME.svg and report.html to `folder`; quick runs write NAME-quick and
    report-quick. Existing numbers with the same settings are reused, so repeating the call resumes an interrupted run,
    and the report includes them.
    """
    # Missing packages raise an error now instead of after an hour.
    new_figure(size=(1.0, 1.0))
    html([], quick=quick)
    for name in names:
        EXPERIMENTS[name].require()
    mode = "-quick" if quick else ""
    experiments = {name: kind.configured(quick) for name, kind in EXPERIMENTS.items()}
    numbers = {name: folder / "numbers" / f"{name}{mode}.json" for name in experiments}
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
        shown = [parts[name] for name in experiments if name in parts]
        with whole_file(folder / f"report{mode}.html") as file:
            file.write(html(shown, quick=quick).encode())
        yield parts[name].record
