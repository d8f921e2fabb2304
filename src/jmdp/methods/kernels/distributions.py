"""Backward steps of the distributions of many returns, represented by masses in cells.

A distribution is a row. It has a mass at exactly zero; atoms, each with an interval that contains its point; and two
lists of the remaining mass. In the first list every mass is at a point below its true place, in the second above it, so
the distributions of the two lists enclose the true one. The second list is stored as lower points of the negative
return: only lower points are computed.

A cell of the real line combines all masses of a list to one, at the lowest of their points, and keeps its heaviest
atom, so that a few atoms are never combined. Other atoms of the cell join both lists. Cells determine which masses are
combined; the lists enclose the true distribution for any choice of cells.
"""

from __future__ import annotations

import math

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.compiled_kernel import compiled, compiled_part
from jmdp.methods.kernels.tables import CellLayout, Cells, OutcomeLists

_ROUNDING = 2.0**-51
"""Upper bound on the rounding error of r + γ x and of r itself, relative to the sizes added."""

_TINY = 1e-300
"""Upper bound on the error of an underflow, for rewards scaled to size 1."""


_DUST = 1e-17
"""Masses below this are dropped and counted as lost."""

OCTAVES = 20
"""Number of times that the cell width halves towards zero, and doubles away from the bulk of the mass."""

_TAIL = 5e-4
"""Share of the mass below the bulk, and above it."""

RowLayout = tuple[float, float, tuple[float, int, int, int], int, int]
"""Bulk of one list of a row, the result of `row_layout`, and the numbers of cells and of bits."""


@compiled_part()
def cell(x: float, per_width: float, bits: int) -> int:
    """Return the number of the cell that contains x, ≥ 0 for x ≥ 0 and < 0 for x < 0.

    Far from zero there are `per_width` cells per unit. Within 2^bits of these widths of zero, cells become narrower
    towards zero, with 2^bits per octave as in floating-point numbers: resolution matters where the sign changes, and
    discounting moves all returns towards zero.
    """
    steps, octave = x * per_width, 1 << bits
    if steps >= octave:
        return (OCTAVES - 1) * octave + int(steps if steps < 1e15 else 1e15)
    if steps <= -octave:
        return -1 - (OCTAVES - 1) * octave - int(-steps if steps > -1e15 else 1e15)
    # Exponent and leading bits of a float number its octaves and their parts.
    leading = np.float64(abs(steps)).view(np.int64) >> (52 - bits)
    number = max(int(OCTAVES * octave + leading - ((1023 + bits) << bits)), 0)
    return number if x >= 0 else -1 - number


@compiled_part()
def row_layout(low: float, high: float, cells: int, bits: int) -> tuple[float, int, int, int]:
    """Cells per unit of one row, the numbers of its first and last cell, and the number of wider cells on either side.

    Cells between low and high have equal widths, except near zero. With few cells there are no wider ones beside them:
    what is outside goes into the first or last cell.
    """
    beside = OCTAVES << (bits - 2) if bits >= 2 else 0
    between = cells - 2 * beside - 2
    width = max(high - low, 2e-15 * between * max(abs(low), abs(high)), 2.0**-900)  # x × per_width is a whole number
    per_width = between / width
    first, last = cell(low, per_width, bits), cell(high, per_width, bits)
    if last - first > between:  # cells near zero are needed too
        per_width = max(between - (2 * OCTAVES << bits), 1) / width
        first, last = cell(low, per_width, bits), cell(high, per_width, bits)
    return per_width, first, last, beside


@compiled_part()
def _beside(distance: int, bits: int) -> int:
    """Number of the wider cell at a distance, in cells, ≥ 1: one by one up to 2^bits, then 2^bits per octave."""
    if distance <= 1 << bits:
        return distance
    return int((np.float64(distance).view(np.int64) >> (52 - bits)) - ((1022 + bits) << bits))


@compiled_part()
def place(x: float, layout: tuple[float, int, int, int], cells: int, bits: int) -> int:
    """Cell 0, 1, …, cells − 1 of a row in which a mass with mean x is stored; `layout` is that of `row_layout`."""
    per_width, first, last, beside = layout
    number = cell(x, per_width, bits)
    if number < first:
        at = beside - (_beside(first - number, bits - 2) if beside else 1) - (x < 0 <= first)
        return at if at > 0 else 0
    at = beside + number - first
    if number > last:
        at += (_beside(number - last, bits - 2) if beside else 1) - (number - last) + (last < 0 <= x)
    return at if at < cells else cells - 1


