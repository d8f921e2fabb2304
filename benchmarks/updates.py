"""Updates of `Incremental` compared with a bare loop that draws as many random numbers and accesses the same cells."""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit

import jmdp
from benchmarks.interleave import interleave
from benchmarks.report import Goal, Report
from jmdp.base.arrays import Floats, Integers
from jmdp.methods.incremental import BlockSampling, PolynomialSteps
from jmdp.methods.incremental.coordinate_sampling import MomentCells, TablePairs
from jmdp.methods.incremental.stochastic_approximation import Segment, StochasticApproximation, step_table
from jmdp.methods.kernels.tables import MEAN, SQUARE
from jmdp.methods.shared.return_range import RewardUnits
from jmdp.models.coupling import Coupling

_DRAWS = 5
"""Random numbers per update: one for the coordinate, two scenarios, two actions of the policy."""


def compare(quick: bool) -> Report:
    """Compare on tables that fit in the cache, barely fit, and are far larger; all four blocks equally often."""
    report = Report("updates", quick, seeds="0")
    count = 50_000 if quick else 500_000
    shop = jmdp.worlds.inventory()
    problems = {"inventory of 11 states, 6 actions": (shop.model, shop.policies["uniform"])}
    for side in (3,) if quick else (5, 10, 20, 30):
        grid = jmdp.worlds.windy_gridworld(side, side)
        problems[f"windy {side}×{side}"] = grid.model, grid.policies["careless"]
    for name, (model, policy) in problems.items():
        _compare(report, name, model, policy, jmdp.Local(), count)
    report.notes.append(
        "Both run on one core. The bare loop takes the cells from precomputed lists, adds 1 to the four numbers of the "
        f"cell, reads those of the next coordinates, and calls NumPy's generator {_DRAWS} times. Ours chooses the "
        "coordinate, looks up the outcome, computes the update, and draws random numbers in batches."
    )
    return report


def _compare(
    report: Report, problem: str, model: jmdp.TabularJMDP, policy: jmdp.TabularPolicy, coupling: Coupling, count: int
) -> None:
    cells = MomentCells(model, coupling)
    source = TablePairs(model, policy, coupling, cells, RewardUnits.of(model).reward)
    rule, steps = BlockSampling(), step_table(PolynomialSteps())
    estimates = StochasticApproximation(cells, source, rule, steps, model.discount, True, 1000 * count, 0)
    segment = Segment(0, count, 0, False, False, False)
    rng = np.random.Generator(np.random.SFC64(0))
    one, other = rule.draw(rng, count, cells, source, estimates.memory)
    ahead = np.maximum(source.draw(rng, one, other)[1], 0)
    touched = _cells(cells, one, other), _next_cells(cells, other, ahead), ahead[0], ahead[1]
    table, out = np.zeros((cells.size, 4)), np.zeros(1)

    def learn() -> None:
        estimates.done[:] = 0
        estimates.advance(segment)

    timings = interleave({"Incremental": learn, "bare loop": partial(_plain_loop, rng, table, *touched, out)})
    rate, ratio = count / timings.best("Incremental") / 1e6, timings.ratio("bare loop", "Incremental")
    report.rows.append(
        {
            "problem": problem,
            "coordinates": int(cells.block_sizes.sum()),
            "million updates per second": rate,
            "bare loop": count / timings.best("bare loop") / 1e6,
            "throughput / bare loop": ratio.best,
            "range over rounds": ratio.spread(),
        }
    )
    report.goals += [
        Goal.at_least(f"{problem}: million updates per second", rate, 5.0),
        Goal.at_least(f"{problem}: throughput / bare loop", ratio.best, 0.5),
    ]


def _cells(cells: MomentCells, one: Integers, other: Integers) -> Integers:
    products = cells.product(one, np.maximum(other, 0))
    return np.where(other == MEAN, one, np.where(other == SQUARE, cells.coordinates + one, products))


def _next_cells(cells: MomentCells, other: Integers, ahead: Integers) -> Integers:
    one, second = ahead
    squares = cells.coordinates + one
    products = np.where(one == second, squares, cells.product(one, second))
    return np.where(other == MEAN, one, np.where(other == SQUARE, squares, products))


@njit(nogil=True)
def _plain_loop(
    rng: np.random.Generator,
    table: Floats,
    cell: Integers,
    next_cell: Integers,
    mean: Integers,
    other_mean: Integers,
    out: Floats,
) -> None:
    total = 0.0
    for k in range(cell.size):
        for _ in range(_DRAWS):
            total += rng.random()
        total += table[next_cell[k], 0] + table[next_cell[k], 3] + table[mean[k], 0] + table[other_mean[k], 0]
        for i in range(4):
            table[cell[k], i] += 1.0
    out[0] = total
