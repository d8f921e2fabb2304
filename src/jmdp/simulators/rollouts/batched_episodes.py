"""Paired episodes as arrays, for simulators with `step_many`: the same draws as those of `episodes`, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from jmdp.base.arrays import Integers
from jmdp.base.luck_batch import Shocks
from jmdp.models.actors.actor import Actor
from jmdp.simulators.rollouts.batched_rollouts import BatchPolicy
from jmdp.simulators.rollouts.batched_states import (
    WALKERS,
    BatchedDraws,
    DrawnAhead,
    States,
    Sums,
    has_many_steps,
    many_steps,
    rows_of,
)
from jmdp.simulators.rollouts.draws import ENDED
from jmdp.simulators.rollouts.episodes import EpisodeDraws, EpisodePlan, add_policy_note
from jmdp.simulators.simulator import Simulator

_LAST: list[BatchedEpisodes] = []
"""The program used last. It is used again for the same plan, because it stores samples that were drawn ahead."""


def batched_episodes(simulator: Simulator, plan: EpisodePlan) -> Callable[[int, int], EpisodeDraws] | None:
    """Program for samples (first, count) of the plan; None if they cannot be simulated as arrays.

    This requires `step_many` and policies without memory. `Local` needs digests of single states.
    """
    possible = (
        has_many_steps(simulator)
        and type(simulator).episode is Simulator.episode
        and all(type(actor).for_episode is Actor.for_episode for actor in plan.actors)
        and plan.coupling.shared_in_a_state == plan.coupling.shared_between_states
    )
    if not possible:
        return None
    program = BatchedEpisodes(simulator, plan)
    if _LAST and _LAST[0].same_as(program):
        return _LAST[0].draw
    _LAST[:] = [program]
    return program.draw


class BatchedEpisodes:
    """Episodes of a plan."""

    def __init__(self, simulator: Simulator, plan: EpisodePlan) -> None:
        self.simulator = simulator
        self._plan = plan
        self._setting = plan.coupling, plan.discount, plan.horizon, plan.seed, plan.fresh, plan.branches, plan.stratify
        self._actors, self._starts, self._luck = plan.actors, plan.starts, _EpisodeKeys(plan)
        self._discount, self._horizon = plan.discount, plan.horizon
        self._start_rows = rows_of(simulator, list(plan.starts.states)) if plan.starts.given else None
        self._policies: list[BatchPolicy] = []
        self._ahead = DrawnAhead(self._blocks)

    def same_as(self, other: BatchedEpisodes) -> bool:
        """Whether the other program has the same simulator, policies and starts, and an equal plan."""
        one, two = (
            (id(p.simulator), id(p._starts), [id(actor) for actor in p._actors], p._setting) for p in (self, other)
        )
        return one == two

    def draw(self, first: int, count: int) -> EpisodeDraws:
        """Samples first … first + count − 1."""
        found = self._ahead.draw(first, count)
        return EpisodeDraws(**vars(found.draws()), starts=found.starts, paired=count)

    def _blocks(self, first: int, count: int) -> Iterable[BatchedDraws]:
        rows = max(1, WALKERS // len(self._actors))
        for start in range(first, first + count, rows):
            yield self._block(start, min(rows, first + count - start))

    def _block(self, first: int, n: int) -> BatchedDraws:
        """Samples first … first + n − 1. Walkers are ordered by policy, then by sample."""
        from jmdp.simulators.rollouts.batched_kernel import add_rewards

        k, luck = len(self._actors), self._luck
        luck.begin(first, n)
        states, starts = self._begin(first, n)
        rows, branches = np.tile(np.arange(n), k), np.repeat(np.arange(k), n)
        at = np.arange(n * k).reshape(k, n).T.copy()
        sums, weight = Sums.zeros(n, k), 1.0
        for t in range(self._horizon):
            actions = self._actions(states, rows, branches, t)
            shocks = luck.steps(rows, branches, t)
            rewards, states, ended = many_steps(self.simulator, states, actions, shocks, t)
            luck.drew |= shocks.used
            add_rewards(t, weight, rewards, at, *sums)
            weight *= self._discount
            if ended.any():
                kept = np.flatnonzero(~ended)
                at = np.append(np.where(ended, -1, np.cumsum(~ended) - 1), -1)[at]  # at = −1 is the last entry
                states, rows, branches = states[kept], rows[kept], branches[kept]
                if not kept.size:
                    break
        ends = np.where(at >= 0, np.arange(k), ENDED).astype(np.int32)
        return BatchedDraws(sums, ends, luck.drew or len(self._starts.states) != 1, starts)

    def _begin(self, first: int, n: int) -> tuple[States, Integers]:
        """First states of all walkers, and the numbers [n, k] of the starts; −1 if none are given."""
        k, shocks = len(self._actors), self._luck.starts(n)
        if self._start_rows is None:
            found = [self.simulator.start(shocks[i]) for i in range(len(shocks))]
            states, numbers, example = rows_of(self.simulator, found), np.full(len(found), -1), found[0]
        else:
            numbers = self._plan.start_numbers(first, n)
            if not self._plan.stratify:
                numbers = np.searchsorted(self._starts.cumulative, shocks.uniform(), side="right")
            states, example = self._start_rows[numbers], self._starts.states[0]
        if not self._policies:
            self._policies = [BatchPolicy(actor, self.simulator, example) for actor in self._actors]
        repeats = k * n // len(numbers)
        states = np.concatenate([states] * repeats)
        return states, np.concatenate([numbers] * repeats).reshape(k, n).T

    def _actions(self, states: States, rows: Integers, branches: Integers, t: int) -> Integers:
        """Actions of all walkers, each by its own policy."""
        ends = np.searchsorted(branches, np.arange(len(self._policies) + 1))
        found = []
        for policy, actor, i, j in zip(self._policies, self._actors, ends, ends[1:], strict=False):
            if i < j:
                try:
                    found.append(policy(states[i:j], partial(self._luck.policies, rows[i:j], branches[i:j], t)))
                except Exception as error:
                    add_policy_note(error, actor, t, t)
                    raise
        return np.concatenate(found)


class _EpisodeKeys:
    """Shocks of all walkers, the same as those that `EpisodePlan` gives to each."""

    def __init__(self, plan: EpisodePlan) -> None:
        self._numbers = np.array(plan.branches)  # [k], of the policies
        self._seed, self._fresh, self._separate = plan.seed, plan.fresh, plan.separate_starts
        self._shared_steps = plan.coupling.shared_between_states
        self._shared_policies = plan.coupling.policy_luck == "shared"
        self.drew = False  # whether any step or policy of the block used its shock

    def begin(self, first: int, n: int) -> None:
        """Begin a block of samples."""
        self.drew = False
        self._roots = Shocks.of_samples([self._seed], first, n)
        self._of_steps = self._roots.derived(b"fresh steps") if "steps" in self._fresh else self._roots
        self._of_policies = self._roots.derived(b"fresh policies") if "policies" in self._fresh else self._roots

    def starts(self, n: int) -> Shocks:
        """Shocks of the starts [n], or of all walkers [k n] if policies draw their own."""
        if not self._separate:
            return self._roots.derived(b"start")
        k = self._numbers.size
        return self._roots.rows(np.tile(np.arange(n), k)).derived(b"start", 0, np.repeat(self._numbers, n))

    def steps(self, rows: Integers, branches: Integers, t: int) -> Shocks:
        """Shocks of step t."""
        return self._derived(self._of_steps, b"environment", t, rows, None if self._shared_steps else branches)

    def policies(self, rows: Integers, branches: Integers, t: int) -> Shocks:
        """Shocks of the policies before step t, which they use."""
        self.drew = True
        return self._derived(self._of_policies, b"policy", t, rows, None if self._shared_policies else branches)

    def _derived(self, roots: Shocks, purpose: bytes, t: int, rows: Integers, branches: Integers | None) -> Shocks:
        if branches is None:
            return roots.derived(purpose, t).rows(rows)
        return roots.rows(rows).derived(purpose, t, self._numbers[branches])
