"""Smallest and largest possible returns.

Rewards of a model scaled for computation: divided by the power of two just above their bound.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jmdp.base.arrays import Floats, Scale
from jmdp.base.interval import Interval
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.parts import ReturnRanges


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


_SWEEPS = 2000
_SETTLED = 1e-12
"""Change of a sweep, relative to B/(1 − γ), at which the iteration stops. The bounds are valid after any sweep."""

_ROUNDING = 2.0**-50
"""Upper bound on the rounding error of a sweep, relative to its summands."""


class TableRange(ReturnRanges):
    """Smallest and largest possible return of each coordinate of a table."""

    model: TabularJMDP

    def is_over(self, s: int) -> bool:
        """True if no reward can follow from this state."""
        return bool(self.model.terminal[s])

    def of(self, s: int, a: int) -> Interval:
        """Interval that contains Z(s, a)."""
        return Interval(-float(self._lowest[s, a]), float(self._highest[s, a]))

    def of_drawn(self, s: int) -> Interval:
        """Interval that contains the return if the first action is also drawn."""
        drawn = np.flatnonzero(self.first_policy.probs[s] > 0)
        return Interval(-float(self._lowest[s, drawn].max()), float(self._highest[s, drawn].max()))

    @cached_property
    def _highest(self) -> Floats:
        return self._bound(1.0)

    @cached_property
    def _lowest(self) -> Floats:
        """Lower bounds with their sign reversed."""
        return self._bound(-1.0)

    @property
    @abstractmethod
    def first_policy(self) -> TabularPolicy:
        """Policy that draws the first action."""

    @abstractmethod
    def _bound(self, sign: float) -> Floats:
        """[S, A], upper bounds on sign × return."""


@dataclass(frozen=True, eq=False)
class ReturnRange(TableRange):
    """Smallest and largest return of each coordinate, over all outcomes possible under the policy.

    Iterates u(s) = max over possible outcomes of R + γ u(s'), downwards from u = B/(1 − γ): every iterate is a bound.
    """

    model: TabularJMDP
    policy: TabularPolicy

    @property
    def first_policy(self) -> TabularPolicy:
        """The policy."""
        return self.policy

    def _bound(self, sign: float) -> Floats:
        model, reward = self.model, sign * self.model.reward
        largest = model.reward_bound / (1 - model.discount) * (1 + _ROUNDING)
        rounding = _ROUNDING * largest
        if largest:  # rewards may be subnormal
            largest, rounding = largest + 2.0**-1073, rounding + 2.0**-1073
        drawn = np.where((self.policy.probs > 0) & ~model.terminal[:, None], 0.0, -np.inf)
        possible = np.where(model.prob > 0, 0.0, -np.inf)[:, :, None]
        state = np.where(model.terminal, 0.0, largest)
        for _ in range(_SWEEPS):
            ahead = reward + model.discount * state[model.next_state]
            action = np.minimum((ahead + possible).max(axis=1) + rounding, largest)
            new = np.where(model.terminal, 0.0, (action + drawn).max(axis=1))
            change, state = float(np.abs(state - new).max()), new
            if change <= _SETTLED * largest:
                break
        return np.where(model.terminal[:, None], 0.0, action)


@dataclass(frozen=True, eq=False)
class PolicyRanges(ReturnRanges):
    """Ranges of the returns of policies and of their gaps, from each state and from a random start after the last."""

    tables: Sequence[TableRange]  # of each policy
    start: Floats | None = None  # [S]

    def is_over(self, s: int) -> bool:
        """True if no reward can follow from this state."""
        return all(self.tables[0].is_over(t) for t in self._states(s))

    def of(self, s: int, i: int) -> Interval:
        """Interval that contains Z_i(s)."""
        return Interval.hull(self.tables[i].of_drawn(t) for t in self._states(s))

    def of_gap(self, s: int, i: int, j: int) -> Interval:
        """Interval that contains Z_i(s) − Z_j(s) under any coupling."""
        gaps = []
        for t in self._states(s):
            one, other = self.tables[i].of_drawn(t), self.tables[j].of_drawn(t)
            gaps.append(one + Interval(-other.high, -other.low))
        return Interval.hull(gaps)

    def _states(self, s: int) -> list[int]:
        if self.start is None or s < self.start.size:
            return [s]
        found: list[int] = np.flatnonzero(self.start > 0).tolist()
        return found
