"""Sweeps over the distributions of all policy-drawn pairs, and the step from these to the requested ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Booleans, Floats, Integers
from jmdp.base.machine import Threads
from jmdp.methods.exact_distribution.steps import DistributionSteps, Steps
from jmdp.methods.exact_distribution.ties import tie_chances
from jmdp.methods.kernels.tables import CellLayout, Cells, OutcomeLists
from jmdp.methods.shared.pair_operator import row_error_units
from jmdp.methods.shared.shared_randomness import break_point_units
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

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
