"""Two branches of different policies in one state, if the coupling shares scenarios only within a state.

At x and y, the copies of one state under policies i and j (`models.policy_blocks`), both receive scenario k and take
actions (a, b) with the joint probability ψ(a, b): π_i(a) π_j(b), or the length of the interval of one shared uniform
number on which policy i takes a and policy j takes b. So

    H(x, y) = Σ_k p Σ_{a,b} ψ(a, b) [ d_a d_b + γ² H(n_a, n_b) ],

a constant for each pair of copies plus a weighted sum of entries of H. Branches of different policies never merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.methods.shared.same_state import EntrySums, merged_entries
from jmdp.methods.shared.shared_randomness import action_intervals
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.policy_blocks import PolicyBlocks

_AT_ONCE = 1_000_000
"""Pairs of outcomes processed together."""


class SamePlace:
    """Entries of a sweep for all pairs of copies of one state, given TD errors and ratios of units [S, K, A]."""

    def __init__(
        self, blocks: PolicyBlocks, policy: TabularPolicy, coupling: Coupling, td: Floats, ratio: Floats
    ) -> None:
        self._blocks = blocks
        self.one, self.other = blocks.pairs()  # [pairs]
        self._joint = joint_actions(policy, coupling)
        model = blocks.model
        S, square = model.shape[0], model.discount * model.discount
        self.fixed = self.mean(lambda x, y: td[x][:, :, :, None] * td[y][:, :, None, :])
        parts = []
        for rows, chance in self._chances():
            x, y = self.one[rows], self.other[rows]
            at, k, a, b = np.nonzero(chance)
            weight = chance[at, k, a, b] * ratio[x[at], k, a] * ratio[y[at], k, b]
            entry = model.next_state[x[at], k, a] * S + model.next_state[y[at], k, b]
            parts.append(merged_entries(at + rows.start, entry, square * weight))
        none = np.zeros(0, np.int64)
        row, entry, weight = (np.concatenate([none, *(part[i] for part in parts)]) for i in range(3))
        self.sums = EntrySums(row.astype(np.int64), entry.astype(np.int64), weight, self.one.size)
        self.rounding = max((part[3] for part in parts), default=0) + self.sums.rounding + 8

    def after(self, H: Floats) -> Floats:
        """[pairs], H at all pairs after a sweep."""
        return np.asarray(self.fixed + self.sums.of(H))

    def mean(self, terms: Callable[[Integers, Integers], Floats]) -> Floats:
        """[pairs], Σ_k p Σ_{a,b} ψ terms, where terms(x, y) are [·, K, A, A] for some pairs."""
        found = np.zeros(self.one.size)
        for rows, chance in self._chances():
            # Summing axis by axis has a smaller rounding error than one long sum.
            weighted = chance * terms(self.one[rows], self.other[rows])
            found[rows] = weighted.sum(axis=3).sum(axis=2).sum(axis=1)
        return found

    def _chances(self) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of pairs with the joint probabilities [·, K, A, A] of their scenarios and actions."""
        model = self._blocks.model
        _, K, A = model.shape
        at_once = max(1, _AT_ONCE // (K * A * A))
        for first in range(0, self.one.size, at_once):
            rows = slice(first, min(first + at_once, self.one.size))
            joint = self._joint(self.one[rows], self.other[rows])
            yield rows, model.prob[self.one[rows]][:, :, None, None] * joint[:, None]


def joint_actions(policy: TabularPolicy, coupling: Coupling) -> Callable[[Integers, Integers], Floats]:
    """Function that returns, for pairs of states, the joint probabilities ψ [·, A, A] of the two actions drawn."""
    if coupling.policy_luck == "independent":
        return partial(_products, policy.probs)
    return partial(_overlaps, np.stack(action_intervals(policy), axis=1))


def _products(pi: Floats, x: Integers, y: Integers) -> Floats:
    return np.asarray(pi[x][:, :, None] * pi[y][:, None, :])


def _overlaps(ends: Floats, x: Integers, y: Integers) -> Floats:
    """Overlaps of the intervals [S, A, 2] of one uniform number."""
    low = np.maximum(ends[x][:, :, None, 0], ends[y][:, None, :, 0])
    high = np.minimum(ends[x][:, :, None, 1], ends[y][:, None, :, 1])
    return np.asarray(np.maximum(high - low, 0.0))
