"""Distributions over a finite horizon: one backward pass over all steps, for any number of cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.machine import Threads
from jmdp.methods.exact_distribution.steps import DistributionSteps
from jmdp.methods.exact_distribution.sweep import ATOM, DistributionSweep, chance_units, one_step
from jmdp.methods.exact_distribution.ties import Ties, horizon_tie_chances
from jmdp.methods.kernels.tables import Cells
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

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
