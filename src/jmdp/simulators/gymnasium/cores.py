"""Cores in C that Python cannot see into, saved and restored by their own calls: Atari, MuJoCo, or a user's."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from jmdp.simulators.digests import digest_of


class Core(ABC):
    """How the part of an environment that Python cannot see into is saved and restored."""

    hidden: tuple[str, ...] = ()  # attributes of the environment that hold it

    @abstractmethod
    def save(self, env: Any) -> Any:
        """The core as it is now."""

    @abstractmethod
    def restore(self, env: Any, saved: Any) -> None:
        """Make the core what it was. What was saved can be restored again."""

    def digest(self, saved: Any) -> bytes:
        """Equal for equal states."""
        return digest_of(saved)

    def adopt(self, live: Any, env: Any) -> None:  # noqa: B027 (most have nothing to adopt)
        """Let an environment that was made anew be like this one in what no state holds."""


class UserCore(Core):
    """Two functions of the user's."""

    def __init__(self, save: Callable[[Any], Any], restore: Callable[[Any, Any], object]) -> None:
        self._save, self._restore = save, restore

    def save(self, env: Any) -> Any:
        """Save the core's state."""
        return self._save(env)

    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state."""
        self._restore(env, saved)


class AtariCore(Core):
    """Atari: the emulator clones and restores itself."""

    hidden = ("ale",)

    def save(self, env: Any) -> Any:
        """Save the core's state."""
        return env.unwrapped.ale.cloneState()

    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state."""
        env.unwrapped.ale.restoreState(saved)

    def digest(self, saved: Any) -> bytes:
        """By all that is saved."""
        return digest_of(saved.__getstate__())


class MuJoCoCore(Core):
    """All of mjData, for bodies lag behind positions and a restored integration state alone would move them.

    To make an mjData takes a hundred times as long as to copy into one, so those no longer needed are used again.
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

    def adopt(self, live: Any, env: Any) -> None:
        """The model, should masses or gravity have been changed."""
        import mujoco

        live.unwrapped.model = copy.deepcopy(env.unwrapped.model)
        live.unwrapped.data = mujoco.MjData(live.unwrapped.model)
        renderer = getattr(live.unwrapped, "mujoco_renderer", None)
        if renderer is not None:
            renderer.model, renderer.data = live.unwrapped.model, live.unwrapped.data

    def digest(self, saved: Any) -> bytes:
        """By all that is saved."""
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
