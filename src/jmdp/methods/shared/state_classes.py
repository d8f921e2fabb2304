"""Classes of states that can reach one another, and bounds that look no further than what a state can reach.

A fixed point over states, or pairs of states, is determined on every closed set by what is inside that set alone. So
is its error: the maximum norm over what a state can reach bounds the error there, whatever the rest of the model does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP


@dataclass(frozen=True, eq=False)
class StateClasses:
    """The strongly connected classes of the chain that a policy makes."""

    label: Integers  # [S], the class of each state
    count: int
    edges: Integers  # [2, E], pairs of different classes of which the first leads to the second in one step

    @classmethod
    def of(cls, model: TabularJMDP, policy: TabularPolicy) -> StateClasses:
        """Find them. An action of probability 0 leads nowhere; a product that underflows still does."""
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
    def none(cls) -> StateClasses:
        """Of no states, where nobody asks."""
        return cls(np.zeros(0, np.int64), 0, np.zeros((2, 0), np.int64))

    def reachable_max(self, values: Floats) -> Floats:
        """[S], the largest of `values` [S] over the states that each can reach, itself among them."""
        most = np.full(self.count, -np.inf)
        np.maximum.at(most, self.label, values)
        one, other = self.edges
        while one.size:  # at most as often as the longest chain of classes
            before = most.copy()
            np.maximum.at(most, one, most[other])
            if np.array_equal(before, most):
                break
        return np.asarray(most[self.label])


def happens(model: TabularJMDP, policy: TabularPolicy) -> Booleans:
    """[S, K, A], outcomes that have a chance to follow a draw of the policy."""
    possible = (model.prob > 0) & ~model.terminal[:, None]
    return np.asarray(possible[:, :, None] & (policy.probs > 0)[:, None, :])
