"""The pair product Q H Qᵀ for a sparse Q and a symmetric H: what a sweep spends its time on.

Rows are taken eight at a time. Their X = Q H is laid out with the eight side by side, so that each sparse column of
the second product is one contiguous load; only the lower triangle is computed, and each entry is stored twice. Each
entry is one sum in a fixed order, so the number of threads does not change a bit, and the result is symmetric.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from jmdp.arrays import Floats, Integers

ROWS = 8


@njit(cache=True, nogil=True)
def pair_product(
    starts: Integers,  # [S + 1], Q in compressed rows
    columns: Integers,
    values: Floats,
    H: Floats,  # [S, S], symmetric
    scale: float,
    first: int,  # groups of eight rows first, first + stride, … are this call's
    stride: int,
    out: Floats,  # [S, S]
) -> None:
    """Fill the rows (and, by symmetry, columns) of some groups with scale × Q H Qᵀ."""
    S = H.shape[0]
    row, X = np.empty(S), np.empty((S, ROWS))
    for group in range(first, (S + ROWS - 1) // ROWS, stride):
        top = group * ROWS
        count = min(ROWS, S - top)
        reach = 0  # columns of X that the lower triangle asks for
        for t in range(top + count):
            for i in range(starts[t], starts[t + 1]):
                reach = max(reach, columns[i] + 1)
        for r in range(ROWS):
            row[:reach] = 0.0
            if r < count:
                for i in range(starts[top + r], starts[top + r + 1]):
                    weight, source = scale * values[i], H[columns[i]]
                    for j in range(reach):
                        row[j] += weight * source[j]
            for j in range(reach):
                X[j, r] = row[j]
        for t in range(top + count):
            a = b = c = d = e = f = g = h = 0.0
            for i in range(starts[t], starts[t + 1]):
                v, x = values[i], X[columns[i]]
                a += v * x[0]
                b += v * x[1]
                c += v * x[2]
                d += v * x[3]
                e += v * x[4]
                f += v * x[5]
                g += v * x[6]
                h += v * x[7]
            if t < top and count == ROWS:
                out[top, t], out[top + 1, t], out[top + 2, t], out[top + 3, t] = a, b, c, d
                out[top + 4, t], out[top + 5, t], out[top + 6, t], out[top + 7, t] = e, f, g, h
                mirrored = out[t, top : top + ROWS]
                mirrored[0], mirrored[1], mirrored[2], mirrored[3] = a, b, c, d
                mirrored[4], mirrored[5], mirrored[6], mirrored[7] = e, f, g, h
            else:  # the group's own corner, or a last group that is not full
                for r, value in enumerate((a, b, c, d, e, f, g, h)):
                    if r < count and t <= top + r:
                        out[top + r, t] = out[t, top + r] = value
