"""The pair product Q H Qᵀ for a sparse Q and a symmetric or antisymmetric H, which dominates the time of a sweep.

Rows are processed eight at a time. Their X = Q H is stored with the eight rows side by side, so that each sparse column
of the second product is one contiguous load. Only the lower triangle is computed. An entry is stored above the diagonal
too if a sweep reads it there, which is rare if steps lead to states with similar numbers.
Columns are processed in tiles that fit in the L1 cache. Each entry is one sum in a fixed order, so the number of
threads does not change a bit, and the result has the symmetry of H. Indices are unsigned, for which numba omits the
test for negative values.

Tables may have single precision; sums are always in double precision.
"""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.compiled_kernel import compiled, compiled_part
from jmdp.methods.kernels.tables import ROWS, PairLayout, PairOutput, PairStep

_TILE = np.uint64(512)
_0, _1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(i) for i in range(ROWS + 1))

_FASTMATH = {"nnan", "nsz"}


@compiled_part(fastmath=_FASTMATH)
def _left_product(step: PairStep, H: Floats, top: int, bottom: int, last: int, row: Floats, X: Floats) -> None:
    """X [S, 8] = weight × square × Q H for rows top, …, bottom − 1, in columns used by output columns < last."""
    starts, columns, values, _, weight, square, _ = step
    scale = weight * square
    reach = _0  # columns of X that are needed
    for i in range(starts[_0], starts[last]):
        reach = max(reach, columns[i] + _1)
    for left in range(_0, reach, _TILE):
        width = min(_TILE, reach - left)
        for r in range(bottom - top):
            for j in range(width):
                row[j] = 0.0
            for i in range(starts[top + r], starts[top + r + _1]):
                share, u = scale * values[i], columns[i]
                for j in range(width):
                    row[j] += share * H[u, left + j]
            for j in range(width):
                X[left + j, r] = row[j]


@compiled_part(fastmath=_FASTMATH)
def _eight_rows(step: PairStep, X: Floats, top: int, left: int, right: int, near: int, output: PairOutput) -> None:
    """Fill columns left, …, right − 1 of a full group, left of its diagonal block: eight sums side by side."""
    starts, columns, values, td, weight, _, mirror = step
    out, add = output.table, output.add
    for t in range(left, right):
        d = weight * td[t]
        a0, a1, a2, a3 = d * td[top], d * td[top + _1], d * td[top + _2], d * td[top + _3]
        a4, a5, a6, a7 = d * td[top + _4], d * td[top + _5], d * td[top + _6], d * td[top + _7]
        for i in range(starts[t], starts[t + _1]):
            v, u = values[i], columns[i]
            a0 += v * X[u, _0]
            a1 += v * X[u, _1]
            a2 += v * X[u, _2]
            a3 += v * X[u, _3]
            a4 += v * X[u, _4]
            a5 += v * X[u, _5]
            a6 += v * X[u, _6]
            a7 += v * X[u, _7]
        if add:
            a0 += out[top, t]
            a1 += out[top + _1, t]
            a2 += out[top + _2, t]
            a3 += out[top + _3, t]
            a4 += out[top + _4, t]
            a5 += out[top + _5, t]
            a6 += out[top + _6, t]
            a7 += out[top + _7, t]
        if t >= near:
            out[t, top], out[t, top + _1] = mirror * a0, mirror * a1
            out[t, top + _2], out[t, top + _3] = mirror * a2, mirror * a3
            out[t, top + _4], out[t, top + _5] = mirror * a4, mirror * a5
            out[t, top + _6], out[t, top + _7] = mirror * a6, mirror * a7
        out[top, t], out[top + _1, t], out[top + _2, t], out[top + _3, t] = a0, a1, a2, a3
        out[top + _4, t], out[top + _5, t], out[top + _6, t], out[top + _7, t] = a4, a5, a6, a7


@compiled_part(fastmath=_FASTMATH)
def _single_entries(
    step: PairStep, X: Floats, diagonal: Floats, top: int, bottom: int, left: int, right: int, output: PairOutput
) -> None:
    """Fill columns left, …, right − 1 of a group's diagonal block, or of a last partial group, entry by entry."""
    starts, columns, values, td, weight, _, mirror = step
    out, add = output.table, output.add
    for t in range(left, right):
        for s in range(max(t, top), bottom):
            entry = weight * td[t] * td[s] + (out[s, t] if add else 0.0)
            for i in range(starts[t], starts[t + _1]):
                entry += values[i] * X[columns[i], s - top]
            if s == t and diagonal.size > 0:
                entry = diagonal[s]
            out[t, s] = mirror * entry
            out[s, t] = entry


@compiled_part(fastmath=_FASTMATH)
def _put_same_places(layout: PairLayout, top: int, left: int, right: int, output: PairOutput) -> None:
    """Replace the entries of a tile for copies of one state under two policies. Tiles are aligned to eight."""
    out, same, block = output.table, layout.same, layout.block
    for lag in range(np.uint64(same.shape[0])):
        back = (lag + _1) * block
        if top >= back and left <= top - back < right:
            for s in range(top, top + _8):
                out[s, s - back] = same[lag, s]


@compiled_part(fastmath=_FASTMATH)
def _largest_change(
    H: Floats, top: int, bottom: int, left: int, right: int, begin: int, width: int, output: PairOutput
) -> tuple[float, float]:
    """Return max |out − H| and max |H| in a tile of rows and columns; record out − H if `change` is not empty."""
    out, change = output.table, output.change
    worst = entry = 0.0
    for s in range(top, bottom):
        at = begin + (s - top) * width
        for t in range(left, right):
            before = H[s, t]
            difference = out[s, t] - before
            if change.size > 0:
                change[at + t] = difference
            worst, entry = max(worst, abs(difference)), max(entry, abs(before))
    return worst, entry


@compiled(fastmath=_FASTMATH)
def pair_product(
    step: PairStep,
    H: Floats,  # [S, S]
    diagonal: Floats,  # [S], new diagonal; empty to keep that of the product
    layout: PairLayout,
    first: int,  # this call computes groups of eight rows first, first + stride, …
    stride: int,
    output: PairOutput,
) -> tuple[float, float]:
    """Fill the rows (and, by symmetry, columns) of some groups with weight × (td tdᵀ + square × Q H Qᵀ).

    With `measure`, returns max |out − H| and max |H| over these groups, and records out − H in `change` if that is not
    empty: group by group and row by row, as specified by the layout.
    """
    S = np.uint64(H.shape[0])
    row, X = np.empty(_TILE), np.zeros((S, _8))
    worst = entry = 0.0
    for group in range(np.uint64(first), (S + _7) // _8, np.uint64(stride)):
        top = group * _8
        bottom = min(top + _8, S)
        reach = layout.reach[group]
        _left_product(step, H, top, bottom, reach, row, X)
        for left in range(_0, reach, _TILE):
            right = min(left + _TILE, reach)
            full = min(right, top) if bottom - top == _8 else _0
            _eight_rows(step, X, top, left, full, layout.near[group], output)
            _single_entries(step, X, diagonal, top, bottom, max(left, full), right, output)
            _put_same_places(layout, top, left, right, output)
            if output.measure:
                width = (reach + _7) // _8 * _8
                found = _largest_change(H, top, bottom, left, right, layout.begin[group], width, output)
                worst, entry = max(worst, found[0]), max(entry, found[1])
    return worst, entry
