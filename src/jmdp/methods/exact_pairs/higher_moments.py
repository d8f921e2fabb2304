"""Solver for the tables over state pairs of all mixed moments of two returns up to an order, with certified errors.

`moment_operator` has the recursion, `moment_errors` the error bounds, and `pair_moments` the lookup of results.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats, largest
from jmdp.base.interrupts import deferred_interrupts
from jmdp.methods.exact_pairs.direct_solve import prefers_direct, solve_directly
from jmdp.methods.exact_pairs.moment_errors import ErrorScales, single_moments
from jmdp.methods.exact_pairs.moment_operator import MomentOperator, MomentSources
from jmdp.methods.exact_pairs.pair_moments import PairMoments
from jmdp.methods.exact_pairs.pair_sweep import PairSweep
from jmdp.methods.shared.fixed_point import FixedPoint, StoppingRule, iterate
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.results.outcome import Outcome

Tables = dict[tuple[int, int], Floats]


class HigherMoments:
    """Solver for the tables of orders 3 … `order` of an operator whose units are all 1."""

    def __init__(self, operator: PairOperator, order: int, tolerance: float, max_sweeps: int) -> None:
        self.operator, self.order, self.tolerance, self.max_sweeps = operator, order, tolerance, max_sweeps
        self.scales, self.single = ErrorScales(operator, order), single_moments(operator, order)
        self.sizes = self.single.sizes

    def second_order_target(self) -> float:
        """Largest acceptable residual of the table of order 2, whose error enters all higher orders."""
        target = self.scales.target(2, self.order, self.sizes, self.tolerance)
        return max(target, 4 * self.operator.floor(largest(self.operator.V)))

    def solve(
        self, H: Floats, residual: float, recorded: int, report: Callable[[int, float, float], None]
    ) -> PairMoments:
        """Solve all tables, given that of order 2 and its residual; `recorded` changes of sweeps are combined."""
        with deferred_interrupts():
            return self._solve(H, residual, _Parts(self.operator, recorded, report))

    def _solve(self, H: Floats, residual: float, parts: _Parts) -> PairMoments:
        operator, scales, single = self.operator, self.scales, self.single.moments
        sources = MomentSources(operator, self.order)
        tables: Tables = {(1, 1): H}
        entries = [1.0, 0.0, operator.entry(H)]
        errors = [0.0, 0.0, operator.table_error(operator.entry(H), residual)]
        for o in range(3, self.order + 1):
            stopping = self._stopping(o, entries)
            found: Tables = {}
            worst = self.single.residuals[o]
            for j in range(1, o // 2 + 1):
                solved = []
                for part in sources.parts(o - j, j, single, tables):
                    solved.append(parts.solve(part, stopping, scales.one_minus(o)))
                    if parts.outcome is Outcome.INTERRUPTED:  # completed orders remain valid
                        return PairMoments(o - 1, operator, scales, single, tables, entries, errors, parts.outcome)
                whole = np.sum([part.point for part in solved], axis=0).reshape(H.shape)
                worst = max(worst, sum(part.residual for part in solved))
                found[o - j, j], found[j, o - j] = whole, whole.T
            tables |= found
            entries.append(max(largest(moments) for moments in (single[o], *found.values())))
            rounding = scales.rounding(o, entries, scales.drawn) + 4 * ROUNDOFF * entries[o]
            below = scales.sum(o, o, errors, scales.drawn)
            errors.append((worst + rounding + below) / scales.one_minus(o) * (1 + 2.0**-40))
        return PairMoments(self.order, operator, scales, single, tables, entries, errors, parts.outcome)

    def _stopping(self, o: int, entries: list[float]) -> StoppingRule:
        """Stopping rule for a table of order o, given the largest entries of all lower orders."""
        floor = self.scales.rounding(o, [*entries, self.sizes[o]], self.scales.drawn)
        target = max(self.scales.target(o, self.order, self.sizes, self.tolerance), 4 * floor)
        return StoppingRule(target, lambda table: floor, self.operator.model.discount**o, self.max_sweeps)


class _Parts:
    """Solver of symmetric and antisymmetric parts in turn, with a common count of sweeps."""

    def __init__(self, operator: PairOperator, recorded: int, report: Callable[[int, float, float], None]) -> None:
        self._operator, self._recorded, self._report = operator, recorded, report
        self._sweeps = 0
        self.outcome = Outcome.CONVERGED  # or the outcome of the first part that did not converge

    def solve(self, part: MomentOperator, stopping: StoppingRule, one_minus_rate: float) -> FixedPoint:
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
        self._sweeps += found.residuals.size
        if self.outcome is Outcome.CONVERGED or found.outcome is Outcome.INTERRUPTED:
            self.outcome = found.outcome
        return found
