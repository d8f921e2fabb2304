"""Distributions moved one step back, against the slow twin."""

from __future__ import annotations

import numpy as np
import pytest

from jmdp.methods.kernels import distributions
from jmdp.methods.kernels.tables import CellLayout, Cells, OutcomeLists
from reference import distributions as slow


@pytest.mark.parametrize("bits", [0, 1, 3, 6])
def test_cells_are_numbered_in_order_as_the_slow_twin_does(bits):
    rng = np.random.default_rng(bits)
    points = np.sort(np.concatenate([rng.normal(size=300) * 10.0 ** rng.integers(-12, 4, size=300), [0.0, 1e200]]))
    for per_width in (0.3, 7.0, 2.0**40):
        numbers = [distributions.cell(x, per_width, bits) for x in points]
        assert numbers == [slow.cell(x, per_width, bits) for x in points]
        assert numbers == sorted(numbers)
    assert distributions.cell(-1e-200, 1.0, bits) == -1
    assert distributions.cell(0.0, 1.0, bits) == distributions.cell(1e-200, 1.0, bits) == 0


@pytest.mark.parametrize("narrow", [1e-12, 0.3])
def test_equal_to_the_slow_twin(narrow):
    rng = np.random.default_rng(3)
    sources, cells, new_cells, bits = 4, 6, 9, 1
    table = np.zeros((4, sources, 1 + 2 * cells))
    for row in range(sources):
        mass = rng.dirichlet(np.ones(1 + 2 * cells)) * (rng.random(1 + 2 * cells) < 0.7)
        middle = np.sort(rng.normal(size=2 * cells))
        spread = np.where(np.arange(2 * cells) < cells, rng.random(2 * cells), 0.0)
        table[0, row] = mass
        table[1:, row, 1:] = middle - spread, middle + spread, middle
    rows, counts = 5, [1, 3, 8, 2, 5]
    starts = np.cumsum([0, *counts])
    total = int(starts[-1])
    chance, gain = rng.random(total), rng.choice([-1.0, 0.0, 0.5, 2.0], size=total)
    source, factor = rng.integers(0, sources, size=total), rng.choice([-0.9, 0.9], size=total)
    per_width, first_cell = np.full(rows, 2.0), np.full(rows, -4)
    out = np.empty((4, rows, 1 + 2 * new_cells))
    for first in range(2):
        outcomes = OutcomeLists(starts, chance, gain, source, factor)
        layout = CellLayout(per_width, first_cell, bits, narrow)
        distributions.step_back(outcomes, layout, Cells(*table), first, 2, Cells(*out))
    columns = [[tuple(table[:, row, c]) for c in range(1 + 2 * cells)] for row in range(sources)]
    for row in range(rows):
        at = slice(starts[row], starts[row + 1])
        outcomes = list(zip(chance[at], gain[at], source[at], factor[at], strict=True))
        right = slow.step_back(outcomes, columns, 2.0, -4, bits, narrow, new_cells)
        np.testing.assert_allclose(out[:, row].T, right, rtol=1e-13)
        np.testing.assert_allclose(out[0, row].sum(), sum(p * table[0, j].sum() for p, _, j, _ in outcomes), rtol=1e-12)
