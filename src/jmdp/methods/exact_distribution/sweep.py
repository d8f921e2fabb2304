"""Sweeps over the distributions of all policy-drawn pairs, and the step from these to the requested ones.

Distributions of all returns and gaps, from the bounds that sweeps have computed.

Distributions over a finite horizon: one backward pass over all steps, for any number of cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Booleans, Floats, Integers
from jmdp.base.interval import Interval
from jmdp.base.machine import Threads
from jmdp.methods.exact_distribution.steps import DistributionSteps, Steps
from jmdp.methods.exact_distribution.ties import Ties, horizon_tie_chances, tie_chances
from jmdp.methods.kernels.tables import CellLayout, Cells, OutcomeLists
from jmdp.methods.shared.pair_operator import row_error_units
from jmdp.methods.shared.policy_chain import break_point_units
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.parts import Distributions, ReturnRanges

Gap = tuple[int, int, int]
"""A state and two of its alternatives."""


@dataclass(frozen=True, eq=False)
class DistributionTable(Distributions):
    """Distributions, in cells, of all returns and gaps of the given actions or policies."""

    steps: DistributionSteps
    cells: Cells  # of the rows of steps.given, on rewards of size 1
    slack: float
    ties: Ties
    ranges: ReturnRanges
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


CELL_BYTES = 56.0
"""An atom, and a mass and its point in each of the two lists."""

ATOM = 2.0**-43
"""A mass whose interval is at most this wide, over (1 − γ)² and on rewards of size 1, is treated as an atom."""

_RARE = 5e-4
"""Probability of the outcomes of a row for which it has no narrow cells."""

_RANGE_SWEEPS = 60
"""Sweeps after which the ranges of returns are accurate enough to lay out cells."""


class Widths(NamedTuple):
    """Largest widths of the distributions of given actions, as defined in `ExactDistribution`."""

    stated: float  # of the stated intervals
    beyond_rounding: float  # without atoms that rounding keeps wide, and without the rounding of masses


class DistributionSweep:
    """Distributions of all pairs of states whose actions are drawn from the policy, and their sweeps."""

    asked: Booleans | Integers | slice = slice(None)  # rows of steps.given whose widths count

    def __init__(
        self,
        model: TabularJMDP,
        policy: TabularPolicy,
        coupling: Coupling,
        steps: DistributionSteps,
        threads: Threads,
    ) -> None:
        self.steps, self._threads = steps, threads
        low, high = self._drawn_range = _ranges(steps.drawn, model.discount)
        breaks = break_point_units(policy, coupling)
        self._units = chance_units(model, policy, coupling, steps)
        self.ties = tie_chances(steps, low, high, self._units)
        low[self.ties.always] = high[self.ties.always] = 0.0
        self._given_range = one_step(steps.given, low, high)
        self._narrow = ATOM / (1 - model.discount) ** 2
        rows = low.size
        self._distributions, self._spare, self._cells = Cells.empty(rows, 1), Cells.empty(rows, 1), 1
        self._distributions.zero[:] = self.ties.always  # like (end, end), the gap of merged branches
        bounds = self._distributions.bounds
        bounds.used[:] = bounds.mass[:, :, 0] = ~self.ties.always
        bounds.point[:, :, 0] = self._distributions.bulk[:, 0] = self._distributions.bulk[:, 1] = low, -high
        # Bound on the error of the mass of any set of cells. It includes the sweeps over ranges, each of which may
        # have missed an action whose break points coincide.
        self._slack = 2.0**-1000 + (_RANGE_SWEEPS + 1) * breaks * ROUNDOFF

    def __call__(self, cells: int) -> None:
        """Sweep once, into distributions of this many cells."""
        if self._spare.atoms.mass.shape[1] != cells:
            self._spare = Cells.empty(self._distributions.zero.size, cells)
        self._slack += self._step(self.steps.drawn, self._drawn_range, cells, self._spare)
        self._distributions, self._spare, self._cells = self._spare, self._distributions, cells

    def ahead(self) -> tuple[Cells, float]:
        """Distributions of returns and gaps of given actions, and the error bound of the mass of any set of cells."""
        result = Cells.empty(self.steps.given.starts.size - 1, self._cells)
        return result, self._slack + self._step(self.steps.given, self._given_range, self._cells, result)

    def widths(self) -> Widths:
        """Return the largest width over all distributions.

        For a gap, this is the mass that cannot be assigned to below, at or above 0; for any distribution, the mean
        width of its intervals as a fraction of its range, or of its size if it is a single value up to rounding.
        """
        distributions, slack = self.ahead()
        low, high = self._given_range
        size = np.maximum(np.maximum(np.abs(low), np.abs(high)), self._narrow)
        span = np.where(high - low > self._narrow, high - low, size)
        between, atoms = _mean_widths(distributions)
        gaps = distributions.rows_from(self.steps.first_gap)
        (mass, point), (atom, least, most) = gaps.bounds_in_use(), gaps.atoms_in_use()
        # Mass that is at most 0 in the lower list, and not below 0 in the upper one, whose points are negated.
        astride = (mass[0] * (point[0] <= 0)).sum(axis=1) - (mass[1] * (point[1] > 0)).sum(axis=1)
        rounded = (atom * ((least <= 0) & (most >= 0))).sum(axis=1)
        tied = self.ties.least
        open_mass = np.where(tied < 1, astride + rounded - np.maximum(tied - gaps.zero, 0.0), 0.0)
        masses = 1 + gaps.atoms.used + gaps.bounds.used.max(axis=0)
        rounding = np.where(tied < 1, 4 * (slack + (masses + 4) * 2 * ROUNDOFF), 0.0)
        undecided = np.maximum(open_mass, 0.0) + rounding
        known = np.zeros(self.steps.first_gap)  # of returns, there is nothing to decide
        stated = np.maximum(np.append(known, undecided), (between + atoms) / span)
        beyond = np.maximum(np.append(known, open_mass - rounded), between / span)
        return Widths(float(stated[self.asked].max(initial=0.0)), float(beyond[self.asked].max(initial=0.0)))

    def spread(self) -> float:
        """Return the largest mean width of an interval, over all distributions."""
        between, atoms = _mean_widths(self._distributions)
        return float((between + atoms).max())

    def _step(self, steps: Steps, limits: tuple[Floats, Floats], cells: int, out: Cells) -> float:
        """Fill `out`, and return the error that this step can add to any mass."""
        from jmdp.methods.kernels.distributions import OCTAVES, step_back

        bits = max(int(math.log2(cells / (4 * OCTAVES))), 0)  # at most half of the cells are near zero
        low, high = limits
        bulk = _bulk_ahead(steps, self._distributions.bulk) if bits >= 2 else np.array([[low, high], [-high, -low]])
        outcomes = OutcomeLists(steps.starts, steps.chance, steps.gain, steps.source, steps.factor)
        layout = CellLayout(bulk, cells, bits, self._narrow)
        parts = self._threads.run(step_back, (outcomes, layout, self._distributions), (out,))
        added, lost = zip(*parts, strict=True)
        # A mass may be moved once more, from the atom of a cell to the lists.
        units = self._units + 1 + 2 * max(*added, steps.most_outcomes)
        return float((units * ROUNDOFF + max(lost)) * (1 + 2.0**-20))


def chance_units(model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, steps: DistributionSteps) -> float:
    """Error of the probabilities of a row, in units of rounding.

    Every probability is a product of entries of stored rows, summed over outcomes that were joined.
    """
    return 2 * row_error_units(model, policy) + 3 * steps.most_merged + break_point_units(policy, coupling) + 8


def _mean_widths(distributions: Cells) -> tuple[Floats, Floats]:
    """Mean distance between the two lists of each distribution [rows], and mean width of its atoms."""
    (mass, point), (atom, low, high) = distributions.bounds_in_use(), distributions.atoms_in_use()
    between = -np.einsum("kic,kic->i", mass, point)
    return np.maximum(between, 0.0), np.einsum("ic,ic->i", atom, high - low)


def _ranges(steps: Steps, discount: float) -> tuple[Floats, Floats]:
    """Outer bounds on the range of the gap of each policy-drawn pair."""
    rows = steps.starts.size - 1
    bound = 2 / (1 - discount) * (1 + 2.0**-40)
    low, high = np.full(rows, -bound), np.full(rows, bound)
    low[-1] = high[-1] = 0.0
    for _ in range(_RANGE_SWEEPS):
        low, high = one_step(steps, low, high)
        low[-1] = high[-1] = 0.0
    return low, high


def one_step(steps: Steps, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Ranges one step before those of the successor pairs, rounded outwards."""
    one, other = steps.factor * low[steps.source], steps.factor * high[steps.source]
    rounding = 2.0**-50 * (np.abs(steps.gain) + np.maximum(np.abs(one), np.abs(other)))
    least, most = steps.gain + np.minimum(one, other) - rounding, steps.gain + np.maximum(one, other) + rounding
    return np.minimum.reduceat(least, steps.starts[:-1]), np.maximum.reduceat(most, steps.starts[:-1])


