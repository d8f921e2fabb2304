"""Two branches in one state that share the scenario and draw their actions independently.

They draw a and b with probability π(a) π(b). If a ≠ b the step is that of Eq. (18); if a = b they merge (Eq. (16)). So

    H(s, s) = Σ_k p Σ_{a,b} π(a) π(b) [ d_a d_b + γ² (H(n_a, n_b) if a ≠ b else V(n_a)) ],

a constant for each state plus a weighted sum of entries of H. Many of these entries coincide: actions that lead to one
state, and (n_a, n_b) with (n_b, n_a). Equal entries are combined once, so that each sweep reads every entry once.

Strongly connected classes of states, and maxima over the states reachable from each state.

On a closed set of states, or of pairs of states, a fixed point depends only on that set. So does its error: the maximum
norm over the states reachable from a state bounds the error there, independent of the rest of the model.

Two branches of different policies in one state, if the coupling shares scenarios only within a state.

At x and y, the copies of one state under policies i and j (`models.policy_blocks`), both receive scenario k and take
actions (a, b) with the joint probability ψ(a, b): π_i(a) π_j(b), or the length of the interval of one shared uniform
number on which policy i takes a and policy j takes b. So

    H(x, y) = Σ_k p Σ_{a,b} ψ(a, b) [ d_a d_b + γ² H(n_a, n_b) ],

a constant for each pair of copies plus a weighted sum of entries of H. Branches of different policies never merge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.methods.shared.policy_chain import action_intervals
from jmdp.models.coupling import Coupling
from jmdp.models.policy import StackedTable, TabularPolicy
from jmdp.models.tabular import TabularJMDP


@dataclass(frozen=True, eq=False)
class StateClasses:
    """Strongly connected classes of the Markov chain under a policy."""

    label: Integers  # [S], the class of each state
    count: int
    edges: Integers  # [2, E], pairs of different classes; the first leads to the second in one step

    @classmethod
    def of(cls, model: TabularJMDP, policy: TabularPolicy) -> StateClasses:
        """Find the classes. Actions of probability 0 give no edge; a probability product that underflows still does."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        S, K, A = model.shape
        rows = np.broadcast_to(np.arange(S)[:, None, None], (S, K, A))
        used = happens(model, policy)
        one, other = rows[used], model.next_state[used]
        graph = coo_array((np.ones(one.size, np.int8), (one, other)), shape=(S, S))
        count, label = connected_components(graph, directed=True, connection="strong")
        between = np.stack([label[one], label[other]])
        between = between[:, between[0] != between[1]]
        return cls(label.astype(np.int64), int(count), np.unique(between, axis=1).astype(np.int64))

    @classmethod
    def one(cls, states: int) -> StateClasses:
        """One class of all states."""
        return cls(np.zeros(states, np.int64), 1, np.zeros((2, 0), np.int64))

    def reachable_max(self, values: Floats) -> Floats:
        """[S], maximum of `values` [S] over the states reachable from each state, including itself."""
        return np.asarray(self.class_max(values)[self.label])

    def pair_max(self, values: Floats) -> Floats:
        """[classes, classes], maximum of `values` [S, S] over the pairs reachable from two classes."""
        return np.asarray(self.class_max(self.class_max(values).T).T)

    def class_max(self, values: Floats) -> Floats:
        """[classes, …], maximum of `values` [S, …] over the states reachable from each class."""
        most = np.full((self.count, *values.shape[1:]), -np.inf)
        np.maximum.at(most, self.label, values)
        one, other = self.edges
        while one.size:  # at most as many iterations as the longest chain of classes
            before = most.copy()
            np.maximum.at(most, one, most[other])
            if np.array_equal(before, most):
                break
        return most


def happens(model: TabularJMDP, policy: TabularPolicy) -> Booleans:
    """[S, K, A], True for outcomes of positive probability under the policy."""
    possible = (model.prob > 0) & ~model.terminal[:, None]
    return np.asarray(possible[:, :, None] & (policy.probs > 0)[:, None, :])


_PLACES_AT_ONCE = 1_000_000
"""Pairs of outcomes processed together."""


class SamePlace:
    """Entries of a sweep for all pairs of copies of one state, given TD errors and ratios of units [S, K, A]."""

    def __init__(
        self, blocks: StackedTable, policy: TabularPolicy, coupling: Coupling, td: Floats, ratio: Floats
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
        at_once = max(1, _PLACES_AT_ONCE // (K * A * A))
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
