"""Distributions of all returns and gaps, from the bounds that sweeps have computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.methods.exact_distribution.steps import DistributionSteps
from jmdp.methods.exact_distribution.ties import Ties
from jmdp.methods.exact_pairs.policy_pairs import PolicyRanges
from jmdp.methods.kernels.tables import Cells
from jmdp.methods.shared.return_range import TableRange
from jmdp.results.gaps.distribution import Distribution, GapDistribution

Gap = tuple[int, int, int]
"""A state and two of its alternatives."""


@dataclass(frozen=True, eq=False)
class DistributionTable:
    """Distributions, in cells, of all returns and gaps of the given actions or policies."""

    steps: DistributionSteps
    cells: Cells  # of the rows of steps.given, on rewards of size 1
    slack: float
    ties: Ties
    ranges: TableRange | PolicyRanges
    mean: Floats  # [S, A] or [S, P]
    solve_again: Callable[[Sequence[Gap], float], DistributionTable]  # for some gaps, to this tolerance

    def refined(self, gaps: Sequence[Gap], tolerance: float) -> DistributionTable:
        """Distributions of these gaps only, to another tolerance."""
        some = [gap for gap in gaps if not self.ranges.is_over(gap[0])]
        return self.solve_again(some, tolerance) if some else self

    def return_distribution(self, s: int, a: int) -> Distribution:
        """The distribution of Z(s, a)."""
        if self.ranges.is_over(s):
            return GapDistribution.zero()
        masses = self._masses(self.steps.return_row(s, a), forward=True)
        return Distribution(*_with_mean(*masses, float(self.mean[s, a])), self.slack, self.ranges.of(s, a))

    def gap_distribution(self, s: int, a: int, b: int) -> GapDistribution:
        """The distribution of Z(s, a) − Z(s, b)."""
        if self.ranges.is_over(s):
            return GapDistribution.zero()
        row, support = self.steps.gap_row(s, min(a, b), max(a, b)), self.ranges.of_gap(s, a, b)
        at = row - self.steps.first_gap
        tied = Interval(float(self.ties.least[at]), float(self.ties.most[at]))
        if tied.low == 1:
            return GapDistribution.zero()
        masses = _with_ties(*self._masses(row, forward=a < b), tied.low)
        mean = float(self.mean[s, a] - self.mean[s, b])
        return GapDistribution(*_with_mean(*masses, mean), self.slack, support, tied=tied)

    def _masses(self, row: int, *, forward: bool) -> tuple[Floats, Floats, Floats]:
        """Lower ends, upper ends and masses of one distribution."""
        atoms, bounds = self.cells.atoms, self.cells.bounds
        (mass, point), (upper_mass, upper_point) = (
            (bounds.mass[k, row, : bounds.used[k, row]], bounds.point[k, row, : bounds.used[k, row]]) for k in (0, 1)
        )
        # The parts of both lists that have the same rank are the ends of one interval. The lists may differ in masses
        # that were too small to keep.
        ranks, upper_ranks = np.cumsum(mass), np.cumsum(upper_mass[::-1])
        both = min(ranks[-1], upper_ranks[-1]) if ranks.size and upper_ranks.size else 0.0
        ends = np.setdiff1d(np.minimum(np.union1d(ranks, upper_ranks), both), [0.0])
        low, high = point[np.searchsorted(ranks, ends)], -upper_point[::-1][np.searchsorted(upper_ranks, ends)]
        there = slice(int(atoms.used[row]))
        low = np.concatenate([atoms.low[row, there], low])
        high = np.maximum(np.concatenate([atoms.high[row, there], high]), low)
        masses = np.concatenate([atoms.mass[row, there], np.diff(ends, prepend=0.0)])
        if not forward:
            low, high = 0.0 - high, 0.0 - low  # subtracted from 0.0 to avoid −0.0
        low, high = self.steps.scale.restore(low), self.steps.scale.restore(high)
        hidden = np.where(np.abs([low, high]) < 2.0**-1020, 2.0**-1073, 0.0)  # restoring the scale may underflow
        low, high = low - hidden[0], high + hidden[1]
        zero = self.cells.zero[row]
        if zero == 0.0:
            return low, high, masses
        return np.append(low, 0.0), np.append(high, 0.0), np.append(masses, zero)


def _with_mean(low: Floats, high: Floats, mass: Floats, mean: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Ends, point estimates and masses: estimates divide all intervals in one ratio, so that they have this mean."""
    width = high - low
    middle = low + 0.5 * width
    wide = width > 2.0**-20 * width.max(initial=0.0)  # not those that are known up to rounding
    left = mean - float(mass[~wide] @ middle[~wide])
    share = (left - float(mass[wide] @ low[wide])) / float(mass[wide] @ width[wide] or 1.0)
    value = np.where(wide, low + min(max(share, 0.0), 1.0) * width, middle)
    return low, high, np.clip(value, low, high), mass


def _with_ties(low: Floats, high: Floats, mass: Floats, tied: float) -> tuple[Floats, Floats, Floats]:
    """Move to 0 the mass that is certainly tied, out of intervals that contain 0: only these can contain a tie.

    The share of each interval is unknown. Lower ends lose mass where they are highest and upper ends where they are
    lowest, so that the distributions of the lower and of the upper ends still enclose the true one.
    """
    at_zero = (low == 0) & (high == 0)
    astride = (low <= 0) & (high >= 0) & ~at_zero
    moved = min(tied - float(mass[at_zero].sum()), float(mass[astride].sum()))
    if moved <= 0:
        return low, high, mass
    (lower, low_sums), (upper, high_sums) = (_without(moved, ends[astride], mass[astride]) for ends in (-low, high))
    sums = np.setdiff1d(np.union1d(low_sums, high_sums), [0.0])
    left = np.diff(sums, prepend=0.0)
    new_low, new_high = -lower[np.searchsorted(low_sums, sums)], upper[np.searchsorted(high_sums, sums)]
    others = ~astride
    return (
        np.concatenate([low[others], new_low, [0.0]]),
        np.concatenate([high[others], new_high, [0.0]]),
        np.concatenate([mass[others], left, [moved]]),
    )


def _without(moved: float, ends: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Ends, from the outermost inwards, and cumulative masses after `moved` is removed from the innermost ones."""
    order = np.argsort(-ends, kind="stable")
    return ends[order], np.clip(np.cumsum(mass[order]), 0.0, max(math.fsum(mass) - moved, 0.0))
