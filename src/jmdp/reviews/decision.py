"""One step of a reviewed episode: the decision, and the luck that followed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.reviews.values import StepValues

RIGHT, MISTAKE, OPEN = "right", "mistake", "open"
GOOD, BAD, NONE, UNCLEAR = "good", "bad", "none", "unclear"

NEGLIGIBLE = 1e-9
"""Luck and regret that are known to be below this share of the values in question are none."""


@dataclass(frozen=True)
class Decision:
    """A step of an episode. All numbers are of the reference policy and not discounted.

    `judgement` is "right" if no action is better on average, "mistake" if one is, and "open" if the intervals do not
    tell. `fortune` is "good", "bad", "none" if the outcome of the action is certain, and "unclear" if the interval of
    the luck contains 0.
    """

    step: int
    state: str  # label of the state or observation, empty if it has none
    action: str
    best: str  # the action with the largest value
    reward: float
    value: Estimate  # v(s)
    action_value: Estimate  # q(s, a)
    skill: Estimate  # q(s, a) − v(s)
    luck: Estimate  # r + γ v(s') − q(s, a)
    regret: Estimate  # max_b q(s, b) − q(s, a)
    judgement: str
    fortune: str
    samples: int  # rollouts of each action; 0 if the values are exact

    @property
    def kind(self) -> str:
        """Decision and luck in words."""
        decided = {RIGHT: "right decision", MISTAKE: "mistake", OPEN: "undecided"}[self.judgement]
        return decided if self.fortune == NONE else f"{decided}, {self.fortune} luck"


def regret_of(values: StepValues, a: int) -> Estimate:
    """maxᵦ q(s, b) − q(s, a), from the joint intervals of the gaps."""
    gaps = values.action_values - values.action_values[a]
    low, high = (gaps - values.gap_errors).max(), (gaps + values.gap_errors).max()
    if not math.isfinite(high):
        return Estimate.within(float(gaps.max()), None)
    return Estimate(float(gaps.max()), max(0.0, float(low)), float(high))


def judgement_of(values: StepValues, a: int) -> str:
    """RIGHT, MISTAKE or OPEN: whether no action is better than a, one is, or the intervals do not tell."""
    gaps = values.action_values - values.action_values[a]
    others, negligible = np.arange(len(gaps)) != a, NEGLIGIBLE * float(np.abs(values.action_values).max())
    certified = values.samples == 0  # so that rounding is in the errors
    if (gaps - values.gap_errors).max() > (0.0 if certified else negligible):
        return MISTAKE
    most = float((gaps + values.gap_errors)[others].max(initial=-math.inf))
    return RIGHT if most <= negligible else OPEN


def fortune_of(luck: Estimate, size: float, certain: bool) -> str:
    """GOOD, BAD, NONE or UNCLEAR, for luck beside values of this size."""
    if luck.low > 0:
        return GOOD
    if luck.high < 0:
        return BAD
    return NONE if certain and luck.error <= NEGLIGIBLE * size else UNCLEAR
