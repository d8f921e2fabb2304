"""Write the saved benchmark results into benchmarks.md.

First run ``python -m benchmarks --out docs/benchmark_results``, which saves them.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import provenance
from benchmarks.report import Goal, Report
from benchmarks.running import COMPARISONS

HERE = Path(__file__).parent
BEGIN, END = "<!-- results: begin, written by docs/write_benchmarks.py -->", "<!-- results: end -->"


def render(results: Path = HERE / "benchmark_results") -> str:
    """Return one section per comparison, with its results and the machine it ran on."""
    sections, known = [], provenance.entries()
    for name in COMPARISONS:
        path = results / f"{name}.json"
        if not path.exists():
            sections.append(f"### {name}\n\nNot run yet.")
            continue
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["quick"]:
            raise ValueError(
                f"{path} is from --quick, whose numbers are not meaningful. Run it in full: python -m benchmarks {name}"
            )
        machine = saved.pop("machine")
        report = Report(**saved | {"goals": [Goal(**goal) for goal in saved["goals"]]})
        versions = ", ".join(f"{package} {machine[package]}" for package in ("python", "numpy", "scipy", "numba"))
        made = known.get(path.relative_to(HERE.parent).as_posix() if path.is_relative_to(HERE) else "", {})
        by = f"jmdp {made['version']}, commit {made['commit']}; " if made else ""
        where = f"{by}{machine['cpu']}, {machine['cores']} cores; {versions}; {machine['date']}."
        sections.append(f"### {name}\n\n{where}\n\n{report.table()}")
    return "\n\n".join(sections)


if __name__ == "__main__":
    page = HERE / "benchmarks.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{render()}\n\n{END}{after}", encoding="utf-8")
