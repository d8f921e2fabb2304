"""Paired rollouts: every action from one state, under the randomness that the coupling shares.

Sample n has a root key, H(seed, n), from which the keys of all its steps derive (`Coupling.environment_shock` and
`Coupling.policy_shock`). A key depends on the state or coordinate of a branch only through the question which other
branches are there too. So the smallest number of the branches in a state, or at a coordinate, replaces its digest.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.luck import Shock, Usage
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.batched_rollouts import batched_draws
from jmdp.simulators.branch_numbers import BranchNumbers, branch_bytes
from jmdp.simulators.fingerprints import equal_values, fingerprints
from jmdp.simulators.lazy_shocks import LazyShocks
from jmdp.simulators.reward_sums import RewardSums
from jmdp.simulators.simulator import ENDED, Draws, Simulator, finite_reward, three_parts


@dataclass(frozen=True, kw_only=True, eq=False)
class RolloutPlan(BranchNumbers):
    """Settings of paired rollouts: each action from one state, then the policy for the rest of `horizon` steps."""

    state: Any
    actions: Sequence[Any]
    coupling: Coupling
    discount: float
    horizon: int
    seed: int

    def __post_init__(self) -> None:
        self._number(len(self.actions))


def paired_draws(simulator: Simulator, actor: Actor, plan: RolloutPlan, first: int, count: int) -> Draws:
    """Returns of the plan's actions in samples first … first + count − 1.

    Each sample is a pure function of the seed, its number and the plan's actions. Branch i takes actions[i], then
    follows the policy. Branches with equal states and actions under shared randomness merge: they are simulated once
    from there on.
    """
    compiled = simulator.compiled_draws(actor, plan)
    if compiled is None and count > 1:  # single samples are simulated step by step, for `check_repeatable`
        compiled = batched_draws(simulator, actor, plan)
    if compiled is not None:
        return compiled(first, count)
    rollouts = _Rollouts(simulator, actor, plan, count)
    rows = max(1, simulator.lanes // len(plan.actions))
    for start in range(0, count, rows):
        samples = range(start, min(start + rows, count))
        rollouts.run([(i, Shock.of_sample(plan.seed, first + i, rollouts.usage)) for i in samples])
    return rollouts.drawn()


def enough_steps(discount: float, lost: float) -> int:
    """Smallest horizon T ≥ 1 with γ^T/(1 − γ) ≤ lost."""
    if discount == 0:
        return 1
    return max(1, math.ceil(math.log(lost * (1 - discount)) / math.log(discount)))


class _Walker:
    """One simulated rollout: a branch of a sample, and all branches that have merged into it."""

    __slots__ = ("action", "branch", "number", "over", "place", "rewards", "root", "state")

    def __init__(self, root: Shock, branch: int, number: int, place: int, state: Any, action: Any) -> None:
        self.root, self.branch, self.state, self.action = root, branch, state, action
        self.number = number  # original number of the branch
        self.place = place  # walkers of a sample with equal places receive the same shock
        self.rewards: list[float] = []
        self.over = False


class _Sample:
    """The walkers of one sample, in the order of their numbers."""

    __slots__ = ("all", "merged", "row", "walkers")

    def __init__(self, row: int, walkers: list[_Walker], merged: list[tuple[_Walker, _Walker]]) -> None:
        self.row, self.walkers, self.merged = row, walkers, merged  # merged: (walker that is gone, its continuation)
        self.all = [*walkers, *(gone for gone, _ in merged)]


class _Rollouts:
    """Samples simulated in lockstep, so that the policy is called on batches."""

    def __init__(self, simulator: Simulator, actor: Actor, plan: RolloutPlan, count: int) -> None:
        self._simulator, self._actor, self._plan, self._coupling = simulator, actor, plan, plan.coupling
        self.usage = Usage()
        self._sums = RewardSums(count, len(plan.actions), plan.discount)
        self._ends = np.full((count, len(plan.actions)), ENDED, np.int32)
        self._steps, self._shared = 0, 0
        self._meet = plan.coupling.shared_in_a_state
        self._local = self._meet and not plan.coupling.shared_between_states
        self._order = sorted(range(len(plan.actions)), key=plan.branches.__getitem__)

    def run(self, samples: list[tuple[int, Shock]]) -> None:
        begun = under_way = [self._begin(row, root) for row, root in samples]
        for t in range(self._plan.horizon):
            walkers, under_way = self._step(under_way, t)
            if not walkers:
                break
            self._decide(walkers, under_way, t)
        for sample in begun:
            self._finish(sample)

    def _begin(self, row: int, root: Shock) -> _Sample:
        plan = self._plan
        walkers: list[_Walker] = []
        merged: list[tuple[_Walker, _Walker]] = []
        least = plan.branches[self._order[0]]
        for i in self._order:
            number = plan.branches[i]
            place = least if self._meet else number  # all begin in one state
            walker = _Walker(root, i, number, place, plan.state, plan.actions[i])
            same = next((w for w in walkers if self._meet and equal_values(w.action, walker.action)), None)
            if same is None:
                walkers.append(walker)
            else:
                merged.append((walker, same))
        return _Sample(row, walkers, merged)

    def _step(self, samples: list[_Sample], t: int) -> tuple[list[_Walker], list[_Sample]]:
        """Advance all rollouts by one step; return those that have not ended, and their samples."""
        go = self._simulator.step if t == 0 else self._simulator.advance  # all begin in the state of the plan
        derive, left, some_ended = self._coupling.environment_shock, [], False
        for sample in samples:
            place, ended = -1, False
            for walker in sample.walkers:
                if walker.place != place:
                    place = walker.place
                    shock = derive(walker.root, t, branch_bytes(place), place)
                outcome = go(walker.state, walker.action, shock)
                try:
                    reward, state, terminated = outcome
                except (TypeError, ValueError):
                    three_parts(self._simulator, outcome)
                    raise
                if type(reward) is not float or reward - reward != 0:  # not a float, or not finite
                    reward = finite_reward(reward, walker.action, t)
                walker.rewards.append(reward)
                if terminated:
                    walker.over = ended = True
                else:
                    walker.state = state
                    left.append(walker)
            if ended:
                sample.walkers = [walker for walker in sample.walkers if not walker.over]
                some_ended = True
        return left, [sample for sample in samples if sample.walkers] if some_ended else samples

    def _decide(self, walkers: list[_Walker], samples: list[_Sample], t: int) -> None:
        """Call the policy, and merge rollouts with equal states and actions."""
        seen = self._simulator.observe_all([walker.state for walker in walkers])
        shock_of = self._coupling.policy_shock
        shocks = LazyShocks(lambda w: shock_of(w.root, t, branch_bytes(w.number), w.number), walkers)
        actions = self._actor.act(seen, shocks)
        for walker, action in zip(walkers, actions, strict=True):
            walker.action = action
        if not self._meet:
            return
        end = 0
        for sample in samples:
            begin, end = end, end + len(sample.walkers)
            if end - begin > 1:
                looks = fingerprints(seen[begin:end])
                if not self._local:
                    looks = list(zip(looks, fingerprints(actions[begin:end]), strict=True))
                if len(set(looks)) < end - begin:
                    self._compare(sample, looks)
                    continue
            if self._local:
                for walker in sample.walkers:
                    walker.place = walker.number

    def _compare(self, sample: _Sample, looks: Sequence[Hashable]) -> None:
        """Merge walkers with equal states and actions; in `Local`, find those in equal states. `looks` may differ."""
        alike: dict[Hashable, list[_Walker]] = {}
        merged = len(sample.merged)
        for walker, look in zip(sample.walkers, looks, strict=True):
            others = alike.setdefault(look, [])
            if self._local:
                walker.place = walker.number
            for other in others:
                if self._local and other.place != walker.place and self._same_state(other, walker):
                    walker.place = other.place
                if equal_values(other.action, walker.action) and (
                    other.place == walker.place if self._local else self._same_state(other, walker)
                ):
                    sample.merged.append((walker, other))
                    break
            else:
                others.append(walker)
        if len(sample.merged) > merged:
            gone = {id(walker) for walker, _ in sample.merged[merged:]}
            sample.walkers = [walker for walker in sample.walkers if id(walker) not in gone]

    def _same_state(self, one: _Walker, other: _Walker) -> bool:
        return self._simulator.same_state(one.state, other.state)

    def _finish(self, sample: _Sample) -> None:
        """Complete the rewards of branches that have merged, and add up all of them."""
        own = sum(len(walker.rewards) for walker in sample.all)
        ends = self._ends[sample.row]
        for walker in sample.walkers:
            ends[walker.branch] = walker.branch
        for gone, into in reversed(sample.merged):  # the last first: its continuation is complete
            gone.rewards += into.rewards[len(gone.rewards) :]
            ends[gone.branch] = ends[into.branch]
        for walker in sample.all:
            self._sums.add(sample.row, walker.branch, walker.rewards)
        self._steps += own
        self._shared += sum(len(walker.rewards) for walker in sample.all) - own

    def drawn(self) -> Draws:
        returns, gains = self._sums.totals()
        return Draws(returns, self._ends, gains, self._sums.largest, self._steps, self._shared, self.usage.used)
