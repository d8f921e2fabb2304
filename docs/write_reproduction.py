"""Write reproduction.md and its figures from the committed numbers.

``python -m reproduction all --out FOLDER --numbers docs/reproduction_results/paper`` computes the numbers and records
what made them; ``python -m docs.write_reproduction`` writes the page and the figures.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import jmdp
from benchmarks.provenance import record as record_provenance
from reproduction.experiment import Experiment
from reproduction.findings import Finding, Judgement, Setting
from reproduction.paper import EXPERIMENTS
from reproduction.records import Record
from reproduction.report import by_place, counted, made_with, measured_text, number, section, source, svg

HERE = Path(__file__).parent
RESULTS = HERE / "reproduction_results" / "paper"
OPENING = """# The paper, reproduced

One command, in a clone of the repository, runs every experiment of *Joint MDPs and Reinforcement Learning in
Coupled-Dynamics Environments* (Kaya, Ghasemi & Hashemi, UAI 2026), and tests its theorems and its second example:

```bash
pip install -e ".[reproduce]"
python -m reproduction all --out report            # {full}
python -m reproduction all --quick --out quick     # little data, to test the installation: some minutes
python -m reproduction residuals gap_validation --out report
```

It writes `numbers/NAME.json`, `figures/NAME.svg` and a self-contained `report.html`; a quick run writes `NAME-quick`
and `report-quick.html`. Repeat the command to resume an interrupted run. The exit code is 1 if a claim was not
reproduced. `--minutes` limits the processor time of each network on the authors' settings; a larger number continues.

The authors have published their scripts ([github.com/egecky/jmdp](https://github.com/egecky/jmdp)), which state the
settings that the paper leaves out. Each claim is listed with the paper's number, if it prints one, and with what was
found on the authors' settings and on ours: the measured value, the interval and the source. None of the authors' code
is used. The rule next to a value decides the verdict: **reproduced**, **better** (the claim is stronger than the
paper's, or the whole interval is nearer to the ideal value than the paper's number), **not reproduced**, or **cannot be
judged**. A section has the worst verdict on the paper's claims: on the authors' settings, or on ours where the paper
has no experiment. Mistakes of the paper are in [the errata](mathematics.md#errata-of-the-paper).

A rule applies to the whole interval, and a limit may be exceeded by one part in 10⁹, for rounding. Intervals are
printed rounded outwards: one that ends at 0.95 may be printed as 0.9501. The conditions of Theorem B.4 are tested on
the model of two towns below; `LinearProjected` itself is used for the row on `Restart`.

{counts}

| in the paper | here | verdict | made with |
|---|---|---|---|
{items}
| Example 1 | `jmdp.worlds.anti_correlated_bandit`, in [Mathematics](mathematics.md) | – | – |
| Figures 1 and 3 | diagrams without numbers | – | – |

{failed}
"""


def anchor(title: str) -> str:
    """Return the address of a heading on the page."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def verdicts(found: Counter[Judgement]) -> str:
    """Return how many there are of each verdict."""
    return ", ".join(f"{found[verdict]} {verdict.value}" for verdict in Judgement if found[verdict])


def cell(findings: list[Finding]) -> str:
    """Return what was found on one of the settings."""
    return "<br>".join(
        f"**{measured_text(finding.measured)}**, **{finding.verdict.value}**<br>{finding.quantity} "
        f"({source(finding.measured)}); {finding.rule}"
        for finding in findings
    ) or "–"  # fmt: skip


def stored() -> dict[str, type[Experiment]]:
    """The experiments whose numbers are stored."""
    return {name: kind for name, kind in EXPERIMENTS.items() if (RESULTS / f"{name}.json").exists()}


def page(full: str = "about eight hours on one core; it resumes") -> str:
    """Return the page as Markdown."""
    records = [(kind, Record.load(RESULTS / f"{name}.json")) for name, kind in stored().items()]
    findings = [finding for _, record in records for finding in record.findings]
    places = [(section(placed), placed) for placed in by_place(records)]
    items = "\n".join(
        f"| {about.where} | [{about.title}](#{anchor(about.title)}) | {about.badge.value} "
        f"| {'; '.join(dict.fromkeys(made_with(record) for _, record in placed))} |"
        for about, placed in sorted(places, key=lambda place: place[0].where)
    )
    failed = list(dict.fromkeys(f"{f.claim} ({f.where}, {f.setting})" for f in findings if f.failed))
    counts = "\n".join(f"- {name.capitalize()}: {verdicts(found)}." for name, found in counted(findings).items())
    lost = "\n".join(["Not reproduced:", "", *(f"- {claim}" for claim in failed)]) if failed else "Nothing failed."
    older = {
        record.name: record.versions["jmdp"] for _, record in records if record.versions["jmdp"] != jmdp.__version__
    }
    if older:
        counts += (
            f"\n\nNumbers of networks on our settings are of version {', '.join(sorted({*older.values()}))}. "
            f"`python -m reproduction {' '.join(older)} --out report` makes them again, in two to four hours."
        )
    parts = [OPENING.format(full=full, counts=counts, items=items, failed=lost)]
    for about, placed in places:
        names = " ".join(record.name for _, record in placed)
        minutes = {record.settings["minutes"] for _, record in placed if "minutes" in record.settings}
        given = "".join(f" --minutes {each:g}" for each in sorted(minutes))
        command = f"`python -m reproduction {names}{given} --out report`"
        parts.append(f"## {about.title}\n\n{about.where} of the paper; {command}.\n")
        parts += [
            f"Numbers on the authors' settings are not stored. `python -m reproduction {name} --out report` runs it: "
            f"{kind.costs}.\n"
            for name, kind in EXPERIMENTS.items()
            if name not in stored() and kind.where == about.where
        ]
        if about.described:
            parts.append(f"The paper's figure, which is not shown here: {about.described}\n")
        parts += [f"![{about.title}](images/paper/{record.name}.svg)\n" for _, record in placed]
        parts.append("| claim | the paper | the authors' settings | our settings |\n|---|---|---|---|")
        for row in about.rows:
            claim = f"{row.claim} (not in the paper)" if row.addition else row.claim
            paper = "–" if row.addition else "no number" if row.paper is None else number(row.paper)
            found = " | ".join(cell(row.found[setting]) for setting in Setting)
            parts.append(f"| {claim} | {paper} | {found} |")
        settings = [f"*{name.capitalize()}.* {text}" for name, text in about.settings.items() if text]
        parts.append("\n" + "\n\n".join([*about.remarks, *settings]) + "\n")
    return "\n".join(parts)


def write() -> None:
    """Write the page and its figures, and record what made them."""
    pictures = HERE / "images" / "paper"
    pictures.mkdir(exist_ok=True)
    for name, kind in stored().items():
        numbers, picture = RESULTS / f"{name}.json", pictures / f"{name}.svg"
        picture.write_bytes(svg(kind().figure(Record.load(numbers).data)))
        record_provenance(picture, sources=[numbers])
    (HERE / "reproduction.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