@compiled_part(error_model="numpy")
def _add(x: float, m: float, layout: RowLayout, row: Floats, added: Integers) -> None:
    """Add one mass to a list."""
    at = place(x, layout[2], layout[3], layout[4])
    added[at] += 1
    row[at, 0] += m
    row[at, 1] = x if x < row[at, 1] else row[at, 1]


@compiled_part(error_model="numpy")
def _add_points(
    outcome: tuple[float, float, float],  # probability, gain, |factor|
    count: int,
    mass: Floats,
    point: Floats,
    layout: RowLayout,
    row: Floats,  # [cells, 2], masses and points
    added: Integers,  # [cells], number of masses added to each cell
    lost: float,
) -> float:
    """Add the masses of one list, one step before, to a list. Return the mass lost so far."""
    p, r, g = outcome
    low, high, (per_width, first, last, beside), cells, bits = layout
    octave, rounding = float(1 << bits), _ROUNDING * abs(r) + _TINY
    above = beside - first + (OCTAVES - 1) * (1 << bits)
    below = beside - first - (OCTAVES - 1) * (1 << bits) - 1
    for c in range(count):
        m = mass[c] * p
        if m < _DUST:
            lost += m
            continue
        x = r + g * point[c]
        x -= _ROUNDING * abs(x) + rounding
        # `place`, of which the two most frequent cases are written out, because most of the time is spent here.
        steps = x * per_width
        if steps >= octave and low <= x <= high:
            at = np.uint64(int(steps) + above)
        elif steps <= -octave and low <= x <= high:
            at = np.uint64(int(steps) + below)
        else:
            at = np.uint64(place(x, (per_width, first, last, beside), cells, bits))
        added[at] += 1
        row[at, 0] += m
        row[at, 1] = x if x < row[at, 1] else row[at, 1]
    return lost


@compiled_part(error_model="numpy")
def _add_atom(
    m: float,
    least: float,
    most: float,
    narrow: float,
    layouts: tuple[RowLayout, RowLayout],
    atoms: Floats,  # [cells, 3], masses and both ends
    rows: Floats,  # [2, cells, 2]
    added: Integers,  # [2, cells]
) -> None:
    """Add one atom to its cell, or, if it is not the heaviest there or no longer narrow, to both lists."""
    if most - least <= narrow:
        at = place(least, layouts[0][2], layouts[0][3], layouts[0][4])
        added[0, at] += 1
        if atoms[at, 0] == 0.0:
            atoms[at, 0], atoms[at, 1], atoms[at, 2] = m, least, most
            return
        if max(most, atoms[at, 2]) - min(least, atoms[at, 1]) <= narrow:
            atoms[at, 0] += m
            atoms[at, 1], atoms[at, 2] = min(least, atoms[at, 1]), max(most, atoms[at, 2])
            return
        if m > atoms[at, 0]:
            m, atoms[at, 0] = atoms[at, 0], m
            least, atoms[at, 1] = atoms[at, 1], least
            most, atoms[at, 2] = atoms[at, 2], most
    _add(least, m, layouts[0], rows[0], added[0])
    _add(-most, m, layouts[1], rows[1], added[1])


@compiled_part(error_model="numpy")
def _add_atoms(
    outcome: tuple[float, float, float, int],  # probability, gain, factor, row that follows
    following: Cells,
    narrow: float,
    layouts: tuple[RowLayout, RowLayout],
    atoms: Floats,
    rows: Floats,
    added: Integers,
    lost: float,
) -> float:
    """Add the atoms of a row, one step before. Return the mass lost so far."""
    p, r, g, j = outcome
    if r != 0.0 and following.zero[j] > 0.0:
        m = following.zero[j] * p
        slip = _ROUNDING * abs(r) + _TINY
        if m < _DUST:
            lost += m
        else:
            _add_atom(m, r - slip, r + slip, narrow, layouts, atoms, rows, added)
    mass, low, high = following.atoms.mass[j], following.atoms.low[j], following.atoms.high[j]
    for c in range(following.atoms.used[j]):
        m = mass[c] * p
        if m < _DUST:
            lost += m
            continue
        least, most = (r + g * low[c], r + g * high[c]) if g >= 0 else (r + g * high[c], r + g * low[c])
        slip = _ROUNDING * (abs(r) + max(abs(least), abs(most))) + _TINY
        _add_atom(m, least - slip, most + slip, narrow, layouts, atoms, rows, added)
    return lost


