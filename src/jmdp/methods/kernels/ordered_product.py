"""A sweep in which a row uses the entries that rows before it have just received (Gauss–Seidel).

Groups of eight rows are processed in waves. Rows of earlier waves are read from the new table, all others from the old
one, so the groups of a wave do not read one another's entries, and the number of threads does not change a bit. Within
a group, columns are filled from left to right, and each entry updates the sums of those that follow. If all steps lead
to earlier waves or stay, a few sweeps solve the table. `pair_product` explains the order of loops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.compiled_kernel import compiled, compiled_part
from jmdp.methods.kernels.tables import PairLayout, PairOutput, PairStep, PairWaves, Unsigned

_TILE = np.uint64(512)
_0, _1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(i) for i in range(9))

_FASTMATH = {"nnan", "nsz"}


class _Group(NamedTuple):
    """Rows top, …, bottom − 1; entries of two states below `done` are in the new table."""

    done: Any  # unsigned, as all numbers of rows
    top: Any
    bottom: Any
    coupled: bool
    within: Floats  # [8, 8], square × probability of a step to row i from row j
    stays: Floats  # [8], its diagonal
    at: Unsigned  # [8], starts of the rows in the record of changes


@compiled_part(fastmath=_FASTMATH)
def _describe(step: PairStep, layout: PairLayout, group: _Group) -> None:
    """Fill `within`, `stays` and `at`."""
    for r in range(_8):
        group.stays[r] = 0.0
        for q in range(_8):
            group.within[q, r] = 0.0
    for r in range(group.bottom - group.top):
        s = group.top + r
        group.at[r] = layout.begin[s // _8] + s % _8 * (s // _8 * _8 + _8)
        for i in range(step.starts[s], step.starts[s + _1]):
            u = step.columns[i]
            if group.top <= u and u < group.bottom:
                group.within[u - group.top, r] = step.square * step.values[i]
        group.stays[r] = group.within[r, r]


@compiled_part(fastmath=_FASTMATH)
def _mixed_product(step: PairStep, H: Floats, new: Floats, group: _Group, reach: Any, row: Floats, X: Floats) -> None:
    """X [S, 8] = square × Q H for the rows of a group, in columns < reach."""
    for left in range(_0, reach, _TILE):
        width = min(_TILE, reach - left)
        for r in range(group.bottom - group.top):
            for j in range(width):
                row[j] = 0.0
            for i in range(step.starts[group.top + r], step.starts[group.top + r + _1]):
                share, u = step.square * step.values[i], step.columns[i]
                split = min(max(group.done, left) - left, width) if u < group.done else _0
                for j in range(split):
                    row[j] += share * new[u, left + j]
                for j in range(split, width):
                    row[j] += share * H[u, left + j]
            for j in range(width):
                X[left + j, r] = row[j]


@compiled_part(fastmath=_FASTMATH)
def _eight_ordered_rows(step: PairStep, H: Floats, X: Floats, group: _Group, near: int, output: PairOutput) -> float:
    """Fill the columns left of a full group's diagonal block; return max |out − H| there."""
    starts, columns, values = step.starts, step.columns, step.values
    out, change, at, top, within = output.table, output.change, group.at, group.top, group.within
    q0, q1, q2, q3 = group.stays[_0], group.stays[_1], group.stays[_2], group.stays[_3]
    q4, q5, q6, q7 = group.stays[_4], group.stays[_5], group.stays[_6], group.stays[_7]
    w0 = w1 = w2 = w3 = w4 = w5 = w6 = w7 = 0.0
    for t in range(top):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = stays = 0.0
        for i in range(starts[t], starts[t + _1]):
            v, u = values[i], columns[i]
            if u == t:
                stays = v
            a0, a1, a2, a3 = a0 + v * X[u, _0], a1 + v * X[u, _1], a2 + v * X[u, _2], a3 + v * X[u, _3]
            a4, a5, a6, a7 = a4 + v * X[u, _4], a5 + v * X[u, _5], a6 + v * X[u, _6], a7 + v * X[u, _7]
        b0, b1, b2, b3 = H[top, t], H[top + _1, t], H[top + _2, t], H[top + _3, t]
        b4, b5, b6, b7 = H[top + _4, t], H[top + _5, t], H[top + _6, t], H[top + _7, t]
        # If both branches stay, the entry depends on itself: to first order it is corrected for that.
        d0, d1, d2, d3 = a0 - b0, a1 - b1, a2 - b2, a3 - b3
        d4, d5, d6, d7 = a4 - b4, a5 - b5, a6 - b6, a7 - b7
        d0, d1, d2, d3 = d0 + stays * q0 * d0, d1 + stays * q1 * d1, d2 + stays * q2 * d2, d3 + stays * q3 * d3
        d4, d5, d6, d7 = d4 + stays * q4 * d4, d5 + stays * q5 * d5, d6 + stays * q6 * d6, d7 + stays * q7 * d7
        a0, a1, a2, a3, a4, a5, a6, a7 = b0 + d0, b1 + d1, b2 + d2, b3 + d3, b4 + d4, b5 + d5, b6 + d6, b7 + d7
        out[top, t], out[top + _1, t], out[top + _2, t], out[top + _3, t] = a0, a1, a2, a3
        out[top + _4, t], out[top + _5, t], out[top + _6, t], out[top + _7, t] = a4, a5, a6, a7
        if t >= near:
            out[t, top], out[t, top + _1], out[t, top + _2], out[t, top + _3] = a0, a1, a2, a3
            out[t, top + _4], out[t, top + _5], out[t, top + _6], out[t, top + _7] = a4, a5, a6, a7
        if group.coupled:
            for r in range(_8):
                one = within[_0, r] * d0 + within[_1, r] * d1 + within[_2, r] * d2 + within[_3, r] * d3
                other = within[_4, r] * d4 + within[_5, r] * d5 + within[_6, r] * d6 + within[_7, r] * d7
                X[t, r] += one + other
        else:
            X[t, _0], X[t, _1], X[t, _2] = X[t, _0] + q0 * d0, X[t, _1] + q1 * d1, X[t, _2] + q2 * d2
            X[t, _3], X[t, _4], X[t, _5] = X[t, _3] + q3 * d3, X[t, _4] + q4 * d4, X[t, _5] + q5 * d5
            X[t, _6], X[t, _7] = X[t, _6] + q6 * d6, X[t, _7] + q7 * d7
        w0, w1, w2, w3 = max(w0, abs(d0)), max(w1, abs(d1)), max(w2, abs(d2)), max(w3, abs(d3))
        w4, w5, w6, w7 = max(w4, abs(d4)), max(w5, abs(d5)), max(w6, abs(d6)), max(w7, abs(d7))
        if change.size > 0:
            change[at[_0] + t], change[at[_1] + t], change[at[_2] + t], change[at[_3] + t] = d0, d1, d2, d3
            change[at[_4] + t], change[at[_5] + t], change[at[_6] + t], change[at[_7] + t] = d4, d5, d6, d7
    return max(max(max(w0, w1), max(w2, w3)), max(max(w4, w5), max(w6, w7)))


