"""Text and JSON forms of a calibration, each number with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jmdp.base.interval import Estimate
from jmdp.base.rounding import value_and_ends
from jmdp.results.calibration.bootstrap import CONFIDENCE

if TYPE_CHECKING:
    from jmdp.results.calibration.record import Calibration

_RATIOS = {
    "ratio": "variance: learned / simulated",
    "independent_ratio": "  independent / simulated",
    "closed_form_ratio": "  closed form / simulated",
}
_OTHERS = {
    "gap_ratio": "  learned / simulated, gap by gap",
    "variance_gain": "  gain over a constant, nats",
    "rank_correlation": "  rank correlation",
    "rank_ceiling": "  … of a perfect learner, about",
    "rank_reliability": "  reliability of simulated ranks",
    "mean_gain": "mean: R² relative to no gap",
    "mean_correlation": "  correlation",
    "mean_ceiling": "  … of a perfect learner, about",
    "mean_reliability": "  reliability of simulated means",
    "mean_error": "  rms error beyond noise",
}


def calibration_table(record: Calibration) -> str:
    """Multi-line text: counts, verdicts, and a table of the estimates."""
    c = record
    rows = [["", "value", "95% over states", "95% over rollouts"]]
    for name, words in (_RATIOS | _OTHERS).items():
        estimate: Estimate | None = getattr(c, name)
        if estimate is None:
            continue
        value, interval = _written(estimate)
        near = ""
        if name in _RATIOS:
            near = _written(Estimate.within(estimate, c.over_rollouts(estimate)))[1]
        rows.append([words, value, interval, near])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    states = "1 held-out state" if c.states == 1 else f"{c.states:,} held-out states"
    seeds = f"seed{'s' * (len(c.seeds) > 1)} {', '.join(map(str, c.seeds))}"
    lines = [f"Calibration on {c.gaps:,} gap{'s' * (c.gaps > 1)} in {states}, {c.rollouts} rollouts each ({seeds})"]
    lines.append(f"Gap variances: {c.verdict.value}. Mean gaps: {c.mean_verdict.value}.")
    for row in rows:
        lines.append(_line(row, widths))
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, value, *intervals = row
    cells = [f"{name:{widths[0]}}", f"{value:>{widths[1]}}"]
    cells += [f"{text:{width}}" for text, width in zip(intervals, widths[2:], strict=True)]
    return "  ".join(cells).rstrip()


def _written(estimate: Estimate) -> tuple[str, str]:
    """Value and interval, rounded to two significant digits of the error; the ends are rounded outwards."""
    if math.isnan(estimate):
        return "—", ""
    if not math.isfinite(estimate.high - estimate.low):
        return f"{float(estimate):.4g}", "unavailable"
    return value_and_ends(estimate)


def calibration_dict(record: Calibration) -> dict[str, object]:
    """All estimates as JSON-compatible values; None for numbers that are unavailable or not finite."""
    c = record
    about: dict[str, object] = {
        "gaps": c.gaps,
        "states": c.states,
        "rollouts": c.rollouts,
        "seed": [int(seed) for seed in c.seeds] if isinstance(c.seed, tuple) else int(c.seed),
    }
    said: dict[str, object] = {**about, "confidence": CONFIDENCE}
    said |= {"verdict": c.verdict.name, "mean_verdict": c.mean_verdict.name}
    for name in _RATIOS | _OTHERS:
        estimate: Estimate | None = getattr(c, name)
        if estimate is None:
            said[name] = None
            continue
        number: dict[str, object] = {
            "value": _plain(estimate),
            "low": _plain(estimate.low),
            "high": _plain(estimate.high),
        }
        if name in _RATIOS:
            near = c.over_rollouts(estimate)
            number |= {"rollout_low": _plain(near.low), "rollout_high": _plain(near.high)}
        said[name] = number | about
    return said


def _plain(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
