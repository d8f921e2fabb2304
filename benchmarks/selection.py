"""Wrong claims and rollouts of selection procedures, in 96 problems whose best alternative is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import stats

import jmdp
from benchmarks.report import Goal, Report, Row, markdown
from benchmarks.running import Parts
from benchmarks.selection_cells import DELTA, Cell, cells
from benchmarks.selection_classics import (
    ERROR,
    Runs,
    fully_sequential,
    nelson_matejcik,
    paired_t_test,
    rinott,
)
from benchmarks.selection_rules import CAP, eliminating, known_variances, without_elimination

FAMILY = 1e-3
"""Probability that any cell is said to exceed the allowed error rate if none does (Bonferroni over cells)."""

LARGE = 200
"""Alternatives from which a quarter of the runs is made, to save time."""

END_TO_END = (
    Cell(2, "slippage", "normal", True),
    Cell(10, "slippage", "skewed", True),
    Cell(10, "monotone", "rare loss", False),
    Cell(10, "ties", "normal", True),
    Cell(50, "one close", "normal", True),
)
"""Cells that are also decided by `jmdp.compare`; the last one has a goal."""

OURS, ORACLE, OURS_NEAR, KN = "jmdp", "known variances", "jmdp, δ", "Kim & Nelson, δ"
SELECTING = (OURS_NEAR, KN, "Nelson & Matejcik, δ", "Rinott, δ")
"""Procedures that are given δ and may select any alternative less than δ below the best."""


def procedures(cap: int) -> dict[str, Callable[[Cell, np.random.Generator, int], Runs]]:
    """All procedures by name, as functions of (cell, generator, runs)."""
    return {
        OURS: partial(eliminating, cap=cap),
        ORACLE: partial(known_variances, cap=cap),
        "no elimination": lambda cell, rng, runs: without_elimination(cell, rng, max(1, runs // 4), cap),
        "paired t-test, δ": paired_t_test,
        OURS_NEAR: partial(eliminating, cap=cap, indifference=DELTA),
        KN: fully_sequential,
        "Nelson & Matejcik, δ": nelson_matejcik,
        "Rinott, δ": rinott,
    }


@dataclass(frozen=True)
class Found:
    """Results of one procedure in one cell."""

    cell: Cell
    runs: int
    wrong: int
    undecided: int
    median: float  # rollouts
    most: float  # their 90% quantile

    @classmethod
    def of(cls, cell: Cell, found: Runs, selecting: bool) -> Found:
        """Count wrong claims: of a best alternative, or if `selecting` of one less than δ below the best."""
        named = found.chosen >= 0
        wrong = cell.shortfalls[found.chosen] >= DELTA * (1 - 1e-9)
        if not selecting:
            wrong |= cell.arrangement == "ties"  # no alternative is better than every other
        return cls(
            cell,
            len(named),
            int((named & wrong).sum()),
            int((~named).sum()),
            float(np.median(found.rollouts)),
            float(np.quantile(found.rollouts, 0.9)),
        )

    def text(self) -> str:
        """Wrong, undecided, median and 90% quantile of rollouts, as one entry of a table."""
        return f"{self.wrong} / {self.undecided} / {self.median:.0f} / {self.most:.0f}"


def compare(quick: bool, parts: Parts) -> Report:
    """Run all procedures in all cells, and `jmdp.compare` in five."""
    report = Report("selection", quick, seeds="number of the cell and of the procedure; jmdp.compare: 0 to 39")
    runs, cap, ends = (6, 300, 2) if quick else (400, CAP, 40)
    found = _all_cells(quick, runs, cap, parts)
    ours, oracle, near, kn = (found[name] for name in (OURS, ORACLE, OURS_NEAR, KN))
    decidable = [i for i, one in enumerate(ours) if one.cell.arrangement != "ties"]
    to_oracle = _ratios(ours, oracle)[decidable]
    real = parts.each(partial(_end_to_end, runs=ends, cap=cap), len(END_TO_END), processes=1 if quick else 0)
    report.goals += [
        Goal.at_most(f"{OURS}: cells with significantly more than 5% wrong claims", _exceeding(ours), 0),
        Goal.at_most(f"{OURS_NEAR}: cells with significantly more than 5% wrong selections", _exceeding(near), 0),
        Goal.at_most(f"{OURS} / {ORACLE}: rollouts, median of cells without ties", float(np.median(to_oracle)), 1.3),
        Goal.at_most(f"{OURS_NEAR} / {KN}: rollouts, median of all cells", float(np.median(_ratios(near, kn))), 1.5),
        Goal.at_most("jmdp.compare, k = 50, one close: rollouts, median", real[-1].median, 8000),
    ]
    report.rows += [_summary(name, list_, oracle, decidable) for name, list_ in found.items()]
    report.notes += [
        f"{len(ours)} cells, {runs} runs each; a quarter with {LARGE} alternatives, a quarter without elimination. "
        f"Budget: {cap} samples of each alternative. Significantly above: exact binomial test, family-wise level "
        f"{FAMILY:g} over the cells. Ties: claims that one alternative is best although two are equally good. "
        "Undecided: of the cells without ties. Rollouts relative to known variances: ratio of the medians in each cell "
        "without ties.",
        "Median rollouts of a run; medians over the six cells with these means:",
        markdown(_by_means(found)),
        f"`jmdp.compare` with a simulator of one step, {ends} runs, at most {cap} samples:",
        markdown([_ended(one) for one in real]),
    ]
    for i, one in enumerate(ours):
        row: Row = {"cell": one.cell.name}
        report.details.append(row | {name: several[i].text() for name, several in found.items()})
    return report


def _all_cells(quick: bool, runs: int, cap: int, parts: Parts) -> dict[str, list[Found]]:
    """Results of every procedure, by cell; computed in parallel, since nothing is timed."""
    job = partial(_one_cell, quick=quick, runs=runs, cap=cap)
    results = parts.each(job, len(list(cells(quick))), processes=1 if quick else 0)
    return {name: [result[name] for result in results] for name in procedures(cap)}


def _one_cell(number: int, quick: bool, runs: int, cap: int) -> dict[str, Found]:
    """Results of all procedures in one cell; each has its own random numbers."""
    cell = list(cells(quick))[number]
    runs = runs // 4 if cell.k >= LARGE else runs
    return {
        name: Found.of(cell, procedure(cell, np.random.default_rng([number, i]), runs), name in SELECTING)
        for i, (name, procedure) in enumerate(procedures(cap).items())
    }


def _end_to_end(number: int, runs: int, cap: int) -> Found:
    """Decide by `jmdp.compare`: every alternative is an action that ends the episode, with the cell's return."""
    cell = END_TO_END[number]
    simulator = jmdp.simulators.FunctionSimulator(
        reward=lambda s, a, u: float(u[a]),
        next_state=lambda s, a, u: 1,
        actions=cell.k,
        luck=lambda rng: cell.draw(rng, 1)[0],
        terminal=lambda s: s == 1,
        start=0,
    )
    chosen, rollouts = np.full(runs, -1), np.zeros(runs, dtype=int)
    for seed in range(runs):
        answer = jmdp.compare(simulator, policy=lambda s: 0, seed=seed, discount=0.9, max_samples=cap, progress=False)
        rollouts[seed] = answer.summary.samples.steps
        if answer.best is not None:
            chosen[seed] = int(answer.best)
    return Found.of(cell, Runs(chosen, rollouts), selecting=False)