@compiled_part(fastmath=_FASTMATH)
def _diagonal_block(step: PairStep, waves: PairWaves, H: Floats, X: Floats, group: _Group, output: PairOutput) -> float:
    """Fill the entries of two states of a group, one after another; return max |out − H| there."""
    S, out, top, bottom = np.uint64(H.shape[0]), output.table, group.top, group.bottom
    for s in range(top, bottom):
        for t in range(top, s + _1):
            out[s, t] = out[t, s] = H[s, t]
    for u in range(top, bottom):
        for r in range(bottom - top):
            total = 0.0
            for i in range(step.starts[top + r], step.starts[top + r + _1]):
                s = step.columns[i]
                total += step.values[i] * (out[u, s] if s < bottom else H[s, u])
            X[u, r] = step.square * total
    worst = 0.0
    for t in range(top, bottom):
        for s in range(t, bottom):
            entry = 0.0
            if s == t:
                for i in range(waves.entry.shape[0]):
                    one, other = waves.entry[i, s] // S, waves.entry[i, s] % S
                    is_new = other < group.done or (top <= other and other < bottom)
                    entry += waves.weight[i, s] * (out[other, one] if is_new else H[other, one])
                entry += waves.fixed[s]
            else:
                for i in range(step.starts[t], step.starts[t + _1]):
                    entry += step.values[i] * X[step.columns[i], s - top]
            out[s, t] = out[t, s] = entry
            difference = entry - H[s, t]
            worst = max(worst, abs(difference))
            if output.change.size > 0:
                output.change[group.at[s - top] + t] = difference
            for r in range(bottom - top):
                X[t, r] += group.within[s - top, r] * difference
    return worst


@compiled(fastmath=_FASTMATH)
def ordered_product(
    step: PairStep,
    H: Floats,  # [S, S]
    layout: PairLayout,
    waves: PairWaves,
    first: int,  # this call computes groups first, first + stride, … of each wave
    stride: int,
    output: PairOutput,
) -> float:
    """Fill the rows of all waves, one wave after another; return max |out − H|, and record out − H if it is asked for.

    Calls for parts of one wave may run at the same time.
    """
    S = np.uint64(H.shape[0])
    groups = (S + _7) // _8
    row, X, at = np.empty(_TILE), np.zeros((S, _8)), np.empty(_8, np.uint64)
    within, stays = np.empty((_8, _8)), np.empty(_8)
    worst = 0.0
    for wave in range(np.uint64(waves.starts.size) - _1):
        begin = waves.starts[wave]
        done = S - (groups - begin) * _8 if begin > _0 else _0
        for i in range(begin + np.uint64(first), waves.starts[wave + _1], np.uint64(stride)):
            bottom = S - (groups - _1 - i) * _8  # the first group may have fewer rows
            top = bottom - _8 if i > _0 else _0
            group = _Group(done, top, bottom, waves.coupled[i], within, stays, at)
            _describe(step, layout, group)
            _mixed_product(step, H, output.table, group, min(bottom + waves.up, S), row, X)
            near = layout.near[top // _8]
            worst = max(worst, _eight_ordered_rows(step, H, X, group, near, output))
            worst = max(worst, _diagonal_block(step, waves, H, X, group, output))
    return worst
