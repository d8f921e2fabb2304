"""Sweeps over the distributions of all policy-drawn pairs, and the step from these to the requested ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats
from jmdp.base.machine import Threads
from jmdp.methods.exact_distribution.steps import DistributionSteps, Steps
from jmdp.methods.exact_distribution.ties import tie_chances
from jmdp.methods.kernels.tables import CellLayout, Cells, OutcomeLists
from jmdp.methods.shared.pair_operator import row_error_units
from jmdp.methods.shared.shared_randomness import break_point_units
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

CELL_BYTES = 64.0
"""Mass, mean and the two ends, for an atom and for all other mass."""

_ATOM = 2.0**-43
"""A mass whose interval is at most this wide, over (1 − γ)² and on rewards of size 1, is treated as an atom."""

_RANGE_SWEEPS = 60
"""Sweeps after which the ranges of returns are accurate enough to lay out cells."""


class Widths(NamedTuple):
    """Largest widths of the distributions of given actions, as defined in `ExactDistribution`."""

    stated: float  # of the stated intervals
    beyond_rounding: float  # without atoms that rounding keeps wide, and without the rounding of masses


class DistributionSweep:
    """Distributions of all pairs of states whose actions are drawn from the policy, and their sweeps."""

    def __init__(
        self,
        model: TabularJMDP,
        policy: TabularPolicy,
        coupling: Coupling,
        steps: DistributionSteps,
        value: Floats,  # [S], of the policy; gives distributions the right mean initially
        threads: Threads,
    ) -> None:
        self.steps, self._threads = steps, threads
        low, high = self._drawn_range = _ranges(steps.drawn, model.discount)
        # Every probability is a product of entries of stored rows, summed over outcomes that were joined.
        breaks = break_point_units(policy, coupling)
        self._units = 2 * row_error_units(model, policy) + 3 * steps.most_merged + breaks + 8
        self.ties = tie_chances(steps, low, high, self._units)
        low[self.ties.always] = high[self.ties.always] = 0.0
        self._given_range = _one_step(steps.given, low, high)
        self._narrow = _ATOM / (1 - model.discount) ** 2
        rows = low.size
        self._distributions = Cells.empty(rows, 1)
        self._distributions.mass[:] = [0.0, 1.0, 0.0]
        self._distributions.mass[self.ties.always] = [1.0, 0.0, 0.0]  # like (end, end), the gap of merged branches
        self._distributions.low[:, 1], self._distributions.high[:, 1], self._distributions.mean[:, 1] = (
            low,
            high,
            steps.drawn_means(value),
        )
        self._spare = Cells.empty(rows, 1)
        # Bound on the error of the mass of any set of cells. It includes the sweeps over ranges, each of which may
        # have missed an action whose break points coincide.
        self._slack = 2.0**-1000 + (_RANGE_SWEEPS + 1) * breaks * ROUNDOFF

    def __call__(self, cells: int) -> None:
        """Sweep once, into distributions of this many cells."""
        rows = self._distributions.mass.shape[0]
        if self._spare.mass.shape[1] != 1 + 2 * cells:
            self._spare = Cells.empty(rows, cells)
        self._slack += self._step(self.steps.drawn, self._drawn_range, self._spare)
        self._distributions, self._spare = self._spare, self._distributions

    def ahead(self) -> tuple[Cells, float]:
        """Distributions of returns and gaps of given actions, and the error bound of the mass of any set of cells."""
        result = Cells.empty(self.steps.given.starts.size - 1, self._distributions.mass.shape[1] // 2)
        return result, self._slack + self._step(self.steps.given, self._given_range, result)

    def widths(self) -> Widths:
        """Return the largest width over all distributions.

        For a gap, this is the mass that cannot be assigned to below, at or above 0; for any distribution, the mean
        width of its intervals as a fraction of its range, or of its size if it is a single value up to rounding.
        """
        distributions, slack = self.ahead()
        widths, _ = distributions.widths()
        wide = np.where(widths > self._narrow, widths, 0.0)
        least, most = self._given_range
        size = np.maximum(np.maximum(np.abs(least), np.abs(most)), self._narrow)
        span = np.where(most - least > self._narrow, most - least, size)
        spread = [float((np.einsum("ic,ic->i", distributions.mass, w) / span).max(initial=0.0)) for w in (widths, wide)]
        mass, low, high = (table[self.steps.first_gap :] for table in distributions[:3])
        astride = (low <= 0) & (high >= 0)
        astride[:, 0] = True
        tied = self.ties.least
        open_mass = np.where(tied < 1, (mass * astride).sum(axis=1) - np.maximum(tied, mass[:, 0]), 0.0)
        atoms = (mass * (astride & (wide[self.steps.first_gap :] == 0))).sum(axis=1) - mass[:, 0]
        rounding = np.where(tied < 1, 4 * (slack + ((mass > 0).sum(axis=1) + 4) * 2 * ROUNDOFF), 0.0)
        undecided = float((np.maximum(open_mass, 0.0) + rounding).max(initial=0.0))
        return Widths(max(undecided, spread[0]), max(float((open_mass - atoms).max(initial=0.0)), spread[1]))

    def spread(self) -> float:
        """Return the largest mean width of an interval, over all distributions."""
        return float(self._distributions.widths()[1].max())

    def _step(self, steps: Steps, limits: tuple[Floats, Floats], out: Cells) -> float:
        """Fill `out`, and return the error that this step can add to any mass."""
        from jmdp.methods.kernels.distributions import OCTAVES, cell, step_back

        low, high = limits
        cells = out.mass.shape[1] // 2
        bits = max(int(math.log2(cells / (4 * OCTAVES))), 0)  # at most half of the cells are near zero
        per_width = max(cells - 2 - (2 * OCTAVES << bits), 1) / np.maximum(high - low, 2.0**-900)
        first_cell = np.array([cell(x, dense, bits) for x, dense in zip(low, per_width, strict=True)], np.int64)
        outcomes = OutcomeLists(steps.starts, steps.chance, steps.gain, steps.source, steps.factor)
        layout = CellLayout(per_width, first_cell, bits, self._narrow)
        parts = self._threads.run(step_back, (outcomes, layout, self._distributions), (out,))
        runs, lost = zip(*parts, strict=True)
        # Atoms and other masses are added in turn, and a mass may be moved once more from one group to the other.
        units = self._units + 1 + 4 * max(runs) * steps.most_outcomes
        return float((units * ROUNDOFF + max(lost)) * (1 + 2.0**-20))


def _ranges(steps: Steps, discount: float) -> tuple[Floats, Floats]:
    """Outer bounds on the range of the gap of each policy-drawn pair."""
    rows = steps.starts.size - 1
    bound = 2 / (1 - discount) * (1 + 2.0**-40)
    low, high = np.full(rows, -bound), np.full(rows, bound)
    low[-1] = high[-1] = 0.0
    for _ in range(_RANGE_SWEEPS):
        low, high = _one_step(steps, low, high)
        low[-1] = high[-1] = 0.0
    return low, high


def _one_step(steps: Steps, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Ranges one step before those of the successor pairs, rounded outwards."""
    one, other = steps.factor * low[steps.source], steps.factor * high[steps.source]
    rounding = 2.0**-50 * (np.abs(steps.gain) + np.maximum(np.abs(one), np.abs(other)))
    least, most = steps.gain + np.minimum(one, other) - rounding, steps.gain + np.maximum(one, other) + rounding
    return np.minimum.reduceat(least, steps.starts[:-1]), np.maximum.reduceat(most, steps.starts[:-1])
