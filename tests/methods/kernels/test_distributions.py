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


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("bulk", [(-1.0, 2.0), (0.5, 0.75), (-3.0, -2.0), (0.0, 0.0), (1e-9, 1e-9)])
def test_places_in_a_row_are_those_of_the_slow_twin(bits, bulk):
    """They ascend, stay within the row, and are dense in the bulk."""
    rng, cells = np.random.default_rng(bits), 80 * 2**bits
    points = np.sort(np.concatenate([rng.normal(size=400) * 10.0 ** rng.integers(-9, 9, size=400), bulk, [0.0]]))
    where = distributions.row_layout(*bulk, cells, bits)
    assert where == slow.layout(*bulk, cells, bits)
    places = [distributions.place(x, where, cells, bits) for x in points]
    assert places == [slow.place(x, where, cells, bits) for x in points]
    assert places == sorted(places)
    assert 0 <= places[0] < places[-1] < cells
    if bits >= 2 and bulk[0] < bulk[1]:
        step = 2 * (bulk[1] - bulk[0]) / (cells / 4)
        inside = np.arange(bulk[0], bulk[1], step)
        assert len({distributions.place(x, where, cells, bits) for x in inside}) == inside.size


@pytest.mark.parametrize("narrow", [1e-12, 0.3])
@pytest.mark.parametrize(("cells", "bits"), [(64, 0), (340, 2)])
def test_equal_to_the_slow_twin(narrow, cells, bits):
    rng = np.random.default_rng(3)
    sources, columns, rows, counts = 4, 40, 5, [1, 3, 8, 2, 5]
    table = Cells.empty(sources, columns)
    for j in range(sources):
        table.zero[j] = rng.random() * 0.1
        a, *both = table.atoms.used[j], *table.bounds.used[:, j] = rng.integers(1, columns, size=3)
        table.atoms.mass[j, :a] = rng.random(a) / columns * (rng.random(a) < 0.9)
        table.atoms.low[j, :a] = np.sort(rng.normal(size=a))
        table.atoms.high[j, :a] = table.atoms.low[j, :a] + 1e-14
        for side, count in enumerate(both):
            table.bounds.mass[side, j, :count] = rng.random(count) / columns
            table.bounds.point[side, j, :count] = np.sort(rng.normal(size=count))
    starts = np.cumsum([0, *counts])
    total = int(starts[-1])
    chance, gain = rng.random(total), rng.choice([-1.0, 0.0, 0.5, 2.0], size=total)
    source, factor = rng.integers(0, sources, size=total), rng.choice([-0.9, 0.9], size=total)
    bulk = np.broadcast_to(np.array([[-1.0, 1.5], [-2.0, 1.0]])[:, :, None], (2, 2, rows)).copy()
    out = Cells.empty(rows, cells)
    for first in range(2):
        outcomes = OutcomeLists(starts, chance, gain, source, factor)
        layout = CellLayout(bulk, cells, bits, narrow)
        distributions.step_back(outcomes, layout, table, first, 2, out)
    for row in range(rows):
        at = slice(starts[row], starts[row + 1])
        outcomes = list(zip(chance[at], gain[at], source[at], factor[at], strict=True))
        zero, atoms, lists = slow.step_back(
            outcomes, [listed(table, j) for j in range(sources)], bulk[:, :, row].tolist(), bits, narrow, cells
        )
        found_zero, found_atoms, found_lists = listed(out, row)
        assert found_zero == pytest.approx(zero, rel=1e-13)
        np.testing.assert_allclose(found_atoms, atoms, rtol=1e-13)
        for mine, right in zip(found_lists, lists, strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-13)
        kept = zero + sum(mass for mass, _, _ in atoms)
        for side in range(2):  # no mass is lost
            own = sum(p * sum(mass for mass, _ in listed(table, j)[2][side if g > 0 else 1 - side]) +
                      p * (table.zero[j] + table.atoms.mass[j].sum()) for p, _, j, g in outcomes)  # fmt: skip
            assert kept + sum(mass for mass, _ in lists[side]) == pytest.approx(own, rel=1e-12)


def listed(cells, row):
    """Row of a table as (zero, atoms, (list, list))."""
    atoms, bounds = cells.atoms, cells.bounds
    used = slice(atoms.used[row])
    lists = [
        list(zip(bounds.mass[k, row, : bounds.used[k, row]], bounds.point[k, row, : bounds.used[k, row]], strict=True))
        for k in range(2)
    ]
    return (
        cells.zero[row],
        list(zip(atoms.mass[row, used], atoms.low[row, used], atoms.high[row, used], strict=True)),
        lists,
    )


def test_the_bulk_is_most_of_the_mass():
    """Atoms and lists are counted together; 0.05% is left out on either side, and the mass at zero."""
    table = Cells.empty(1, 1)
    table.zero[0] = 1.0
    gains = np.arange(-3.0, 1001.0)
    gains = gains[gains != 0]
    chance = np.where(gains == 1000.0, 1e-4, 1 / gains.size)
    outcomes = OutcomeLists(
        np.array([0, gains.size]), chance, gains, np.zeros(gains.size, np.int64), np.ones(gains.size)
    )
    out = Cells.empty(1, 4096)
    bulk = np.array([[[-3.0], [1000.0]], [[-1000.0], [3.0]]])
    distributions.step_back(outcomes, CellLayout(bulk, 4096, 5, 1e-9), table, 0, 1, out)
    np.testing.assert_allclose(out.bulk[:, :, 0], [[-3.0, 999.0], [-999.0, 3.0]])
