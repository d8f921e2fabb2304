"""ExactPairs over a finite horizon: a backward recursion whose only error is rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, largest
from jmdp.base.progress import count_bar
from jmdp.base.scale import Scale
from jmdp.methods.exact_pairs.horizon_step import HorizonStep, Problem, Values
from jmdp.methods.exact_pairs.moment_errors import ErrorScales
from jmdp.methods.exact_pairs.moment_operator import MomentSources
from jmdp.methods.exact_pairs.pair_moments import PairMoments
from jmdp.methods.exact_pairs.pair_sweep import PairSweep
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.return_range import TableRange
from jmdp.methods.shared.reward_units import RewardUnits
from jmdp.models.coupling import Coupling
from jmdp.models.horizon import Horizon
from jmdp.models.policy import TabularPolicy
from jmdp.models.policy_blocks import PolicyBlocks
from jmdp.models.tabular import TabularJMDP
from jmdp.results.outcome import Outcome

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
        return PairMoments(order, self.step, scales, single, tables, entries, bounds, Outcome.ALL_STEPS)


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


def horizon_problem(model: TabularJMDP, coupling: Coupling, horizon: Horizon, blocks: PolicyBlocks | None) -> Problem:
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
