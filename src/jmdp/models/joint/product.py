"""Independent actions: a scenario for each combination of their outcomes."""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import ROUNDOFF, SMALLEST
from jmdp.models.joint.lists import (
    Lists,
    Scenarios,
    group_ends,
    index_type,
    kept,
    largest_error,
    parts_of,
    plan,
)
from jmdp.models.marginals.listed import row_sums


def scenarios(lists: Lists, fix: str) -> Scenarios:
    """All combinations; outcomes of the last action vary fastest. Equal outcomes must be adjacent, and are merged."""
    lists, merged = _merged(lists)
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
    # Each factor is a sum divided by that of its row, and the table may divide the product once more.
    rounding, error = (A * (merged + 2) + 1) * ROUNDOFF, 0.0
    for part in parts_of(S, K * A):
        outcome = first[part, None] + k // stride[part, None] % count[part, None]
        p = np.maximum(lists.prob[outcome].prod(axis=2), SMALLEST)
        off = rounding + np.where(p < 2.0**-960, (A + 1) * SMALLEST / p, 0.0)
        p[k[:, 0] >= count[part].prod(axis=1)[:, None]] = 0.0
        prob[part], reward[part], next_state[part] = p, lists.reward[outcome], lists.next_state[outcome]
        flat = outcome.transpose(0, 2, 1).ravel()
        error = max(error, largest_error(p, off, flat - flat.min(), rounding))
    return Scenarios(prob, reward, next_state, error)


def _merged(lists: Lists) -> tuple[Lists, int]:
    """Lists in which adjacent equal outcomes are one, with rows divided by their sums; and how many one is at most."""
    ends = group_ends(lists)
    starts = np.concatenate([[0], np.flatnonzero(ends)[:-1] + 1])
    prob = np.add.reduceat(lists.prob, starts)
    lists = kept(lists, ends)._replace(prob=prob)
    prob /= np.repeat(row_sums(prob, lists.first), np.diff(lists.first))
    return lists, int(np.diff(starts, append=ends.size).max())
