"""Samples of a plan in Python, in lockstep: rollouts, and episodes of simulators whose states can be copied."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Indices, Integers
from jmdp.base.luck import Shock, StepShocks, Usage
from jmdp.models.actors.actor import Actor
from jmdp.simulators.digests import differ_at_a_glance, equal_values, fingerprints
from jmdp.simulators.rollouts.batched_states import has_many_steps
from jmdp.simulators.rollouts.draws import (
    ENDED,
    BranchSums,
    Draws,
    EpisodeDraws,
    branch_bytes,
)
from jmdp.simulators.rollouts.episodes_in_place import EpisodesInPlace
from jmdp.simulators.rollouts.plan import BranchPlan, add_policy_note
from jmdp.simulators.simulator import Simulator, finite_reward, is_over, note_step


def paired_draws(simulator: Simulator, plan: BranchPlan, first: int, count: int) -> Draws:
    """Returns of the branches in samples first … first + count − 1; `EpisodeDraws` of episodes.

    Each sample is a pure function of the plan and its number. A compiled program or arrays are used where the simulator
    and the policies allow it.
    """
    step_by_step = count == 1 and has_many_steps(simulator)  # for `check_repeatable`
    program = None if step_by_step or plan.history or plan.redraw else simulator.program(plan)
    if program is not None:
        return program(first, count)
    together = plan.actions is not None or (has_free_states(simulator, plan) and _gains_together(simulator, plan))
    simulate = _in_lockstep if together else _in_place
    return simulator.in_block(partial(simulate, simulator, plan, first, count))


def rollouts_at_once(simulator: Simulator, branches: int) -> int:
    """Number of samples with this many branches that are simulated in lockstep."""
    return max(1, simulator.lanes // branches)


def has_free_states(simulator: Simulator, plan: BranchPlan) -> bool:
    """Whether the branches of a plan are described by their states alone, so that any of them can be stepped next.

    Episodes that are stepped in place, policies with memory and logged shocks need an order.
    """
    memory = any(type(actor).for_episode is not Actor.for_episode for actor in plan.actors)
    return type(simulator).episode is Simulator.episode and not memory and not plan.in_order


def _gains_together(simulator: Simulator, plan: BranchPlan) -> bool:
    """Whether steps of many branches, or calls of a policy for many, take less time than one at a time."""
    return type(simulator).advance_all is not Simulator.advance_all or any(actor.batched for actor in plan.actors)


def _in_lockstep(simulator: Simulator, plan: BranchPlan, first: int, count: int) -> Draws:
    lanes = simulator.episode_lanes if plan.actions is None else simulator.lanes
    usage, rows, parts = Usage(), max(1, lanes // len(plan.actors)), []
    for start in range(first, first + count, rows):
        samples = range(start, min(start + rows, first + count))
        roots = [plan.root(number, usage) for number in samples]
        parts.append(LockstepBranches(simulator, plan, roots, start).run())
    return parts[0].joined(parts)


def _in_place(simulator: Simulator, plan: BranchPlan, first: int, count: int) -> EpisodeDraws:
    return EpisodesInPlace(simulator, plan, first, count).run()


_MOST_REWARDS = 100_000
"""Rewards that are kept before they are summed."""


_PLAIN = "?bBhHiIlLqQefd"
"""Types of arrays of rewards, by NumPy's characters, of which `float` gives the same numbers."""


