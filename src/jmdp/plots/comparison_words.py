"""Texts of the chart of a comparison: names, verdict, headings, legend and caption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jmdp.base.rounding import confidence_percent
from jmdp.results.outcome import Outcome

if TYPE_CHECKING:
    from jmdp.comparisons.comparison import Comparison

_LONGEST = 24
"""Longer names lose their middle."""


@dataclass(frozen=True)
class Words:
    """Labels of the chart, relative to the leader or to a baseline."""

    top: str
    gap: str
    difference: str
    sure: str
    not_sure: str
    chance: str
    values: str  # what is compared, below the axis

    @classmethod
    def of(cls, c: Comparison, name: str) -> Words:
        """Labels for this comparison; `name` is that of the leader or baseline."""
        values = plain(c.mean_title.removeprefix("mean "))
        if c.discount < 1:
            values = f"discounted {values}"
        gap = (c.alternative, name) if has_baseline(c) == (c.sign > 0) else (name, c.alternative)
        difference = " − ".join(gap)
        if has_baseline(c):
            return cls(
                "baseline",
                f"gain over {name}",
                difference,
                "known to be better or worse",
                "may be equal",
                f"how often each does better than {name}",
                values,
            )
        return cls(
            "leader",
            f"how far each {c.alternative} is behind {name}",
            difference,
            f"{name} is better",
            "may be equal",
            f"how often {name} does better than each",
            values,
        )


def has_baseline(c: Comparison) -> bool:
    """True if the comparison has a baseline, which then takes the place of the leader."""
    return getattr(c, "baseline", None) is not None


def written(names: list[str], alternative: str) -> list[str]:
    """Names for labels: in one line, not too long, all different, and without mathematics."""
    short = [plain(f"{alternative} {name}" if name.isdigit() else name) for name in names]
    if len(set(short)) < len(short):
        short = [f"{i}: {name}" for i, name in enumerate(short)]
    return short


def plain(name: str) -> str:
    """One name for a label: in one line, not too long, without mathematics and characters that cannot be drawn."""
    line = "".join(mark if mark.isprintable() else "\ufffd" for mark in " ".join(name.split()))
    half = _LONGEST // 2 - 1
    short = line if len(line) <= _LONGEST else f"{line[:half]} … {line[-half:]}"
    return short.replace("$", r"\$")


def verdict(c: Comparison, labelled: list[str], gaps: list[float], sure: list[bool]) -> str:
    """The answer in one sentence. `labelled` starts with the leader or baseline; gaps are those of the others."""
    leader, others = labelled[0], labelled[1:]
    if has_baseline(c):
        return _beside_baseline(leader, others, gaps, sure)
    if c.best is not None:
        return f"{leader} is best"
    if c.outcome is Outcome.GOOD_ENOUGH:
        return f"{leader} is within {c.indifference:g} of the best"
    if not c.summary.decisive(c.samples):
        return f"Not decided, too few {c.run}s; {leader} leads"
    near = [name for name, known in zip(others, sure, strict=True) if not known]
    which = near[0] if len(near) == 1 else f"{len(near)} of the {len(others)} others"
    return f"Not decided: {leader} leads, but {which} may be as good"


def _beside_baseline(baseline: str, others: list[str], gaps: list[float], sure: list[bool]) -> str:
    known = [
        f"{name} is {'better' if gap > 0 else 'worse'}"
        for name, gap, decided in zip(others, gaps, sure, strict=True)
        if decided
    ]
    if not known:
        return f"Not decided: none is known to be better or worse than {baseline}"
    return f"Compared with {baseline}: {', '.join(known)}"


def caption(c: Comparison) -> str:
    """Sample size, seed, confidence, coupling, and how the comparison ended."""
    least, most = min(c.counts.values()), max(c.counts.values())
    count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    first = (
        f"{count} {c.run}s of each {c.alternative}",
        f"seed {c.seed}",
        f"{confidence_percent(c.confidence)} confidence{', large-sample' if c.return_range is None else ''}",
    )
    second = (
        f"{type(c.summary.coupling).__name__} coupling",
        "stopped: " * (not c.outcome.successful) + c.outcome.name.lower().replace("_", " "),
    )
    return " · ".join(first) + "\n" + " · ".join(second)
