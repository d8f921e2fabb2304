"""Snapshots of a Gymnasium environment: save it as it is now, and step from there as often as one likes.

There are three ways, each in a module of its own. `copied.CopiedEnvs` copies the whole environment, as Python objects
allow. `saved.SavedEnvs` is for environments with a core in C: one live environment whose core is saved and restored by
its own calls (`cores`). `replayed.ReplayedEnvs` plays a state again from its reset. All give every draw of
``np_random`` to the shock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from jmdp.base.luck import Shock


class Snapshot:
    """An environment as it was at one time. Nothing can be seen of it but through the simulator."""

    __slots__ = ("__weakref__", "observation", "saved", "steps", "truncated_at", "used_up")

    def __init__(self, saved: Any, observation: Any, steps: int = 0, truncated_at: int | None = None) -> None:
        self.saved, self.observation, self.used_up = saved, observation, False
        self.steps = steps  # taken through the simulator
        self.truncated_at = truncated_at  # the step after which the environment first signalled it


class EnvSnapshots(ABC):
    """A way to take snapshots of environments and to step from them. `saved` is what it stores in a `Snapshot`."""

    generator: np.random.Generator  # which the shock of each step restarts
    time_counts = False  # whether the steps a time limit has counted are part of the state

    @abstractmethod
    def save(self, env: Any) -> Any:
        """The user's environment as it is now."""

    @abstractmethod
    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """A new episode, saved, and its first observation."""

    @abstractmethod
    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """The environment after a step, saved, and what the step returned."""

    @abstractmethod
    def digest(self, saved: Any) -> bytes:
        """Equal for equal states."""

    @abstractmethod
    def inspectable(self, saved: Any) -> Any:
        """What can be looked into for hidden generators."""

    @abstractmethod
    def digest_argument(self, saved: Any) -> Any:
        """What the user's own `digest` is called with."""


def dead_reference() -> None:
    """Like a weak reference whose object is gone."""
