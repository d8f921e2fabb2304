"""Run experiments one after the other: numbers, then figures, then the report of all that is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from jmdp.experiments.paper import EXPERIMENTS
from jmdp.experiments.paper.experiment import Work
from jmdp.experiments.paper.records import Record, kept, made
from jmdp.experiments.paper.report import Part, html, svg


def reproduce(names: Sequence[str], folder: Path, *, quick: bool, work: Work) -> Iterator[Record]:
    """Run experiments by name, and give the record of each as soon as it is there.

    In `folder`: numbers/NAME.json, figures/NAME.svg, report.html. Numbers that are there with the same settings are
    kept, so the same call again goes on where it was interrupted, and the report shows them too.
    """
    experiments = {name: kind.made(quick) for name, kind in EXPERIMENTS.items()}
    numbers, figures = folder / "numbers", folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Part] = {}

    def show(name: str, record: Record) -> None:
        picture = svg(experiments[name].figure(record.data))
        (figures / f"{name}.svg").write_bytes(picture)
        parts[name] = Part(experiments[name], record, picture)

    for name, experiment in experiments.items():
        if (record := kept(experiment, numbers)) is not None:
            show(name, record)
    for name in names:
        if name not in parts:
            show(name, made(experiments[name], numbers, work))
        shown = [parts[name] for name in experiments if name in parts]
        (folder / "report.html").write_text(html(shown, quick=quick), encoding="utf-8")
        yield parts[name].record
