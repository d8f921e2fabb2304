"""One step of a reviewed episode: the decision, and the luck that followed."""

from __future__ import annotations

from dataclasses import dataclass

from jmdp.base.interval import Estimate

RIGHT, MISTAKE, OPEN = "right", "mistake", "open"
GOOD, BAD, NONE, UNCLEAR = "good", "bad", "none", "unclear"


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
