"""Verdict on a learner from its calibration: better than a constant prediction or not."""

from __future__ import annotations

from enum import Enum

from jmdp.base.interval import Estimate
from jmdp.results.calibration.bootstrap import ROUNDING


class Judgement(Enum):
    """Verdict on a learner from held-out states."""

    USEFUL = "better than a constant"
    NOT_BETTER = "not better than a constant"
    NOTHING_VARIED = "nothing varied"

    @classmethod
    def of(cls, gain: Estimate, *, varied: bool) -> Judgement:
        """`USEFUL` only if the whole 95% interval of the gain over the constant is above 0."""
        if not varied:
            return cls.NOTHING_VARIED
        return cls.USEFUL if gain.low > ROUNDING else cls.NOT_BETTER