class LockstepBranches:
    """Branches of the samples with these roots, in lockstep, so that steps and policies are called for many at once.

    A key of a rollout depends on its state or coordinate only through the question which other branches are there too.
    So the smallest number of the branches in a state, or at a coordinate, replaces its digest.

    A walker is one simulated branch of a sample, and all branches that have merged into it. Those of rollouts are
    ordered by sample, those of episodes by branch, because each has a policy. Python code is executed once per walker
    only where walkers end or merge. Other operations are calls of built-in functions on lists of all walkers, because a
    simple simulator takes less than a microsecond per step.
    """

    def __init__(self, simulator: Simulator, plan: BranchPlan, roots: Sequence[Shock], first: int = 0) -> None:
        self._simulator, self._plan, self._roots = simulator, plan, roots
        self._usage = roots[0].usage or Usage()
        self._usage.used |= plan.random_starts and plan.redraw is None  # else they are the source "start"
        self._meet, self._one_shock, self._rollouts = plan.merges, plan.one_shock, plan.actions is not None
        self._samples, self._columns = len(roots), len(roots) * len(plan.actors)
        self._sums = BranchSums(self._columns, plan.discount)
        self._rewards: list[Floats] = []  # of the steps that are not summed yet, for each column
        self._steps, self._shared, self._active = 0, 0, self._columns
        self._numbers, self._fresh = list(map(branch_bytes, plan.branches)), plan.fresh_purposes
        self._places: list[bytes] | None = None  # walkers of a sample with equal places receive the same shock
        if plan.actions is None:
            self._begin_episodes(first)
        else:
            self._begin_rollouts(plan.actions)

    def _begin_rollouts(self, actions: Sequence[Any]) -> None:
        """Make a walker for each different action of each sample, in the order of their numbers."""
        plan, n, k = self._plan, self._samples, len(actions)
        walkers: list[int] = []  # branch of each walker of one sample
        at = np.zeros(k, np.int64)  # walker of each branch of one sample
        for i in sorted(range(k), key=plan.branches.__getitem__):
            same = (w for w, j in enumerate(walkers) if self._meet and equal_values(actions[j], actions[i]))
            at[i] = next(same, len(walkers))
            if at[i] == len(walkers):
                walkers.append(i)
        self._rows = np.repeat(np.arange(n), len(walkers))  # [w], sample of each walker
        self._branches = np.tile(np.array(walkers), n)  # [w], its branch, which gives its number to the others
        self._at = (np.arange(n)[:, None] * len(walkers) + at).ravel()  # [n k], walker of each branch; −1 if it ended
        self._states = [plan.state] * len(self._rows)
        self._actions = list(map(actions.__getitem__, walkers)) * n
        self._index()
        if self._meet and not self._one_shock:  # all begin in one state
            self._places = [branch_bytes(min(plan.branches))] * len(self._rows)

    def _begin_episodes(self, first: int) -> None:
        """Draw the starts of the samples from number `first` on, and let the policies choose the first actions."""
        plan, n, k = self._plan, self._samples, len(self._plan.actors)
        self._starts = np.tile(plan.start_numbers(first, n)[:, None], k)
        self._rows, self._branches = np.tile(np.arange(n), k), np.repeat(np.arange(k), n)
        self._at = np.arange(n * k).reshape(k, n).T.ravel()
        self._states = []
        for row, i in zip(self._rows.tolist(), self._branches.tolist(), strict=True):
            shock = plan.start_shock(plan.start_root(first + row), plan.branches[i])
            if self._starts[row, i] < 0:
                self._starts[row, i] = plan.starts.number(shock)
            number = self._starts[row, i]
            self._states.append(self._simulator.start(shock) if number < 0 else plan.starts.states[number])
        self._index()
        self._decide(0)

    def _index(self) -> None:
        """Compute what depends on the list of walkers."""
        rows = self._rows
        counts = np.bincount(rows, minlength=self._samples)
        samples = np.flatnonzero(counts)  # with walkers
        self._row_roots = list(map(self._roots.__getitem__, samples.tolist()))
        self._row_of = rows if len(samples) == self._samples else (np.cumsum(counts > 0) - 1)[rows]
        crowd = np.flatnonzero(counts[rows] > 1) if self._meet else rows[:0]
        self._crowd, self._crowd_rows = crowd.tolist(), rows[crowd].tolist()  # walkers of samples with several
        self._own: tuple[list[Shock], list[bytes]] | None = None

    def run(self) -> Draws:
        """Simulate all branches."""
        for t in range(self._plan.horizon):
            self._step(t)
            if not self._states:
                break
            if self._rollouts or t + 1 < self._plan.horizon:  # whether rollouts have merged at the end is a result
                self._decide(t + 1)
        self._add_up()
        ends = np.append(self._branches, ENDED).astype(np.int32)[self._at]  # −1 is the last entry
        shape, sums = (self._samples, len(self._plan.actors)), self._sums
        returns, gains = sums.returns.reshape(shape), sums.gains.reshape(shape)
        found = returns, ends.reshape(shape), gains, sums.largest, self._steps, self._shared, self._usage.used
        return Draws(*found) if self._rollouts else EpisodeDraws(*found, self._starts, self._samples)

    def _step(self, t: int) -> None:
        """Advance all branches by one step, and remove those that have ended."""
        go = self._simulator.advance_all
        if t == 0:  # others begin in these states, which must not be used up
            go = self._simulator.step_all
        if self._plan.by_digest:
            self._places = list(map(self._simulator.digest, self._states))
        shocks = self._shocks(b"environment", t, self._places, shared=self._one_shock)
        try:
            rewards, after, over = go(self._states, self._actions, shocks)
        except Exception as error:
            note_step(error, self._simulator, t)
            raise
        self._note(rewards, t)
        self._states = list(after)
        try:
            ended = any(over)
        except (TypeError, ValueError, RuntimeError):  # no truth value
            ended = True
        if ended:
            last = np.array(list(map(is_over, over)))
            self._keep(~last, np.where(last, -1, np.cumsum(~last) - 1))
            self._active = int((self._at >= 0).sum())

    def _note(self, rewards: Sequence[Any], t: int) -> None:
        """Keep the rewards of a step for their columns."""
        values = None
        with contextlib.suppress(TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: of torch
            values = np.array(rewards)
        # Numbers of other kinds, and those that are not finite, are converted or refused one at a time.
        if values is None or values.ndim > 1 or values.dtype.char not in _PLAIN or not np.isfinite(values).all():
            values = np.array([finite_reward(*one, t) for one in zip(rewards, self._actions, strict=True)])
        if self._active < self._columns:
            values = np.append(values, 0.0)  # −1 is the last entry
        self._rewards.append(values[self._at].astype(np.float64, copy=False))
        self._steps += len(rewards)
        self._shared += self._active - len(rewards)
        if len(self._rewards) * self._columns > _MOST_REWARDS:
            self._add_up()

    def _shocks(
        self, purpose: bytes, t: int, places: list[bytes] | None = None, *, shared: bool, part: slice | None = None
    ) -> Sequence[Shock]:
        """Shocks of walkers: one for all walkers of a sample, or one for each place, by default for each walker."""
        rows: Integers | None = None
        where: list[bytes] | None = None
        if shared:
            roots, rows = self._row_roots, self._row_of if part is None else self._row_of[part]
        else:
            roots, numbers = self._roots_and_numbers()
            where = numbers if places is None else places
            if part is not None:
                roots, where = roots[part], where[part]
        if (fresh := self._fresh.get(purpose)) is not None:
            roots = [root.derived(fresh) for root in roots]
        if self._plan.redraw is not None:  # each has its sources
            places = [b""] * len(roots) if where is None else where
            found = [root.derived(purpose, t, place) for root, place in zip(roots, places, strict=True)]
            return found if rows is None else list(map(found.__getitem__, rows.tolist()))
        return StepShocks(roots, purpose, t, where, rows)

    def _roots_and_numbers(self) -> tuple[list[Shock], list[bytes]]:
        """Root and number of each walker."""
        if self._own is None:
            roots = list(map(self._row_roots.__getitem__, self._row_of.tolist()))
            self._own = roots, list(map(self._numbers.__getitem__, self._branches.tolist()))
        return self._own

    def _decide(self, t: int) -> None:
        """Call the policies before step t, and merge rollouts with equal states and actions."""
        seen, actors = self._simulator.observe_all(self._states), self._plan.actors
        if not self._rollouts:
            self._actions, ends = [], np.searchsorted(self._branches, np.arange(len(actors) + 1)).tolist()
            for actor, i, j in zip(actors, ends, ends[1:], strict=False):
                if i < j:
                    try:
                        self._actions += self._chosen(actor, seen[i:j], t, slice(i, j))
                    except Exception as error:
                        add_policy_note(error, actor, t, t)
                        raise
            return
        self._actions = self._chosen(actors[0], seen, t - 1)  # with the keys of the last step
        crowd, actions, self._places = self._crowd, self._actions, None
        if len(crowd) < len(seen):
            seen, actions = list(map(seen.__getitem__, crowd)), list(map(actions.__getitem__, crowd))
        if not crowd or differ_at_a_glance(seen):
            return
        # Under Local equal states matter also if the actions differ.
        parts = (self._crowd_rows, fingerprints(seen), *([fingerprints(actions)] if self._one_shock else []))
        looks: list[Hashable] = list(zip(*parts, strict=True))
        known: dict[Hashable, int] = {}  # first walker with each look; equal states look equal
        first = list(map(known.setdefault, looks, crowd))
        if len(known) < len(looks):
            self._merge(looks, first)

    def _chosen(self, actor: Actor, seen: list[Any], t: int, part: slice | None = None) -> list[Any]:
        """Actions of a policy for some of the walkers."""
        shared = self._plan.coupling.policy_luck == "shared"
        actions = actor.act(seen, self._shocks(b"policy", t, shared=shared, part=part))
        if len(actions) != len(seen):
            raise ValueError(f"{actor!r} returned {len(actions)} actions for {len(seen)} observations.")
        return actions

    def _merge(self, looks: list[Hashable], first: list[int]) -> None:
        """Merge walkers of the crowd with equal states and actions, and find the places.

        `looks` are equal for equal ones. `first` is the first walker with the look of each.
        """
        pairs = [(i, j) for i, j in zip(self._crowd, first, strict=True) if i != j]
        if not (self._one_shock and all(self._is_same(j, i) for i, j in pairs)):
            pairs = self._equal_pairs(looks)
        if pairs:
            into, stays = np.arange(len(self._rows)), np.ones(len(self._rows), np.bool_)
            gone, others = np.array(pairs).T
            into[gone], stays[gone] = others, False
            self._keep(stays, (np.cumsum(stays) - 1)[into])

    def _equal_pairs(self, looks: list[Hashable]) -> list[tuple[int, int]]:
        """Walkers that must merge into an earlier one."""
        alike: dict[Hashable, list[int]] = {}
        if not self._one_shock:
            self._places = list(self._roots_and_numbers()[1])
        pairs = []
        for i, look in zip(self._crowd, looks, strict=True):
            others = alike.setdefault(look, [])
            into = next((j for j in others if self._is_same(j, i)), None)
            if into is None:
                others.append(i)
            else:
                pairs.append((i, into))
        return pairs

    def _is_same(self, j: int, i: int) -> bool:
        """Whether walker i must merge into walker j; if their states are equal, their places are made equal."""
        states, actions, places = self._states, self._actions, self._places
        if places is None:
            return equal_values(actions[j], actions[i]) and self._simulator.same_state(states[j], states[i])
        if places[j] != places[i] and self._simulator.same_state(states[j], states[i]):
            places[i] = places[j]
        return places[j] == places[i] and equal_values(actions[j], actions[i])

    def _keep(self, kept: Booleans, number: Integers) -> None:
        """Keep some of the walkers; number[w] is the new number of walker w, or −1."""
        left = np.flatnonzero(kept).tolist()
        self._states = list(map(self._states.__getitem__, left))
        actions = map(self._actions.__getitem__, left)
        known = self._actions
        self._actions = Indices(actions, known.below) if isinstance(known, Indices) else list(actions)
        self._places = self._places and [self._places[i] for i in left]
        self._rows, self._branches = self._rows[kept], self._branches[kept]
        self._at = np.where(self._at >= 0, number[self._at], -1)
        self._index()

    def _add_up(self) -> None:
        """Add all rewards so far to the sums of their branches."""
        if self._rewards:
            self._sums.add(np.array(self._rewards))
        self._rewards = []
