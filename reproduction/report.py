"""Report of all experiments as a self-contained HTML file without scripts."""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jmdp
from jmdp.errors import MissingExtraError
from reproduction.experiment import Experiment
from reproduction.findings import Judgement, Measured
from reproduction.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SALT = "jmdp"
"""Salt of the identifiers in an SVG file, so that equal figures give equal bytes."""


class Part(NamedTuple):
    """Section of a report: one experiment."""

    experiment: Experiment
    record: Record
    picture: bytes  # SVG


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
    counts = Counter(finding.verdict for part in parts for finding in part.record.findings)
    return template.render(
        parts=[
            {
                "experiment": part.experiment,
                "record": part.record,
                "picture": base64.b64encode(part.picture).decode("ascii"),
                "settings": [(name.replace("_", " "), _plain(value)) for name, value in part.record.settings.items()],
            }
            for part in parts
        ],
        counts=[(verdict, counts[verdict]) for verdict in Judgement if counts[verdict]],
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
