"""The results in docs/benchmarks.md, written from the saved reports so that no number is copied by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from benchmarks.report import RESULTS, Goal, Report

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- results: begin, written by python -m benchmarks --page -->", "<!-- results: end -->"


def rewrite(names: Iterable[str]) -> None:
    """Put the saved results of these comparisons between the page's two markers."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{render(names)}\n\n{END}{after}", encoding="utf-8")


def render(names: Iterable[str]) -> str:
    """Return a section for each comparison that has been run in full, with the machine it ran on."""
    sections = []
    for name in names:
        path = RESULTS / f"{name}.json"
        if not path.exists():
            sections.append(f"### {name}\n\nNot run yet.")
            continue
        saved = json.loads(path.read_text(encoding="utf-8"))
        machine = saved.pop("machine")
        report = Report(**saved | {"goals": [Goal(**goal) for goal in saved["goals"]]})
        versions = ", ".join(f"{package} {machine[package]}" for package in ("python", "numpy", "scipy", "numba"))
        where = f"{machine['cpu']}, {machine['cores']} cores; {versions}; {machine['date']}."
        sections.append(f"### {name}\n\n{where}\n\n{report.table()}")
    return "\n\n".join(sections)
