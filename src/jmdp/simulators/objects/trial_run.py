"""A run of an object in the trial: actions in turn, with keys that depend on the number of the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jmdp.base.luck import Shock
from jmdp.simulators.checking.probe import fingerprint_of
from jmdp.simulators.gymnasium.replayed import History
from jmdp.simulators.objects.growth import MEASURED_AT
from jmdp.simulators.objects.object_steps import ObjectSteps
from jmdp.simulators.simulator import finite_reward

STEPS = MEASURED_AT[-1]
"""Steps of each run of the trial, unless there are more actions to try."""

_ROOT = Shock.of_sample(0, 0).derived(b"trial")


@dataclass(frozen=True)
class Look:
    """What a step shows."""

    reward: float
    terminated: bool
    observation: bytes | None
    state: bytes | None


class Run:
    """An object that takes the actions in turn; a new episode begins after each end."""

    def __init__(self, steps: ObjectSteps, actions: Sequence[Any], purpose: bytes) -> None:
        self._steps, self.actions, self._purpose = steps, actions, purpose
        self.t = self.episode = 0
        self.looks: list[Look] = []
        self._begin()

    def _begin(self) -> None:
        shock = start_key(self.episode)
        self.thing, _ = self._steps.begin(shock)
        self.history, self._taken = History(None, (None, shock)), 0

    def steps(self, count: int) -> list[Look]:
        """Take the next actions; return what all steps so far have shown."""
        for _ in range(count):
            self.step()
        return self.looks

    def step(self) -> None:
        """Take the next action."""
        action, shock = self.actions[self.t % len(self.actions)], _ROOT.derived(self._purpose, self.t)
        self._taken += 1
        result = self._steps.step(self.thing, action, shock, self._taken)
        reward, over = finite_reward(result.reward, action, self.t), bool(result.terminated or result.truncated)
        state = self._steps.fingerprint(self.thing)
        self.looks.append(Look(reward, over, fingerprint_of(result.observation), state))
        self.history = History(self.history, (action, shock))
        self.t += 1
        if over:
            self.episode += 1
            self._begin()

    def continued(self, thing: Any, count: int, purpose: bytes | None = None) -> list[Look]:
        """Looks of the next steps of a copy of the object."""
        run = object.__new__(Run)
        vars(run).update(vars(self) | {"thing": thing, "looks": [], "_purpose": purpose or self._purpose})
        return run.steps(count)


def start_key(episode: int) -> Shock:
    """Key of the start of an episode."""
    return _ROOT.derived(b"begin", episode)
