"""Episodes step by step: played by a policy or from given actions, and replayed with another action.

Episode i has the keys of sample i of `compare_policies` with its default coupling: the start, the shock of step t and
the policy's number at step t are derived from H(seed, i). So a replay receives the randomness of the episode, and with
the actions unchanged it is the episode, bit for bit.

What a review can simulate again: other actions in the same luck, and pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Label, label_text
from jmdp.base.luck import Shock
from jmdp.base.settings import cut, number, short
from jmdp.errors import LabelError, UnavailableError
from jmdp.models.actors.actor import Actor
from jmdp.reviews.values import Alternatives
from jmdp.simulators.adapters.functions import table_of
from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator
from jmdp.simulators.rollouts.plan import BranchPlan, add_policy_note
from jmdp.simulators.simulator import Episode, Simulator, finite_reward, finite_step, is_over, note_step


@dataclass(frozen=True, eq=False)
class Replay:
    """Simulates steps of an episode again, under its random keys; the reference policy follows."""

    player: Player
    reference: Actor
    alternatives: Alternatives
    past: Sequence[Any]  # actions before the first reviewed step

    @property
    def discrete(self) -> bool:
        """True if actions have numbers."""
        return self.alternatives.discrete

    def position(self, action: Label) -> int:
        """Position of a discrete action, by its number in the simulator."""
        labels = self.player.simulator.actions
        assert labels is not None
        number = labels.index(action)
        if number not in self.alternatives.listed:
            known = cut(", ".join(self.alternatives.names))
            raise LabelError(f"Action {short(action)} was not reviewed. Reviewed actions: {known}.")
        return list(self.alternatives.listed).index(number)

    def hindsight(self, episode: int, t: int, state: Any, taken: Any, end: int) -> Floats:
        """Returns [A] of each action at step t, to step `end`."""
        actions = self._actions(episode, t, state, taken)
        return self.player.totals(episode, state, actions, self.reference, range(t, end))

    def what_if(self, trajectory: Trajectory, t: int, action: int, end: int) -> Trajectory:
        """The steps from t on, to step `end`, with another action at step t."""
        state, taken = trajectory.states[t - trajectory.first], trajectory.actions[t - trajectory.first]
        first = self._actions(trajectory.episode, t, state, taken)[action]
        chosen = self.player.choice(self.reference, trajectory.episode)

        def choose(step: int, observation: Any) -> Any:
            return first if step == t else chosen(step, observation)

        return self.player.follow(trajectory.episode, state, choose, range(t, end))

    def frames(
        self, trajectory: Trajectory, before: Trajectory | None = None, only: Container[int] | None = None
    ) -> list[Any] | None:
        """Pictures of the states of a trajectory, which continues another one if `before` is given.

        `only` are the numbers of the steps before which pictures are taken; None: all.
        """
        past = list(self.past)
        if before is not None:
            past += before.actions[: trajectory.first - before.first]
        return self.player.frames(trajectory.episode, [*past, *trajectory.actions], trajectory.first, only)

    def _actions(self, episode: int, t: int, state: Any, taken: Any) -> list[Any]:
        chosen = taken
        if self.alternatives.own:
            seen = self.player.simulator.observe(state)
            chosen = self.reference.act([seen], [self.player.policy_shock(episode, t)])[0]
        return self.alternatives.at(taken, chosen)

    def forgotten(self) -> Forgotten:
        """In place of this in a review without its simulator."""
        return Forgotten(self.discrete, tuple(self.alternatives.names))


@dataclass(frozen=True)
class Forgotten:
    """In place of the simulator of a review that was pickled or saved."""

    discrete: bool
    names: tuple[str, ...]

    def forgotten(self) -> Forgotten:
        """Itself."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnavailableError(
            "A review from a file or a pickle has no simulator. Call jmdp.review again, with the same seed."
        )


_LONGEST_LABEL = 40
"""Characters of the label of an observation."""

