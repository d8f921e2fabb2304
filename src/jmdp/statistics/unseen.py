"""Outcomes that were not seen: how likely they may be, and what they would have to cost to reverse a verdict.

No statistic of the samples seen bounds the unseen ones. An outcome of one kind that did not occur in n samples has a
probability of at most p_n = 1 − 0.01^(1/n), with 99% confidence. If unseen outcomes have probability p_n, and the mean
gap of the others is at least `low`, the mean gap is positive unless they cost more than low (1 − p_n)/p_n on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.base import rounding
from jmdp.base.arrays import Floats

_MISSED = 0.01
"""Probability that an outcome of probability p_n does not occur in n samples."""


def unseen_chance(n: int) -> float:
    """p_n = 1 − 0.01^(1/n): the probability that an outcome which was not seen in n samples does not exceed, at 99%."""
    return -math.expm1(math.log(_MISSED) / n)


@dataclass(frozen=True)
class Unseen:
    """What unseen outcomes would have to cost on average to reverse the sign of a mean gap or a verdict on a margin."""

    low: float  # lower limit of the mean gap, or of its distance from the margin, > 0
    samples: int
    whole: float  # what a whole return is worth: the largest seen, or a given bound of the loss
    included: bool = False  # `low` allows for unseen outcomes that cost `whole`

    @property
    def chance(self) -> float:
        """Upper limit of the probability of unseen outcomes."""
        return unseen_chance(self.samples)

    @property
    def break_even(self) -> float:
        """Average loss in unseen outcomes at which the mean gap is 0."""
        return self.low * (1 - self.chance) / self.chance

    @property
    def firm(self) -> bool:
        """Whether the break-even is at least one whole return, or unseen outcomes are included."""
        return self.included or self.break_even >= self.whole

    def sentence(self, run: str, does: str = "loses more than {}") -> str:
        """What would reverse the verdict; the numbers are rounded to the side that keeps the sentence true."""
        if self.included:
            return f"This allows for outcomes that were not seen and cost at most {rounding.exactly(self.whole)}."
        return (
            f"This reverses only if something that happens in fewer than 1 of {rarest(self.samples)} {run}s, and was "
            f"not seen, {does.format(rounding.at_least(self.break_even, 2))} on average."
        )


def rarest(samples: int) -> str:
    """1/p_n, rounded down: an outcome that was not seen happens in fewer than one of so many samples."""
    return f"{math.floor(1 / unseen_chance(samples)):,}"


def missing(samples: int, run: str) -> str:
    """What may be missing from the samples."""
    return f"Something that happens in fewer than 1 of {rarest(samples)} {run}s may not have been seen"


def with_largest_loss(error: Floats, largest_loss: float, samples: int, probability: float) -> Floats:
    """Half-widths of intervals that include an unseen outcome which costs at most `largest_loss`.

    √(e² + u²), u = L ln(2/α)/n, with e the half-width for what was seen. An event of probability t ln(2/α)/n is missed
    with probability (α/2)^t, and the samples must then deviate by √(e² + u²) − t u, of probability about
    (α/2)^(that/e)². The product is at most α/2 for every t.
    """
    return np.asarray(np.hypot(error, largest_loss * math.log(2 / probability) / samples))
