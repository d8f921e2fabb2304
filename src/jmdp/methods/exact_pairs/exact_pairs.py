"""ExactPairs: second moments of all returns from a table over state pairs, with certified errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, largest
from jmdp.base.labels import Labels
from jmdp.base.machine import budget, require
from jmdp.base.progress import sweep_bar
from jmdp.base.settings import choice, nonnegative, refuse_overflow, whole
from jmdp.errors import SettingsError
from jmdp.methods.exact_pairs.direct_solve import prefers_direct, refinable, refine, solve_directly, terms
from jmdp.methods.exact_pairs.finite_horizon import HorizonSolver
from jmdp.methods.exact_pairs.ordered_sweep import ordered_start
from jmdp.methods.exact_pairs.pair_sweep import PairSweep, change_record, is_compiled
from jmdp.methods.exact_pairs.pair_table import PairMoments, PairTable, Tolerance
from jmdp.methods.exact_pairs.policy_pairs import PolicyMoments, PolicyTable, PolicyTolerance
from jmdp.methods.method import COVERS, Method
from jmdp.methods.shared.fixed_point import FixedPoint, StoppingRule, iterate
from jmdp.methods.shared.pair_operator import PairOperator, Precision
from jmdp.methods.shared.return_range import PolicyRanges, ReturnRange
from jmdp.methods.shared.shaping import shape_rewards
from jmdp.methods.shared.state_units import StateUnits
from jmdp.models.coupling import Coupling
from jmdp.models.policy import Policies, StackedTable, TabularPolicy
from jmdp.models.tabular import Horizon, TabularJMDP
from jmdp.results.certificate import Certificate, Outcome
from jmdp.results.derived import with_start
from jmdp.results.evaluation import Evaluation

_RECORD_BYTES = 64e6
"""Memory for recorded changes: enough for many changes of a small table, or a few of a large one."""

_FEWEST_RECORDED, _MOST_RECORDED = 4, 11

_SOURCE_TABLES = 8.0
"""Tables in memory while the source of a higher-order table is computed and its parts are solved."""

_CHEAP, _AFFORDABLE = 20_000, 20_000_000
"""Largest numbers of double-double products in a refinement that always runs (milliseconds), and in one that runs only
if float64 misses the tolerance (seconds)."""

_HIGHEST_ORDER = 32
"""Above this order, rounding of binomials and powers uses up all 53 bits."""


@dataclass(frozen=True)
class ExactPairs(Method[Evaluation]):
    """Exact means and covariances by dynamic programming on state pairs.

    Solves v = r_π + γ P_π v, replaces rewards by TD errors, and iterates W = b + γ² L W over pairs of states (see
    `jmdp.methods.shared.pair_operator`). Covariances of actions follow from W by a one-step lookahead. The paper's
    operator (Definition 5.1) is defined on pairs of (state, action); this one gives the same moments with A² times less
    memory, without subtracting squares. Plain sweeps contract with γ²; combining their changes converges faster
    (`jmdp.methods.shared.fixed_point`). From 600 states on, sweeps are compiled and use all cores; the number of
    threads does not change a bit of the result. From 2000 states on, if most moves lead towards the end of an episode,
    sweeps in that order come first, of which far fewer are needed (`jmdp.methods.exact_pairs.ordered_sweep`).

    The certificate is (‖residual‖ + rounding)/(1 − γ²), one step ahead: every stated interval contains the exact value.
    Each mean and each covariance has its own error bound, in units of the returns reachable from its state
    (`jmdp.methods.shared.state_units`), so large rewards in one part of a model do not widen the intervals of a part
    that cannot reach it. Small tables are refined in double-double arithmetic. So are larger ones if rounding would
    prevent the tolerance from being met and the refinement takes a few seconds at most
    (`jmdp.methods.exact_pairs.direct_solve`). Small tables with γ near 1 are solved directly, without sweeps
    (`jmdp.methods.exact_pairs.direct_solve`). The stated errors are then little more than one rounding of each
    result.

    Parameters
    ----------
    tolerance
        The outcome is CONVERGED if every certified error is this small relative to the largest return that the policy
        can reach from the state or after the action in question, as if the model had no other states. Then the error of
        a mean is at most `tolerance` times the root mean square of that return. The error of the covariance of two
        returns is at most `tolerance` times the product of their scales. The scale of a return is the largest standard
        deviation it can reach, or 2⁻⁵⁰ of its largest mean if that is larger: float64 does not resolve smaller
        deviations of the returns. If rounding keeps any error above its limit, the outcome is STALLED. Moments of
        higher orders aim at `tolerance` times the largest moment of their order that is reachable from the two states
        (with compiled sweeps, in the whole model), and are as accurate as rounding permits.
    order
        Largest order of the moments E[Z(x)^i Z(y)^j] of two coordinates, i + j ≤ order, and of moments of gaps.
        Orders above 2 need additional tables of S² numbers: three up to order 4, fifteen up to order 8.
    max_sweeps
        Maximum number of sweeps.
    memory_budget
        Memory limit in bytes; by default 80% of the free memory. Two tables of S² numbers are required. Changes of past
        sweeps, a quarter of a table each, are recorded if memory permits.
    precision
        "float64", or "float32" to store the table in half the memory and sweep it faster. Sums are still in float64,
        and the certificate includes the rounding of stored entries.
    """

    covers = COVERS["ExactPairs()"]

    tolerance: float = 1e-10
    order: int = 2
    max_sweeps: int = 100_000
    memory_budget: int | None = None
    precision: Precision = "float64"

    def __post_init__(self) -> None:
        nonnegative(self, "tolerance")
        whole(self, "order", 2, _HIGHEST_ORDER)
        whole(self, "max_sweeps", 1)
        whole(self, "memory_budget", 1, optional=True)
        object.__setattr__(self, "precision", choice("precision", self.precision, ("float64", "float32")))
        if self.order > 2 and self.precision != "float64":
            raise SettingsError(f"order is {self.order} and precision is 'float32'. Orders above 2 need 'float64'.")

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate one policy; see `jmdp.evaluate`."""
        if self.order > 2:
            refuse_overflow(self.order, model.discount)
        allowed_bytes = budget(self.memory_budget)
        self._require(model, 2, allowed_bytes)
        shaped = shape_rewards(model, policy)
        operator = PairOperator(model, policy, coupling, shaped, self.precision, StateUnits.of(model, policy, shaped))
        recorded = self._plan(operator, allowed_bytes)
        tolerance = Tolerance(operator, self.tolerance)
        found, moments = self._solve(operator, tolerance, recorded, progress)
        S, outcome = model.shape[0], found.outcome
        H = found.point.reshape(S, S)
        if outcome is Outcome.CONVERGED and moments is not None:
            outcome = moments.outcome
        table = PairTable(operator, H, operator.step_error(operator.entry(found.point), found.residual))
        if self._should_refine(operator, found.outcome):
            try:
                refined = refine(operator, _symmetric(H), recorded, self.max_sweeps)
            except KeyboardInterrupt:
                return self._evaluation(table, Outcome.INTERRUPTED, found.residuals, moments)
            entry = operator.entry(refined.H.high)
            step_error = operator.lookahead_error(entry, refined.table_error + ROUNDOFF * entry)
            table = PairTable(operator, refined.H.high, step_error, refined)
            if outcome is Outcome.STALLED and tolerance.means_met and refined.error.max() <= tolerance.step_error:
                outcome = Outcome.CONVERGED if moments is None else moments.outcome
        return self._evaluation(table, outcome, found.residuals, moments)

    def on_policies(
        self, model: TabularJMDP, policies: Policies, coupling: Coupling, start: Floats | None, progress: bool
    ) -> Evaluation:
        """Evaluate several policies together; see `jmdp.evaluate`."""
        if self.order > 2:
            refuse_overflow(self.order, model.discount)
        allowed_bytes = budget(self.memory_budget)
        blocks = StackedTable.of([model] * len(policies))
        self._require(blocks.model, 2, allowed_bytes)
        table, found, moments = self.solve_blocks(
            blocks, blocks.policy(list(policies.values())), coupling, allowed_bytes, progress
        )
        outcome = found.outcome
        if outcome is Outcome.CONVERGED and moments is not None:
            outcome = moments.outcome
        operator = table.operator
        evaluation = Evaluation(
            mean=table.mean(),
            gap_mean=table.gap_means()[0],
            covariance=table.covariance(),
            certificate=table.certificate(),
            outcome=outcome,
            coupling=coupling,
            method=self,
            states=model.states,
            actions=Labels.of("policy", len(policies), list(policies)),
            residuals=operator.shaped.scale.restore(found.residuals, 2, 2 * int(operator.units.state.max())),
            cross=table,
            moments=None if moments is None else PolicyMoments(moments, blocks),
            ranges=PolicyRanges([ReturnRange(model, policy) for policy in policies.values()]),
        )
        return with_start(evaluation, start)

    def on_horizon(
        self,
        model: TabularJMDP,
        policies: Sequence[TabularPolicy] | Mapping[str, Sequence[TabularPolicy]],
        coupling: Coupling,
        horizon: Horizon,
        progress: bool,
    ) -> Evaluation:
        """Evaluate over a finite horizon; see `jmdp.evaluate`."""
        if self.precision != "float64":
            raise SettingsError("precision is 'float32'. A finite horizon needs 'float64'.")
        count = len(policies) if isinstance(policies, Mapping) else 1
        S, tables = count * model.shape[0], 3.0 * (self.order * (self.order - 1) / 2)
        fix = "Use compare_policies or compare, which need no table of pairs"
        require(8 * tables * S * S, budget(self.memory_budget), f"ExactPairs on {S} states over a horizon", fix)
        solver = HorizonSolver(self, self.order, coupling, horizon)
        if isinstance(policies, Mapping):
            return solver.of_policies(model, policies, progress)
        return solver.of_actions(model, policies, progress)

    def solve_blocks(
        self, blocks: StackedTable, policy: TabularPolicy, coupling: Coupling, allowed_bytes: float, progress: bool
    ) -> tuple[PolicyTable, FixedPoint, PairMoments | None]:
        """Solve the tables between the blocks of several policies."""
        model = blocks.model
        shaped = shape_rewards(model, policy)
        units = StateUnits.of(model, policy, shaped)
        operator = PairOperator(model, policy, coupling, shaped, self.precision, units, blocks)
        recorded = self._plan(operator, allowed_bytes)
        tolerance = PolicyTolerance(operator, blocks, self.tolerance)
        found, moments = self._solve(operator, tolerance, recorded, progress)
        H = found.point.reshape(model.shape[0], -1)
        table = PolicyTable.of(operator, blocks, H, found.residual)
        if found.outcome is Outcome.STALLED and self._should_refine(operator, found.outcome):
            table = table.refined(refine(operator, _symmetric(H), recorded, self.max_sweeps))
            if tolerance.met_by(table):
                found = replace(found, outcome=Outcome.CONVERGED)
        return table, found, moments

    def _solve(
        self, operator: PairOperator, tolerance: Tolerance | PolicyTolerance, recorded: int, progress: bool
    ) -> tuple[FixedPoint, PairMoments | None]:
        """Solve the table of order 2, in the states' units, and the tables of all higher orders."""
        entry = largest(operator.V)  # bounds every covariance; a first estimate until the table is solved
        target = tolerance.target(entry)
        unit, scale = int(operator.units.state.max()), operator.shaped.scale
        higher, means_met = None, tolerance.means_met
        if self.order > 2:
            from jmdp.methods.exact_pairs.higher_moments import HigherMoments

            plain = PairOperator(
                operator.model, operator.policy, operator.coupling, operator.shaped, blocks=operator.blocks
            )
            # The same V, so that its errors too are those in the units of the states.
            plain.V = np.ldexp(operator.V, 2 * operator.units.state)
            higher = HigherMoments(plain, self.order, self.tolerance, self.max_sweeps)
            target = min(target, higher.second_order_target(operator.floor(entry)))

        sweep = PairSweep(operator)

        def enough(table: Floats, residual: float) -> bool:
            return means_met and tolerance.reached(sweep.entry(table), residual)

        def floor(table: Floats) -> float:
            return operator.floor(sweep.entry(table))

        stopping = StoppingRule(target, floor, operator.square, self.max_sweeps, enough)
        in_rewards = partial(scale.restore, power=2, units=2 * unit)
        with sweep_bar(type(self).__name__, progress, in_rewards) as report, sweep:
            if prefers_direct(operator):
                found = solve_directly(sweep, operator.one_minus_square, operator.start(), stopping, report)
            else:
                found = self._by_sweeps(sweep, operator, recorded, stopping, report)
            sweep.whole(found.point)
            if higher is None or found.outcome is Outcome.INTERRUPTED:
                return found, None
            S, units, before = operator.model.shape[0], operator.units.state, found.residuals.size
            H = np.ldexp(found.point.reshape(S, S), units[:, None] + units[None, :])
            error = operator.table_error(operator.entry(found.point), found.residual)
            errors = np.ldexp(error, units[:, None] + units[None, :]) + (UNDERFLOW if error else 0.0)
            moments = higher.solve(H, errors, recorded, lambda n, left, aim: report(before + n, left, aim))
        return found, moments

    def _by_sweeps(
        self,
        sweep: PairSweep,
        operator: PairOperator,
        recorded: int,
        stopping: StoppingRule,
        report: Callable[[int, float, float], None],
    ) -> FixedPoint:
        """Solve by ordered sweeps, if they are useful, and then by plain ones."""
        start = ordered_start(operator, recorded, stopping, report)
        before, interrupted = start.residuals.size, start.outcome is Outcome.INTERRUPTED
        stopping = replace(stopping, max_sweeps=1 if interrupted else stopping.max_sweeps - before)
        found = iterate(
            sweep.recording(recorded),
            start.point,
            operator.start(),
            stopping,
            lambda count, left, aim: report(before + count, left, aim),
        )
        outcome = Outcome.INTERRUPTED if interrupted else found.outcome
        return replace(found, residuals=np.append(start.residuals, found.residuals), outcome=outcome)

    def _evaluation(
        self, table: PairTable, outcome: Outcome, residuals: Floats, moments: PairMoments | None
    ) -> Evaluation:
        operator, model, shaped = table.operator, table.operator.model, table.operator.shaped
        scale, unit = shaped.scale, int(operator.units.state.max())
        mean_errors = scale.restore_error(shaped.mean_errors)
        gap_mean, gap_mean_error = shaped.gap_means()
        return Evaluation(
            mean=scale.restore(shaped.mean),
            gap_mean=gap_mean,
            covariance=table.covariance(),
            certificate=Certificate.certified(
                mean_errors, table.covariance_error(), model.discount, model.reward_bound, gap_mean_error
            ),
            outcome=outcome,
            coupling=operator.coupling,
            method=self,
            states=model.states,
            actions=model.actions,
            residuals=scale.restore(residuals, 2, 2 * unit),
            cross=table,
            moments=moments,
            ranges=ReturnRange(model, operator.policy),
        )

    def _should_refine(self, operator: PairOperator, outcome: Outcome) -> bool:
        """True if a refinement is cheap, or affordable and needed because rounding prevented convergence."""
        if outcome not in (Outcome.CONVERGED, Outcome.STALLED) or not refinable(operator):
            return False
        if outcome is Outcome.STALLED:
            return terms(operator) <= _AFFORDABLE
        return terms(operator) <= _CHEAP and operator.coupling.policy_luck == "independent"

    def _plan(self, operator: PairOperator, allowed: float) -> int:
        """Number of recorded changes that fit in memory beside the tables of a sweep; raises if those do not fit."""
        compiled = is_compiled(operator)
        tables = 2.0 if compiled or not operator.joint_steps else 6.0
        if self.order > 2:
            tables += sum(o // 2 for o in range(3, self.order + 1)) + _SOURCE_TABLES
        if operator.same_state is not None:
            tables += 4 * operator.same_state.sums.weight.size / operator.size
        self._require(operator.model, tables, allowed)
        if operator.same_place is not None:
            tables += 4 * operator.same_place.sums.weight.size / operator.size
        numbers, kind = change_record(operator)
        record = numbers * np.dtype(kind).itemsize * (1 if compiled else 3)  # NumPy multiplies copies of the record
        fitting = (allowed - tables * np.dtype(self.precision).itemsize * operator.size) // record
        wanted = min(max(_RECORD_BYTES // record, _FEWEST_RECORDED), _MOST_RECORDED)
        return int(min(wanted, fitting)) if fitting >= _FEWEST_RECORDED - 1 else 0

    def _require(self, model: TabularJMDP, tables: float, allowed: float) -> None:
        S = model.shape[0]
        fix = "Use ReachablePairs(state) for one state, or MonteCarlo(seed=…), which need no table of pairs"
        require(tables * np.dtype(self.precision).itemsize * S * S, allowed, f"ExactPairs on {S} states", fix)


def _symmetric(H: Floats) -> Floats:
    """H with its lower triangle on both sides: a refinement requires exact symmetry."""
    return np.asarray(np.tril(H) + np.tril(H, -1).T)
