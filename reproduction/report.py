"""Report of all experiments as a self-contained HTML file without scripts."""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jmdp
from jmdp.errors import MissingExtraError
from reproduction.experiment import Experiment
from reproduction.findings import Finding, Judgement, Measured, Setting
from reproduction.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Placed = TypeVar("Placed", bound="tuple[Any, ...]")

_SALT = "jmdp"
"""Salt of the identifiers in an SVG file, so that equal figures give equal bytes."""


class Part(NamedTuple):
    """One experiment of a report."""

    experiment: Experiment
    record: Record
    picture: bytes  # SVG


class Row(NamedTuple):
    """One claim, beside the paper's number: what was found on the authors' settings and on ours."""

    claim: str
    addition: bool
    paper: float | None
    found: dict[Setting, list[Finding]]


class Section(NamedTuple):
    """A figure, table or theorem of the paper, with all experiments on it."""

    name: str
    title: str
    where: str
    described: str
    badge: Judgement
    rows: list[Row]
    remarks: list[str]
    settings: dict[Setting, str]

    def tested_on(self, setting: Setting) -> bool:
        """Whether a claim of the paper was tested on these settings."""
        return any(row.found[setting] for row in self.rows if not row.addition)


def section(records: Sequence[tuple[Experiment | type[Experiment], Record]]) -> Section:
    """Gather the experiments on one place of the paper."""
    findings = [finding for _, record in records for finding in record.findings]
    kinds = [kind for kind, _ in records]
    rows: dict[tuple[str, bool], Row] = {}
    for finding in findings:
        row = Row(finding.claim, finding.addition, finding.paper, {setting: [] for setting in Setting})
        rows.setdefault((finding.claim, finding.addition), row).found[finding.setting].append(finding)
    return Section(
        name=records[0][1].name,
        title=kinds[0].title,
        where=kinds[0].where,
        described=next((kind.described for kind in kinds if kind.described), ""),
        badge=badge(findings),
        rows=sorted(rows.values(), key=lambda row: row.addition),
        remarks=list(dict.fromkeys(finding.remark for finding in findings if finding.remark)),
        settings={
            Setting.AUTHORS: next((kind.theirs for kind in kinds if kind.theirs), ""),
            Setting.OURS: " ".join(dict.fromkeys(kind.ours for kind in kinds if kind.ours)),
        },
    )


def badge(findings: Sequence[Finding]) -> Judgement:
    """Worst verdict on the paper's claims: on the authors' settings where there are any, otherwise on ours."""
    claims = [finding for finding in findings if not finding.addition] or findings
    theirs = [finding for finding in claims if finding.setting is Setting.AUTHORS] or claims
    order = (Judgement.NOT_REPRODUCED, Judgement.CANNOT_BE_JUDGED, Judgement.REPRODUCED, Judgement.BETTER)
    return next(verdict for verdict in order if any(finding.verdict is verdict for finding in theirs))


def by_place(parts: Iterable[Placed]) -> list[list[Placed]]:
    """Group experiments by their place in the paper, in the order of the first of each; each begins with a kind."""
    found: dict[str, list[Placed]] = {}
    for part in parts:
        found.setdefault(part[0].where, []).append(part)
    return list(found.values())


def counted(findings: Iterable[Finding]) -> dict[str, Counter[Judgement]]:
    """Count verdicts: of the paper's claims on the authors' settings, on ours, and of additions."""
    found: dict[str, Counter[Judgement]] = {}
    for finding in findings:
        name = _ADDED if finding.addition else f"claims on {finding.setting}"
        found.setdefault(name, Counter())[finding.verdict] += 1
    return {name: found[name] for name in (*(f"claims on {setting}" for setting in Setting), _ADDED) if name in found}


_ADDED = "additions that are not in the paper"


def made_with(record: Record) -> str:
    """Versions of the packages that a record was made with."""
    return ", ".join(f"{package} {version}" for package, version in record.versions.items())


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG; equal figures give equal bytes."""
    from matplotlib import rc_context

    file = io.BytesIO()
    with rc_context({"svg.hashsalt": _SALT}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def html(parts: Sequence[Part], *, quick: bool) -> str:
    """Return the report. Text is escaped, and figures are embedded as images, which cannot run scripts."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise MissingExtraError('Reports need Jinja2: pip install "jmdp[report]"') from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "measured": measured_text, "source": source}
    template = environment.from_string(Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8"))
    findings = [finding for part in parts for finding in part.record.findings]
    return template.render(
        sections=[
            {
                "about": section([(part.experiment, part.record) for part in placed]),
                "parts": [
                    {
                        "record": part.record,
                        "picture": base64.b64encode(part.picture).decode("ascii"),
                        "made": made_with(part.record),
                        "settings": [
                            (name.replace("_", " "), _plain(value)) for name, value in part.record.settings.items()
                        ],
                    }
                    for part in placed
                ],
            }
            for placed in by_place(parts)
        ],
        counts=[
            (name, [(verdict, found[verdict]) for verdict in Judgement if found[verdict]])
            for name, found in counted(findings).items()
        ],
        Setting=Setting,
        quick=quick,
        slug=slug,
    )


def slug(verdict: Judgement) -> str:
    """Return the CSS class of a verdict."""
    return verdict.value.replace(" ", "-")


def number(value: float) -> str:
    """Format a number with four digits and a minus sign; nan is "undefined"."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "undefined"
    return f"{value:.4g}".replace("-", "−")


def measured_text(measured: Measured) -> str:
    """Format a value with its interval, or with ± if that is narrow. Ends are rounded outwards."""
    text = jmdp.results.Estimate(measured.value, measured.low, measured.high).to_digits(4)
    return text.replace("-", "−").replace("inf", "∞")


def source(measured: Measured) -> str:
    """Describe the source of a number: n, seeds, and the meaning of its interval."""
    n = f"n = {measured.n:,} {measured.of}"
    if measured.basis == "certified":
        return f"{n}; no sampling, interval certified"
    if measured.basis == "computed":
        return f"{n}; no sampling, interval is their range"
    plural = "s" if len(measured.seeds) > 1 else ""
    seeds = ", ".join(map(str, measured.seeds))
    return f"{n}; seed{plural} {seeds}; {100 * (measured.confidence or 0):g}% interval"


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
