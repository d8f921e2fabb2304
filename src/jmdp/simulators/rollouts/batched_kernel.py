"""Bookkeeping of rollouts that are simulated as arrays: sums of rewards, and merging of branches. A numba kernel.

A *walker* is one simulated rollout, and all branches of its sample that have merged into it. Walkers are ordered by
sample, then by their first branch. at[n, i] is the number of the walker of branch i in sample n, −1 if it has ended.
"""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers, Words
from jmdp.base.compiled_kernel import compiled, compiled_part


@compiled_part()
def _folded(z: np.uint64) -> np.uint64:
    """The two multiplications of SplitMix64, as in `reward_sums`."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)


@compiled()
def add_rewards(
    t: int,
    weight: float,
    rewards: Floats,  # [w]
    at: Integers,  # [n, k]
    returns: Floats,  # [n, k]
    gains: Words,  # [n, k]
    exact: Booleans,  # [n, k]
    tally: Floats,  # [n, 3]
) -> None:
    """Add the rewards of the walkers in step t to the sums of their branches; `batched_draws.Sums` describes these."""
    bits = rewards.view(np.uint64)
    step = _folded((np.uint64(t) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
    for n in range(at.shape[0]):
        before, largest = -1, tally[n, 2]
        for i in range(at.shape[1]):
            w = at[n, i]
            if w < 0:
                continue
            if w > before:  # walkers of a sample are numbered in the order of their first branches
                before = w
                tally[n, 0] += 1
            else:
                tally[n, 1] += 1
            reward = rewards[w]
            if reward != 0:  # a reward of 0 changes neither the return nor its fingerprint
                largest = max(largest, abs(reward))
                old = returns[n, i]
                total = old + weight * reward
                part = total - old
                exact[n, i] &= weight == 1 and (old - (total - part)) + (reward - part) == 0
                returns[n, i] = total
                mixed = _folded(step ^ bits[w])
                gains[n, i] += mixed ^ (mixed >> np.uint64(31))
        tally[n, 2] = largest


@compiled()
def merge(codes: Words, actions: Integers, rows: Integers, same: Integers) -> int:
    """Find walkers of one sample with equal states and actions; return their number.

    same[w] becomes the first walker with which w merges, w itself if there is none. Codes [w, d] are equal for equal
    states, and rows [w] are the numbers of the samples.
    """
    found, start = 0, 0
    for w in range(len(rows)):
        if rows[w] != rows[start]:
            start = w
        same[w] = w
        for v in range(start, w):
            if same[v] == v and actions[v] == actions[w] and (codes[v] == codes[w]).all():
                same[w] = v
                found += 1
                break
    return found


@compiled()
def first_in_state(codes: Words, rows: Integers, branches: Integers, out: Integers) -> None:
    """Fill out [w] with the first branch of the sample that is in the same state; branches [w] are the walkers' own."""
    start = 0
    for w in range(len(rows)):
        if rows[w] != rows[start]:
            start = w
        out[w] = branches[w]
        for v in range(start, w):
            if (codes[v] == codes[w]).all():
                out[w] = out[v]
                break


@compiled()
def distinct(codes: Words, first: Integers, place: Integers) -> int:
    """Number the distinct rows of codes [w, d]: row w has number place[w], and the first one of number u is first[u].

    Returns their number. A hash table with linear probing.
    """
    size = 16
    while size < 2 * len(codes):
        size *= 2
    table = np.full(size, -1, np.int64)
    count = 0
    for w in range(len(codes)):
        key = np.uint64(0)
        for j in range(codes.shape[1]):
            key = (key ^ codes[w, j]) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        slot = np.int64(key & np.uint64(size - 1))
        while table[slot] >= 0 and not (codes[first[table[slot]]] == codes[w]).all():
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = count
            first[count] = w
            count += 1
        place[w] = table[slot]
    return count