@compiled_part(error_model="numpy")
def _store(atoms: Floats, rows: Floats, new: Cells, i: int) -> None:
    """Move the occupied cells to row i of `new`, and leave them empty."""
    count = 0
    for c in range(atoms.shape[0]):
        if atoms[c, 0] > 0.0:
            new.atoms.mass[i, count], new.atoms.low[i, count], new.atoms.high[i, count] = atoms[c]
            atoms[c, 0] = 0.0
            count += 1
    new.atoms.used[i] = count
    for side in range(2):
        row, count = rows[side], 0
        for c in range(row.shape[0]):
            if row[c, 0] > 0.0:
                new.bounds.mass[side, i, count], new.bounds.point[side, i, count] = row[c]
                row[c, 0], row[c, 1] = 0.0, math.inf
                count += 1
        new.bounds.used[side, i] = count


@compiled_part(error_model="numpy")
def _find_bulk(new: Cells, i: int, side: int) -> None:
    """Set the bulk of row i: the points between which all but a small share of the mass lies, except at zero."""
    sign = 1.0 - 2.0 * side
    mass, point = new.bounds.mass[side, i], new.bounds.point[side, i]
    atoms, ends = new.atoms.mass[i], new.atoms.low[i]
    a, b = new.atoms.used[i], new.bounds.used[side, i]
    outside = _TAIL * (atoms[:a].sum() + mass[:b].sum())
    for upper in range(2):
        left, k, c, edge = outside, 0, 0, 0.0
        while k < a or c < b:
            atom = k if (upper == 0) == (side == 0) else a - 1 - k
            at = c if upper == 0 else b - 1 - c
            from_atom = k < a and (c >= b or (sign * ends[atom] < point[at]) == (upper == 0))
            edge = sign * ends[atom] if from_atom else point[at]
            left -= atoms[atom] if from_atom else mass[at]
            if left < 0.0:
                break
            k, c = k + from_atom, c + (not from_atom)
        new.bulk[side, upper, i] = edge


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

    Returns the largest number of masses added to one cell, on which the rounding error depends, and the largest mass
    lost in a row because it was too small to keep.
    """
    cells, bits = layout.cells, layout.bits
    atoms, rows, added = np.zeros((cells, 3)), np.zeros((2, cells, 2)), np.zeros((2, cells), np.int64)
    rows[:, :, 1] = math.inf
    most_added, most_lost = 1, 0.0
    mass, point, count = following.bounds.mass, following.bounds.point, following.bounds.used
    for i in range(first, outcomes.starts.size - 1, stride):
        (one_low, other_low), (one_high, other_high) = layout.bulk[:, 0, i], layout.bulk[:, 1, i]
        here = (
            (one_low, one_high, row_layout(one_low, one_high, cells, bits), cells, bits),
            (other_low, other_high, row_layout(other_low, other_high, cells, bits), cells, bits),
        )
        zero, lost_atoms, lost_below, lost_above = 0.0, 0.0, 0.0, 0.0
        for e in range(outcomes.starts[i], outcomes.starts[i + 1]):
            p, r, g, j = outcomes.chance[e], outcomes.gain[e], outcomes.factor[e], outcomes.source[e]
            if r == 0.0:  # mass at exactly zero stays there
                zero += p * following.zero[j]
            lost_atoms = _add_atoms((p, r, g, j), following, layout.narrow, here, atoms, rows, added, lost_atoms)
            own, turned = (0, 1) if g >= 0 else (1, 0)
            lost_below = _add_points(
                (p, r, abs(g)), count[own, j], mass[own, j], point[own, j], here[0], rows[0], added[0], lost_below
            )
            lost_above = _add_points(
                (p, -r, abs(g)),
                count[turned, j],
                mass[turned, j],
                point[turned, j],
                here[1],
                rows[1],
                added[1],
                lost_above,
            )
        new.zero[i] = zero
        _store(atoms, rows, new, i)
        _find_bulk(new, i, 0)
        _find_bulk(new, i, 1)
        most_added, most_lost = max(most_added, added.max()), max(most_lost, lost_atoms + max(lost_below, lost_above))
        added[:] = 0
    return most_added, most_lost
