"""Rewards of a model scaled for computation: divided by the power of two just above their bound."""

from __future__ import annotations

from dataclasses import dataclass

from jmdp.base.arrays import Floats
from jmdp.base.scale import Scale
from jmdp.models.tabular import TabularJMDP


@dataclass(frozen=True, eq=False)
class RewardUnits:
    """Rewards scaled to size 1, with the scale to restore the original size."""

    scale: Scale
    bound: float  # max |reward|, in [½, 1), or 0
    reward: Floats  # [S, K, A]

    @classmethod
    def of(cls, model: TabularJMDP) -> RewardUnits:
        """Scale all rewards of a model."""
        scale = Scale.above(model.reward_bound)
        return cls(scale, scale.divide(model.reward_bound), scale.divide(model.reward))