def _bulk_ahead(steps: Steps, bulk: Floats) -> Floats:
    """Where most of the mass lies one step before, [2, 2, rows]; the rarest outcomes are not counted."""
    counts, starts = np.diff(steps.starts), steps.starts[:-1]
    likely = steps.chance * np.repeat(counts, counts) >= _RARE
    turned = (steps.factor < 0).astype(np.int64)
    found = np.empty((2, 2, counts.size))
    for side, gain in enumerate((steps.gain, -steps.gain)):
        low, high = (gain + np.abs(steps.factor) * bulk[side ^ turned, end, steps.source] for end in range(2))
        found[side, 0] = np.minimum.reduceat(np.where(likely, low, math.inf), starts)
        found[side, 1] = np.maximum.reduceat(np.where(likely, high, -math.inf), starts)
    return found


_MOST_RANGES = 2_000_000
"""Largest number of steps times pairs for which exact ties are computed."""


class HorizonPass(DistributionSweep):
    """Distributions of all pairs before the second step, from those after the last one."""

    def __init__(
        self,
        model: TabularJMDP,
        policies: Sequence[TabularPolicy],  # of each step
        coupling: Coupling,
        steps: Sequence[DistributionSteps],  # of each step
        final: Floats,  # [S], values after the last step
        threads: Threads,
        interrupted: Callable[[], bool],
    ) -> None:
        self.steps, self._threads, self._interrupted = steps[0], threads, interrupted
        self._later = steps[:0:-1]  # backwards, without the first
        self._units = max(chance_units(model, policy, coupling, one) for policy, one in _distinct(policies, steps))
        effective = min(float(len(steps)), 1 / (1 - model.discount) if model.discount < 1 else float(len(steps)))
        self._narrow = ATOM * max(effective, 1.0) ** 2
        self._gaps = steps[0].final_gaps(final)
        low = steps[0].scale.divide(self._gaps.high)
        slip = 2.0**-50 * np.abs(low) + np.where(self._gaps.high != 0, 1e-300, 0.0)
        self._final = low - slip, low + slip
        self.ties, self._given_range = self._ties_and_range(steps)

    def _ties_and_range(self, steps: Sequence[DistributionSteps]) -> tuple[Ties, tuple[Floats, Floats]]:
        ends = self._final
        few = len(steps) * self._final[0].size <= _MOST_RANGES
        ranges = [ends]
        for one in self._later:
            ends = one_step(one.drawn, *ends)
            if few:
                ranges.append(ends)
        gaps = self.steps.given.starts.size - 1 - self.steps.first_gap
        ties = Ties(np.zeros(gaps), np.ones(gaps), np.zeros(ends[0].size, bool))
        if few:
            ties = horizon_tie_chances(steps, self._gaps, ranges[::-1], self._units)
        return ties, one_step(self.steps.given, *ends)

    def __call__(self, cells: int) -> None:
        """Compute the distributions with this many cells."""
        low, high = self._final
        certain = self._gaps.high == 0
        self._slack, self._cells = 2.0**-1000, cells
        now = self._distributions = Cells.empty(low.size, 1)
        now.zero[:] = certain
        now.atoms.used[:] = now.atoms.mass[:, 0] = ~certain
        now.atoms.low[:, 0], now.atoms.high[:, 0] = low, high
        now.bulk[:] = [[low, high], [-high, -low]]
        spare = [Cells.empty(low.size, cells) for _ in range(min(len(self._later), 2))]
        ends = low, high
        for i, steps in enumerate(self._later):
            ends = one_step(steps.drawn, *ends)
            self._slack += self._step(steps.drawn, ends, cells, spare[i % 2])
            self._distributions = spare[i % 2]
            if self._interrupted():
                raise KeyboardInterrupt


def _distinct(
    policies: Sequence[TabularPolicy], steps: Sequence[DistributionSteps]
) -> list[tuple[TabularPolicy, DistributionSteps]]:
    return list({id(one): (policy, one) for policy, one in zip(policies, steps, strict=True)}.values())
