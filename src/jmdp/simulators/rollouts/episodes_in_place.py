"""Episodes that only move forward: in environments that cannot be copied, and of policies with memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.luck import Shock, Usage
from jmdp.models.actors.actor import Actor
from jmdp.simulators.rollouts.draws import ENDED, EpisodeDraws, EpisodeSums, LazyShocks
from jmdp.simulators.rollouts.plan import BranchPlan, add_policy_note
from jmdp.simulators.simulator import Episode, Simulator, finite_reward, note_step


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


class EpisodesInPlace:
    """Episodes that only move forward: environments that cannot be copied, and policies with memory.

    They are simulated side by side if a policy gains from batches, otherwise one after another.
    """

    def __init__(self, simulator: Simulator, plan: BranchPlan, first: int, count: int) -> None:
        self._simulator, self._plan, self._first, self._count = simulator, plan, first, count
        shape = (count, len(plan.actors))
        self._sums, self._usage = EpisodeSums(*shape, plan.discount), Usage()
        self._usage.used = plan.random_starts
        usual = type(plan) is BranchPlan and not plan.fresh  # then the coupling is asked without a call in between
        self._shock_of_step = plan.coupling.environment_shock if usual else plan.step_shock
        self._ends = np.full(shape, ENDED, np.int32)
        self._starts = np.tile(plan.start_numbers(first, count)[:, None], shape[1])
        self._steps = 0
        self._places_matter = plan.by_digest
        self._one_shock = plan.one_shock
        # Row, root of its starts, root, shocks of steps.
        self._sample: tuple[int, Shock, Shock, list[Shock]] = (-1, Shock(bytes(16)), Shock(bytes(16)), [])

    def run(self) -> EpisodeDraws:
        """Simulate all episodes."""
        waiting = [(row, i) for row in range(self._count) for i in range(len(self._plan.actors))][::-1]
        lanes = self._simulator.episode_lanes
        under_way: list[_Runner] = []
        in_turn = False
        try:
            while waiting or under_way:
                if waiting and waiting[-1][1] == 0:  # once a sample: policies may turn out to gain from batches
                    in_turn = not any(actor.batched or actor.notes_steps for actor in self._plan.actors)
                if in_turn and not under_way:
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
        if self._sample[0] != row:
            sample = self._first + row
            self._sample = row, plan.start_root(sample), plan.root(sample, self._usage), []
        _, start_root, root, common = self._sample
        shock = plan.start_shock(start_root, number)
        if self._starts[row, branch] < 0:
            self._starts[row, branch] = plan.starts.number(shock)
        state = plan.starts.states[self._starts[row, branch]] if plan.starts.given else None
        episode = self._simulator.episode(shock, state, truncated_ends=plan.discount == 1, digests=self._places_matter)
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
        later = range(len(runner.common), self._plan.horizon)
        return chain(tuple(runner.common), map(self._step_shock, repeat(runner), later))

    def _step_shock(self, runner: _Runner, t: int) -> Shock:
        """Shock of the next step of an episode, step t; one object for all episodes of a sample that share it."""
        common = runner.common
        if t < len(common):
            return common[t]
        digest = runner.episode.digest() if self._places_matter else b""
        shock = self._shock_of_step(runner.root, t, digest, runner.number)
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


class _NotingEpisodes(EpisodesInPlace):
    """Episodes of one sample whose rewards are kept by step."""

    def __init__(self, simulator: Simulator, plan: BranchPlan, sample: int) -> None:
        super().__init__(simulator, plan, sample, 1)
        self.noted = np.zeros((plan.horizon, len(plan.actors)))

    def _end(self, runner: _Runner, *, over: bool) -> None:
        self.noted[: len(runner.rewards), runner.branch] = runner.rewards
        super()._end(runner, over=over)


def episode_rewards(simulator: Simulator, plan: BranchPlan) -> Floats:
    """[horizon, A], rewards of each step of the episodes of sample 0; 0 after their ends."""

    def simulate() -> Floats:
        episodes = _NotingEpisodes(simulator, plan, 0)
        episodes.run()
        return episodes.noted

    return simulator.in_block(simulate)
