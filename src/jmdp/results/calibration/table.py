"""Text and JSON forms of a calibration, each number with its interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jmdp.base.interval import Estimate
from jmdp.base.rounding import counted
from jmdp.results.calibration.bootstrap import CONFIDENCE
from jmdp.results.text import lines, written

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
    rows = []
    for name, words in (_RATIOS | _OTHERS).items():
        estimate: Estimate | None = getattr(c, name)
        if estimate is not None:
            near = written(Estimate.within(estimate, c.over_rollouts(estimate))).interval if name in _RATIOS else ""
            rows.append({"": words, "value, 95% over states": estimate, "95% over rollouts": near})
    return "\n".join(
        [
            f"Calibration on {counted(c.gaps, 'gap')} in {held_out(c)}, {c.rollouts} rollouts each ({seeds(c)})",
            f"Gap variances: {c.verdict.value}. Mean gaps: {c.mean_verdict.value}.",
            *lines(rows),
        ]
    )


def held_out(record: Calibration) -> str:
    """The number of states in words."""
    return counted(record.states, "held-out state")


def seeds(record: Calibration) -> str:
    """The seeds in words."""
    return f"seed{'s' * (len(record.seeds) > 1)} {', '.join(map(str, record.seeds))}"


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
