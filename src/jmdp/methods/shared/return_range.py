"""What a return can be at least and at most."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

_SWEEPS = 2000
_SETTLED = 1e-12
"""Change of a sweep, relative to B/(1 − γ), at which ranges are narrow enough. They hold after any sweep."""

_ROUNDING = 2.0**-50
"""Relative to what is added up, more than a sweep rounds."""


class TableRange(ABC):
    """What each return of a table can be at least and at most."""

    model: TabularJMDP

    def is_over(self, s: int) -> bool:
        """Is nothing earned from this state on?"""
        return bool(self.model.terminal[s])

    def of(self, s: int, a: int) -> Interval:
        """Where Z(s, a) is."""
        return Interval(-float(self._lowest[s, a]), float(self._highest[s, a]))

    def of_drawn(self, s: int) -> Interval:
        """Where the return is if the first action is drawn too."""
        drawn = np.flatnonzero(self.first_policy.probs[s] > 0)
        return Interval(-float(self._lowest[s, drawn].max()), float(self._highest[s, drawn].max()))

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Where Z(s, a) − Z(s, b) is, whatever luck they share."""
        one, other = self.of(s, a), self.of(s, b)
        return one + Interval(-other.high, -other.low)

    @cached_property
    def _highest(self) -> Floats:
        return self._bound(1.0)

    @cached_property
    def _lowest(self) -> Floats:
        """With the sign turned."""
        return self._bound(-1.0)

    @property
    @abstractmethod
    def first_policy(self) -> TabularPolicy:
        """What draws the first action."""

    @abstractmethod
    def _bound(self, sign: float) -> Floats:
        """[S, A], upper bounds on returns, or on what is lost."""


@dataclass(frozen=True, eq=False)
class ReturnRange(TableRange):
    """The least and the greatest return of each coordinate, over all that can happen under the policy.

    u(s) = max over what can be drawn of R + γ u(s'), from u = B/(1 − γ) down: a bound after every sweep.
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
