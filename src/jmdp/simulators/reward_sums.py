"""Returns of many branches, summed from their rewards for all branches at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers
from jmdp.simulators.draws import exact_gains, is_exact_sum

Unsigned = npt.NDArray[np.uint64]

_ENTRIES = 200_000
"""Rewards that are collected before they are summed: a few megabytes."""


class BranchSums:
    """Discounted sums of the rewards of n branches, and the fingerprints of the rewards (`exact_gains`)."""

    def __init__(self, branches: int, discount: float) -> None:
        self.returns = np.zeros(branches)
        self.largest = 0.0  # |reward|
        self._gains, self._exact = np.zeros(branches, np.uint64), np.ones(branches, np.bool_)
        self._weight, self._t, self._discount = 1.0, 0, discount

    def add(self, rewards: Floats) -> None:
        """Add the rewards [steps, n] of the next steps, one after another."""
        self.largest = max(self.largest, float(np.abs(rewards).max(initial=0.0)))
        weights = np.multiply.accumulate([self._weight, *[self._discount] * len(rewards)])
        some = rewards != 0  # a reward of 0 changes neither the return nor its fingerprint
        with np.errstate(over="ignore"):  # the results refuse infinite returns
            sums = np.add.accumulate(np.concatenate([self.returns[None], weights[:-1, None] * rewards]))
        whole = int((weights[:-1] == 1).sum())  # steps without discount, which come first
        self._exact &= (~some[:whole] | is_exact_sum(sums[:whole], rewards[:whole], sums[1 : whole + 1])).all(axis=0)
        self._exact &= ~some[whole:].any(axis=0)
        steps = np.arange(self._t, self._t + len(rewards), dtype=np.uint64)[:, None]
        self._gains = self._gains + np.where(some, _mixed(steps, rewards), np.uint64(0)).sum(axis=0, dtype=np.uint64)
        self.returns, self._weight, self._t = sums[-1], float(weights[-1]), self._t + len(rewards)

    @property
    def gains(self) -> Integers:
        """Fingerprints [n] of the rewards."""
        return exact_gains(self._gains.view(np.int64), self.returns, self._exact)


def _mixed(steps: Unsigned, rewards: Floats) -> Unsigned:
    """64-bit fingerprint of each reward and its step (the mixer of SplitMix64); a sequence has the sum of them."""
    z = (steps + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z = z ^ rewards.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return z ^ (z >> np.uint64(31))


class EpisodeSums:
    """Sums of the rewards of whole episodes [samples, branches], which end one after another."""

    def __init__(self, samples: int, branches: int, discount: float) -> None:
        self._shape, self._discount = (samples, branches), discount
        self._returns, self._gains = np.zeros(samples * branches), np.zeros(samples * branches, np.int64)
        self._at: list[int] = []
        self._rewards: list[list[float]] = []
        self._entries = 0
        self.largest = 0.0  # |reward|, of the rewards summed so far

    def add(self, row: int, branch: int, rewards: list[float]) -> None:
        """Add the rewards of an episode, in order of time; they must be finite."""
        self._at.append(row * self._shape[1] + branch)
        self._rewards.append(rewards)
        self._entries += len(rewards)
        if self._entries > _ENTRIES:
            self._sum()

    def totals(self) -> tuple[Floats, Integers]:
        """Returns and fingerprints [samples, branches] of all episodes added so far."""
        if self._at:
            self._sum()
        return self._returns.reshape(self._shape), self._gains.reshape(self._shape)

    def _sum(self) -> None:
        longest = max(map(len, self._rewards))
        padded = [rewards + [0.0] * (longest - len(rewards)) for rewards in self._rewards]
        sums = BranchSums(len(padded), self._discount)
        sums.add(np.ascontiguousarray(np.array(padded, np.float64).T))
        self._returns[self._at], self._gains[self._at] = sums.returns, sums.gains
        self.largest = max(self.largest, sums.largest)
        self._at, self._rewards, self._entries = [], [], 0
