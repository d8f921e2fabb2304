"""Paired rollouts: every action from one state, under the randomness that the coupling shares.

Paired rollouts of some samples in lockstep, so that the policy is called on batches.

A sample has a root key, from which the keys of all its steps derive (`Coupling.environment_shock` and
`Coupling.policy_shock`). A key depends on the state or coordinate of a branch only through the question which other
branches are there too. So the smallest number of the branches in a state, or at a coordinate, replaces its digest.

Python code is executed once per walker only where walkers end or merge. Other operations are calls of built-in
functions on lists of all walkers, because a simple simulator takes less than a microsecond per step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.luck import Shock, Usage
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.digests import equal_values, fingerprints
from jmdp.simulators.rollouts.batched_states import has_many_steps
from jmdp.simulators.rollouts.draws import ENDED, BranchNumbers, BranchSums, Draws, LazyShocks, branch_bytes
from jmdp.simulators.simulator import Simulator, finite_reward, is_over, note_step, three_parts

_MOST_REWARDS = 100_000
"""Rewards that are kept before they are summed."""


class _Walker:
    """One simulated rollout: a branch of a sample, and all branches that have merged into it."""

    __slots__ = ("branch", "columns", "number", "place", "root", "row")

    def __init__(self, row: int, root: Shock, branch: int, number: int, place: int, column: int) -> None:
        self.row, self.root, self.branch = row, root, branch
        self.number = number  # original number of the branch
        self.place = place  # walkers of a sample with equal places receive the same shock
        self.columns = [column]  # columns of this branch and the merged ones in the table of rewards


class LockstepRollouts:
    """Rollouts of the samples with these roots. `plan` is a `RolloutPlan`."""

    def __init__(self, simulator: Simulator, actor: Actor, plan: Any, roots: Sequence[Shock]) -> None:
        self._simulator, self._actor, self._plan, self._coupling = simulator, actor, plan, plan.coupling
        self._usage = roots[0].usage or Usage()
        self._meet, self._one_shock = plan.coupling.shared_in_a_state, plan.coupling.shared_between_states
        self._samples, self._columns = len(roots), len(roots) * len(plan.actions)
        self._sums = BranchSums(self._columns, plan.discount)
        self._rewards: list[Sequence[float]] = []  # of the steps since walkers last ended or merged
        self._closed: list[tuple[list[Sequence[float]], list[int], list[int]]] = []  # with their columns
        self._entries = 0  # of the table of the closed ones
        self._steps, self._shared, self._active = 0, 0, self._columns
        self._walkers: list[_Walker] = []
        self._actions: list[Any] = []
        for row, root in enumerate(roots):
            self._begin(row, root)
        self._states = [plan.state] * len(self._walkers)
        self._index()

    def _begin(self, row: int, root: Shock) -> None:
        """Make a walker for each different action, in the order of their numbers."""
        plan, begun = self._plan, len(self._walkers)
        for i in sorted(range(len(plan.actions)), key=plan.branches.__getitem__):
            column, action, number = row * len(plan.actions) + i, plan.actions[i], plan.branches[i]
            place = min(plan.branches) if self._meet else number  # all begin in one state
            for walker, taken in zip(self._walkers[begun:], self._actions[begun:], strict=True):
                if self._meet and equal_values(taken, action):
                    walker.columns.append(column)
                    break
            else:
                self._walkers.append(_Walker(row, root, i, number, place, column))
                self._actions.append(action)

    def _index(self) -> None:
        """Compute what depends on the list of walkers."""
        self._rows = [walker.row for walker in self._walkers]
        self._per_row = Counter(self._rows)
        roots = {walker.row: walker.root for walker in self._walkers} if self._one_shock else {}
        self._row_roots = [(root, self._per_row[row]) for row, root in roots.items()]
        self._crowd = [i for i, row in enumerate(self._rows) if self._per_row[row] > 1] if self._meet else []

    def run(self) -> Draws:
        """Simulate all rollouts."""
        for t in range(self._plan.horizon):
            self._step(t)
            if not self._walkers:
                break
            self._decide(t)
        self._close_rewards()
        self._add_up()
        ends = np.full(self._columns, ENDED, np.int32)
        for walker in self._walkers:
            ends[walker.columns] = walker.branch
        shape, sums = (self._samples, len(self._plan.actions)), self._sums
        returns, gains = sums.returns.reshape(shape), sums.gains.reshape(shape)
        return Draws(returns, ends.reshape(shape), gains, sums.largest, self._steps, self._shared, self._usage.used)

    def _step(self, t: int) -> None:
        """Advance all rollouts by one step, and remove those that have ended."""
        states, actions = self._states, self._actions
        try:
            if t == 0:  # all begin in the state of the plan, which must not be used up
                outcomes: Any = list(map(self._simulator.step, states, actions, self._shocks(t)))
            else:
                outcomes = self._simulator.advance_all(states, actions, self._shocks(t))
        except Exception as error:
            note_step(error, self._simulator, t)
            raise
        try:
            parts: Any = zip(*outcomes, strict=True)
            rewards, after, over = parts
        except (TypeError, ValueError):
            for outcome in outcomes:
                three_parts(self._simulator, outcome)
            raise
        total = sum(rewards) if set(map(type, rewards)) == {float} else np.nan
        if total - total != 0:  # some are not floats or not finite
            rewards = [finite_reward(reward, action, t) for reward, action in zip(rewards, actions, strict=True)]
        self._rewards.append(rewards)
        self._steps += len(self._walkers)
        self._shared += self._active - len(self._walkers)
        self._states = list(after)
        try:
            ended = any(over)
        except (TypeError, ValueError, RuntimeError):  # no truth value
            over, ended = list(map(is_over, over)), True
        if ended:
            self._keep([i for i, last in enumerate(over) if not (last is True or is_over(last))])
            self._active = sum(len(walker.columns) for walker in self._walkers)
        elif len(self._rewards) * self._columns > _MOST_REWARDS:
            self._close_rewards()

    def _shocks(self, t: int) -> list[Shock]:
        """Shock of the environment for each walker."""
        derive, shocks = self._coupling.environment_shock, []
        if self._one_shock:
            for root, count in self._row_roots:
                shocks += [derive(root, t, b"", 0)] * count
            return shocks
        return [derive(w.root, t, branch_bytes(w.place), w.place) for w in self._walkers]

    def _decide(self, t: int) -> None:
        """Call the policy, and merge rollouts with equal states and actions."""
        derive, seen = self._coupling.policy_shock, self._simulator.observe_all(self._states)
        shocks = LazyShocks(lambda w: derive(w.root, t, branch_bytes(w.number), w.number), self._walkers)
        self._actions = self._actor.act(seen, shocks)
        if len(self._actions) != len(seen):
            raise ValueError(f"{self._actor!r} returned {len(self._actions)} actions for {len(seen)} observations.")
        if not self._meet:
            return
        if not self._one_shock:
            for walker in self._walkers:
                walker.place = walker.number
        if not self._crowd:
            return
        rows, actions = self._rows, self._actions
        if len(self._crowd) < len(rows):
            rows, seen, actions = ([values[i] for i in self._crowd] for values in (rows, seen, actions))
        prints = fingerprints(seen)
        if len(set(prints)) == len(prints):
            return
        # Under Local equal states matter also if the actions differ.
        parts = (rows, prints, fingerprints(actions)) if self._one_shock else (rows, prints)
        looks: list[Hashable] = list(zip(*parts, strict=True))
        if len(set(looks)) < len(looks):
            self._merge(looks)

    def _merge(self, looks: list[Hashable]) -> None:
        """Merge walkers of the crowd with equal states and actions, and find the places. Equal states look equal."""
        alike: dict[Hashable, list[int]] = {}
        gone: dict[int, int] = {}
        for i, look in zip(self._crowd, looks, strict=True):
            others = alike.setdefault(look, [])
            into = next((j for j in others if self._is_same(j, i)), None)
            if into is None:
                others.append(i)
            else:
                gone[i] = into
        if gone:
            self._close_rewards()
            for i, into in gone.items():
                self._walkers[into].columns += self._walkers[i].columns
            self._keep([i for i in range(len(self._walkers)) if i not in gone])

    def _is_same(self, j: int, i: int) -> bool:
        """Whether walker i must merge into walker j; if their states are equal, their places are made equal."""
        one, other, states, actions = self._walkers[j], self._walkers[i], self._states, self._actions
        if self._one_shock:
            return equal_values(actions[j], actions[i]) and self._simulator.same_state(states[j], states[i])
        if one.place != other.place and self._simulator.same_state(states[j], states[i]):
            other.place = one.place
        return one.place == other.place and equal_values(actions[j], actions[i])

    def _keep(self, left: list[int]) -> None:
        """Keep these walkers only."""
        self._close_rewards()
        self._walkers, self._states, self._actions = (
            [values[i] for i in left] for values in (self._walkers, self._states, self._actions)
        )
        self._index()

    def _close_rewards(self) -> None:
        """Note to which branches the rewards since the last call belong, and add them up if there are many."""
        if self._rewards:
            columns = [column for walker in self._walkers for column in walker.columns]
            self._closed.append((self._rewards, columns, [len(walker.columns) for walker in self._walkers]))
            self._entries += len(self._rewards) * self._columns
            self._rewards = []
        if self._entries > _MOST_REWARDS:
            self._add_up()

    def _add_up(self) -> None:
        """Add all rewards so far to the sums of their branches."""
        table = np.zeros((sum(len(rewards) for rewards, _, _ in self._closed), self._columns))
        t = 0
        for rewards, columns, sizes in self._closed:
            values = np.array(rewards, np.float64)
            if len(columns) > len(sizes):
                values = np.repeat(values, sizes, axis=1)
            table[t : t + len(rewards), columns] = values
            t += len(rewards)
        self._sums.add(table)
        self._closed, self._entries = [], 0


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

    def packed(self, pack: Callable[[Any], Any]) -> RolloutPlan:
        """The plan with its state packed or unpacked."""
        return replace(self, state=pack(self.state))


def paired_draws(simulator: Simulator, actor: Actor, plan: RolloutPlan, first: int, count: int) -> Draws:
    """Returns of the plan's actions in samples first … first + count − 1.

    Each sample is a pure function of the seed, its number and the plan's actions. Branch i takes actions[i], then
    follows the policy. Branches with equal states and actions under shared randomness merge: they are simulated once
    from there on.
    """
    step_by_step = count == 1 and has_many_steps(simulator)  # for `check_repeatable`
    compiled = None if step_by_step else simulator.compiled_draws(actor, plan)
    if compiled is not None:
        return compiled(first, count)
    usage, rows, parts = Usage(), rollouts_at_once(simulator, len(plan.actions)), []
    for start in range(first, first + count, rows):
        samples = range(start, min(start + rows, first + count))
        roots = [Shock.of_sample(plan.seed, number, usage) for number in samples]
        parts.append(LockstepRollouts(simulator, actor, plan, roots).run())
    return Draws.joined(parts)


def rollouts_at_once(simulator: Simulator, branches: int) -> int:
    """Number of samples with this many branches that are simulated in lockstep."""
    return max(1, simulator.lanes // branches)


def enough_steps(discount: float, lost: float) -> int:
    """Smallest horizon T ≥ 1 with γ^T/(1 − γ) ≤ lost."""
    if discount == 0:
        return 1
    return max(1, math.ceil(math.log(lost * (1 - discount)) / math.log(discount)))
