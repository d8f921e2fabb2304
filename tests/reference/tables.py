"""The record of a change of a symmetric table, written the slow way: group after group of eight rows."""

from __future__ import annotations

import numpy as np


def lower_triangle(table):
    """Rows of each group of eight up to the group's last column, one after another; 0 beyond the table."""
    size = len(table)
    parts = []
    for top in range(0, size, 8):
        block = np.zeros((8, top + 8), table.dtype)
        part = table[top : top + 8, : top + 8]
        block[: part.shape[0], : part.shape[1]] = part
        parts.append(block.ravel())
    return np.concatenate(parts)


def full_table(record, size):
    """The symmetric table that a record stands for."""
    table, at = np.zeros((size, size), record.dtype), 0
    for top in range(0, size, 8):
        block = record[at : at + 8 * (top + 8)].reshape(8, top + 8)
        at += block.size
        rows = min(8, size - top)
        table[top : top + rows, : top + rows] = block[:rows, : top + rows]
        table[: top + rows, top : top + rows] = block[:rows, : top + rows].T
    return table
