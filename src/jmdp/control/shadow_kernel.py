"""Compiled loops over pairs (s, t) of the new policy's state and the incumbent's, and over cells of the gap so far.

A step h has P pairs, and ``index[s, t]`` is the number of a pair or −1. The gap so far is counted in cells. A value
table has, for each pair i, the cells low[i] … low[i] + count[i] − 1 at first[i]. Below them every future ends below the
kink of the utility, above them none does: there the utility is linear, and the optimal action that of the expected gap.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.compiled_kernel import compiled, compiled_part

Model = tuple[Floats, Floats, Integers, Booleans]
"""p [K], rewards [S, K, A] in units, next_state [S, K, A], distinct actions [S, A]."""

Actions = npt.NDArray[np.int16]

Step = tuple[Integers, Integers, Integers, float, int]
"""States s [P], shadows t [P], the incumbent's actions [S], cells in a unit at this step, and the rounding."""

Table = tuple[Integers, Integers, Integers, Integers]
"""index [S, S], and low, count and first [P] of the cells of a value table."""

Later = tuple[Integers, Integers, Integers, Integers, Floats, Floats]
"""The table of the next step, its values (flat), and the largest means [P] of the rest of the gap."""

Policy = tuple[Integers, Integers, Integers, Integers, Actions, Integers]
"""A table, its actions (flat), and the actions [S] where it has no cell."""

_GUARD = 1e-12
"""Relative error of an increment in cells: the power of the discount and a few products."""


@compiled_part()
def cells(difference: float, scale: float, rounding: int) -> int:
    """An increment of the gap in cells: rounded down (−1), up (1), or exact (0); 0 is never rounded."""
    if difference == 0.0:
        return 0
    x = difference * scale
    if rounding == 0:
        return round(x)
    return math.floor(x - abs(x) * _GUARD) if rounding < 0 else math.ceil(x + abs(x) * _GUARD)


@compiled()
def reached(model: Model, step: Step, index: Integers) -> tuple[Integers, Integers, int]:
    """Pairs that can follow; `index` [S, S], which is −1, is filled. Also the largest number of ways into a pair."""
    _p, _reward, next_state, distinct = model
    s, t, shadow, _scale, _rounding = step
    S, K, A = next_state.shape
    most = min(S * S, len(s) * K * A)
    following, shadows, ways = np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(most, np.int64)
    count = 0
    for i in range(len(s)):
        for k in range(K):
            after = next_state[t[i], k, shadow[t[i]]]
            for a in range(A):
                if distinct[s[i], a]:
                    n = next_state[s[i], k, a]
                    if index[n, after] < 0:
                        index[n, after] = count
                        following[count], shadows[count] = n, after
                        count += 1
                    ways[index[n, after]] += 1
    return following[:count].copy(), shadows[:count].copy(), ways[:count].max()


@compiled()
def past_ranges(
    model: Model,
    step: Step,
    index: Integers,
    least: Integers,
    most: Integers,
    later_least: Integers,
    later_most: Integers,
) -> None:
    """Widen the ranges of the gap so far [P of the next step] by what can follow the ranges of this step."""
    _p, reward, next_state, distinct = model
    s, t, shadow, scale, rounding = step
    _S, K, A = next_state.shape
    for i in range(len(s)):
        b = shadow[t[i]]
        for k in range(K):
            for a in range(A):
                if distinct[s[i], a]:
                    j = index[next_state[s[i], k, a], next_state[t[i], k, b]]
                    d = cells(reward[s[i], k, a] - reward[t[i], k, b], scale, rounding)
                    later_least[j] = min(later_least[j], least[i] + d)
                    later_most[j] = max(later_most[j], most[i] + d)


@compiled()
def future_ranges(
    model: Model,
    step: Step,
    index: Integers,
    later_least: Integers,
    later_most: Integers,
    least: Integers,
    most: Integers,
) -> None:
    """Ranges [P] of the rest of the gap: increments rounded down for the least, up for the largest, unless exact."""
    _p, reward, next_state, distinct = model
    s, t, shadow, scale, rounding = step
    _S, K, A = next_state.shape
    for i in range(len(s)):
        b = shadow[t[i]]
        low, high = 1 << 60, -(1 << 60)
        for k in range(K):
            for a in range(A):
                if distinct[s[i], a]:
                    j = index[next_state[s[i], k, a], next_state[t[i], k, b]]
                    x = reward[s[i], k, a] - reward[t[i], k, b]
                    low = min(low, later_least[j] + cells(x, scale, -1 if rounding else 0))
                    high = max(high, later_most[j] + cells(x, scale, 1 if rounding else 0))
        least[i], most[i] = low, high