Choice = Callable[[int, Any], Any]
"""Function from the number of a step and the observation before it to an action."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Steps `first` … `first` + T − 1 of an episode."""

    episode: int  # number of the episode
    first: int
    states: Sequence[Any]  # [T + 1], before each step and after the last
    actions: Sequence[Any]  # [T], as given to the simulator
    rewards: Floats  # [T]
    terminated: bool  # whether the last step ended the episode
    names: Sequence[str]  # [T], of the actions

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def steps(self) -> range:
        """Numbers of the steps."""
        return range(self.first, self.first + len(self))

    def shortened(self, steps: int) -> Trajectory:
        """The first steps."""
        if steps == len(self):
            return self
        return replace(
            self,
            states=self.states[: steps + 1],
            actions=self.actions[:steps],
            rewards=self.rewards[:steps],
            names=self.names[:steps],
            terminated=False,
        )

    def total(self, discount: float) -> float:
        """Sum of the rewards, discounted to step `first`."""
        return discounted(self.rewards, number("discount", discount, 0, 1))

    def __repr__(self) -> str:
        end = "terminated" if self.terminated else "not terminated"
        last = self.first + len(self) - 1
        return (
            f"Trajectory of episode {self.episode}, steps {self.first} to {last}, {end}: rewards {self.rewards.sum():g}"
        )


def to_go(rewards: Sequence[float] | Floats, discount: float) -> Floats:
    """[T], discounted sums of the rewards from each step on."""
    total, found = 0.0, []
    for reward in reversed(rewards):
        total = float(reward) + discount * total
        found.append(total)
    return np.array(found[::-1])


def discounted(rewards: Sequence[float] | Floats, discount: float) -> float:
    """Discounted sum of rewards, summed from the last to the first."""
    found = to_go(rewards, discount)
    return float(found[0]) if found.size else 0.0


@dataclass(frozen=True, eq=False)
class Player:
    """Plays episodes of one simulator with the keys of a plan."""

    simulator: Simulator
    plan: BranchPlan  # of one policy: starts, seed, discount and the largest number of steps

    def start(self, episode: int) -> Any:
        """Start state of an episode."""
        shock = self.plan.start_shock(Shock.of_sample(self.plan.seed, episode), 0)
        starts = self.plan.starts
        if starts.given:
            return starts.states[starts.number(shock)]
        if isinstance(self.simulator, GymnasiumSimulator):  # `start` may be a state without an observation
            return self.simulator.reset(int.from_bytes(shock.words[:4], "little"))
        return self.simulator.start(shock)

    def shock(self, episode: int, t: int) -> Shock:
        """Shock of step t."""
        return self.plan.step_shock(self.plan.root(episode), t, b"", 0)

    def policy_shock(self, episode: int, t: int) -> Shock:
        """Shock of the policy before step t."""
        return self.plan.policy_shock(Shock.of_sample(self.plan.seed, episode), t, 0)

    def choice(self, actor: Actor, episode: int) -> ActorChoice:
        """The actions of a policy in an episode."""
        return ActorChoice(self, actor.for_episode(), episode)

    def play(self, episode: int, choose: Choice, kept: range) -> Trajectory | None:
        """Play to step ``kept.stop``, or to the end; return the steps in `kept`, None if it ended before them."""
        state, _, _, over = self._advanced(episode, self.start(episode), choose, range(kept.start), keep=False)
        return None if over else self.follow(episode, state, choose, kept)

    def follow(self, episode: int, state: Any, choose: Choice, steps: range) -> Trajectory:
        """Play these steps from a state, which is not changed."""
        _, states, played, over = self._advanced(episode, state, choose, steps, keep=True)
        actions = [action for action, _ in played]
        rewards = np.array([reward for _, reward in played], np.float64)
        names = [self.name(action) for action in actions]
        return Trajectory(episode, steps.start, states, actions, rewards, over, names)

    def name(self, action: Any) -> str:
        """Name of an action."""
        labels = self.simulator.actions
        return _text(action) if labels is None else labels.name(labels.position(action))

    def _advanced(
        self, episode: int, state: Any, choose: Choice, steps: range, keep: bool
    ) -> tuple[Any, list[Any], list[tuple[Any, float]], bool]:
        """The last state, all states (if kept), actions with their rewards, and whether the episode is over."""
        simulator, states, played, over = self.simulator, [state], [], False
        for t in steps:
            action = choose(t, simulator.observe(state))
            go = simulator.step if keep or t == steps.start else simulator.advance
            shock = self.shock(episode, t)
            scenario = simulator.scenario_of(state, shock)
            reward, state, over = finite_step(simulator, go, state, action, shock, t)
            if isinstance(choose, ActorChoice) and choose.actor.notes_steps:
                choose.actor.seen(action, reward, scenario)
            played.append((action, reward))
            if keep:
                states.append(state)
            if over:
                break
        return state, states, played, over

    def totals(self, episode: int, state: Any, actions: Sequence[Any], actor: Actor, steps: range) -> Floats:
        """Discounted returns of each action from a state, followed by a policy, with the keys of the episode.

        The branches advance together, so that the policy is called on batches.
        """
        simulator, rewards = self.simulator, [list[float]() for _ in actions]
        under_way, taken = [(earned, state) for earned in rewards], list(actions)
        for t in steps:
            states, count = [one for _, one in under_way], len(under_way)
            if t > steps.start:
                taken = actor.act(simulator.observe_all(states), [self.policy_shock(episode, t)] * count)
            go = simulator.step_all if t == steps.start else simulator.advance_all
            try:
                outcomes = go(states, taken, [self.shock(episode, t)] * count)
            except Exception as error:
                note_step(error, simulator, t)
                raise
            left = []
            for (earned, _), action, reward, after, over in zip(under_way, taken, *outcomes, strict=True):
                earned.append(finite_reward(reward, action, t))
                if not is_over(over):
                    left.append((earned, after))
            under_way = left
            if not under_way:
                break
        return np.array([discounted(earned, self.plan.discount) for earned in rewards])

    def frames(
        self, episode: int, actions: Sequence[Any], first: int = 0, only: Container[int] | None = None
    ) -> list[Any] | None:
        """Pictures of the states from step `first` on if these actions are taken; None if the simulator has none.

        The episode is simulated again from its start. `only` are the steps before which pictures are taken; None: all.
        """
        starts = self.plan.starts
        given = self.start(episode) if starts.given else None
        shock = self.plan.start_shock(Shock.of_sample(self.plan.seed, episode), 0)
        playing: Episode = self.simulator.episode(shock, given)
        found: list[Any] = []
        try:
            for t in range(len(actions) + 1):
                if t >= first and (only is None or t in only):
                    found.append(playing.frame())
                    if found[-1] is None:
                        return None
                if t < len(actions):
                    playing.step(actions[t], self.shock(episode, t))
        finally:
            playing.close()
        return found


