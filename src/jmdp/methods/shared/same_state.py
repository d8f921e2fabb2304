"""Two branches in one state that meet the same scenario and draw their actions apart.

They draw a and b with probability π(a) π(b), and go on as one where a = b. What they add up to is

    H(s, s) = Σ_k p Σ_{a,b} π(a) π(b) [ d_a d_b + γ² (H(n_a, n_b) if a ≠ b else V(n_a)) ],

a fixed number for each state plus some entries of H, many of them the same: actions that lead to one state, and
(n_a, n_b) beside (n_b, n_a). They are found once and each is read once in a sweep.
"""

from __future__ import annotations

import math

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

_AT_ONCE = 2_000_000
"""Pairs of actions that are looked at together: bounds the memory it takes to find equal ones."""


class EntrySums:
    """For each of some rows, Σ weight × an entry of H: what same-state entries of a sweep add up to.

    Summed along two sides of a square: no order of few terms rounds much.
    """

    def __init__(self, row: Integers, entry: Integers, weight: Floats, rows: int) -> None:
        counts = np.bincount(row, minlength=rows)
        self.side = math.isqrt(max(int(counts.max(initial=0)) - 1, 0)) + 1  # a row's entries, laid out as a square
        self.entry = np.zeros((self.side * self.side, rows), np.int64)
        self.weight = np.zeros((self.side * self.side, rows))
        at = np.arange(row.size) - (np.cumsum(counts) - counts)[row]
        self.entry[at, row], self.weight[at, row] = entry, weight

    def of(self, H: Floats) -> Floats:
        """[rows]."""
        terms = np.take(H, self.entry) * self.weight
        return np.asarray(terms.reshape(self.side, self.side, -1).sum(axis=0).sum(axis=0))

    @property
    def rounding(self) -> int:
        """Units on any term, at most."""
        return 2 * self.side


class SameState:
    """The same-state entries of a sweep, given TD errors [S, K, A] and variances V [S].

    `ratio` [S, K, A] is the unit of the next state over that of this one (`state_units`).
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
        self.rounding = max(part[3] for part in parts) + self.sums.rounding + 6  # units on any term, at most

    def diagonal(self, H: Floats) -> Floats:
        """H(s, s) after a sweep."""
        return np.asarray(self.fixed + self.following(H))

    def following(self, H: Floats) -> Floats:
        """What the entries of H add."""
        return self.sums.of(H)


def _entries(
    model: TabularJMDP, pi: Floats, prob: Floats, ratio: Floats, first: int, last: int
) -> tuple[Integers, Integers, Floats, int]:
    """For some states: state, entry of H (row × S + column, row ≤ column), its weight; and how many at most were one.

    Sorted by state and entry.
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
    """The same with equal entries of a row brought together, sorted; and how many at most were one."""
    order = np.lexsort((entry, row))
    row, entry, weight = row[order], entry[order], weight[order]
    new = np.ones(row.size, bool)
    new[1:] = (row[1:] != row[:-1]) | (entry[1:] != entry[:-1])
    group = np.cumsum(new) - 1
    most = int(np.bincount(group, minlength=1).max())
    merged = np.zeros(int(new.sum()))
    np.add.at(merged, group, weight)
    return row[new], entry[new], merged, most
