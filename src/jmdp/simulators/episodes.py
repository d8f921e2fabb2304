"""Paired episodes: every policy from one start state, under the randomness that the coupling shares.

Sample i has a root key, H(seed, i). Three keys are derived from it: the start H(root), the shock of step t H(root, t),
and the number that policies invert at step t, H(root, t) for another purpose. `Local` adds the digest of the state to
the key of a step. `Independent` adds the number of the policy to all three keys, and policy_luck="independent" adds it
to the key of the policies. Branches of two policies never merge: they may reach equal states and separate again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.luck import Shock
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.branch_numbers import BranchNumbers, branch_bytes
from jmdp.simulators.rollouts import mixed_gains
from jmdp.simulators.simulator import ENDED, Draws, Episode, Simulator, exact_gains, finite_step, is_exact_sum
from jmdp.simulators.starts import Starts

Luck = Literal["steps", "policies"]


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodePlan(BranchNumbers):
    """Settings of paired episodes: each policy from one start, for at most `horizon` steps."""

    starts: Starts
    actors: Sequence[Actor]
    coupling: Coupling
    discount: float
    horizon: int
    seed: int
    fresh: frozenset[Luck] = frozenset()  # randomness that is redrawn, to measure its share of the variance

    def __post_init__(self) -> None:
        self._number(len(self.actors))

    @property
    def separate_starts(self) -> bool:
        """True if each policy draws its own start."""
        return not self.coupling.shared_in_a_state

    def start_shock(self, root: Shock, branch: int) -> Shock:
        """Shock of the start of an episode."""
        return root.derived(b"start", 0, branch_bytes(branch) if self.separate_starts else b"")

    def step_shock(self, root: Shock, t: int, digest: bytes, branch: int) -> Shock:
        """Shock that a branch receives in step t."""
        root = root.derived(b"fresh steps") if "steps" in self.fresh else root
        return self.coupling.environment_shock(root, t, digest, branch)

    def policy_shock(self, root: Shock, t: int, branch: int) -> Shock:
        """Shock of a policy's own draw before step t."""
        root = root.derived(b"fresh policies") if "policies" in self.fresh else root
        return root.derived(b"policy", t, b"" if self.coupling.policy_luck == "shared" else branch_bytes(branch))


@dataclass(frozen=True)
class LuckProbe:
    """Returns [m, P] of samples that were run again with part of their randomness redrawn."""

    returns: Floats  # of the original samples
    same_start: Floats  # only the start was kept
    same_steps: Floats | None  # start and steps were kept, the policies' draws were not; None if policies draw nothing


@dataclass(frozen=True, eq=False)
class EpisodeDraws(Draws):
    """Sampled returns of several policies: `Draws` with the starts and a `LuckProbe`."""

    starts: Integers  # [n, P], index of the start; −1 if the simulator draws its own
    paired: int  # number of samples under the requested coupling, which come first; the others are independent
    probe: LuckProbe | None = None

    @property
    def one_coupling(self) -> Draws:
        """The samples under the requested coupling."""
        n = self.paired
        if n == len(self.returns):
            return self
        rows = {name: getattr(self, name)[:n] for name in ("returns", "ends", "gains", "starts")}
        return replace(self, **rows)

    @classmethod
    def joined(cls, parts: Sequence[Draws]) -> EpisodeDraws:
        """Concatenate draws along the sample axis."""
        episodes = [part for part in parts if isinstance(part, EpisodeDraws)]
        return cls(
            **vars(Draws.joined(parts)),
            starts=np.concatenate([part.starts for part in episodes]),
            paired=sum(part.paired for part in episodes),
            probe=next((part.probe for part in episodes if part.probe is not None), None),
        )


def paired_episodes(simulator: Simulator, plan: EpisodePlan, first: int, count: int) -> EpisodeDraws:
    """Returns of the policies in samples first … first + count − 1; each is a function of the seed and its number."""
    compiled = simulator.compiled_episodes(plan)
    if compiled is not None:
        drawn: EpisodeDraws = compiled(first, count)
        return drawn
    return _Episodes(simulator, plan, first, count).run()


