"""Is a learner better than a constant? The rule by which a held-out record is judged."""

from __future__ import annotations

from enum import Enum

from jmdp.base.interval import Estimate
from jmdp.results.calibration.bootstrap import ROUNDING


class Judgement(Enum):
    """What a held-out record says of a learner."""

    USEFUL = "better than a constant"
    NOT_BETTER = "not better than a constant"
    NOTHING_VARIED = "nothing varied"

    @classmethod
    def of(cls, gain: Estimate, *, varied: bool) -> Judgement:
        """`USEFUL` only where the whole 95% interval of the gain over the constant is above 0."""
        if not varied:
            return cls.NOTHING_VARIED
        return cls.USEFUL if gain.low > ROUNDING else cls.NOT_BETTER
