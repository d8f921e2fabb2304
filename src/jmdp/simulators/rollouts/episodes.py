"""Paired episodes: every policy from one start state, under the randomness that the coupling shares.

Sample i has a root key, H(seed, i). Three keys are derived from it: the start H(root), the shock of step t H(root, t),
and the number that policies invert at step t, H(root, t) for another purpose. `Local` adds the digest of the state to
the key of a step. `Independent` adds the number of the policy to all three keys, and policy_luck="independent" adds it
to the key of the policies. Branches of two policies never merge: they may reach equal states and separate again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.luck import Shock, Usage
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.rollouts.batched_states import has_many_steps
from jmdp.simulators.rollouts.draws import ENDED, BranchNumbers, Draws, EpisodeSums, LazyShocks, branch_bytes
from jmdp.simulators.simulator import Episode, Simulator, finite_reward, note_step
from jmdp.simulators.starts import Starts

LuckSource = Literal["steps", "policies"]


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodePlan(BranchNumbers):
    """Settings of paired episodes: each policy from one start, for at most `horizon` steps."""

    starts: Starts
    actors: Sequence[Actor]
    coupling: Coupling
    discount: float
    horizon: int
    seed: int
    stratify: bool = False  # starts in proportional shares
    fresh: frozenset[LuckSource] = frozenset()  # randomness that is redrawn, to measure its share of the variance

    def __post_init__(self) -> None:
        self._number(len(self.actors))

    def packed(self, pack: Callable[[Any], Any]) -> EpisodePlan:
        """The plan with its start states packed or unpacked."""
        return replace(self, starts=replace(self.starts, states=[pack(state) for state in self.starts.states]))

    @property
    def one_shock(self) -> bool:
        """True if all episodes of a sample receive the same shock in a step."""
        return self.coupling.shared_between_states

    @property
    def separate_starts(self) -> bool:
        """True if each policy draws its own start."""
        return not self.coupling.shared_in_a_state

    def start_shock(self, root: Shock, branch: int) -> Shock:
        """Shock of the start of an episode."""
        return root.derived(b"start", 0, branch_bytes(branch) if self.separate_starts else b"")

    def start_numbers(self, first: int, count: int) -> Integers:
        """Indices [count] of the starts of samples if they are drawn in shares; −1 if by the shocks of the samples."""
        return self.starts.in_shares(self.seed, first, count) if self.stratify else np.full(count, -1)

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
        return self.rows(np.arange(n))

    def rows(self, at: Integers) -> EpisodeDraws:
        """The samples at these positions, which are in increasing order."""
        found = {name: getattr(self, name)[at] for name in ("returns", "ends", "gains", "starts")}
        return replace(self, **found, paired=int((at < self.paired).sum()))

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
    step_by_step = count == 1 and has_many_steps(simulator)  # for `check_episodes`
    compiled = None if step_by_step else simulator.compiled_episodes(plan)
    if compiled is not None:
        drawn: EpisodeDraws = compiled(first, count)
        return drawn
    return simulator.in_block(lambda: _Episodes(simulator, plan, first, count).run())


def add_policy_note(error: Exception, actor: Actor, first: int, last: int) -> None:
    """Add to an error of a policy which policy it is, and before which steps of the episodes it was called."""
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    error.add_note(f"raised by the policy, {actor!r}, called before {steps} of an episode")


class _Runner:
    """One episode of one policy in progress."""

    __slots__ = ("actor", "branch", "common", "episode", "number", "rewards", "root", "row")

    def __init__(
        self, row: int, branch: int, number: int, root: Shock, common: list[Shock], episode: Episode, actor: Actor
    ) -> None:
        self.row, self.branch, self.root, self.episode, self.actor = row, branch, root, episode, actor
        self.number = number  # original number of the branch
        self.common = common  # shocks of steps, so far, that the episodes of a sample share
        self.rewards: list[float] = []


class _Episodes:
    """Episodes side by side, so that policies are called on batches; one after another if none gains from batches."""

    def __init__(self, simulator: Simulator, plan: EpisodePlan, first: int, count: int) -> None:
        self._simulator, self._plan, self._first, self._count = simulator, plan, first, count
        shape = (count, len(plan.actors))
        self._sums, self._usage = EpisodeSums(*shape, plan.discount), Usage()
        self._usage.used = len(plan.starts.states) != 1  # starts are drawn
        self._ends = np.full(shape, ENDED, np.int32)
        self._starts = np.tile(plan.start_numbers(first, count)[:, None], shape[1])
        self._steps = 0
        self._places_matter = plan.coupling.shared_in_a_state and not plan.coupling.shared_between_states
        self._one_shock = plan.one_shock
        self._sample: tuple[int, Shock, list[Shock]] = (-1, Shock(bytes(16)), [])  # row, root, shocks of steps

    def run(self) -> EpisodeDraws:
        waiting = [(row, i) for row in range(self._count) for i in range(len(self._plan.actors))][::-1]
        lanes = self._simulator.episode_lanes
        under_way: list[_Runner] = []
        try:
            while waiting or under_way:
                if not under_way and not any(actor.batched or actor.notes_steps for actor in self._plan.actors):
                    under_way.append(self._begin(*waiting.pop()))
                    self._play(under_way[0])
                    under_way.clear()
                    continue
                while waiting and len(under_way) < lanes:
                    under_way.append(self._begin(*waiting.pop()))
                under_way = self._step_all(under_way)
        finally:
            for runner in under_way:
                runner.episode.close()
        returns, gains = self._sums.totals()
        used, largest = self._usage.used, self._sums.largest
        return EpisodeDraws(returns, self._ends, gains, largest, self._steps, 0, used, self._starts, len(returns))

    def _begin(self, row: int, branch: int) -> _Runner:
        plan, number = self._plan, self._plan.branches[branch]
        shock = plan.start_shock(Shock.of_sample(plan.seed, self._first + row), number)
        if self._starts[row, branch] < 0:
            self._starts[row, branch] = plan.starts.number(shock)
        state = plan.starts.states[self._starts[row, branch]] if plan.starts.given else None
        episode = self._simulator.episode(shock, state, truncated_ends=plan.discount == 1, digests=self._places_matter)
        if self._sample[0] != row:
            self._sample = row, Shock.of_sample(plan.seed, self._first + row, self._usage), []
        _, root, common = self._sample
        return _Runner(row, branch, number, root, common, episode, plan.actors[branch].for_episode())

    def _play(self, runner: _Runner) -> None:
        """Simulate one episode to its end."""
        actor, rewards = runner.actor, runner.rewards

        def note(error: Exception) -> None:
            add_policy_note(error, actor, len(rewards), len(rewards))

        choose = actor.chooser(LazyShocks(self._policy_shock, [runner]), note)
        try:
            over = runner.episode.play(choose, self._step_shocks(runner), rewards)
        except Exception as error:
            note_step(error, self._simulator, len(rewards))
            raise
        self._end(runner, over=over)

    def _step_shocks(self, runner: _Runner) -> Iterator[Shock]:
        """Shocks of all steps of an episode."""
        common = runner.common
        for t in range(self._plan.horizon):
            yield common[t] if t < len(common) else self._step_shock(runner, t)

    def _step_shock(self, runner: _Runner, t: int) -> Shock:
        """Shock of the next step of an episode, step t; one object for all episodes of a sample that share it."""
        common = runner.common
        if t < len(common):
            return common[t]
        digest = runner.episode.digest() if self._places_matter else b""
        shock = self._plan.step_shock(runner.root, t, digest, runner.number)
        if self._one_shock:
            common.append(shock)
        return shock

    def _step_all(self, under_way: list[_Runner]) -> list[_Runner]:
        """Advance all episodes by one step; return those that are not over."""
        asked: dict[int, list[_Runner]] = {}
        for runner in under_way:
            asked.setdefault(id(runner.actor), []).append(runner)
        left = []
        for group in asked.values():
            seen = [runner.episode.observation for runner in group]
            try:
                actions = group[0].actor.act(seen, LazyShocks(self._policy_shock, group))
            except Exception as error:
                steps = {len(runner.rewards) for runner in group}
                add_policy_note(error, group[0].actor, min(steps), max(steps))
                raise
            for runner, action in zip(group, actions, strict=True):
                if self._goes_on(runner, action):
                    left.append(runner)
        return left

    def _policy_shock(self, runner: _Runner) -> Shock:
        return self._plan.policy_shock(runner.root, len(runner.rewards), runner.number)

    def _goes_on(self, runner: _Runner, action: Any) -> bool:
        """Advance one episode by one step; return True if it is not over."""
        rewards, notes = runner.rewards, runner.actor.notes_steps
        try:
            shock = self._step_shock(runner, len(rewards))
            scenario = runner.episode.scenario(shock) if notes else None
            reward, over = runner.episode.step(action, shock)
        except Exception as error:
            note_step(error, self._simulator, len(rewards))
            raise
        if type(reward) is not float or reward - reward != 0:  # not a float, or not finite
            reward = finite_reward(reward, action, len(rewards))
        rewards.append(reward)
        if notes:
            runner.actor.seen(action, reward, scenario)
        if not over and len(rewards) < self._plan.horizon:
            return True
        self._end(runner, over=over)
        return False

    def _end(self, runner: _Runner, *, over: bool) -> None:
        """Note the rewards of an episode."""
        self._steps += len(runner.rewards)
        self._sums.add(runner.row, runner.branch, runner.rewards)
        self._ends[runner.row, runner.branch] = ENDED if over else runner.branch
        runner.episode.close()
