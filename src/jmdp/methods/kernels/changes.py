"""Operations on recorded changes of a table (see `pair_product`): inner products, and linear combinations."""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.compiled_kernel import compiled
from jmdp.methods.kernels.tables import PairLayout

Changes = np.typing.NDArray[np.float32]

_TILE = np.uint64(512)
_0, _1, _7, _8 = (np.uint64(i) for i in (0, 1, 7, 8))


@compiled(fastmath={"reassoc", "nnan", "nsz"})
def inner_products(changes: Changes, chunk: int, first: int, stride: int, out: Floats) -> None:
    """Fill out [chunks, n, n] with inner products for changes d [n, size], for chunks first, first + stride, ….

    The vectors are d_1 − d_0, d_2 − d_1, … and, last, the last change itself.
    """
    n, size, length = np.uint64(changes.shape[0]), np.uint64(changes.shape[1]), np.uint64(chunk)
    differ = np.empty((n, _TILE))
    for c in range(np.uint64(first), np.uint64(out.shape[0]), np.uint64(stride)):
        for i in range(n):
            for j in range(n):
                out[c, i, j] = 0.0
        end = min((c + _1) * length, size)
        for left in range(c * length, end, _TILE):
            width = min(_TILE, end - left)
            for i in range(n):
                last = i + _1 == n
                for k in range(width):
                    d = np.float64(changes[i, left + k])
                    differ[i, k] = d if last else np.float64(changes[i + _1, left + k]) - d
            for i in range(n):
                for j in range(i + _1):
                    total = 0.0
                    for k in range(width):
                        total += differ[i, k] * differ[j, k]
                    out[c, i, j] += total
        for i in range(n):
            for j in range(i):
                out[c, j, i] = out[c, i, j]


@compiled(fastmath={"nnan", "nsz"})
def largest_combination(weights: Floats, changes: Changes, first: int, stride: int) -> float:
    """Return max |Σ weights × changes| over tiles of entries first, first + stride, …."""
    n, size = np.uint64(changes.shape[0]), np.uint64(changes.shape[1])
    row = np.empty(_TILE)
    worst = 0.0
    for left in range(np.uint64(first) * _TILE, size, np.uint64(stride) * _TILE):
        width = min(_TILE, size - left)
        for k in range(width):
            row[k] = 0.0
        for i in range(n):
            weight = weights[i]
            for k in range(width):
                row[k] += weight * changes[i, left + k]
        for k in range(width):
            worst = max(worst, abs(row[k]))
    return worst


@compiled(fastmath={"nnan", "nsz"})
def add_combination(
    weights: Floats, changes: Changes, layout: PairLayout, first: int, stride: int, H: Floats, mirror: float
) -> None:
    """H += Σ weights × changes in both triangles, for groups of eight rows first, first + stride, …."""
    S, n = np.uint64(H.shape[0]), np.uint64(changes.shape[0])
    row = np.empty(_TILE)
    for group in range(np.uint64(first), (S + _7) // _8, np.uint64(stride)):
        top = group * _8
        bottom = min(top + _8, S)
        reach = layout.reach[group]
        for left in range(_0, reach, _TILE):
            right = min(left + _TILE, reach)
            width = right - left
            for s in range(top, bottom):
                for k in range(width):
                    row[k] = H[s, left + k]
                begin = layout.begin[group] + (s - top) * ((reach + _7) // _8 * _8) + left
                for i in range(n):
                    weight = weights[i]
                    for k in range(width):
                        row[k] += weight * changes[i, begin + k]
                for k in range(width):
                    H[s, left + k] = row[k]
            for t in range(max(left, layout.near[group]), right):
                for s in range(max(top, t + _1), bottom):
                    H[t, s] = mirror * H[s, t]