@compiled(fastmath={"contract"})
def backward(
    model: Model,
    step: Step,
    table: Table,
    later: Later,
    utility: tuple[float, float, float, float],  # cell, slope and loss below the kink, margin of ties
    result: Floats,  # of this step, flat
    actions: Actions,  # of this step, flat
) -> None:
    """Values and optimal actions of all cells of a step; of equally good actions the incumbent's, else the first."""
    p, reward, next_state, distinct = model
    s, t, shadow, scale, rounding = step
    _index, low, count, first = table
    later_index, later_low, later_count, later_first, value, rest = later
    cell, slope, loss, margin = utility
    _S, K, A = next_state.shape
    q = np.empty(count.max() if len(count) else 0)
    for i in range(len(s)):
        n, lo, at, b = count[i], low[i], first[i], shadow[t[i]]
        own = shadow[s[i]]
        for z in range(-1, A):
            a = own if z < 0 else z
            if not distinct[s[i], a] or (z >= 0 and a == own):
                continue
            q[:n] = 0.0
            for k in range(K):
                j = later_index[next_state[s[i], k, a], next_state[t[i], k, b]]
                d = lo + cells(reward[s[i], k, a] - reward[t[i], k, b], scale, rounding)
                lost = min(max(later_low[j] - d, 0), n)
                inside = min(max(later_low[j] + later_count[j] - d, 0), n)
                base, pk = later_first[j] - later_low[j] + d, p[k]
                for g in range(lost):
                    q[g] += pk * (slope * (cell * (d + g) + rest[j]) - loss)
                for g in range(lost, inside):
                    q[g] += pk * value[base + g]
                for g in range(inside, n):
                    q[g] += pk * (cell * (d + g) + rest[j])
            if z < 0:
                for g in range(n):
                    result[at + g] = q[g]
                    actions[at + g] = a
            else:
                for g in range(n):
                    if q[g] > result[at + g] + margin:
                        result[at + g] = q[g]
                        actions[at + g] = a


@compiled()
def forward(
    model: Model,
    step: Step,
    truth: Floats,  # [S, K, A], rewards times the discount's power
    past: tuple[Integers, Integers, Integers],  # low, count and first [P] of the possible cells
    mass: Floats,  # flat
    later: Table,  # of the possible cells one step later
    policy: Policy,
    result: Floats,  # flat, zeros
) -> tuple[float, float]:
    """Distribution of pairs and gaps one step later; and the mean increment of the gap, with the mean of its size."""
    p, reward, next_state, distinct = model
    s, t, shadow, scale, rounding = step
    low, count, first = past
    later_index, later_low, _later_count, later_first = later
    index, known_low, known_count, known_first, actions, outside = policy
    _S, K, A = next_state.shape
    chosen, place = np.empty(A), np.empty((A, K), np.int64)
    gain = size = 0.0
    for i in range(len(s)):
        b, known = shadow[t[i]], index[s[i], t[i]]
        chosen[:] = 0.0
        for a in range(A):
            for k in range(K if distinct[s[i], a] else 0):
                j = later_index[next_state[s[i], k, a], next_state[t[i], k, b]]
                d = cells(reward[s[i], k, a] - reward[t[i], k, b], scale, rounding)
                place[a, k] = later_first[j] + low[i] + d - later_low[j]
        for g in range(count[i]):
            m = mass[first[i] + g]
            if m == 0.0:
                continue
            a, x = outside[s[i]], low[i] + g
            if known >= 0 and 0 <= x - known_low[known] < known_count[known]:
                a = actions[known_first[known] + x - known_low[known]]
            chosen[a] += m
            for k in range(K):
                result[place[a, k] + g] += m * p[k]
        for a in range(A):
            if chosen[a] > 0.0:
                for k in range(K):
                    x = chosen[a] * p[k] * (truth[s[i], k, a] - truth[t[i], k, b])
                    gain += x
                    size += abs(x)
    return gain, size


@compiled()
def values_of_changes(
    model: Model,
    discount: float,
    final: Floats,  # [S]
    incumbent: Integers,  # [H, S]
    start: Floats,  # [S]
    changes: Integers,  # [n, k, 2], states and actions
    value: Floats,  # [n], filled
) -> None:
    """Mean return of the incumbent with each set of changes, made in all steps."""
    p, reward, next_state, _distinct = model
    S, K, _A = next_state.shape
    H = len(incumbent)
    acting = np.empty(S, np.int64)
    v, w = np.empty(S), np.empty(S)
    for i in range(len(changes)):
        v[:] = final
        for h in range(H - 1, -1, -1):
            acting[:] = incumbent[h]
            for c in range(changes.shape[1]):
                acting[changes[i, c, 0]] = changes[i, c, 1]
            for s in range(S):
                a, total = acting[s], 0.0
                for k in range(K):
                    total += p[k] * (reward[s, k, a] + discount * v[next_state[s, k, a]])
                w[s] = total
            v, w = w, v
        value[i] = 0.0
        for s in range(S):
            value[i] += start[s] * v[s]


@compiled()
def undetermined(model: Model, step: Step, reward: Floats, limit: float) -> tuple[int, int]:
    """A pair and an action for which the next state, and rewards that differ by at most `limit`, leave something open.

    What is open is the shadow's next state or the increment of the gap. (−1, −1) if there is none.
    """
    _p, units, next_state, distinct = model
    s, t, shadow, _scale, _rounding = step
    _S, K, A = next_state.shape
    for i in range(len(s)):
        x, y, b = s[i], t[i], shadow[t[i]]
        for a in range(A):
            if not distinct[x, a]:
                continue
            for k in range(K):
                for other in range(k):
                    alike = next_state[x, k, a] == next_state[x, other, a]
                    if alike and abs(reward[x, k, a] - reward[x, other, a]) <= limit:
                        gap = units[x, k, a] - units[y, k, b] - units[x, other, a] + units[y, other, b]
                        if next_state[y, k, b] != next_state[y, other, b] or gap != 0.0:
                            return i, a
    return -1, -1
