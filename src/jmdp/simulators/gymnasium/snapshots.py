"""Snapshots of a Gymnasium environment, from which any number of steps can be simulated.

There are three implementations. `copied.CopiedEnvs` copies the whole environment as a Python object. `saved.SavedEnvs`
is for environments with a core in C: one live environment whose core is saved and restored by its own functions
(`cores`). `replayed.ReplayedEnvs` repeats all steps since the reset. In each of them the shock of a step seeds
``np_random``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from jmdp.base.luck import Shock


class Snapshot:
    """Saved state of an environment, opaque except to the simulator."""

    __slots__ = ("__weakref__", "observation", "saved", "steps", "truncated_at", "used_up")

    def __init__(self, saved: Any, observation: Any, steps: int = 0, truncated_at: int | None = None) -> None:
        self.saved, self.observation, self.used_up = saved, observation, False
        self.steps = steps  # taken through the simulator
        self.truncated_at = truncated_at  # step after which the environment first signalled a truncation


class EnvSnapshots(ABC):
    """Interface for taking snapshots of environments and stepping from them. `saved` is the content of a `Snapshot`."""

    generator: np.random.Generator  # reseeded by the shock of each step
    time_counts = False  # whether the step counter of a time limit is part of the state

    @abstractmethod
    def save(self, env: Any) -> Any:
        """Save the current state of the user's environment."""

    @abstractmethod
    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Start a new episode; return its saved state and first observation."""

    @abstractmethod
    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Step; return the saved state after it and the result of ``env.step``."""

    @abstractmethod
    def digest(self, saved: Any) -> bytes:
        """Digest of a saved state; equal states have equal digests."""

    def same(self, one: Any, other: Any) -> bool:
        """Whether two saved states are equal."""
        return self.digest(one) == self.digest(other)

    @property
    def shared(self) -> dict[str, Any]:
        """Objects that a saved state may refer to and that are the same in all of them, by name."""
        return {"generator": self.generator}

    @abstractmethod
    def inspectable(self, saved: Any) -> Any:
        """Return the object to search for hidden generators."""

    @abstractmethod
    def digest_argument(self, saved: Any) -> Any:
        """Return the argument for the user's own `digest` function."""


def dead_reference() -> None:
    """Return None, as a weak reference to a deleted object does."""
