"""Stopping rules with intervals that hold at all looks: jmdp's, also without elimination, and with known variances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from benchmarks.selection_cells import Cell
from benchmarks.selection_classics import ERROR, Runs
from jmdp.base.arrays import Floats
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.means import Sampling, looks, sequential_radius
from jmdp.statistics.selection import Conclusion, SelectionRule

CAP = 4000
"""Budget in samples of each alternative; exact ties are never decided, so they always use it up."""


def eliminating(cell: Cell, rng: np.random.Generator, runs: int, cap: int, indifference: float = 0.0) -> Runs:
    """Decide by the rule of `jmdp.compare`: eliminated alternatives are not simulated any more."""
    rule = SelectionRule(alternatives=cell.k, confidence=1 - ERROR, indifference=indifference)
    return Runs(*np.array([_eliminating(cell, rng, rule, cap) for _ in range(runs)]).T)


def _eliminating(cell: Cell, rng: np.random.Generator, rule: SelectionRule, cap: int) -> tuple[int, int]:
    """Return the chosen alternative, or −1, and the rollouts of one run."""
    active, returns, rollouts = tuple(range(cell.k)), np.empty((0, cell.k)), 0
    for n in looks_up_to(cap):
        new = cell.draw(rng, n - len(returns), np.array(active))
        returns, rollouts = np.concatenate([returns, new]), rollouts + new.size
        leader = int(returns.mean(axis=0).argmax())
        standing = rule.examine(active[leader], active, *_limits(returns, leader, rule.error))
        if standing.decision is not Conclusion.OPEN:
            return standing.reference, rollouts
        if len(standing.survivors) < len(active):
            returns = returns[:, np.isin(active, standing.survivors)]
            active = standing.survivors
    return -1, rollouts


def without_elimination(cell: Cell, rng: np.random.Generator, runs: int, cap: int) -> Runs:
    """Simulate all alternatives until all gaps to the leader are positive: the rule of earlier versions."""
    found = [_without_elimination(cell, rng, cap) for _ in range(runs)]
    return Runs(*np.array(found).T)


def _without_elimination(cell: Cell, rng: np.random.Generator, cap: int) -> tuple[int, int]:
    returns, sums, filled = np.empty((cap, cell.k)), np.zeros(cell.k), 0
    for n in looks_up_to(cap):
        new = cell.draw(rng, n - filled)
        returns[filled:n], filled = new, n
        sums += new.sum(axis=0)
        first, second = np.argsort(-sums)[:2]
        # The closest rival alone usually shows that the question is open; this saves most of the time.
        if _limits(returns[:n, [first, second]], 0, ERROR / (cell.k - 1))[0][1] <= 0:
            continue
        low, _ = _limits(returns[:n], int(first), ERROR / (cell.k - 1))
        if (np.delete(low, first) > 0).all():
            return int(first), n * cell.k
    return -1, filled * cell.k


def _limits(returns: Floats, leader: int, error: float) -> tuple[Floats, Floats]:
    """Lower and upper limits [k] of the mean gaps of the leader."""
    gaps = returns[:, [leader]] - returns
    below, above = Sampling().mean_errors(gaps, error)
    return gaps.mean(axis=0) - below, gaps.mean(axis=0) + above


def known_variances(cell: Cell, rng: np.random.Generator, runs: int, cap: int) -> Runs:
    """Eliminate with the same looks, error budget and radius, but true standard deviations of the gaps, nothing else.

    Vectorised over runs: only sums of samples are needed, which are drawn from their exact distribution.
    """
    sums, keep = np.zeros((runs, cell.k)), np.ones((runs, cell.k), dtype=bool)
    chosen, rollouts, before = np.full(runs, -1), np.zeros(runs, dtype=int), 0
    for n in looks_up_to(cap):
        open_ = chosen < 0
        sums += cell.sums(rng, np.full((runs, 1), n - before))
        rollouts += np.where(open_, (n - before) * keep.sum(axis=1), 0)
        before = n
        means = np.where(keep, sums / n, -np.inf)
        leader = means.argmax(axis=1)
        std = np.sqrt(cell.variances + cell.variances[leader][:, None])
        radius = sequential_radius(n, ERROR / (cell.k - 1)) / math.sqrt(n)
        out = means.max(axis=1)[:, None] - means > radius * std
        keep &= np.where(open_[:, None], ~out, True)
        done = open_ & (keep.sum(axis=1) == 1)
        chosen[done] = leader[done]
    return Runs(chosen, rollouts)


def looks_up_to(cap: int) -> Iterator[int]:
    """Sample sizes at which `jmdp.compare` may decide; the last one is the budget."""
    enough = math.log(1 / ERROR) / Assumptions().rarest
    yield from itertools.takewhile(lambda n: n < cap, (n for n in looks() if n >= enough))
    yield cap
