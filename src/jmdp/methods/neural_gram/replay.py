"""Replay buffer of paired rollouts, from which training batches are drawn."""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Booleans, Integers
from jmdp.base.luck import Shock
from jmdp.methods.neural_gram.losses import Batch, Scales
from jmdp.simulators.pair_walks import PairWalks

_LEAST = 1e-6
"""If γ^length is smaller, differences of discounted sums lose their accuracy."""


class PairReplay:
    """Random segments of paired rollouts, up to `steps` steps long. The draw depends only on the root and a number.

    If every visited state has at least two rollouts, half of a batch consists of pairs of segments at the start of two
    independent rollouts from one visited state. The other half starts at any step.
    """

    def __init__(self, walks: PairWalks, discount: float, steps: int, root: Shock) -> None:
        self._walks, self._discount, self._steps, self._root = walks, discount, steps, root
        N, L = walks.reward.shape[:2]
        weights = discount ** np.arange(L)
        self._sums = np.zeros((N, L + 1, 2))  # cumulative discounted rewards
        np.cumsum(walks.reward * weights[None, :, None], axis=1, out=self._sums[:, 1:])
        _, self._first, self._walks_per_visit = np.unique(walks.visit, return_index=True, return_counts=True)
        self._in_pairs = bool(self._walks_per_visit.min() > 1)

    def scales(self) -> tuple[float, Scales]:
        """Return the mean of returns and the units of the losses, extrapolated from whole rollouts."""
        returns, L = self._sums[:, -1], self._walks.length
        rest = 1 - self._discount ** (2 * L)
        gap = returns[:, 0] - returns[:, 1]
        if self._in_pairs:
            mate = np.repeat(self._first, self._walks_per_visit)
            mate = np.where(mate == np.arange(len(gap)), mate + 1, mate)
            variance = float(((returns - returns[mate]) ** 2).mean() / 2)
            gap_variance = float(((gap - gap[mate]) ** 2).mean() / 2)
        else:
            variance, gap_variance = float(returns.var()), float(gap.var())
        mean = float(returns.mean()) / (1 - self._discount**L)
        units = [value / rest or 1.0 for value in (variance, gap_variance, float((gap**2).mean()))]
        return mean, Scales(*units)

    def batches(self, number: int, count: int, size: int) -> Batch:
        """Return `count` batches of `size` segments each, arrays ``[count, size, ...]``; `number` seeds the draw."""
        rng = self._root.derived(b"batches", number).generator()
        doubled = np.zeros((count, size), np.bool_)
        rows = rng.integers(len(self._walks), size=(count, size))
        t = rng.integers(self._walks.length, size=(count, size))
        if self._in_pairs:
            half = size // 4 * 2
            visit = rng.integers(len(self._first), size=(count, half // 2))
            one = rng.integers(self._walks_per_visit[visit])
            other = (one + 1 + rng.integers(self._walks_per_visit[visit] - 1)) % self._walks_per_visit[visit]
            rows[:, :half:2], rows[:, 1:half:2] = self._first[visit] + one, self._first[visit] + other
            t[:, :half], doubled[:, :half] = 0, True
        return self.parts(rows, t, doubled)

    def parts(self, rows: Integers, t: Integers, doubled: Booleans, steps: int | None = None) -> Batch:
        """Return the segments of the rollouts `rows` that start at the steps `t`."""
        walks = self._walks
        end = np.minimum(t + (self._steps if steps is None else steps), walks.length)
        if self._discount**walks.length > _LEAST:
            reward = (self._sums[rows, end] - self._sums[rows, t]) / (self._discount**t)[..., None]
        else:  # the quotient above would divide two tiny numbers
            reward = np.zeros((*t.shape, 2))
            for k in range(int((end - t).max(initial=0))):
                at = np.minimum(t + k, walks.length - 1)
                reward += np.where((t + k < end)[..., None], self._discount**k * walks.reward[rows, at], 0.0)
        return Batch(
            walks.observation[rows, t],
            walks.action[rows, t].astype(np.int32),
            walks.same[rows, t],
            reward.astype(np.float32),
            (self._discount ** (end - t)).astype(np.float32),
            walks.observation[rows, end],
            walks.action[rows, end].astype(np.int32),
            walks.same[rows, end],
            walks.ended[rows, end],
            doubled,
            ~walks.ended[rows, t],
        )

    def pairs(self, steps: int | None = None) -> Batch | None:
        """Return segments at the start of two rollouts of each visited state; None if there is only one rollout.

        `steps` is the length of the segments, by default that of `batches`.
        """
        if not self._in_pairs:
            return None
        rows = (self._first[:, None] + np.arange(2)).ravel()
        return self.parts(rows, np.zeros_like(rows), np.ones(rows.size, np.bool_), steps)

    @property
    def length(self) -> int:
        """Steps of a whole rollout."""
        return self._walks.length
