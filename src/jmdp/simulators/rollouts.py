"""Paired rollouts: every action from one state, under the randomness that the coupling shares."""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.batched_rollouts import batched_draws
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import ENDED, Draws, Simulator, exact_gains, finite_step, is_exact_sum


@dataclass(frozen=True, kw_only=True, eq=False)
class RolloutPlan:
    """Settings of paired rollouts: each action from one state, then the policy for the rest of `horizon` steps."""

    state: Any
    actions: Sequence[Any]
    coupling: Coupling
    discount: float
    horizon: int
    seed: int


def paired_draws(simulator: Simulator, actor: Actor, plan: RolloutPlan, first: int, count: int) -> Draws:
    """Returns of the plan's actions in samples first … first + count − 1.

    Each sample is a pure function of the seed and its number. Branch i takes actions[i], then follows the policy.
    Branches with equal states and actions under shared randomness merge: they are simulated once from there on.
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
        rollouts.run([(i, Shock.of_sample(plan.seed, first + i)) for i in samples])
    return rollouts.drawn()


def enough_steps(discount: float, lost: float) -> int:
    """Smallest horizon T ≥ 1 with γ^T/(1 − γ) ≤ lost."""
    if discount == 0:
        return 1
    return max(1, math.ceil(math.log(lost * (1 - discount)) / math.log(discount)))


class _Walker:
    """One simulated rollout, and all branches of its sample that have merged into it."""

    __slots__ = ("action", "digest", "members", "root", "row", "state")

    def __init__(
        self, row: int, root: Shock, members: list[int], state: Any, action: Any, digest: bytes | None
    ) -> None:
        self.row, self.root, self.members = row, root, members
        self.state, self.action, self.digest = state, action, digest


class _Rollouts:
    """Samples simulated in lockstep, so that the policy is called on batches."""

    def __init__(self, simulator: Simulator, actor: Actor, plan: RolloutPlan, count: int) -> None:
        self._simulator, self._actor, self._plan, self._coupling = simulator, actor, plan, plan.coupling
        branches, coupling = len(plan.actions), plan.coupling
        self._returns = [[0.0] * branches for _ in range(count)]
        self._gains = [[0] * branches for _ in range(count)]
        self._exact = [[True] * branches for _ in range(count)]
        self._ends = [[ENDED] * branches for _ in range(count)]
        self._largest, self._steps, self._shared = 0.0, 0, 0
        self._meet = coupling.shared_in_a_state
        own_luck = actor.needs_luck and coupling.policy_luck == "independent"
        self._places_matter = self._meet and (own_luck or not coupling.shared_between_states)

    def run(self, samples: list[tuple[int, Shock]]) -> None:
        state = self._plan.state
        digest = self._simulator.digest(state) if self._places_matter else None
        walkers = [
            _Walker(row, root, [i], state, action, digest)
            for row, root in samples
            for i, action in enumerate(self._plan.actions)
        ]
        weight = 1.0
        for t in range(self._plan.horizon):
            if not walkers:
                return
            walkers, shocks = self._step(walkers, t, weight)
            weight *= self._plan.discount
            walkers = self._decide(walkers, shocks)
        for walker in walkers:
            for i in walker.members:
                self._ends[walker.row][i] = walker.members[0]

    def _step(self, walkers: list[_Walker], t: int, weight: float) -> tuple[list[_Walker], list[Shock]]:
        """Advance all rollouts by one step; return those that have not ended, and the shock of the policy for each."""
        left, shocks = [], []
        go = self._simulator.step if t == 0 else self._simulator.advance
        for walker in walkers:
            place = b""
            if self._places_matter:
                place = self._simulator.digest(walker.state) if walker.digest is None else walker.digest
            shock = self._coupling.environment_shock(walker.root, t, place, walker.members[0])
            outcome = go(walker.state, walker.action, shock)
            reward, state, terminated = finite_step(self._simulator, outcome, walker.action, t)
            self._largest = max(self._largest, abs(reward))
            self._steps += 1
            self._shared += len(walker.members) - 1
            if reward:  # a reward of 0 changes neither the return nor its fingerprint
                returns, gains, exact = self._returns[walker.row], self._gains[walker.row], self._exact[walker.row]
                for i in walker.members:
                    total = returns[i] + weight * reward
                    exact[i] &= weight == 1 and bool(is_exact_sum(returns[i], reward, total))
                    returns[i] = total
                    gains[i] = mixed_gains(gains[i], t, reward)
            if terminated:
                continue
            walker.state, walker.digest = state, None
            left.append(walker)
            taken = digest_of(walker.action) if self._places_matter else b""
            shocks.append(self._coupling.policy_shock(walker.root, t, place, taken, walker.members[0]))
        return left, shocks

    def _decide(self, walkers: list[_Walker], shocks: list[Shock]) -> list[_Walker]:
        """Call the policy, and merge rollouts with equal states and actions."""
        seen = [self._simulator.observe(walker.state) for walker in walkers]
        for walker, action in zip(walkers, self._actor.act(seen, shocks) if walkers else (), strict=True):
            walker.action = action
        if not self._meet:
            return walkers
        alike: defaultdict[tuple[int, bytes], list[_Walker]] = defaultdict(list)
        crowd = _more_than_one([walker.row for walker in walkers])
        for walker, observation in zip(walkers, seen, strict=True):
            if walker.row in crowd:
                alike[walker.row, digest_of((observation, walker.action))].append(walker)
        gone: set[int] = set()
        for group in alike.values():
            if len(group) > 1:  # observations and actions are equal: compare the states
                known: dict[bytes, _Walker] = {}
                for walker in group:
                    walker.digest = self._simulator.digest(walker.state)
                    one = known.setdefault(walker.digest, walker)
                    if one is not walker:
                        one.members += walker.members
                        gone.add(id(walker))
        return [walker for walker in walkers if id(walker) not in gone] if gone else walkers

    def drawn(self) -> Draws:
        returns = np.array(self._returns, np.float64)
        gains = np.array(self._gains, np.uint64).view(np.int64)
        return Draws(
            returns,
            np.array(self._ends, np.int64),
            exact_gains(gains, returns, np.array(self._exact, np.bool_)),
            self._largest,
            self._steps,
            self._shared,
        )


_BITS = struct.Struct("<d"), struct.Struct("<Q")


def mixed_gains(gains: int, t: int, reward: float) -> int:
    """64-bit fingerprint of all rewards up to this one: products with odd numbers, folded."""
    (bits,) = _BITS[1].unpack(_BITS[0].pack(reward))
    mixed: int = ((gains ^ bits) * 0x9E3779B97F4A7C15 + t * 0xD1B54A32D192ED03) & 0xFFFFFFFFFFFFFFFF
    return mixed ^ (mixed >> 29)


def _more_than_one(rows: list[int]) -> set[int]:
    once: set[int] = set()
    twice: set[int] = set()
    for row in rows:
        (twice if row in once else once).add(row)
    return twice
