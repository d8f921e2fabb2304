"""Write reproduction.md and its figures from the committed numbers.

``python -m reproduction all --out FOLDER`` computes the numbers. Copy FOLDER/numbers to
docs/reproduction_results/paper, from where this script reads them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from reproduction.findings import Finding, Judgement
from reproduction.paper import EXPERIMENTS
from reproduction.records import Record
from reproduction.report import measured_text, number, source, svg

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
reproduced.

Each claim of the paper is listed with its measured value, the interval and the source. The rule next to it decides the
verdict: **reproduced**, **better** (the claim is stronger than the paper's, or the whole interval is nearer to the
ideal value than the paper's number), **not reproduced**, or **cannot be judged**. Settings that the paper does not
state are listed with our reasons. Its mistakes are in [the errata](mathematics.md#errata-of-the-paper).

A rule applies to the whole interval, and a limit may be exceeded by one part in 10⁹, for rounding. Intervals are
printed rounded outwards: one that ends at 0.95 may be printed as 0.9501. The conditions of Theorem B.4 are tested on
the model of two towns below; `LinearProjected` itself is used for the row on `Restart`.

Below are the numbers of the committed full run, of jmdp {version}; later versions
may have narrower intervals. Claims of the paper: {counts}.
Claims of our own, marked "not in the paper", as controls and additions: {ours}.

| in the paper | here | command | verdicts |
|---|---|---|---|
{items}
| Example 1 | `jmdp.worlds.anti_correlated_bandit`, in [Mathematics](mathematics.md) | – | – |
| Figures 1 and 3 | diagrams without numbers | – | – |

All that was not reproduced is in Figure 7: TD errors do not decrease by several orders of magnitude. `python -m
reproduction all` therefore ends with exit code 1.
"""


OURS = "not in the paper"


def counted(findings: Iterable[Finding]) -> str:
    """Return how many there are of each verdict."""
    found = Counter(finding.verdict for finding in findings)
    return ", ".join(f"{found[verdict]} {verdict.value}" for verdict in Judgement if found[verdict])


def anchor(title: str) -> str:
    """Return the address of a heading on the page."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def page(full: str = "within 90 minutes on two cores") -> str:
    """Return the page as Markdown."""
    records = {name: Record.load(RESULTS / f"{name}.json") for name in EXPERIMENTS}
    findings = [finding for record in records.values() for finding in record.findings]
    items = "\n".join(
        f"| {kind.where} | [{kind.title}](#{anchor(kind.title)}) | `python -m reproduction {name} --out report` "
        f"| {counted(records[name].findings)} |"
        for name, kind in sorted(EXPERIMENTS.items(), key=lambda item: item[1].where)
    )
    parts = [
        OPENING.format(
            full=full,
            version=", ".join(sorted({record.versions["jmdp"] for record in records.values()})),
            counts=counted(finding for finding in findings if OURS not in finding.claim.lower()),
            ours=counted(finding for finding in findings if OURS in finding.claim.lower()),
            items=items,
        )
    ]
    for name, record in records.items():
        kind = EXPERIMENTS[name]
        parts.append(f"## {kind.title}\n\n{kind.where} of the paper; `python -m reproduction {name} --out report`.\n")
        parts.append(f"![{kind.title}](images/paper/{name}.svg)\n")
        parts.append("| claim | measured | rule | verdict |\n|---|---|---|---|")
        for finding in record.findings:
            paper = "" if finding.paper is None else f"; paper: {number(finding.paper)}"
            parts.append(
                f"| {finding.claim} | **{measured_text(finding.measured)}**{paper}<br>{finding.quantity} "
                f"({source(finding.measured)}) | {finding.rule} | **{finding.verdict.value}** |"
            )
        parts.append("\n" + "\n\n".join([*record.remarks, f"Settings: {kind.ours}"]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    pictures = HERE / "images" / "paper"
    pictures.mkdir(exist_ok=True)
    for name, kind in EXPERIMENTS.items():
        (pictures / f"{name}.svg").write_bytes(svg(kind().figure(Record.load(RESULTS / f"{name}.json").data)))
    (HERE / "reproduction.md").write_text(page(), encoding="utf-8")
