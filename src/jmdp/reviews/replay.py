"""What a review can simulate again: other actions in the same luck, and pictures."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from jmdp.base.arrays import Floats
from jmdp.base.labels import Label
from jmdp.base.settings import cut, short
from jmdp.errors import LabelError, UnavailableError
from jmdp.models.actors.actor import Actor
from jmdp.reviews.trajectory import Player, Trajectory
from jmdp.reviews.values import Alternatives


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
