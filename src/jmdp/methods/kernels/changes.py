"""Operations on recorded changes of a table (see `pair_product`): inner products, and linear combinations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, float64, uint64, void

from jmdp.base.arrays import Floats
from jmdp.base.compiled_kernel import compiled
from jmdp.methods.kernels.pair_product import PAIR_LAYOUT
from jmdp.methods.kernels.tables import PairLayout

Changes = np.typing.NDArray[np.float32]

_TILE = np.uint64(512)
_0, _1, _7, _8 = (np.uint64(i) for i in (0, 1, 7, 8))


@compiled("void(f4[:, ::1], u8, u8, u8, f8[:, :, ::1])", fastmath={"reassoc", "nnan", "nsz"})
def inner_products(changes: Changes, chunk: int, first: int, stride: int, out: Floats) -> None:
    """Fill out [chunks, n, n] with inner products for changes d [n, size], for chunks first, first + stride, ….

    The vectors are d_1 − d_0, d_2 − d_1, … and, last, the last change itself.
    """
    n, size = np.uint64(changes.shape[0]), np.uint64(changes.shape[1])
    differ = np.empty((n, _TILE))
    for c in range(first, np.uint64(out.shape[0]), stride):
        products = out[c]
        products[:] = 0.0
        for left in range(c * chunk, min((c + _1) * chunk, size), _TILE):
            width = min(_TILE, min((c + _1) * chunk, size) - left)
            for i in range(n):
                d, last = differ[i], i + _1 == n
                x, y = changes[i, left : left + width], changes[min(i + _1, n - _1), left : left + width]
                for k in range(width):
                    d[k] = np.float64(x[k]) if last else np.float64(y[k]) - np.float64(x[k])
            for i in range(n):
                for j in range(i + _1):
                    x_i, x_j = differ[i], differ[j]
                    total = 0.0
                    for k in range(width):
                        total += x_i[k] * x_j[k]
                    products[i, j] += total
        for i in range(n):
            for j in range(i):
                products[j, i] = products[i, j]


@compiled("float64(f8[::1], f4[:, ::1], u8, u8)", fastmath={"nnan", "nsz"})
def largest_combination(weights: Floats, changes: Changes, first: int, stride: int) -> float:
    """Return max |Σ weights × changes| over tiles of entries first, first + stride, …."""
    n, size = np.uint64(changes.shape[0]), np.uint64(changes.shape[1])
    row = np.empty(_TILE)
    worst = 0.0
    for left in range(first * _TILE, size, stride * _TILE):
        width = min(_TILE, size - left)
        row[:width] = 0.0
        for i in range(n):
            weight, x = weights[i], changes[i, left : left + width]
            for k in range(width):
                row[k] += weight * x[k]
        for k in range(width):
            worst = max(worst, abs(row[k]))
    return worst


def _types(stored: Any) -> Any:
    """Argument types of `add_combination` for tables of this precision."""
    return void(float64[::1], float32[:, ::1], PAIR_LAYOUT, uint64, uint64, stored[:, ::1], float64)


@compiled(_types(float64), _types(float32), fastmath={"nnan", "nsz"})
def add_combination(
    weights: Floats, changes: Changes, layout: PairLayout, first: int, stride: int, H: Floats, mirror: float
) -> None:
    """H += Σ weights × changes in both triangles, for groups of eight rows first, first + stride, …."""
    S, n = np.uint64(H.shape[0]), np.uint64(changes.shape[0])
    row = np.empty(_TILE)
    for group in range(first, (S + _7) // _8, stride):
        top = group * _8
        bottom = min(top + _8, S)
        reach = layout.reach[group]
        for left in range(_0, reach, _TILE):
            right = min(left + _TILE, reach)
            width = right - left
            for s in range(top, bottom):
                row[:width] = H[s, left:right]
                begin = layout.begin[group] + (s - top) * ((reach + _7) // _8 * _8) + left
                for i in range(n):
                    weight, x = weights[i], changes[i, begin : begin + width]
                    for k in range(width):
                        row[k] += weight * x[k]
                H[s, left:right] = row[:width]
            if layout.mirrored:
                for t in range(left, right):
                    for s in range(max(top, t + _1), bottom):
                        H[t, s] = mirror * H[s, t]