class _Runner:
    """One episode of one policy in progress."""

    __slots__ = ("actor", "branch", "episode", "exact", "gains", "root", "row", "t", "total", "weight")

    def __init__(self, row: int, branch: int, root: Shock, episode: Episode, actor: Actor) -> None:
        self.row, self.branch, self.root, self.episode, self.actor = row, branch, root, episode, actor
        self.t, self.weight, self.total, self.gains, self.exact = 0, 1.0, 0.0, 0, True


class _Episodes:
    """Episodes simulated side by side, so that policies are called on batches; finished ones are replaced."""

    def __init__(self, simulator: Simulator, plan: EpisodePlan, first: int, count: int) -> None:
        self._simulator, self._plan, self._first, self._count = simulator, plan, first, count
        shape = (count, len(plan.actors))
        self._returns, self._gains = np.zeros(shape), np.zeros(shape, np.uint64)
        self._exact, self._ends = np.ones(shape, np.bool_), np.full(shape, ENDED, np.int64)
        self._starts = np.full(shape, -1, np.int64)
        self._largest, self._steps = 0.0, 0
        self._places_matter = plan.coupling.shared_in_a_state and not plan.coupling.shared_between_states

    def run(self) -> EpisodeDraws:
        waiting = [(row, i) for row in range(self._count) for i in range(len(self._plan.actors))][::-1]
        lanes = self._simulator.episode_lanes
        under_way: list[_Runner] = []
        try:
            while waiting or under_way:
                while waiting and len(under_way) < lanes:
                    under_way.append(self._begin(*waiting.pop()))
                under_way = self._step_all(under_way)
        finally:
            for runner in under_way:
                runner.episode.close()
        gains = exact_gains(self._gains.view(np.int64), self._returns, self._exact)
        return EpisodeDraws(
            self._returns, self._ends, gains, self._largest, self._steps, 0, True, self._starts, len(self._returns)
        )

    def _begin(self, row: int, branch: int) -> _Runner:
        plan, root = self._plan, Shock.of_sample(self._plan.seed, self._first + row)
        shock = plan.start_shock(root, plan.branches[branch])
        number = self._starts[row, branch] = plan.starts.number(shock)
        state = plan.starts.states[number] if plan.starts.given else None
        episode = self._simulator.episode(shock, state, truncated_ends=plan.discount == 1, digests=self._places_matter)
        return _Runner(row, branch, root, episode, plan.actors[branch].for_episode())

    def _step_all(self, under_way: list[_Runner]) -> list[_Runner]:
        """Advance all episodes by one step; return those that are not over."""
        asked: dict[int, list[_Runner]] = {}
        for runner in under_way:
            asked.setdefault(id(runner.actor), []).append(runner)
        left = []
        for group in asked.values():
            shocks = [
                self._plan.policy_shock(runner.root, runner.t, self._plan.branches[runner.branch]) for runner in group
            ]
            actions = group[0].actor.act([runner.episode.observation for runner in group], shocks)
            for runner, action in zip(group, actions, strict=True):
                if self._goes_on(runner, action):
                    left.append(runner)
        return left

    def _goes_on(self, runner: _Runner, action: Any) -> bool:
        """Advance one episode by one step; return True if it is not over."""
        plan, t = self._plan, runner.t
        digest = runner.episode.digest() if self._places_matter else b""
        earned, ended = runner.episode.step(
            action, plan.step_shock(runner.root, t, digest, plan.branches[runner.branch])
        )
        reward, _, over = finite_step(self._simulator, (earned, None, ended), action, t)
        self._largest = max(self._largest, abs(reward))
        self._steps += 1
        if reward:  # a reward of 0 changes neither the return nor its fingerprint
            total = runner.total + runner.weight * reward
            runner.exact &= runner.weight == 1 and bool(is_exact_sum(runner.total, reward, total))
            runner.total, runner.gains = total, mixed_gains(runner.gains, t, reward)
        runner.t, runner.weight = t + 1, runner.weight * plan.discount
        if not over and runner.t < plan.horizon:
            return True
        at = runner.row, runner.branch
        self._returns[at], self._gains[at], self._exact[at] = runner.total, runner.gains, runner.exact
        self._ends[at] = ENDED if over else runner.branch
        runner.episode.close()
        return False
