"""Save and restore environment cores that are not Python objects: Atari, MuJoCo, or user-defined."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from jmdp.simulators.digests import digest_of


class Core(ABC):
    """Save and restore functions for the part of an environment that is not a Python object."""

    hidden: tuple[str, ...] = ()  # attributes of the environment that contain the core

    @abstractmethod
    def save(self, env: Any) -> Any:
        """Save the current state of the core."""

    @abstractmethod
    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state, which may be restored any number of times."""

    def digest(self, saved: Any) -> bytes:
        """Digest of a saved state; equal states have equal digests."""
        return digest_of(saved)

    def shared(self, env: Any) -> dict[str, Any]:
        """Objects of the live environment that all saved states share, by name."""
        return {}

    def adopt(self, live: Any, env: Any) -> None:  # noqa: B027 (most cores need no adoption)
        """Copy to a new environment the settings of `env` that are not part of its state."""


class UserCore(Core):
    """Core saved and restored by two user-supplied functions."""

    def __init__(self, save: Callable[[Any], Any], restore: Callable[[Any, Any], object]) -> None:
        self._save, self._restore = save, restore

    def save(self, env: Any) -> Any:
        """Save the core's state."""
        return self._save(env)

    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state."""
        self._restore(env, saved)


class AtariCore(Core):
    """Atari emulator, by its own clone and restore functions."""

    hidden = ("ale",)

    def save(self, env: Any) -> Any:
        """Save the core's state."""
        return env.unwrapped.ale.cloneState()

    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state."""
        env.unwrapped.ale.restoreState(saved)

    def digest(self, saved: Any) -> bytes:
        """Digest of the cloned emulator state."""
        return digest_of(saved.__getstate__())


class MuJoCoCore(Core):
    """MuJoCo, by copies of mjData.

    All of mjData is copied: body poses lag behind joint positions, so restoring the integration state alone would
    change them. Allocating an mjData takes a hundred times as long as copying into one, so unused ones are recycled.
    """

    hidden = ("model", "data")

    def __init__(self) -> None:
        self._free: list[Any] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"_free": []}

    def save(self, env: Any) -> Any:
        """Save the core's state."""
        import mujoco

        model, data = env.unwrapped.model, env.unwrapped.data
        into = self._free.pop() if self._free else mujoco.MjData(model)
        mujoco.mj_copyData(into, model, data)
        return _ReusableData(into, model, self._free)

    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state."""
        import mujoco

        mujoco.mj_copyData(env.unwrapped.data, saved.model, saved.data)

    def shared(self, env: Any) -> dict[str, Any]:
        """The model and the list of unused mjData."""
        return {"model": env.unwrapped.model, "free": self._free}

    def adopt(self, live: Any, env: Any) -> None:
        """Copy the model, whose masses or gravity may have been changed."""
        import mujoco

        live.unwrapped.model = copy.deepcopy(env.unwrapped.model)
        live.unwrapped.data = mujoco.MjData(live.unwrapped.model)
        renderer = getattr(live.unwrapped, "mujoco_renderer", None)
        if renderer is not None:
            renderer.model, renderer.data = live.unwrapped.model, live.unwrapped.data

    def digest(self, saved: Any) -> bytes:
        """Digest of the integration state."""
        import mujoco

        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(mujoco.mj_stateSize(saved.model, kind))
        mujoco.mj_getState(saved.model, saved.data, state, kind)
        return digest_of(state)


class _ReusableData:
    """An mjData that returns to the free list when it is garbage-collected."""

    __slots__ = ("_free", "data", "model")

    def __init__(self, data: Any, model: Any, free: list[Any]) -> None:
        self.data, self.model, self._free = data, model, free

    def __del__(self) -> None:
        self._free.append(self.data)
