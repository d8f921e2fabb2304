"""A slow twin of `kernels.distributions`, with lists and Python's own floats."""

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


def step_back(outcomes, distributions, per_width, first_cell, bits, narrow, cells):
    """One row: outcomes (chance, gain, source, factor); distributions[source] has columns [mass, low, high, mean]."""
    row = [[0.0, math.inf, -math.inf, 0.0] for _ in range(1 + 2 * cells)]
    for chance, gain, source, factor in outcomes:
        for c, (mass, low, high, mean) in enumerate(distributions[source]):
            m = mass * chance
            if mass == 0 or m < 1e-17:
                continue
            if c == 0 and gain == 0:
                row[0][0] += m
                continue
            if c == 0:
                x = least = most = gain
            else:
                x = gain + factor * mean
                ends = factor * low, factor * high
                least, most = gain + min(ends), gain + max(ends)
            slip = 2.0**-51 * (abs(gain) + max(abs(least), abs(most))) + 1e-300
            piece = [m, least - slip, most + slip, m * x]
            at = min(max(cell(x, per_width, bits) - first_cell, 0), cells - 1) + 1
            if piece[2] - piece[1] <= narrow:
                atom = row[at + cells]
                joined = max(piece[2], atom[2]) - min(piece[1], atom[1])
                if atom[0] == 0 or joined <= narrow:
                    add(atom, piece)
                    continue
                if m > atom[0]:
                    row[at + cells], piece = piece, atom
                    piece[3] = piece[0] * (piece[3] / piece[0])
            add(row[at], piece)
    for column in row[1:]:
        if column[0] > 0:
            column[3] /= column[0]
    return row


def add(column, piece):
    column[0] += piece[0]
    column[1], column[2] = min(column[1], piece[1]), max(column[2], piece[2])
    column[3] += piece[3]
