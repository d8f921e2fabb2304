"""Returns of many branches, summed from their rewards for all branches at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers
from jmdp.simulators.simulator import exact_gains, is_exact_sum

Unsigned = npt.NDArray[np.uint64]

_ENTRIES = 200_000
"""Rewards that are collected before they are summed: a few megabytes."""


class RewardSums:
    """Discounted sums of the rewards of each branch, and the fingerprints of the rewards (`exact_gains`)."""

    def __init__(self, samples: int, branches: int, discount: float) -> None:
        self._shape, self._discount = (samples, branches), discount
        self._returns = np.zeros(samples * branches)
        self._gains = np.zeros(samples * branches, np.int64)
        self._at: list[int] = []
        self._rewards: list[list[float]] = []
        self._entries = 0
        self.largest = 0.0  # |reward|, of the rewards summed so far

    def add(self, row: int, branch: int, rewards: list[float]) -> None:
        """Add the rewards of a branch, in order of time; they must be finite."""
        self._at.append(row * self._shape[1] + branch)
        self._rewards.append(rewards)
        self._entries += len(rewards)
        if self._entries > _ENTRIES:
            self._sum()

    def totals(self) -> tuple[Floats, Integers]:
        """Returns and fingerprints [samples, branches] of all branches added so far."""
        if self._at:
            self._sum()
        return self._returns.reshape(self._shape), self._gains.reshape(self._shape)

    def _sum(self) -> None:
        longest = max(map(len, self._rewards))
        padded = [rewards + [0.0] * (longest - len(rewards)) for rewards in self._rewards]
        earned = np.ascontiguousarray(np.array(padded, np.float64).T)  # [steps, branches]
        self.largest = max(self.largest, float(np.abs(earned).max(initial=0.0)))
        returns, gains = np.zeros(len(padded)), np.zeros(len(padded), np.uint64)
        exact, weight = np.ones(len(padded), np.bool_), 1.0
        for t, rewards in enumerate(earned):
            before, returns = returns, returns + weight * rewards
            some = rewards != 0  # a reward of 0 changes neither the return nor its fingerprint
            exact &= ~some | (is_exact_sum(before, rewards, returns) if weight == 1 else False)
            gains = np.where(some, _mixed(gains, t, rewards), gains)
            weight *= self._discount
        self._returns[self._at] = returns
        self._gains[self._at] = exact_gains(gains.view(np.int64), returns, exact)
        self._at, self._rewards, self._entries = [], [], 0


def _mixed(gains: Unsigned, t: int, rewards: Floats) -> Unsigned:
    """64-bit fingerprints of all rewards up to these ones: products with odd numbers, folded."""
    step = np.uint64(t * 0xD1B54A32D192ED03 & 0xFFFFFFFFFFFFFFFF)
    mixed = (gains ^ rewards.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15) + step
    return mixed ^ (mixed >> np.uint64(29))