@dataclass(frozen=True, eq=False)
class ActorChoice:
    """The actions of a policy in an episode."""

    player: Player
    actor: Actor
    episode: int
    taken: list[Any] = field(default_factory=list)  # all actions so far

    def __call__(self, t: int, observation: Any) -> Any:
        """The action before step t."""
        try:
            (action,) = self.actor.act([observation], [self.player.policy_shock(self.episode, t)])
        except Exception as error:
            add_policy_note(error, self.actor, t, t)
            raise
        self.taken.append(action)
        return action


def _text(action: Any) -> str:
    try:
        return np.array2string(np.asarray(action), precision=3, separator=", ")
    except ValueError:  # lists of different lengths
        return type(action).__name__


def state_label(simulator: Simulator, state: Any) -> str:
    """Label of a state of a table, or of an observation; empty if it has none."""
    if (model := table_of(simulator)) is not None:
        return model.states.name(int(state))
    seen = simulator.observe(state)
    if isinstance(seen, np.ndarray) and seen.ndim <= 1 and seen.size <= 8 and seen.dtype.kind in "fiub":
        text = np.array2string(seen, precision=3, separator=", ", suppress_small=True).replace("\n", "")
        return text if len(text) <= _LONGEST_LABEL else ""
    if isinstance(seen, Mapping):
        parts = [(label_text(key), label_text(_short_number(value))) for key, value in seen.items()]
        text = ", ".join(f"{key}={value}" for key, value in parts)
        return text if all(key and value for key, value in parts) and len(text) <= _LONGEST_LABEL else ""
    return label_text(seen) or ""


def _short_number(value: Any) -> Any:
    """A float to four significant digits; other values unchanged."""
    return float(f"{value:.4g}") if isinstance(value, (float, np.floating)) else value
