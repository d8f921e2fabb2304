"""Independent actions: a scenario for each combination of their outcomes."""

from __future__ import annotations

import numpy as np

from jmdp.models.joint.lists import Lists, Scenarios, group_ends, index_type, kept, parts_of, plan


def scenarios(lists: Lists, fix: str) -> Scenarios:
    """All combinations; outcomes of the last action vary fastest. Equal outcomes must be adjacent, and are merged."""
    lists = _merged(lists)
    (S, A), count = lists.shape, np.diff(lists.first).reshape(lists.shape)
    with np.errstate(over="ignore"):
        most = float(count.prod(axis=1, dtype=float).max())
    plan(S, most, A, fix)
    K = int(most)
    stride = np.ones_like(count)
    stride[:, :-1] = np.cumprod(count[:, :0:-1], axis=1)[:, ::-1]
    prob, reward = np.empty((S, K)), np.empty((S, K, A))
    next_state = np.empty((S, K, A), index_type(S))
    first = lists.first[:-1].reshape(S, A)
    k = np.arange(K)[:, None]
    for part in parts_of(S, K * A):
        outcome = first[part, None] + k // stride[part, None] % count[part, None]
        prob[part] = lists.prob[outcome].prod(axis=2)
        prob[part][k[:, 0] >= count[part].prod(axis=1)[:, None]] = 0.0
        reward[part], next_state[part] = lists.reward[outcome], lists.next_state[outcome]
    return Scenarios(prob, reward, next_state)


def _merged(lists: Lists) -> Lists:
    """Lists in which adjacent equal outcomes are one."""
    ends = group_ends(lists)
    if ends.all():
        return lists
    starts = np.concatenate([[0], np.flatnonzero(ends)[:-1] + 1])
    return kept(lists, ends)._replace(prob=np.add.reduceat(lists.prob, starts))
