"""What comes back: evaluations, comparisons, gaps, calibrations, and their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use
from jmdp.base.interval import Estimate, Interval, Verdict

if TYPE_CHECKING:
    from jmdp.results.calibration import Calibration
    from jmdp.results.certificate import Certificate, Outcome
    from jmdp.results.evaluation import Evaluation
    from jmdp.results.gaps.distribution import Distribution, GapDistribution
    from jmdp.results.gaps.gap import Gap

__all__ = [
    "Calibration",
    "Certificate",
    "Distribution",
    "Estimate",
    "Evaluation",
    "Gap",
    "GapDistribution",
    "Interval",
    "Outcome",
    "Verdict",
]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "Calibration": "calibration",
        "Certificate": "certificate",
        "Distribution": "gaps.distribution",
        "Evaluation": "evaluation",
        "Gap": "gaps.gap",
        "GapDistribution": "gaps.distribution",
        "Outcome": "certificate",
    },
)