def exceeds(wrong: int, runs: int, tests: int) -> bool:
    """True if the wrong claims show an error rate above ERROR, with Bonferroni's correction for this many tests."""
    return bool(stats.binom.sf(wrong - 1, runs, ERROR) < FAMILY / tests)


def _exceeding(found: list[Found]) -> int:
    return sum(exceeds(one.wrong, one.runs, len(found)) for one in found)


def _ratios(some: list[Found], others: list[Found]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([one.median / other.median for one, other in zip(some, others, strict=True)])


def _summary(name: str, found: list[Found], oracle: list[Found], decidable: list[int]) -> Row:
    """Row of a procedure, over all cells."""
    strict = [found[i] for i in decidable]
    tied = [one for one in found if one.cell.arrangement == "ties"]
    ratios = _ratios(found, oracle)[decidable]
    claims = "" if name in SELECTING else _percent(sum(one.wrong for one in tied), tied)
    return {
        "procedure": name,
        "wrong, %": _percent(sum(one.wrong for one in found), found),
        "worst cell, %": max(100 * one.wrong / one.runs for one in found),
        "cells significantly above 5%": _exceeding(found),
        "claims in ties, %": claims,
        "undecided, %": _percent(sum(one.undecided for one in strict), strict),
        "rollouts / known variances, median": float(np.median(ratios)),
        "smallest": float(ratios.min()),
        "largest": float(ratios.max()),
    }


def _percent(count: int, found: list[Found]) -> float:
    return 100 * count / sum(one.runs for one in found)


def _by_means(found: dict[str, list[Found]]) -> list[Row]:
    """Median rollouts by number of alternatives and means."""
    ours = found[OURS]
    groups = dict.fromkeys((one.cell.k, one.cell.arrangement) for one in ours)
    rows: list[Row] = []
    for k, arrangement in groups:
        here = [i for i, one in enumerate(ours) if (one.cell.k, one.cell.arrangement) == (k, arrangement)]
        row: Row = {"k": k, "means": arrangement}
        rows.append(row | {name: round(float(np.median([o[i].median for i in here]))) for name, o in found.items()})
    return rows


def _ended(found: Found) -> Row:
    return {
        "cell": found.cell.name,
        "wrong": found.wrong,
        "undecided": found.undecided,
        "rollouts, median": round(found.median),
        "90%": round(found.most),
    }
