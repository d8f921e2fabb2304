"""The question of a review: episodes are played, the values of their steps are found, and both are combined."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.progress import status_bar
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.settings import short
from jmdp.distribute.pools import Pool
from jmdp.distribute.process_pool import pool_of
from jmdp.errors import SettingsError, SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.reviews.recorded import Deviation, RecordedMonth, compared_states
from jmdp.reviews.review import Review
from jmdp.reviews.rollout_values import (
    Called,
    LearnedFunction,
    Lookahead,
    LookaheadValues,
    Rollouts,
    RolloutValues,
    is_learned,
    widened,
)
from jmdp.reviews.trajectory import Choice, Player, Replay, Trajectory, state_label, to_go
from jmdp.reviews.values import Alternatives, ExactTable, Point, Reference, StepValues, fitted
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.checking.sampling import check_before_sampling
from jmdp.simulators.simulator import Simulator

_TOGETHER = 4
"""Steps of one block of work."""


@dataclass(frozen=True, kw_only=True)
class ReviewSettings:
    """Settings of a review that were checked."""

    seed: int
    confidence: float
    horizon: int | None
    numbers: list[int]
    steps: range | None
    progress: bool
    history: RecordedLuck | None
    recorded: list[Any] | None  # states
    tolerance: float

    def within(self, periods: int) -> ReviewSettings:
        """The settings for a history of so many periods."""
        if self.horizon is not None and self.horizon > periods:
            raise SettingsError(f"horizon is {self.horizon}, but luck has {periods} periods. Omit horizon.")
        return replace(self, horizon=self.horizon or periods)


@dataclass(frozen=True, eq=False)
class _Work:
    """Values and replays of some steps, a pure function of their points."""

    simulator: Simulator
    values: Callable[[Point], StepValues]
    replay: Replay | None  # None: `hindsight` is not computed
    end: int

    def __call__(self, packed: Sequence[Point]) -> list[tuple[StepValues, Floats | None]]:
        """Values at these points, whose states are packed."""
        found: list[tuple[StepValues, Floats | None]] = []
        for one in packed:
            point = replace(one, state=self.simulator.unpack(one.state))
            values = self.values(point)
            rows = None
            if self.replay is not None and point.taken is not None:
                rows = self.replay.hindsight(point.episode, point.t, point.state, point.taken, self.end)
            found.append((values, rows))
        return found


@dataclass(frozen=True, eq=False)
class ReviewQuestion:
    """What is reviewed."""

    player: Player
    actor: Actor
    follower: Actor  # the reference policy
    played: list[Any] | None
    itself: bool  # whether the policy is its own reference
    alternatives: Alternatives
    settings: ReviewSettings
    month: RecordedMonth | None = None
    outside: RecordedLuck | None = None  # blocks of other periods, for expectations
    others: Mapping[str, Actor] = field(default_factory=dict)

    @property
    def discount(self) -> float:
        """γ."""
        return self.player.plan.discount

    @property
    def kept(self) -> range:
        """Steps to review, at most."""
        most = self.player.plan.horizon
        steps = range(most) if self.settings.steps is None else self.settings.steps
        if self.discount < 1:  # the horizon is then the length of rollouts
            most = max(most, steps.stop if self.settings.steps else len(self.played or ()))
            steps = steps if self.settings.steps else range(most)
        if steps.start >= most:
            raise SettingsError(f"steps is {steps}, but an episode has at most {most} steps. Give a larger horizon.")
        stop = min(steps.stop, most)
        return range(steps.start, stop if self.played is None else min(stop, len(self.played)))

    def values(self, method: Any) -> ValueMethod:
        """Check the method; None is the default."""
        simulator, several = self.player.simulator, len(self.settings.numbers) > 1
        if method is not None and not isinstance(method, (RolloutValues, LookaheadValues)):
            raise SettingsError(
                f"method is {short(method)}. Give jmdp.reviews.RolloutValues(), jmdp.reviews.LookaheadValues() or None."
            )
        probs = None
        if isinstance(simulator, TabularSimulator) and self.discount < 1:  # exact values have no horizon
            S, _, A = simulator.model.shape
            probs = self.follower.table(S, A)
        if method is None and probs is None:
            method = LookaheadValues() if several else RolloutValues()
        if isinstance(method, LookaheadValues) and method.values is None and len(self.settings.numbers) < method.folds:
            raise SettingsError(
                f"LookaheadValues() fits values to other episodes, but {len(self.settings.numbers)} are reviewed with "
                f"folds={method.folds}. Give episodes=… ≥ {method.folds}, LookaheadValues(values), or RolloutValues()."
            )
        if is_learned(getattr(method, "values", None)) and not self.alternatives.discrete:
            raise SettingsError("A learned result has values of discrete actions. Give a function of observations.")
        return ValueMethod(method, probs)

    def reviewed(self, method: ValueMethod, pool: int | Pool | None, whole_episodes: bool) -> list[Review]:
        """Play the episodes, find the values of their steps, and combine them."""
        played = [one for one in map(self._play, self.settings.numbers) if one is not None]
        if not played:
            raise SettingsError(
                f"All episodes ended before step {self.kept.start}, the first to be reviewed. Give earlier steps."
            )
        trajectories, pasts = zip(*played, strict=True)
        self._check(trajectories[0])
        deviation = self._deviation(trajectories[0])
        end = self._end(trajectories)
        work = _Work(
            self.player.simulator,
            self._valued(method, trajectories),
            self._replay(()) if whole_episodes else None,
            end,
        )
        points = [point for group, one in enumerate(trajectories) for point in self._points(one, end, group)]
        found = self._found(work, points, pool)
        reviews, at = [], 0
        for trajectory, past in zip(trajectories, pasts, strict=True):
            count = len(trajectory) + (not trajectory.terminated)
            part = found[at : at + count]
            at += count
            if len(part) == count or (whole_episodes and len(part) > 1):
                found_here = self._review(trajectory, past, part, end, method)
                earned = self._earned(found_here.trajectory) if whole_episodes else {}
                reviews.append(replace(found_here, deviation=deviation, others=earned))
        if not reviews:
            raise KeyboardInterrupt  # before anything was complete
        return reviews

    def _play(self, episode: int) -> tuple[Trajectory, list[Any]] | None:
        """The reviewed steps of an episode, and the actions before them; None if it ended before them."""
        played = list(self.played or ())
        policy = None if self.played is not None else self.player.choice(self.actor, episode)
        choose: Choice = (lambda t, observation: played[t]) if policy is None else policy
        if self.kept.start >= self.kept.stop:
            raise SettingsError(f"played has {len(self.played or ())} actions. Give earlier steps.")
        found = self.player.play(episode, choose, self.kept)
        if found is None:
            return None
        given, used = len(self.played or ()), found.first + len(found)
        if used < given and self.settings.steps is None:
            why = "the episode ended there" if found.terminated else "a larger horizon is needed"
            raise SettingsError(
                f"played has {given} actions, of which {used} were used: {why}. Give the actions of this episode, and "
                "its seed and number."
            )
        return found, (played if policy is None else policy.taken)[: self.kept.start]

    def _deviation(self, first: Trajectory) -> Deviation | None:
        """How close the simulated states are to the recorded ones, if there are any."""
        simulator, settings = self.player.simulator, self.settings
        if settings.recorded is None:
            return None
        return compared_states(simulator, first.states, first.first, settings.recorded, settings.tolerance)

    def _earned(self, shown: Trajectory) -> dict[str, float]:
        """What other policies earn in the reviewed steps, in the same luck, from the first of these states on."""
        found = {}
        for name, actor in self.others.items():
            choice = self.player.choice(actor, shown.episode)
            steps = self.player.follow(shown.episode, shown.states[0], choice, shown.steps)
            found[name] = steps.total(self.discount)
        return found

    def _check(self, first: Trajectory) -> None:
        """Raise if randomness is not shared, or if the first episode is not the same when it is played again."""
        simulator, taken = self.player.simulator, first.actions[0]
        actions = self.alternatives.at(taken, taken)
        check_before_sampling(simulator, first.states[0], actions, self.player.plan.coupling)
        again = self.player.follow(
            first.episode, first.states[0], lambda t, _: first.actions[t - first.first], first.steps
        )
        if again.rewards.tobytes() != first.rewards.tobytes() or again.terminated != first.terminated:
            raise SimulatorError(
                f"{simulator!r} is not reproducible: episode {first.episode} has other rewards when it is simulated "
                "again with the same actions and randomness. Find the cause with "
                "jmdp.testing.check_simulator(simulator, steps=500)."
            )

    def _end(self, trajectories: Sequence[Trajectory]) -> int:
        """The step at which all rollouts end."""
        horizon = self.player.plan.horizon
        if self.discount == 1:
            return horizon
        return max(one.first + len(one) for one in trajectories) + horizon

    def _points(self, trajectory: Trajectory, end: int, group: int) -> Iterator[Point]:
        """The states before each step, and the last one if the episode goes on."""
        for i, state in enumerate(trajectory.states):
            over = i == len(trajectory)
            if over and trajectory.terminated:
                return
            t = trajectory.first + i
            key = blake2b(b"review %d %d %d" % (self.settings.seed, trajectory.episode, t), digest_size=8).digest()
            seed = int.from_bytes(key, "little") >> 2
            taken = None if over else trajectory.actions[i]
            yield Point(trajectory.episode, t, state, taken, seed, end - t, group)

    def _valued(self, method: ValueMethod, trajectories: Sequence[Trajectory]) -> Callable[[Point], StepValues]:
        """The function that finds the values of a point."""
        simulator = self.player.simulator
        reference = Reference(
            simulator,
            self.follower,
            self.alternatives,
            self.discount,
            self.settings.confidence,
            method.probs,
            self.outside,
        )
        settings = method.settings
        if settings is None:
            assert isinstance(simulator, TabularSimulator)
            assert method.probs is not None
            return ExactTable.of(reference, simulator.model, method.probs)
        if isinstance(settings, RolloutValues):
            return Rollouts(reference, settings.samples)
        if is_learned(settings.values):
            return Lookahead(reference, [LearnedFunction(settings.values, self.follower)], settings.samples)
        if settings.values is not None:
            return Lookahead(reference, [Called(settings.values)], settings.samples)
        functions = [self._fit(trajectories, group, settings.folds) for group in range(settings.folds)]
        return Lookahead(reference, functions, settings.samples)

    def _fit(self, trajectories: Sequence[Trajectory], group: int, folds: int) -> Any:
        """Values fitted to all episodes but those of one group."""
        seen: list[Any] = []
        returns: list[float] = []
        for i, one in enumerate(trajectories):
            if i % folds == group:
                continue
            seen += self.player.simulator.observe_all(list(one.states[: len(one)]))
            returns += to_go(one.rewards, self.discount).tolist()
        return fitted(seen, np.array(returns))

    def _found(
        self, work: _Work, points: Sequence[Point], pool: int | Pool | None
    ) -> list[tuple[StepValues, Floats | None]]:
        """Values of all points; of the first ones if Ctrl-C was pressed."""
        pack, found = self.player.simulator.pack, []
        blocks = (
            ([replace(one, state=pack(one.state)) for one in points[at : at + _TOGETHER]],)
            for at in range(0, len(points), _TOGETHER)
        )
        try:
            with (
                pool_of(pool) as running,
                status_bar("review", self.settings.progress, 0, len(points), unit="steps") as report,
            ):
                for part in running.ordered(work, blocks):
                    found += part
                    report(len(found), "")
        except KeyboardInterrupt:
            if len(found) < 2:
                raise
        return found

    def _replay(self, past: Sequence[Any]) -> Replay:
        return Replay(self.player, self.follower, self.alternatives, past)

    def _review(
        self,
        trajectory: Trajectory,
        past: Sequence[Any],
        found: Sequence[tuple[StepValues, Floats | None]],
        end: int,
        method: ValueMethod,
    ) -> Review:
        """The review of the steps whose values are known."""
        simulator, count = self.player.simulator, len(trajectory)
        values = [one for one, _ in found]
        taken = [self.alternatives.index(action) for action in trajectory.actions]
        seen = [np.zeros(0) if row is None else row for _, row in found]
        if trajectory.terminated:  # otherwise the returns of the last steps are cut
            earned = to_go(trajectory.rewards, self.discount)
            seen = [np.append(row, earned[i : i + 1]) for i, row in enumerate(seen)]
        values = widened(values, seen, self.settings.confidence)
        if trajectory.terminated and len(values) == count:
            values.append(StepValues.ended(len(self.alternatives.names)))
        shown = trajectory.shortened(len(values) - 1)
        rows = [row for _, row in found[: len(shown)]]
        history, month = self.settings.history, self.month
        if history is not None and month is not None:
            month = month.of_steps(history, shown.steps)
        return Review(
            trajectory=shown,
            labels=self._labels(shown),
            actions=list(self.alternatives.names),
            taken=taken[: len(shown)],
            values=values,
            simulator=repr(simulator),
            policy="given actions" if self.played is not None else repr(self.actor),
            reference=None if self.itself and self.played is None else repr(self.follower),
            method=method.text,
            discount=self.discount,
            end=end,
            seed=self.settings.seed,
            confidence=self.settings.confidence,
            asked=count,
            replay=self._replay(list(past)),
            replayed=None if any(row is None for row in rows) else np.array(rows),
            month=month,
        )

    def _labels(self, shown: Trajectory) -> list[str]:
        """Labels of the states before each step, with the period of the history that it is."""
        labels = [state_label(self.player.simulator, state) for state in shown.states[: len(shown)]]
        if self.settings.history is None:
            return labels
        periods = self.settings.history.periods[shown.first : shown.first + len(shown)]
        return [f"{period}: {label}" if label else str(period) for period, label in zip(periods, labels, strict=True)]


@dataclass(frozen=True, eq=False)
class ValueMethod:
    """How values are found; no settings: exactly, for this table of the reference policy."""

    settings: RolloutValues | LookaheadValues | None
    probs: Floats | None

    @property
    def text(self) -> str:
        """For the text of a review."""
        if self.settings is None:
            return "exact solution of the table"
        if isinstance(self.settings, RolloutValues):
            return f"{self.settings.samples:,} rollouts of each action"
        if self.settings.values is None:
            return "one step of lookahead, with a value function fitted to other episodes"
        if is_learned(self.settings.values):
            return "one step of lookahead, with a learned evaluation"
        return "one step of lookahead, with a given value function"
