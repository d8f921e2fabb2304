"""A slow twin of `kernels.distributions`, with dictionaries and Python's own floats."""

from __future__ import annotations

import math

OCTAVES = 20


def cell(x, per_width, bits):
    """Number of the cell of x, by counting octaves down from 2^bits widths."""
    steps, octave = abs(x) * per_width, 2**bits
    if steps >= octave:
        number = (OCTAVES - 1) * octave + math.floor(min(steps, 1e15))
    elif steps == 0:
        number = 0
    else:
        mantissa, exponent = math.frexp(steps)  # ½ ≤ mantissa < 1
        down = bits - (exponent - 1)  # octaves below 2^bits in which steps begins
        number = max((OCTAVES - down) * octave + math.floor((2 * mantissa - 1) * octave), 0)
    return number if x >= 0 else -1 - number


def layout(low, high, cells, bits):
    """Cells per unit, numbers of the first and last cell between low and high, and wider cells on either side."""
    beside = OCTAVES * 2 ** (bits - 2) if bits >= 2 else 0
    between = cells - 2 * beside - 2
    width = max(high - low, 2e-15 * between * max(abs(low), abs(high)), 2.0**-900)
    for linear in (between, max(between - 2 * OCTAVES * 2**bits, 1)):
        per_width = linear / width
        first, last = cell(low, per_width, bits), cell(high, per_width, bits)
        if last - first <= between:
            break
    return per_width, first, last, beside


def place(x, where, cells, bits):
    """Cell of a row, 0 … cells − 1. Cells on either side double every 2^(bits − 2), and none has both signs."""
    per_width, first, last, beside = where
    number = cell(x, per_width, bits)
    if first <= number <= last:
        return min(beside + number - first, cells - 1)
    distance = first - number if number < first else number - last
    steps = 1
    if beside:
        parts = 2 ** (bits - 2)
        steps, octave = distance, math.frexp(distance)[1] - (bits - 2) - 1  # octaves beyond one by one
        if octave > 0:
            steps = parts * octave + math.floor(distance / 2**octave)
    if number < first:
        return max(beside - steps - (1 if x < 0 <= first else 0), 0)
    return min(beside + last - first + steps + (1 if last < 0 <= x else 0), cells - 1)


class Row:
    """One distribution: mass at zero, atoms [mass, low, high] by cell, and lower points of G and −G by cell."""

    def __init__(self, bulk, bits, narrow, cells):
        self.zero, self.atoms, self.lists = 0.0, {}, ({}, {})
        self.layouts = [layout(low, high, cells, bits) for low, high in bulk]
        self.bits, self.narrow, self.cells = bits, narrow, cells

    def add_point(self, side, m, x):
        at = place(x, self.layouts[side], self.cells, self.bits)
        mass, point = self.lists[side].get(at, (0.0, math.inf))
        self.lists[side][at] = mass + m, min(point, x)

    def add_atom(self, m, least, most):
        if most - least <= self.narrow:
            at = place(least, self.layouts[0], self.cells, self.bits)
            mass, low, high = self.atoms.get(at, (0.0, math.inf, -math.inf))
            if mass == 0 or max(high, most) - min(low, least) <= self.narrow:
                self.atoms[at] = mass + m, min(low, least), max(high, most)
                return
            if m > mass:
                self.atoms[at], (m, least, most) = (m, least, most), (mass, low, high)
        self.add_point(0, m, least)
        self.add_point(1, m, -most)


def step_back(outcomes, distributions, bulk, bits, narrow, cells):
    """One row: outcomes (chance, gain, source, factor); distributions[source] is (zero, atoms, (list, list))."""
    row = Row(bulk, bits, narrow, cells)
    for chance, gain, source, factor in outcomes:
        zero, atoms, lists = distributions[source]
        if gain == 0:
            row.zero += chance * zero
        elif chance * zero >= 1e-17:
            slip = 2.0**-51 * abs(gain) + 1e-300
            row.add_atom(chance * zero, gain - slip, gain + slip)
        for mass, low, high in atoms:
            if mass * chance >= 1e-17:
                least, most = sorted((gain + factor * low, gain + factor * high))
                slip = 2.0**-51 * (abs(gain) + max(abs(least), abs(most))) + 1e-300
                row.add_atom(mass * chance, least - slip, most + slip)
        for side, sign in enumerate((1, -1)):
            for mass, point in lists[side if factor >= 0 else 1 - side]:
                if mass * chance >= 1e-17:
                    x = sign * gain + abs(factor) * point
                    row.add_point(side, mass * chance, x - (2.0**-51 * abs(x) + (2.0**-51 * abs(gain) + 1e-300)))
    return row.zero, [row.atoms[at] for at in sorted(row.atoms)], [[one[at] for at in sorted(one)] for one in row.lists]
