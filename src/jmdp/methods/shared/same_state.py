"""Two branches in one state that share the scenario and draw their actions independently.

They draw a and b with probability π(a) π(b). If a ≠ b the step is that of Eq. (18); if a = b they merge (Eq. (16)). So

    H(s, s) = Σ_k p Σ_{a,b} π(a) π(b) [ d_a d_b + γ² (H(n_a, n_b) if a ≠ b else V(n_a)) ],

a constant for each state plus a weighted sum of entries of H. Many of these entries coincide: actions that lead to one
state, and (n_a, n_b) with (n_b, n_a). Equal entries are combined once, so that each sweep reads every entry once.
"""

from __future__ import annotations

import math

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

_AT_ONCE = 2_000_000
"""Pairs of actions processed together; limits the memory used to combine equal entries."""


class EntrySums:
    """Weighted sums of entries of H, one per row: the H-dependent part of same-state entries.

    The terms of a row are laid out as a square and summed along both sides, which keeps the rounding error small.
    """

    def __init__(self, row: Integers, entry: Integers, weight: Floats, rows: int) -> None:
        counts = np.bincount(row, minlength=rows)
        self.side = math.isqrt(max(int(counts.max(initial=0)) - 1, 0)) + 1  # side of the square
        self.entry = np.zeros((self.side * self.side, rows), np.int64)
        self.weight = np.zeros((self.side * self.side, rows))
        at = np.arange(row.size) - (np.cumsum(counts) - counts)[row]
        self.entry[at, row], self.weight[at, row] = entry, weight

    def of(self, H: Floats) -> Floats:
        """Sums [rows] for the table H."""
        terms = np.take(H, self.entry) * self.weight
        return np.asarray(terms.reshape(self.side, self.side, -1).sum(axis=0).sum(axis=0))

    @property
    def rounding(self) -> int:
        """Largest number of units of rounding on any term."""
        return 2 * self.side


class SameState:
    """Same-state entries of a sweep, given TD errors [S, K, A] and variances V [S].

    `ratio` [S, K, A] is the unit of the next state divided by that of the current one (`state_units`).
    """

    def __init__(
        self, model: TabularJMDP, policy: TabularPolicy, prob: Floats, td: Floats, V: Floats, ratio: Floats
    ) -> None:
        S, K, A = model.shape
        square = model.discount * model.discount
        pi = policy.probs
        together = np.einsum("ska,sa->sk", td, pi)
        per_scenario = together * together + square * np.einsum("ska,sa->sk", ratio**2 * V[model.next_state], pi * pi)
        self.fixed: Floats = (prob * per_scenario).sum(axis=1)
        states = max(1, _AT_ONCE // (K * A * A))
        parts = [_entries(model, pi, prob, ratio, s, min(s + states, S)) for s in range(0, S, states)]
        state, entry, weight = (np.concatenate([part[i] for part in parts]) for i in range(3))
        self.sums = EntrySums(state, entry, square * weight, S)
        self.rounding = max(part[3] for part in parts) + self.sums.rounding + 6  # units on any term

    def diagonal(self, H: Floats) -> Floats:
        """H(s, s) after a sweep."""
        return np.asarray(self.fixed + self.following(H))

    def following(self, H: Floats) -> Floats:
        """The part of `diagonal` that depends on H."""
        return self.sums.of(H)


def _entries(
    model: TabularJMDP, pi: Floats, prob: Floats, ratio: Floats, first: int, last: int
) -> tuple[Integers, Integers, Floats, int]:
    """State, entry of H (row × S + column, row ≤ column) and weight for states first, …, last − 1.

    Sorted by state and entry. The last item is the largest number of equal entries that were combined.
    """
    a, b = np.triu_indices(pi.shape[1], 1)
    chances = 2 * prob[first:last, :, None] * (pi[first:last, a] * pi[first:last, b])[:, None, :]
    chances *= ratio[first:last, :, a] * ratio[first:last, :, b]
    at, k, pair = np.nonzero(chances)
    weight: Floats = chances[at, k, pair]
    state: Integers = at.astype(np.int64) + first
    one, other = model.next_state[state, k, a[pair]], model.next_state[state, k, b[pair]]
    entry: Integers = np.minimum(one, other) * model.shape[0] + np.maximum(one, other)
    return merged_entries(state, entry, weight)


def merged_entries(row: Integers, entry: Integers, weight: Floats) -> tuple[Integers, Integers, Floats, int]:
    """Combine equal entries of a row and sort; the last item is the largest number of entries combined."""
    order = np.lexsort((entry, row))
    row, entry, weight = row[order], entry[order], weight[order]
    new = np.ones(row.size, bool)
    new[1:] = (row[1:] != row[:-1]) | (entry[1:] != entry[:-1])
    group = np.cumsum(new) - 1
    most = int(np.bincount(group, minlength=1).max())
    merged = np.zeros(int(new.sum()))
    np.add.at(merged, group, weight)
    return row[new], entry[new], merged, most
