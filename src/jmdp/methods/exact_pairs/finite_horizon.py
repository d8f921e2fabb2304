"""ExactPairs over a finite horizon: a backward recursion whose only error is rounding.

Evaluations over a finite horizon, of one policy's actions or of several policies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, Scale, largest
from jmdp.base.labels import Labels
from jmdp.base.progress import count_bar
from jmdp.methods.exact_pairs.horizon_step import HorizonStep, Problem, Values
from jmdp.methods.exact_pairs.moment_operator import MomentSources
from jmdp.methods.exact_pairs.pair_sweep import PairSweep
from jmdp.methods.exact_pairs.pair_table import ErrorScales, PairMoments
from jmdp.methods.exact_pairs.policy_pairs import PolicyMoments, places, value_gaps
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.return_range import PolicyRanges, RewardUnits, TableRange
from jmdp.models.coupling import Coupling
from jmdp.models.policy import StackedTable, TabularPolicy
from jmdp.models.tabular import Horizon, TabularJMDP
from jmdp.results.certificate import Certificate, Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.parts import CrossCovariances, MethodSettings

Tables = dict[tuple[int, int], Floats]


@dataclass(frozen=True, eq=False)
class Recursion:
    """The last backward step, with its input and output tables."""

    step: HorizonStep
    before: Tables  # with one step less to go, for the lookahead of given actions
    errors_before: list[float]
    values_before: Values
    after: Tables
    errors: list[float]

    def moments(self, order: int) -> PairMoments:
        """Moments of the returns of given first actions, by a one-step lookahead."""
        return self._moments(order, self.values_before.moments, self.before, self.errors_before)

    def drawn_moments(self, order: int) -> PairMoments:
        """Moments, around the exact means, of branches that also draw their first action."""
        off = float(self.step.after.error.max())
        sizes = [largest(values) for values in self.step.after.moments]
        errors = [
            error + math.fsum(math.comb(o, m) * off ** (o - m) * (sizes[m] + self.errors[m]) for m in range(o))
            for o, error in enumerate(self.errors)
        ]
        return self._moments(order, self.step.after.moments, self.after, errors)

    def _moments(self, order: int, single: list[Floats], tables: Tables, errors: list[float]) -> PairMoments:
        entries = [np.full((1, 1), entry) for entry in _largest_entries(single, tables)]
        bounds = [np.full((1, 1), error) for error in errors]
        scales = ErrorScales(self.step, order)
        return PairMoments(self.step, scales, single, tables, entries, bounds, Outcome.ALL_STEPS)


def recursion(problem: Problem, policies: Sequence[TabularPolicy], order: int, progress: bool) -> Recursion:
    """Run all backward steps from the horizon; `policies` are in chronological order."""
    S = problem.model.shape[0]
    nothing = np.zeros(S)
    worth = problem.final != 0
    lost = np.where(worth, UNDERFLOW, 0.0)  # small values may underflow in the division
    final = dd.of(problem.rewards.scale.divide(problem.final))
    values = Values(final, lost, [np.ones(S), *[nothing] * order], nothing, worth)
    tables: Tables = {(i, o - i): np.zeros((S, S)) for o in range(2, order + 1) for i in range(1, o)}
    errors = [0.0] * (order + 1)
    with count_bar("backward steps", progress, 0, len(policies)) as bar:
        for count, policy in enumerate(reversed(policies), 1):
            step = HorizonStep(problem, policy, values)
            found = Recursion(step, tables, errors, values, *_after(step, values, tables, errors))
            tables, errors, values = found.after, found.errors, step.after
            bar(count)
    return found


def _after(step: HorizonStep, before: Values, tables: Tables, errors: list[float]) -> tuple[Tables, list[float]]:
    """Tables of all orders after one backward step, and bounds on their errors, by order."""
    S, order = step.model.shape[0], len(errors) - 1
    found: Tables = {(1, 1): np.zeros((S, S))}
    if step.joint_steps or step.coupling.shared_in_a_state:
        with PairSweep(step) as sweep:
            sweep(tables[1, 1], found[1, 1])
            sweep.whole(found[1, 1])
    off = [0.0, float(step.after.error.max()), float((step.after.pair_error**2).max())]
    if order == 2:
        return found, off
    sources, scales = MomentSources(step, order), ErrorScales(step, order)
    entries = _largest_entries(before.moments, tables)
    for o in range(3, order + 1):
        for j in range(1, o // 2 + 1):
            i = o - j
            whole = np.zeros((S, S))
            for part in sources.parts(i, j, before.moments, tables):
                known = part
                if step.same_state is None and part.on_diagonal is not None and part.mirror > 0:
                    known = replace(part, on_diagonal=step.after.moments[o])  # merged branches
                old = np.ascontiguousarray((tables[i, j] + part.mirror * tables[i, j].T) / 2)
                new = np.zeros((S, S))
                with PairSweep(known) as sweep:
                    sweep(old, new)
                    sweep.whole(new)
                whole += new
            found[i, j], found[j, i] = whole, whole.T
        step_error = float(scales.rounding(o, entries, scales.drawn).max()) + 4 * ROUNDOFF * largest(found[o - 1, 1])
        later = float(scales.sum(o, o + 1, errors, scales.drawn).max())
        off.append((step_error + later) * (1 + 2.0**-40))
    return found, off


def _largest_entries(single: list[Floats], tables: Tables) -> list[float]:
    """Largest entry of each order, over single returns and pairs."""
    return [
        max([largest(own), *(largest(table) for (p, q), table in tables.items() if p + q == o)])
        for o, own in enumerate(single)
    ]


def horizon_problem(model: TabularJMDP, coupling: Coupling, horizon: Horizon, blocks: StackedTable | None) -> Problem:
    """The problem with rewards scaled to size 1."""
    table, final = model, horizon.final
    if blocks is not None:
        table, worth = blocks.model, np.zeros((blocks.count, blocks.block))
        worth[:, : blocks.states] = horizon.final
        final = worth.ravel()
    scale = Scale.above(max(model.reward_bound, float(np.abs(final).max())))
    rewards = RewardUnits(scale, scale.divide(model.reward_bound), scale.divide(table.reward))
    return Problem(table, coupling, rewards, final, blocks)


@dataclass(frozen=True, eq=False)
class HorizonRange(TableRange):
    """Smallest and largest possible return of each alternative over the horizon, rounded outwards."""

    model: TabularJMDP
    policies: Sequence[TabularPolicy]
    final: Floats

    @property
    def first_policy(self) -> TabularPolicy:
        """Policy of the first step."""
        return self.policies[0]

    def _bound(self, sign: float) -> Floats:
        model, reward, final = self.model, sign * self.model.reward, sign * self.final
        possible = np.where(model.prob > 0, 0.0, -np.inf)[:, :, None]
        state = np.where(model.terminal, 0.0, final)
        for policy in reversed(self.policies):
            later = model.discount * state[model.next_state]
            slip = 2.0**-50 * (np.abs(reward) + np.abs(later)) + np.where((reward != 0) | (later != 0), 2.0**-1073, 0.0)
            action = (reward + later + slip + possible).max(axis=1)
            drawn = np.where(policy.probs > 0, action, -np.inf).max(axis=1)
            state = np.where(model.terminal, 0.0, drawn)
        return np.where(model.terminal[:, None], 0.0, action)


_UP = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class ActionsAhead(CrossCovariances):
    """Covariances of the returns of first actions in different states, by a lookahead of one step."""

    step: HorizonStep
    H: Floats  # [S, S], with one step less to go
    error: Floats  # [S, A]; the error of a covariance is at most the product of two entries

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b)) for s ≠ t."""
        return self.step.shaped.scale.restore(self.step.cross_covariance(self.H, s, a, t, b), 2)

    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of `cross_covariance`."""
        return self.step.shaped.scale.restore_error(float(self.error[s, a] * self.error[t, b]) * _UP, 2)


@dataclass(frozen=True, eq=False)
class PoliciesAhead(CrossCovariances):
    """Covariances of the returns of different policies from different states."""

    scale: Scale
    blocks: StackedTable
    H: Floats  # [S, S] over the states of all blocks
    error: Floats  # [S]; the error of a covariance is at most the product of two entries

    def cross_covariance(self, s: int, i: int, t: int, j: int) -> float:
        """Covariance of the returns of policy i from s and of policy j from t."""
        return self.scale.restore(float(self.H[places(self.blocks, s, i, t, j)]), 2)

    def cross_covariance_error(self, s: int, i: int, t: int, j: int) -> float:
        """Bound on the error of `cross_covariance`."""
        x, y = places(self.blocks, s, i, t, j)
        return self.scale.restore_error(float(self.error[x] * self.error[y]) * _UP, 2)


class HorizonSolver:
    """Evaluator over one finite horizon, of moments up to a given order."""

    def __init__(self, method: MethodSettings, order: int, coupling: Coupling, horizon: Horizon) -> None:
        self._method, self._order, self._coupling, self._horizon = method, order, coupling, horizon

    def of_actions(self, model: TabularJMDP, policy: Sequence[TabularPolicy], progress: bool) -> Evaluation:
        """Evaluate each first action, followed by the policy."""
        problem = horizon_problem(model, self._coupling, self._horizon, None)
        found = recursion(problem, policy, self._order, progress)
        step = found.step
        error = step.action_error()
        return self._evaluation(
            model,
            model.actions,
            found,
            (step.shaped.mean, step.shaped.mean_errors),
            step.shaped.gap_means(),
            (step.covariance(found.before[1, 1]), error[:, :, None] * error[:, None, :] * _UP),
            {
                "cross": ActionsAhead(step, found.before[1, 1], error),
                "moments": found.moments(self._order) if self._order > 2 else None,
                "ranges": HorizonRange(model, policy, self._horizon.final),
            },
        )

    def of_policies(
        self, model: TabularJMDP, policies: Mapping[str, Sequence[TabularPolicy]], progress: bool
    ) -> Evaluation:
        """Evaluate each policy from the first step on."""
        blocks = StackedTable.of([model] * len(policies))
        together = [blocks.policy(now) for now in zip(*policies.values(), strict=True)]
        problem = horizon_problem(model, self._coupling, self._horizon, blocks)
        found = recursion(problem, together, self._order, progress)
        values, shaped = found.step.after, found.step.shaped
        covariance = blocks.within_states(values.moments[2], found.after[1, 1])
        own = values.pair_error + values.error
        error = blocks.at(own)
        return self._evaluation(
            model,
            Labels.of("policy", len(policies), list(policies)),
            found,
            (blocks.at(shaped.value.high), blocks.at(shaped.value_errors + np.abs(shaped.value.low))),
            value_gaps(shaped, blocks),
            (covariance, error[:, :, None] * error[:, None, :] * _UP),
            {
                "cross": PoliciesAhead(shaped.scale, blocks, found.after[1, 1], own),
                "moments": PolicyMoments(found.drawn_moments(self._order), blocks) if self._order > 2 else None,
                "ranges": PolicyRanges(
                    [HorizonRange(model, steps, self._horizon.final) for steps in policies.values()]
                ),
            },
        )

    def _evaluation(
        self,
        model: TabularJMDP,
        alternatives: Labels,
        found: Recursion,
        mean: tuple[Floats, Floats],  # values and errors
        gap_mean: tuple[Floats, Floats],  # the same, on the original scale
        covariance: tuple[Floats, Floats],
        parts: dict[str, Any],  # those of the evaluation that answer later questions
    ) -> Evaluation:
        scale = found.step.shaped.scale
        mean_error = scale.restore_error(mean[1] * _UP)
        return Evaluation(
            mean=scale.restore(mean[0]),
            gap_mean=gap_mean[0],
            covariance=scale.restore(covariance[0], 2),
            certificate=Certificate.certified(
                mean_error, scale.restore_error(covariance[1], 2), model.discount, model.reward_bound, gap_mean[1]
            ),
            outcome=Outcome.ALL_STEPS,
            coupling=self._coupling,
            method=self._method,
            states=model.states,
            actions=alternatives,
            residuals=np.zeros(0),
            **parts,
        )
