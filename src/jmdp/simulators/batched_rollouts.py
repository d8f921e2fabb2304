"""Paired rollouts as arrays, for simulators with `step_many`: the same draws as those of `rollouts`, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Integers
from jmdp.base.luck_batch import Shocks
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.batched_draws import WALKERS, BatchedDraws, DrawnAhead, Sums
from jmdp.simulators.batched_policies import BatchPolicy
from jmdp.simulators.batched_states import States, codes_of, has_many_steps, many_steps, rows_of
from jmdp.simulators.draws import ENDED, Draws
from jmdp.simulators.rollouts import RolloutPlan
from jmdp.simulators.simulator import Simulator

_LAST: list[BatchedRollouts] = []
"""The program used last. It is used again for an equal plan, because it stores samples that were drawn ahead."""


def batched_draws(simulator: Simulator, actor: Actor, plan: RolloutPlan) -> Callable[[int, int], Draws] | None:
    """Program for samples (first, count) of the plan; None if the simulator has no `step_many`."""
    if not has_many_steps(simulator):
        return None
    program = BatchedRollouts(simulator, actor, [plan])
    if _LAST and _LAST[0].same_as(program):
        return _LAST[0].draw
    _LAST[:] = [program]
    return program.draw


def joint_draws(
    simulator: Simulator, actor: Actor, plans: Sequence[RolloutPlan], first: int, count: int
) -> list[Draws]:
    """Samples (first, count) of each of these plans, which differ in state and seed only.

    Steps of many states at once cost little more than those of one. The simulator must have `step_many`.
    """
    found: list[Draws] = []
    together = max(1, WALKERS // (count * len(plans[0].actions)))
    for at in range(0, len(plans), together):
        some = plans[at : at + together]
        drawn = BatchedRollouts(simulator, actor, some)._block(first, count)
        found += [drawn.rows(i * count, (i + 1) * count).draws() for i in range(len(some))]
    return found


class BatchedRollouts:
    """Rollouts of one or more plans, which differ in state and seed only."""

    def __init__(self, simulator: Simulator, actor: Actor, plans: Sequence[RolloutPlan]) -> None:
        assert simulator.actions is not None
        plan = plans[0]
        self.simulator, self.actor = simulator, actor
        self._states = rows_of(simulator, [one.state for one in plans])
        self._order = np.argsort(plan.branches)  # walkers of a sample are ordered by the numbers of their branches
        self._actions = np.array([simulator.actions.position(action) for action in plan.actions])[self._order]
        seeds = tuple(one.seed for one in plans)
        self._luck = _RolloutKeys(plan.coupling, seeds, np.array(plan.branches)[self._order])
        self._discount, self._horizon = plan.discount, plan.horizon
        self._policy = BatchPolicy(actor, simulator, plan.state)
        self._ahead = DrawnAhead(self._blocks)

    def same_as(self, other: BatchedRollouts) -> bool:
        """Whether the other program has the same simulator and policy, and an equal plan."""
        one, two = (
            (id(p.simulator), id(p.actor), p._luck.setting, p._discount, p._horizon, p._actions.tolist(),
             p._states.dtype, p._states.tobytes(), p._order.tolist())
            for p in (self, other)
        )  # fmt: skip
        return one == two

    def draw(self, first: int, count: int) -> Draws:
        """Samples first … first + count − 1."""
        return self._ahead.draw(first, count).draws()

    def _blocks(self, first: int, count: int) -> Iterable[BatchedDraws]:
        rows = max(1, WALKERS // self._actions.size)
        for start in range(first, first + count, rows):
            yield self._block(start, min(rows, first + count - start))

    def _block(self, first: int, count: int) -> BatchedDraws:
        """Samples (first, count) of the first plan, then those of the second, and so on."""
        from jmdp.simulators.batched_kernel import add_rewards

        k, n = self._actions.size, len(self._states) * count
        self._luck.begin(first, count)
        crowd = _Crowd(np.repeat(self._states, count * k, axis=0), np.tile(self._actions, n), n, k)
        if self._luck.coupling.shared_in_a_state:
            crowd.merge()
        sums, weight = Sums.zeros(n, k), 1.0
        for t in range(self._horizon):
            shocks = self._luck.environment(crowd, t)
            rewards, after, ended = many_steps(self.simulator, crowd.states, crowd.actions, shocks, t)
            self._luck.drew |= shocks.used
            add_rewards(t, weight, rewards, crowd.at, *sums)
            weight *= self._discount
            crowd.move(after, ended)
            if not len(crowd.states):
                break
            crowd.actions = self._policy(crowd.states, partial(self._luck.policy, crowd, t))
            if self._luck.coupling.shared_in_a_state:
                crowd.merge()
        drawn = BatchedDraws(sums, crowd.ends(), self._luck.drew, np.zeros((n, 0), np.int64))
        return drawn.in_order(self._order)


class _Crowd:
    """Walkers of a block of samples, as arrays; `batched_kernel` defines the terms."""

    def __init__(self, states: States, actions: Integers, n: int, k: int) -> None:
        self.states, self.actions = states, actions  # [w, …], [w]
        self.rows = np.repeat(np.arange(n), k)  # [w], sample
        self.branches = np.tile(np.arange(k), n)  # [w], first branch
        self.at = np.arange(n * k).reshape(n, k)  # [n, k], walker of each branch; −1 if it has ended
        self._samples = n  # with walkers

    def move(self, states: States, ended: Any) -> None:
        """Replace the states by the next ones, and drop walkers that have ended."""
        self.states = states
        if ended.any():
            self._keep(np.flatnonzero(~ended), np.where(ended, -1, np.cumsum(~ended) - 1))
            self._samples = len(np.unique(self.rows))

    def merge(self) -> None:
        """Merge walkers of one sample with equal states and actions."""
        from jmdp.simulators.batched_kernel import merge

        if len(self.rows) == self._samples:
            return
        same = np.empty(len(self.rows), np.int64)
        if merge(codes_of(self.states), self.actions, self.rows, same):
            stays = same == np.arange(len(same))
            self._keep(np.flatnonzero(stays), (np.cumsum(stays) - 1)[same])

    def _keep(self, kept: Integers, number: Integers) -> None:
        """Keep these walkers; number[w] is the new number of walker w."""
        self.states, self.actions = self.states[kept], self.actions[kept]
        self.rows, self.branches = self.rows[kept], self.branches[kept]
        self.at = np.where(self.at >= 0, number[self.at], -1)

    def first_in_state(self) -> Integers:
        """First branch [w] of the sample that is in the same state as the walker."""
        from jmdp.simulators.batched_kernel import first_in_state

        if len(self.rows) == self._samples:
            return self.branches
        out = np.empty(len(self.rows), np.int64)
        first_in_state(codes_of(self.states), self.rows, self.branches, out)
        return out

    def ends(self) -> npt.NDArray[np.int32]:
        """`Draws.ends` [n, k]."""
        return np.append(self.branches, ENDED).astype(np.int32)[self.at]  # at = −1 is the last entry


class _RolloutKeys:
    """Shocks of all walkers, the same as those that `Coupling` gives to each."""

    def __init__(self, coupling: Coupling, seeds: tuple[int, ...], numbers: Integers) -> None:
        self.coupling, self._seeds = coupling, seeds
        self.setting = coupling, seeds, tuple(numbers.tolist())
        self._numbers = numbers  # [k], of the branches
        self.drew = False  # whether any step or policy of the block used its shock

    def begin(self, first: int, count: int) -> None:
        """Begin a block of samples."""
        self.drew = False
        self._roots = Shocks.of_samples(self._seeds, first, count)

    def environment(self, crowd: _Crowd, t: int) -> Shocks:
        """Shocks of step t."""
        if self.coupling.shared_between_states:
            return self._roots.derived(b"environment", t).rows(crowd.rows)
        branches = crowd.first_in_state() if self.coupling.shared_in_a_state else crowd.branches
        return self._roots.rows(crowd.rows).derived(b"environment", t, self._numbers[branches])

    def policy(self, crowd: _Crowd, t: int) -> Shocks:
        """Shocks of the policy after step t, which it uses."""
        self.drew = True
        if self.coupling.policy_luck == "shared":
            return self._roots.derived(b"policy", t).rows(crowd.rows)
        return self._roots.rows(crowd.rows).derived(b"policy", t, self._numbers[crowd.branches])
