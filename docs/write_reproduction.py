"""Write reproduction.md and its figures from the committed numbers.

``jmdp reproduce all --out FOLDER`` computes the numbers. Copy FOLDER/numbers to docs/reproduction_results/paper, from
where this script reads them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from jmdp.experiments.paper import EXPERIMENTS
from jmdp.experiments.reproduction.findings import Judgement
from jmdp.experiments.reproduction.records import Record
from jmdp.experiments.reproduction.report import measured_text, number, source, svg

HERE = Path(__file__).parent
RESULTS = HERE / "reproduction_results" / "paper"
OPENING = """# The paper, reproduced

One command reproduces every figure and table of the experiments in *Joint MDPs and Reinforcement Learning in
Coupled-Dynamics Environments* (Kaya, Ghasemi & Hashemi, UAI 2026), and tests its theorems and its second example:

```bash
pip install ".[reproduce]"
jmdp reproduce all --out report            # {full}
jmdp reproduce all --quick --out quick     # little data, to test the installation: some minutes
jmdp reproduce residuals gap_validation --out report
```

It writes `numbers/NAME.json`, `figures/NAME.svg` and a self-contained `report.html`; a quick run writes `NAME-quick`
and `report-quick.html`. Repeat the command to resume an interrupted run. The exit code is 1 if a claim was not
reproduced.

Each claim of the paper is listed with its measured value, the interval and the source. The rule next to it decides the
verdict: **reproduced**, **better** (the claim is stronger than the paper's, or the whole interval is nearer to the
ideal value than the paper's number), **not reproduced**, or **cannot be judged**. Settings that the paper does not
state are listed with our reasons. Its mistakes are in [the errata](mathematics.md#errata-of-the-paper).

Below are the numbers of the committed full run: {counts}.
"""


def page(full: str = "within 90 minutes on two cores") -> str:
    """Return the page as Markdown."""
    records = {name: Record.load(RESULTS / f"{name}.json") for name in EXPERIMENTS}
    found = Counter(finding.verdict for record in records.values() for finding in record.findings)
    counts = ", ".join(f"{found[verdict]} {verdict.value}" for verdict in Judgement if found[verdict])
    parts = [OPENING.format(full=full, counts=counts)]
    for name, record in records.items():
        kind = EXPERIMENTS[name]
        parts.append(f"## {kind.title}\n\n{kind.where} of the paper; `jmdp reproduce {name} --out report`.\n")
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
