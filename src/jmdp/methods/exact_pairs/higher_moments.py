"""Solver for the tables over state pairs of all mixed moments of two returns up to an order, with certified errors.

`moment_operator` has the recursion, `moment_errors` the error bounds, and `pair_moments` the lookup of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats
from jmdp.base.machine import deferred_interrupts
from jmdp.methods.exact_pairs.direct_solve import prefers_direct, solve_directly
from jmdp.methods.exact_pairs.moment_operator import MomentOperator, MomentSources
from jmdp.methods.exact_pairs.pair_sweep import PairSweep, is_compiled
from jmdp.methods.exact_pairs.pair_table import ErrorScales, PairMoments, single_moments
from jmdp.methods.shared.fixed_point import StoppingRule, iterate
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.results.certificate import Outcome

_SMALLEST = 2.0**-1000
"""Moments below this are not distinguished from 0: their reciprocals might overflow."""

Tables = dict[tuple[int, int], Floats]


class HigherMoments:
    """Solver for the tables of orders 3 … `order` of an operator whose units are all 1."""

    def __init__(self, operator: PairOperator, order: int, tolerance: float, max_sweeps: int) -> None:
        self.operator, self.order, self.tolerance, self.max_sweeps = operator, order, tolerance, max_sweeps
        self.scales, self.single = ErrorScales(operator, order), single_moments(operator, order)
        self.sizes = self.single.sizes(operator.shaped.classes)

    def second_order_target(self, floor: float) -> float:
        """Largest acceptable residual of the table of order 2, whose error enters all higher orders.

        It is in the units of the states, as the bound `floor` on its rounding. The square of a unit is at most four
        times the variance.
        """
        return max(self.scales.target(2, self.order, self.sizes, self.tolerance) / 4, 4 * floor)

    def solve(
        self, H: Floats, error: Floats, recorded: int, report: Callable[[int, float, float], None]
    ) -> PairMoments:
        """Solve all tables, given that of order 2 and its errors [S, S]; `recorded` changes of sweeps are combined."""
        with deferred_interrupts():
            return self._solve(H, error, _Parts(self.operator, recorded, report))

    def _solve(self, H: Floats, error: Floats, parts: _Parts) -> PairMoments:
        operator, scales, single = self.operator, self.scales, self.single.moments
        classes = operator.shaped.classes
        sources = MomentSources(operator, self.order)
        tables: Tables = {(1, 1): H}
        none = np.zeros((classes.count, classes.count))
        entries = [none + 1.0, none, self._largest(single[2], [H])]
        own = np.diag(error)  # of the variances of single returns
        errors = [none, none, classes.pair_max(np.maximum(error, np.maximum.outer(own, own)))]
        for o in range(3, self.order + 1):
            found: Tables = {}
            worst = np.maximum.outer(self.single.residuals[o], self.single.residuals[o])
            for j in range(1, o // 2 + 1):
                solved = []
                for plain in sources.parts(o - j, j, single, tables):
                    part = plain if is_compiled(plain) else replace(plain, weight=self._weight(o))
                    stopping = self._stopping(
                        o, entries, 1.0 if part.weight is not None else float(self.sizes[o].max())
                    )
                    solved.append(parts.solve(part, stopping, scales.one_minus(o)))
                    if parts.outcome is Outcome.INTERRUPTED:  # completed orders remain valid
                        return PairMoments(operator, scales, single, tables, entries, errors, parts.outcome)
                whole = np.sum([part.point for part in solved], axis=0).reshape(H.shape)
                left = np.sum([part.left for part in solved], axis=0)
                worst = np.maximum(worst, np.maximum(left, left.T))
                found[o - j, j], found[j, o - j] = whole, whole.T
            tables |= found
            entries.append(self._largest(single[o], found.values()))
            rounding = scales.rounding(o, entries, scales.drawn) + 4 * ROUNDOFF * entries[o]
            below = scales.sum(o, o, errors, scales.drawn)
            errors.append((classes.pair_max(worst) + rounding + below) / scales.one_minus(o) * (1 + 2.0**-40))
        return PairMoments(operator, scales, single, tables, entries, errors, parts.outcome)

    def _weight(self, o: int) -> Floats:
        """[S, S], weights of residuals: sizes of order o that are reachable, so a sweep contracts in this norm too."""
        label = self.operator.shaped.classes.label
        return np.asarray((1 / self._visible(o))[label[:, None], label])

    def _visible(self, o: int) -> Floats:
        """[classes, classes], sizes of moments of order o; infinite where there are none, up to underflow."""
        return np.where(self.sizes[o] > _SMALLEST, self.sizes[o], np.inf)

    def _largest(self, single: Floats, tables: Iterable[Floats]) -> Floats:
        """[classes, classes], largest entries that are reachable."""
        sizes = np.maximum.outer(np.abs(single), np.abs(single))
        for table in tables:
            sizes = np.maximum(sizes, np.abs(table))
        return self.operator.shaped.classes.pair_max(sizes)

    def _stopping(self, o: int, entries: list[Floats], size: float) -> StoppingRule:
        """Stopping rule for a table of order o, given the largest entries of all lower orders.

        Residuals are in units of `size`: 1 if they are weighted, else the largest moment.
        """
        floors = self.scales.rounding(o, [*entries, self.sizes[o]], self.scales.drawn)
        floor = size * float((floors / self._visible(o)).max())
        target = max(size * self.scales.target(o, self.order, self.sizes, self.tolerance), 4 * floor)
        return StoppingRule(target, lambda table: floor, self.operator.model.discount**o, self.max_sweeps)


class _Solved(NamedTuple):
    """A solved part of a table, and the residual of each entry."""

    point: Floats  # [S × S]
    left: Floats  # [S, S]


class _Parts:
    """Solver of symmetric and antisymmetric parts in turn, with a common count of sweeps."""

    def __init__(self, operator: PairOperator, recorded: int, report: Callable[[int, float, float], None]) -> None:
        self._operator, self._recorded, self._report = operator, recorded, report
        self._sweeps = 0
        self.outcome = Outcome.CONVERGED  # or the outcome of the first part that did not converge

    def solve(self, part: MomentOperator, stopping: StoppingRule, one_minus_rate: float) -> _Solved:
        """Solve one part."""
        before = self._sweeps

        def report(count: int, residual: float, aim: float) -> None:
            self._report(before + count, residual, aim)

        start = self._operator.start
        with PairSweep(part) as sweep:
            if prefers_direct(part):
                found = solve_directly(sweep, one_minus_rate, start(), stopping, report)
            else:
                found = iterate(sweep.recording(self._recorded), start(), start(), stopping, report)
            sweep.whole(found.point)
            swept = start()
            sweep(found.point, swept)
            left = np.abs(sweep.whole(swept) - found.point.reshape(part.source.shape))
        self._sweeps += found.residuals.size
        if self.outcome is Outcome.CONVERGED or found.outcome is Outcome.INTERRUPTED:
            self.outcome = found.outcome
        return _Solved(found.point, left)
