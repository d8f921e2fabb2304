"""Intervals that hold the truth, and the three-valued answers they give to yes or no questions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from jmdp.errors import UndecidedError


class Verdict(Enum):
    """YES, NO, or UNKNOWN where the interval does not settle the question."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        if self is Verdict.UNKNOWN:
            raise UndecidedError(
                "The interval contains the threshold, so the answer is UNKNOWN. "
                "Ask for a smaller tolerance or more samples, or compare with Verdict.YES explicitly."
            )
        return self is Verdict.YES


@dataclass(frozen=True)
class Interval:
    """A closed interval [low, high] that contains a quantity."""

    low: float
    high: float

    @classmethod
    def around(cls, value: float, error: float) -> Interval:
        """[value − error, value + error], rounded outwards; the point itself when the error is 0."""
        if error == 0:
            return cls(value, value)
        return cls(math.nextafter(value - error, -math.inf), math.nextafter(value + error, math.inf))

    def exceeds(self, threshold: float) -> Verdict:
        """Is the quantity > threshold?"""
        if self.low > threshold:
            return Verdict.YES
        return Verdict.NO if self.high <= threshold else Verdict.UNKNOWN

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """High − low."""
        return self.high - self.low
