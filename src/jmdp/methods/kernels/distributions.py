"""Backward steps of the distributions of many returns, represented by masses in cells.

A distribution is a row: column 0 has the mass at exactly zero, and each other column has a mass, an interval
[low, high] that contains all of this mass, and its mean. Each cell of the real line has two columns: one for its
heaviest atom, which thus remains a point mass, and one for the remaining mass. Cells only determine which masses are
combined; the intervals are valid for any choice of cells.
"""

from __future__ import annotations

import math

import numpy as np

from jmdp.base.compiled_kernel import compiled
from jmdp.methods.kernels.tables import CellLayout, Cells, OutcomeLists

_ROUNDING = 2.0**-51
"""Upper bound on the rounding error of r + γ x and of r itself, relative to the sizes added."""

_TINY = 1e-300
"""Upper bound on the error of an underflow, for rewards scaled to size 1."""


_DUST = 1e-17
"""Masses below this are dropped and counted as lost."""

OCTAVES = 20
"""Number of times that the cell width halves towards zero."""


@compiled()
def cell(x: float, per_width: float, bits: int) -> int:
    """Return the number of the cell that contains x, ≥ 0 for x ≥ 0 and < 0 for x < 0.

    Far from zero there are `per_width` cells per unit. Within 2^bits of these widths of zero, cells become narrower
    towards zero, with 2^bits per octave as in floating-point numbers: resolution matters where the sign changes, and
    discounting moves all returns towards zero.
    """
    steps, octave = abs(x) * per_width, 1 << bits
    if steps >= octave:
        number = (OCTAVES - 1) * octave + int(min(steps, 1e15))
    else:
        # Exponent and leading bits of a float number its octaves and their parts.
        leading = np.float64(steps).view(np.int64) >> (52 - bits)
        number = max(int(OCTAVES * octave + leading - ((1023 + bits) << bits)), 0)
    return number if x >= 0 else -1 - number


@compiled(error_model="numpy")
def _add_outcome(
    outcomes: OutcomeLists,
    e: int,  # index of the outcome to add
    following: Cells,
    layout: tuple[float, int, int, float],  # of this row, in the order of `CellLayout`
    row: Cells,  # [1 + 2 cells] each; `mean` is the sum of mass × mean while masses are added
    lost: float,
) -> tuple[int, float]:
    """Add one outcome to a row. Return the longest run of consecutive masses in one cell, and the mass lost so far."""
    p, r, g, j = outcomes.chance[e], outcomes.gain[e], outcomes.factor[e], outcomes.source[e]
    mass, low, high, mean = following
    per_width, first_cell, bits, narrow = layout
    row_mass, row_low, row_high, row_mean = row
    cells = row_mass.size // 2
    longest, run, last = 1, 0, -1
    for c in range(mass.shape[1]):
        m = mass[j, c]
        if m == 0.0:
            continue
        m *= p
        if m < _DUST:
            lost += m
            continue
        if c == 0:
            if r == 0.0:  # mass at exactly zero stays there
                row_mass[0] += m
                continue
            x = least = most = r
        else:
            x = r + g * mean[j, c]
            a, b = g * low[j, c], g * high[j, c]
            least, most = r + min(a, b), r + max(a, b)
        rounding = _ROUNDING * (abs(r) + max(abs(least), abs(most))) + _TINY
        at = min(max(cell(x, per_width, bits) - first_cell, 0), cells - 1) + 1
        run = run + 1 if at == last else 1
        last = at
        longest = max(longest, run)
        least, most = least - rounding, most + rounding
        if most - least <= narrow:
            atom = at + cells
            least_too, most_too = min(least, row_low[atom]), max(most, row_high[atom])
            if row_mass[atom] == 0.0 or most_too - least_too <= narrow:
                row_low[atom], row_high[atom] = least_too, most_too
                row_mass[atom] += m
                row_mean[atom] += m * x
                continue
            if m > row_mass[atom]:  # the lighter of the two joins the remaining mass
                m, row_mass[atom] = row_mass[atom], m
                moment, row_mean[atom] = row_mean[atom], row_mass[atom] * x
                least, row_low[atom] = row_low[atom], least
                most, row_high[atom] = row_high[atom], most
                x = moment / m
        row_mass[at] += m
        row_mean[at] += m * x
        row_low[at] = min(row_low[at], least)
        row_high[at] = max(row_high[at], most)
    return longest, lost


@compiled(error_model="numpy")
def step_back(
    outcomes: OutcomeLists,
    layout: CellLayout,
    following: Cells,
    first: int,  # this call computes rows first, first + stride, …
    stride: int,
    new: Cells,
) -> tuple[int, float]:
    """Fill new rows with the distributions of gain + factor × (the following distribution).

    Returns the longest run of consecutive masses of one distribution added to one cell, on which the rounding error
    depends, and the largest mass lost in a row because it was too small to keep.
    """
    starts = outcomes.starts
    longest, most_lost = 1, 0.0
    for i in range(first, starts.size - 1, stride):
        row = Cells(new.mass[i], new.low[i], new.high[i], new.mean[i])
        row.mass[:] = 0.0
        row.mean[:] = 0.0
        row.low[:] = math.inf
        row.high[:] = -math.inf
        here, lost = (layout.per_width[i], layout.first_cell[i], layout.bits, layout.narrow), 0.0
        for e in range(starts[i], starts[i + 1]):
            run, lost = _add_outcome(outcomes, e, following, here, row, lost)
            longest = max(longest, run)
        for c in range(1, row.mass.size):
            if row.mass[c] > 0.0:
                row.mean[c] /= row.mass[c]
        most_lost = max(most_lost, lost)
    return longest, most_lost
