"""Maximal coupling: all actions reach the same next state as often as possible.

It is the common uniform number again, for lists in another order. With m(n) = min_a p_a(n), the list of each action
begins with its outcomes that move to n, scaled to a total of m(n), for each n in turn. What remains of its outcomes
follows in the given order. So all actions move to n in the same interval of length m(n).
"""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.models.joint.lists import Lists, row_of


def common_first(lists: Lists) -> Lists:
    """Lists of the common parts by next state, then of the remainders in the given order."""
    A = lists.shape[1]
    row, n = row_of(lists), lists.next_state
    both = _common_share(lists, row)
    prob = np.concatenate([lists.prob * both, lists.prob * (1 - both)])
    rest = np.repeat([False, True], row.size)
    outcome = np.tile(np.arange(row.size), 2)
    order = np.lexsort((outcome, np.where(rest, 0, n[outcome]), rest, row[outcome]))
    order = order[prob[order] > 0]
    outcome = outcome[order]
    first = np.zeros_like(lists.first)
    np.cumsum(np.bincount(row[outcome], minlength=lists.shape[0] * A), out=first[1:])
    return Lists(first, prob[order], lists.reward[outcome], n[outcome], lists.shape)


def _common_share(lists: Lists, row: Integers) -> Floats:
    """min_b p_b(n) / p_a(n) for each outcome of an action a that moves to n."""
    A = lists.shape[1]
    order = np.lexsort((row, lists.next_state, row // A))
    row, n = row[order], lists.next_state[order]
    new_state = _changes(row // A, n)
    new_pair = new_state | _changes(row, n)
    starts = np.flatnonzero(new_pair)
    chance = np.add.reduceat(lists.prob[order], starts)  # p_a(n), for each (s, n, a)
    targets = np.flatnonzero(new_state[starts])  # each (s, n)
    actions = np.diff(targets, append=starts.size)
    least = np.where(actions == A, np.minimum.reduceat(chance, targets), 0.0)
    share = np.repeat(least, actions) / chance
    found = np.empty(row.size)
    found[order] = np.repeat(share, np.diff(starts, append=row.size))
    return found


def _changes(one: Integers, other: Integers) -> Booleans:
    """Whether an entry differs from the one before; the first does."""
    changes = np.ones(one.size, bool)
    changes[1:] = (one[1:] != one[:-1]) | (other[1:] != other[:-1])
    return changes
