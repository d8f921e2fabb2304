"""ExactDistribution: certified distributions of all returns and gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers, Scale
from jmdp.base.machine import Threads, budget, deferred_interrupts, require
from jmdp.base.progress import sweep_bar
from jmdp.base.settings import nonnegative, whole
from jmdp.errors import NotConvergedError
from jmdp.methods.exact_distribution.steps import OUTCOME_BYTES, DistributionSteps, PolicySteps
from jmdp.methods.exact_distribution.sweep import CELL_BYTES, DistributionSweep, DistributionTable, Gap, HorizonPass
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.method import COVERS, Method
from jmdp.models.coupling import Coupling
from jmdp.models.policy import Policies, StackedTable, TabularPolicy
from jmdp.models.tabular import Horizon, TabularJMDP
from jmdp.results.certificate import Outcome
from jmdp.results.derived import with_start
from jmdp.results.evaluation import Evaluation
from jmdp.results.parts import ReturnRanges

_TIMES = 4
"""Largest factor by which the number of cells grows at a time."""

_ENOUGH = 2.0
"""The width expected of many sweeps is to be the tolerance over this: then few sweeps reach the tolerance."""

_SELDOM = 1000
"""Sweeps between computations of the widths, at most, however near 1 the discount is."""

_PLATEAU = 0.9
"""Rounding prevents narrower intervals if a width is above this part of the smallest one."""

_NEARLY_SETTLED, _SETTLED = 0.5, 0.95
"""Sweeps that lead to more than this part of the spread are too few cells; with all cells allowed, they end there."""

_CLOSE = 0.95
"""Sweeps go on with as many cells if they lead to a width of at most this part of the tolerance."""


@dataclass(frozen=True)
class ExactDistribution(Method[Evaluation]):
    """Certified distributions of all returns and gaps by distributional dynamic programming on pairs.

    The gap is the return of the pair chain, G(x, y) = R(x) − R(y) + γ G(x', y'), so its distribution is a mixture of
    shifted and scaled distributions of gaps. A distribution is stored twice, as masses at points below the true ones
    and as masses at points above them. One sweep maps such bounds to such bounds, so for any cells and after any number
    of sweeps they enclose the true distribution. A cell combines masses at its outermost point. The distance of the
    bounds shrinks by γ per sweep until cells dominate it; then the number of cells is increased. Cells are narrow where
    most of the mass is, and near 0. Atoms are kept as such as long as each has its own cell. Branches that have merged
    have a gap of exactly 0, which is stored separately from all other mass, so ties are not confused with
    P(Z(s, a) > Z(s, b)). The probability of an exact tie, which can also arise from rewards that cancel, is computed in
    integer arithmetic (`jmdp.methods.exact_distribution.ties`).

    The paper (Section 5.4) bounds quantiles, CVaR and the probability of superiority by two moments. Means and
    covariances are those of `ExactPairs`.

    Only pairs of states that can follow a requested gap are computed. Memory is proportional to their number times
    cells. Intended for models of up to a few hundred states.

    Parameters
    ----------
    tolerance
        Stop when both conditions hold. The intervals of P(G > 0), P(G = 0) and P(G < 0) of every gap
        G = Z(s, a) − Z(s, b) are no wider than this. The Wasserstein distance between the two distributions that
        enclose that of a return or gap, which is the mean width of its intervals, is at most this fraction of its range
        (of its size if it is a single value). Intervals of probabilities at thresholds other than 0 may be wider where
        the distribution has an atom. With starts=…, this is for the returns and gaps from possible start states; all
        others are certified too, but may be wider. If rounding alone keeps an interval wider, the outcome is STALLED.
    cells
        Initial number of cells of each distribution. More cells give narrower intervals of quantiles and CVaR.
    max_cells
        Maximum number of cells of each distribution; fewer if `memory_budget` has no room for them.
    max_sweeps
        Maximum number of sweeps.
    memory_budget
        Maximum memory in bytes; by default 80% of the free memory.
    """

    covers = COVERS["ExactDistribution()"]

    tolerance: float = 0.05
    cells: int = 256
    max_cells: int = 2**16
    max_sweeps: int = 100_000
    memory_budget: int | None = None

    residual_name = "width"
    budget_name = "max_cells (memory_budget, if it has no room for max_cells)"

    def __post_init__(self) -> None:
        nonnegative(self, "tolerance")
        whole(self, "cells", 64)
        whole(self, "max_cells", self.cells)
        whole(self, "max_sweeps", 1)
        whole(self, "memory_budget", 1, optional=True)

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        S, _, A = model.shape
        room = self._room(S, (S + 1) * (S + 2) / 2, S * A * (A + 1) / 2)
        moments = ExactPairs(memory_budget=self.memory_budget).on_table(model, policy, coupling, progress)
        scale = Scale.above(model.reward_bound)
        steps = DistributionSteps(model, policy, coupling, scale, room.for_steps(self.cells))
        return self._with_distributions(
            moments, _Problem(model, policy, coupling, steps, room.of(steps), slice(None)), progress
        )

    def on_policies(
        self, model: TabularJMDP, policies: Policies, coupling: Coupling, start: Floats | None, progress: bool
    ) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        S, P = model.shape[0], len(policies)
        pairs = P * (P - 1) / 2
        room = self._room(S, pairs * S * S + P * S + 1, S * (P + pairs))
        moments = ExactPairs(memory_budget=self.memory_budget).on_policies(model, policies, coupling, None, progress)
        blocks = StackedTable.of([model] * P)
        policy = blocks.policy(list(policies.values()))
        scale = Scale.above(model.reward_bound)
        steps = PolicySteps(blocks, policy, coupling, scale, room.for_steps(self.cells))
        asked = np.arange(S) if start is None else np.flatnonzero(start)
        problem = _Problem(blocks.model, policy, coupling, steps, room.of(steps), steps.rows_of(asked))
        return with_start(self._with_distributions(moments, problem, progress), start)

    def on_horizon(
        self,
        model: TabularJMDP,
        policies: Sequence[TabularPolicy] | Mapping[str, Sequence[TabularPolicy]],
        coupling: Coupling,
        horizon: Horizon,
        progress: bool,
    ) -> Evaluation:
        """Evaluate over a finite horizon; see `jmdp.evaluate`."""
        moments = ExactPairs(memory_budget=self.memory_budget).on_horizon(model, policies, coupling, horizon, progress)
        S, _, A = model.shape
        scale = Scale.above(max(model.reward_bound, float(np.abs(horizon.final).max())))
        if isinstance(policies, Mapping):
            P = len(policies)
            blocks = StackedTable.of([model] * P)
            at_once = list(zip(*policies.values(), strict=True))
            joint = {ids: blocks.policy(now) for ids, now in {_ids(now): now for now in at_once}.items()}
            together = [joint[_ids(now)] for now in at_once]
            room = self._room(S, P * (P - 1) / 2 * S * S + P * S + 1, S * (P + P * (P - 1) / 2))
            table, final = blocks.model, np.zeros((P, blocks.block))
            final[:, :S] = horizon.final
            make: Any = partial(PolicySteps, blocks)
        else:
            room = self._room(S, (S + 1) * (S + 2) / 2, S * A * (A + 1) / 2)
            table, together, final, make = model, list(policies), horizon.final, partial(DistributionSteps, model)
        by_policy: dict[int, DistributionSteps] = {}
        left = room.for_steps(self.cells)
        for policy in together:
            if id(policy) not in by_policy:
                found = make(policy, coupling, scale, left, every_pair=True)
                left -= OUTCOME_BYTES * (found.drawn.chance.size + found.given.chance.size)
                by_policy[id(policy)] = found
        steps = [by_policy[id(policy)] for policy in together]
        backward = partial(HorizonPass, table, together, coupling, steps, final.ravel())
        return self._over_horizon(
            moments, _HorizonProblem(steps[0], backward, room.of(steps[0]), slice(None)), progress
        )

    def _over_horizon(self, moments: Evaluation, problem: _HorizonProblem, progress: bool) -> Evaluation:
        bar = sweep_bar(type(self).__name__, progress)
        with bar as report, Threads() as threads, deferred_interrupts() as interrupted:
            whole = problem.backward(threads, interrupted)
            whole.asked = problem.asked
            widths, outcome = self._refine(whole, problem.room, report)
            cells, slack = whole.ahead()
        assert isinstance(moments.ranges, ReturnRanges)
        solve_again = partial(self._gaps_over_horizon, moments, problem, progress)
        table = DistributionTable(problem.steps, cells, slack, whole.ties, moments.ranges, moments.mean, solve_again)
        return replace(moments, outcome=outcome, method=self, residuals=np.array(widths), distributions=table)

    def _gaps_over_horizon(
        self, moments: Evaluation, problem: _HorizonProblem, progress: bool, gaps: Sequence[Gap], tolerance: float
    ) -> DistributionTable:
        """Distributions of some gaps, to another tolerance."""
        finer, part = replace(self, tolerance=tolerance), replace(problem, asked=problem.steps.gap_rows(gaps))
        return _reached(finer._over_horizon(moments, part, progress))

    def _refine(
        self, whole: HorizonPass, room: _Room, report: Callable[[int, float, float], None]
    ) -> tuple[list[float], Outcome]:
        """Repeat the backward pass with more cells until all widths are small enough or a limit is reached."""
        cells, most_cells = self.cells, max(min(self.max_cells, room.most_cells()), self.cells)
        widths: list[float] = []
        while True:
            whole(cells)
            width, beyond_rounding = whole.widths()
            widths.append(width)
            report(len(widths), width, self.tolerance)
            if width <= self.tolerance:
                return widths, Outcome.CONVERGED
            if beyond_rounding <= self.tolerance < width - beyond_rounding:
                return widths, Outcome.STALLED
            if cells == most_cells:
                return widths, Outcome.BUDGET_EXHAUSTED
            cells = min(_more(cells, width, self.tolerance), most_cells)

    def _room(self, states: int, drawn: float, given: float) -> _Room:
        """The memory budget; raises if it is too small for this many distributions."""
        room = _Room(budget(self.memory_budget), drawn, given)
        fix = "Use MonteCarlo(seed=…), which does not store a table of pairs"
        require(room.needed(self.cells), room.allowed, f"ExactDistribution on {states} states", fix)
        return room

    def _with_distributions(self, moments: Evaluation, problem: _Problem, progress: bool) -> Evaluation:
        if moments.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt  # there are no distributions yet
        with sweep_bar(type(self).__name__, progress) as report, Threads() as threads:
            sweep = DistributionSweep(problem.model, problem.policy, problem.coupling, problem.steps, threads)
            sweep.asked = problem.asked
            with deferred_interrupts() as interrupted:
                widths, outcome = self._iterate(problem, sweep, report, interrupted)
                cells, slack = sweep.ahead()
        if outcome is Outcome.CONVERGED and not moments.outcome.successful:
            outcome = moments.outcome
        assert isinstance(moments.ranges, ReturnRanges)
        solve_again = partial(self._gaps, moments, problem, progress)
        table = DistributionTable(problem.steps, cells, slack, sweep.ties, moments.ranges, moments.mean, solve_again)
        return replace(moments, outcome=outcome, method=self, residuals=np.array(widths), distributions=table)

    def _gaps(
        self, moments: Evaluation, problem: _Problem, progress: bool, gaps: Sequence[Gap], tolerance: float
    ) -> DistributionTable:
        """Distributions of some gaps, to another tolerance."""
        finer, steps = replace(self, tolerance=tolerance), problem.steps.only(gaps)
        part = replace(problem, steps=steps, room=problem.room.of(steps), asked=slice(None))
        return _reached(finer._with_distributions(moments, part, progress))

    def _iterate(
        self,
        problem: _Problem,
        sweep: DistributionSweep,
        report: Callable[[int, float, float], None],
        interrupted: Callable[[], bool],
    ) -> tuple[list[float], Outcome]:
        """Sweep until all widths are small enough or a limit is reached; return the widths and the outcome."""
        gamma = problem.model.discount
        often = min(math.ceil(math.log(2) / -math.log(gamma)), _SELDOM) if gamma else 1
        most_cells = max(min(self.max_cells, problem.room.most_cells()), self.cells)
        cells, before, least = self.cells, math.inf, math.inf
        widths: list[float] = []
        while True:
            sweep(cells)
            widths.append(math.nan)
            if interrupted():
                return widths, Outcome.INTERRUPTED
            if len(widths) % often and len(widths) < self.max_sweeps:
                continue
            widths[-1], beyond_rounding = sweep.widths()
            report(len(widths), widths[-1], self.tolerance)
            if widths[-1] <= self.tolerance:
                return widths, Outcome.CONVERGED
            if len(widths) >= self.max_sweeps:
                return widths, Outcome.SWEEPS_EXHAUSTED
            rounding = widths[-1] - beyond_rounding
            if beyond_rounding <= self.tolerance < rounding and widths[-1] > _PLATEAU * least:
                return widths, Outcome.STALLED
            least = min(least, widths[-1])
            # A sweep maps a spread x to γ x + what the cells add: where this leads to is known after two spreads.
            spread, kept = sweep.spread(), gamma**often
            limit = max((spread - kept * before) / (1 - kept), 0.0) if math.isfinite(before) else 0.0
            before = spread
            expected = widths[-1] * limit / spread if spread else 0.0
            settled = limit > (_SETTLED if cells == most_cells else _NEARLY_SETTLED) * spread
            if settled and expected > _CLOSE * self.tolerance:
                if cells == most_cells:
                    return widths, Outcome.BUDGET_EXHAUSTED
                cells = min(_more(cells, expected, self.tolerance), most_cells)


def _reached(evaluation: Evaluation) -> DistributionTable:
    """The distributions of an evaluation of some gaps; raises if their tolerance was not reached."""
    method, table = evaluation.method, evaluation.distributions
    assert isinstance(method, ExactDistribution)
    assert isinstance(table, DistributionTable)
    if not evaluation.outcome.successful:
        raise NotConvergedError(
            f"The distribution is known to a width of {evaluation.residuals[-1]:.2g}, not to the tolerance "
            f"{method.tolerance:g}: {evaluation.outcome.value}. Use a larger tolerance, or evaluate with a larger "
            f"{method.budget_name}.",
            evaluation,
        )
    return table


def _ids(policies: Sequence[TabularPolicy]) -> tuple[int, ...]:
    return tuple(map(id, policies))


def _more(cells: int, expected: float, tolerance: float) -> int:
    """Number of cells of the next sweeps, from the width that is expected with these; widths are as cells are.

    The number required is reached in equal steps of a factor of at most `_TIMES`, because sweeps with fewer cells, from
    which the next ones continue, take less time.
    """
    factor = _ENOUGH * expected / tolerance if tolerance else math.inf
    steps = math.ceil(math.log(factor) / math.log(_TIMES)) if factor < 1e9 else 0
    return max(math.ceil(cells * factor ** (1 / steps)) if steps else _TIMES * cells, cells + 1)


@dataclass(frozen=True)
class _Room:
    """Memory budget, and the number of distributions stored in it."""

    allowed: float  # bytes
    drawn: float  # distributions of policy-drawn pairs, stored in two tables
    given: float  # distributions of the requested returns and gaps

    def of(self, steps: DistributionSteps) -> _Room:
        """The same budget for the rows of these steps."""
        return _Room(self.allowed, steps.drawn.starts.size - 1, steps.given.starts.size - 1)

    def needed(self, cells: int) -> float:
        """Bytes needed by distributions of this many cells."""
        return CELL_BYTES * cells * (2 * self.drawn + self.given)

    def most_cells(self) -> int:
        """Largest number of cells that fit."""
        return int(min(self.allowed / (CELL_BYTES * (2 * self.drawn + self.given)), 2.0**40))

    def for_steps(self, cells: int) -> float:
        """Bytes left for the lists of outcomes."""
        return self.allowed - self.needed(cells)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Problem to solve: a table, or the blocks of several policies."""

    model: TabularJMDP
    policy: TabularPolicy
    coupling: Coupling
    steps: DistributionSteps
    room: _Room
    asked: Booleans | slice  # [given], rows that the tolerance is for


@dataclass(frozen=True, eq=False)
class _HorizonProblem:
    """Problem to solve over a finite horizon."""

    steps: DistributionSteps  # of the first step
    backward: Callable[[Threads, Callable[[], bool]], HorizonPass]  # makes the backward pass
    room: _Room
    asked: Integers | slice  # rows of steps.given that the tolerance is for
