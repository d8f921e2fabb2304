"""Strongly connected classes of states, and maxima over the states reachable from each state.

On a closed set of states, or of pairs of states, a fixed point depends only on that set. So does its error: the maximum
norm over the states reachable from a state bounds the error there, independent of the rest of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.models.policy import TabularPolicy
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
