"""Saved results of an experiment with its settings, written before its figure is drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jmdp
from jmdp.base.whole_files import whole_file
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Finding, Judgement, Measured, Setting


@dataclass(frozen=True)
class Record:
    """Results of an experiment as they appear in a report."""

    name: str
    settings: dict[str, Any]
    versions: dict[str, str]
    findings: list[Finding]
    data: dict[str, Any]

    @classmethod
    def of(cls, experiment: Experiment, numbers: Numbers) -> Record:
        """Return the record of an experiment that was just run."""
        return cls(experiment.name, settings_of(experiment), _versions(experiment), numbers.findings, numbers.data)

    @property
    def seeds(self) -> str:
        """Seeds of all findings."""
        found = {seed for finding in self.findings for seed in finding.measured.seeds}
        return ", ".join(map(str, sorted(found))) or "none"

    def save(self, path: Path) -> None:
        """Write the record atomically. Equal numbers give equal bytes."""
        text = json.dumps(self.document(), indent=1, ensure_ascii=False, allow_nan=False)
        with whole_file(path) as file:
            file.write(f"{text}\n".encode())

    def document(self) -> dict[str, Any]:
        """Return the record as a JSON document; infinite ends of intervals are null."""
        found = asdict(self)
        for finding in found["findings"]:
            for end in ("low", "high"):
                if math.isinf(finding["measured"][end]):
                    finding["measured"][end] = None
        plain: dict[str, Any] = json.loads(json.dumps(found))
        return plain

    @classmethod
    def load(cls, path: Path) -> Record:
        """Load a saved record."""
        saved = json.loads(path.read_text(encoding="utf-8"))
        findings = [
            Finding(**{**finding, **{name: read(finding[name]) for name, read in _READ.items()}})
            for finding in saved.pop("findings")
        ]
        return cls(findings=findings, **saved)


def _measured(saved: dict[str, Any]) -> Measured:
    ends = {
        end: nowhere if saved[end] is None else saved[end] for end, nowhere in (("low", -math.inf), ("high", math.inf))
    }
    return Measured(**{**saved, **ends, "seeds": tuple(saved["seeds"])})


_READ: dict[str, Callable[[Any], Any]] = {"measured": _measured, "verdict": Judgement, "setting": Setting}


def settings_of(experiment: Experiment) -> dict[str, Any]:
    """Return the settings of an experiment as JSON values."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(experiment)))
    return found


def saved_record(experiment: Experiment, path: Path) -> Record | None:
    """Return the record of an earlier run with the same settings and packages, or None if unavailable or damaged."""
    try:
        record = Record.load(path)
        if not record.findings or record.settings != settings_of(experiment):
            return None
        same = record.versions == _versions(experiment)
        experiment.figure(record.data)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, ImportError):
        return None
    return record if same else None


def _versions(experiment: Experiment) -> dict[str, str]:
    atari = ("jax", "ale-py") if experiment.name.startswith(("atari", "authors")) else ()
    return {"jmdp": jmdp.__version__, **{package: version(package) for package in ("numpy", "scipy", *atari)}}


def run_and_save(experiment: Experiment, path: Path, work: Work) -> Record:
    """Run an experiment and save its record."""
    record = Record.of(experiment, experiment.run(work))
    record.save(path)
    return record
