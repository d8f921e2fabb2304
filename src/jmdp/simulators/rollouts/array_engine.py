"""Samples of a plan as arrays, for simulators with `step_many`: the draws of `python_engine`, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Integers
from jmdp.base.luck_batch import Shocks
from jmdp.simulators.rollouts.batch_policy import BatchPolicy
from jmdp.simulators.rollouts.batched_states import (
    WALKERS,
    BatchedDraws,
    DrawnAhead,
    States,
    Sums,
    codes_of,
    has_many_steps,
    many_steps,
    rows_of,
)
from jmdp.simulators.rollouts.draws import ENDED, Draws, EpisodeDraws
from jmdp.simulators.rollouts.plan import BranchPlan, add_policy_note
from jmdp.simulators.rollouts.python_engine import has_free_states
from jmdp.simulators.simulator import Simulator

_LAST: list[BatchedBranches] = []
"""The program used last. It is used again for an equal plan, because it stores samples that were drawn ahead."""


def batched_program(simulator: Simulator, plan: BranchPlan) -> Callable[[int, int], Draws] | None:
    """Program for samples (first, count) of the plan; None if they cannot be simulated as arrays.

    This requires `step_many`; of episodes, policies without memory. Under `Local` they need digests of single states.
    """
    if not has_many_steps(simulator):
        return None
    if plan.actions is None and (plan.by_digest or not has_free_states(simulator, plan)):
        return None
    if not (_LAST and _LAST[0].serves(simulator, plan)):
        _LAST[:] = [BatchedBranches(simulator, [plan])]
    return _LAST[0].draw


def joint_draws(simulator: Simulator, plans: Sequence[BranchPlan], first: int, count: int) -> list[Draws]:
    """Samples (first, count) of each of these plans of rollouts, which differ in state and seed only.

    Steps of many states at once cost little more than those of one. The simulator must have `step_many`.
    """
    found: list[Draws] = []
    together = max(1, WALKERS // (count * len(plans[0].actors)))
    for at in range(0, len(plans), together):
        some = plans[at : at + together]
        drawn = BatchedBranches(simulator, some).block(first, count)
        found += [drawn.rows(i * count, (i + 1) * count).draws() for i in range(len(some))]
    return found


class BatchedBranches:
    """Branches of a plan, or of several plans of rollouts that differ in state and seed only."""

    def __init__(self, simulator: Simulator, plans: Sequence[BranchPlan]) -> None:
        assert simulator.actions is not None
        plan = self._plan = plans[0]
        self._simulator, self._plans = simulator, len(plans)
        k = len(plan.actors)
        self._order = np.argsort(plan.branches) if plan.merges else np.arange(k)  # walkers that merge are in this order
        states = [state for one in plans for state in one.starts.states]
        self._starts = rows_of(simulator, states) if states else None
        self._first: Integers | None = None
        if plan.actions is not None:
            self._first = np.array([simulator.actions.position(action) for action in plan.actions])[self._order]
        self._luck = _Keys(plan, [one.seed for one in plans], np.array(plan.branches)[self._order])
        self._policies: list[BatchPolicy] = []  # made with the first state
        self._ahead = DrawnAhead(self._blocks)

    def serves(self, simulator: Simulator, plan: BranchPlan) -> bool:
        """Whether this is the program of this simulator and an equal plan."""
        if self._simulator is not simulator:
            return False
        one, two = (
            ([id(actor) for actor in p.actors], id(p.starts), p.coupling, p.discount, p.horizon, p.seed, p.fresh,
             p.branches, p.stratify, p.most, p.actions is None or list(p.actions))
            for p in (self._plan, plan)
        )  # fmt: skip
        return one == two

    def draw(self, first: int, count: int) -> Draws:
        """Samples first … first + count − 1."""
        found = self._ahead.draw(first, count, self._plan.most)
        drawn = found.draws()
        return drawn if self._first is not None else EpisodeDraws(**vars(drawn), starts=found.starts, paired=count)

    def _blocks(self, first: int, count: int) -> Iterable[BatchedDraws]:
        rows = max(1, WALKERS // self._order.size)
        for start in range(first, first + count, rows):
            yield self.block(start, min(rows, first + count - start))

    def block(self, first: int, count: int) -> BatchedDraws:
        """Samples (first, count) of the first plan, then those of the second, and so on."""
        from jmdp.simulators.rollouts.batched_kernel import add_rewards

        plan, luck = self._plan, self._luck
        luck.begin(first, count)
        crowd, starts = self._begin(first, count)
        if self._first is None:
            self._decide(crowd, 0)
        elif plan.merges:
            crowd.merge()
        n, k = crowd.at.shape
        sums, weight = Sums.zeros(n, k), 1.0
        for t in range(plan.horizon):
            shocks = luck.steps(crowd, t)
            rewards, after, ended = many_steps(self._simulator, crowd.states, crowd.actions, shocks, t)
            luck.drew |= shocks.used
            add_rewards(t, weight, rewards, crowd.at, *sums)
            weight *= plan.discount
            crowd.move(after, ended)
            if not len(crowd.states):
                break
            if self._first is not None or t + 1 < plan.horizon:  # whether rollouts have merged at the end counts
                self._decide(crowd, t + 1)
        return BatchedDraws(sums, crowd.ends(), luck.drew or plan.random_starts, starts).in_order(self._order)

    def _begin(self, first: int, count: int) -> tuple[_Crowd, Integers]:
        """All walkers at the start, and the numbers [n, k] of the starts of episodes; −1 if none are given."""
        plan, k, given = self._plan, self._order.size, self._starts
        if not plan.random_starts:
            numbers = np.repeat(np.arange(self._plans), count)
        elif plan.stratify:
            numbers = plan.start_numbers(first, count)
        elif given is not None:
            numbers = np.searchsorted(plan.starts.cumulative, self._luck.starts(count).uniform(), side="right")
        else:
            shocks = self._luck.starts(count)
            own = [self._simulator.start(shocks[i]) for i in range(len(shocks))]
            numbers = np.full(len(own), -1)
        states, example = (rows_of(self._simulator, own), own[0]) if given is None else (given[numbers], plan.state)
        actors = plan.actors if self._first is None else plan.actors[:1]
        self._policies = self._policies or [BatchPolicy(actor, self._simulator, example) for actor in actors]
        if self._first is not None:
            n = len(numbers)
            crowd = _Crowd(np.repeat(states, k, axis=0), np.tile(self._first, n), np.arange(n * k).reshape(n, k))
            return crowd, np.zeros((n, 0), np.int64)
        repeats = k * count // len(numbers)
        at = np.arange(count * k).reshape(k, count).T.copy()
        crowd = _Crowd(np.concatenate([states] * repeats), np.zeros(count * k, np.int64), at)
        return crowd, np.concatenate([numbers] * repeats).reshape(k, count).T

    def _decide(self, crowd: _Crowd, t: int) -> None:
        """Call the policies before step t, and merge branches with equal states and actions."""
        if self._first is not None:
            keys = partial(self._luck.policies, crowd.rows, crowd.branches, t - 1)  # those after the last step
            crowd.actions = self._policies[0](crowd.states, keys)
            if self._plan.merges:
                crowd.merge()
            return
        ends = np.searchsorted(crowd.branches, np.arange(len(self._policies) + 1))
        found = []
        for policy, actor, i, j in zip(self._policies, self._plan.actors, ends, ends[1:], strict=False):
            if i < j:
                try:
                    keys = partial(self._luck.policies, crowd.rows[i:j], crowd.branches[i:j], t)
                    found.append(policy(crowd.states[i:j], keys))
                except Exception as error:
                    add_policy_note(error, actor, t, t)
                    raise
        crowd.actions = np.concatenate(found)


class _Crowd:
    """Walkers of a block of samples, as arrays; `batched_kernel` defines the terms.

    Those of rollouts are ordered by sample, because they merge; those of episodes by branch, because each has a policy.
    """

    def __init__(self, states: States, actions: Integers, at: Integers) -> None:
        self.states, self.actions = states, actions  # [w, …], [w]
        self.at = at  # [n, k], walker of each branch; −1 if it has ended
        self._samples = len(at)  # with walkers
        self.rows, self.branches = np.empty(at.size, np.int64), np.empty(at.size, np.int64)  # [w], sample, first branch
        self.rows[at], self.branches[at] = np.arange(len(at))[:, None], np.arange(at.shape[1])

    def move(self, states: States, ended: npt.NDArray[np.bool_]) -> None:
        """Replace the states by the next ones, and drop walkers that have ended."""
        self.states = states
        if ended.any():
            self._keep(np.flatnonzero(~ended), np.where(ended, -1, np.cumsum(~ended) - 1))
            self._samples = len(np.unique(self.rows))

    def merge(self) -> None:
        """Merge walkers of one sample with equal states and actions."""
        from jmdp.simulators.rollouts.batched_kernel import merge

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
        self.at = np.append(number, -1)[self.at]  # at = −1 is the last entry

    def first_in_state(self) -> Integers:
        """First branch [w] of the sample that is in the same state as the walker."""
        from jmdp.simulators.rollouts.batched_kernel import first_in_state

        if len(self.rows) == self._samples:
            return self.branches
        out = np.empty(len(self.rows), np.int64)
        first_in_state(codes_of(self.states), self.rows, self.branches, out)
        return out

    def ends(self) -> npt.NDArray[np.int32]:
        """`Draws.ends` [n, k]."""
        return np.append(self.branches, ENDED).astype(np.int32)[self.at]  # at = −1 is the last entry


class _Keys:
    """Shocks of all walkers, the same as those that `BranchPlan` and `Coupling` give to each."""

    def __init__(self, plan: BranchPlan, seeds: Sequence[int], numbers: Integers) -> None:
        self._numbers = numbers  # [k], of the branches
        self._seeds, self._fresh, self._coupling = seeds, plan.fresh, plan.coupling
        self.drew = False  # whether any step or policy of the block used its shock

    def begin(self, first: int, count: int) -> None:
        """Begin a block of samples."""
        self.drew = False
        self._roots = Shocks.of_samples(self._seeds, first, count)
        self._of_steps = self._roots.derived(b"fresh steps") if "steps" in self._fresh else self._roots
        self._of_policies = self._roots.derived(b"fresh policies") if "policies" in self._fresh else self._roots

    def starts(self, count: int) -> Shocks:
        """Shocks of the starts [n], or of all walkers [k n] if branches draw their own."""
        if self._coupling.shared_in_a_state:
            return self._roots.derived(b"start")
        k = self._numbers.size
        return self._roots.rows(np.tile(np.arange(count), k)).derived(b"start", 0, np.repeat(self._numbers, count))

    def steps(self, crowd: _Crowd, t: int) -> Shocks:
        """Shocks of step t."""
        if self._coupling.shared_between_states:
            return self._of_steps.derived(b"environment", t).rows(crowd.rows)
        branches = crowd.first_in_state() if self._coupling.shared_in_a_state else crowd.branches
        return self._of_steps.rows(crowd.rows).derived(b"environment", t, self._numbers[branches])

    def policies(self, rows: Integers, branches: Integers, t: int) -> Shocks:
        """Shocks of the policies of these walkers, which they use."""
        self.drew = True
        if self._coupling.policy_luck == "shared":
            return self._of_policies.derived(b"policy", t).rows(rows)
        return self._of_policies.rows(rows).derived(b"policy", t, self._numbers[branches])
