"""Environments whose core is in C: kept by the core's own state calls, and what Python sees of them by a copy."""

from __future__ import annotations

import copy
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from jmdp.digests import digest_of
from jmdp.luck import Shock
from jmdp.simulators.env_snapshots import CONSTANT, NOT_STATE, EnvSnapshots, Snapshot, layers


class Core(ABC):
    """How the part of an environment that Python cannot see into is kept."""

    hidden: tuple[str, ...] = ()  # attributes of the environment that hold it

    @abstractmethod
    def save(self, env: Any) -> Any:
        """The core as it is now."""

    @abstractmethod
    def restore(self, env: Any, saved: Any) -> None:
        """Make the core what it was. What was saved can be restored again."""

    def digest(self, saved: Any) -> bytes:
        """Which are the same."""
        return digest_of(saved)


class SavedEnvs(EnvSnapshots):
    """One live environment; what is kept is its core, by its own calls, and a copy of what Python sees.

    Parameters
    ----------
    env
        The environment to work with.
    private
        Nobody else steps it, so what stands in it is known.
    """

    def __init__(self, env: Any, core: Core, luck: Callable[[Shock], Any], *, private: bool) -> None:
        self._env, self._core, self._luck, self._private = env, core, luck, private
        self._own = Shock(bytes(16)).generator()
        self._standing: Callable[[], object] = lambda: None

    def now(self, env: Any) -> Any:
        """The core, saved, and all attributes, copied."""
        return _Saved(self._core.save(env), copy.deepcopy([self._python(layer) for layer in self._layers(env)]))

    def _layers(self, env: Any) -> list[Any]:
        found = layers(env)
        return found[:-1] if isinstance(self._core, OwnCalls) else found

    def _python(self, layer: Any) -> dict[str, Any]:
        left_out = {*CONSTANT, *self._core.hidden, "env", "_np_random", "mujoco_renderer"}
        return {name: value for name, value in vars(layer).items() if name not in left_out}

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """A new episode of the live environment."""
        self._standing = lambda: None
        observation, _ = self._env.reset(seed=seed, options=options)
        return self.now(self._env), copy.deepcopy(observation)

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Restore if need be, step, save."""
        kept = snapshot.kept
        if not self._private or self._standing() is not kept:
            self._core.restore(self._env, kept.core)
            for layer, seen in zip(self._layers(self._env), copy.deepcopy(kept.python), strict=True):
                vars(layer).update(seen)
        self._standing = lambda: None  # in case the step raises
        self._env.unwrapped.np_random = shock.restart(self._own)
        with self._luck(shock):
            result = self._env.step(action)
        after = self.now(self._env)
        self._standing = weakref.ref(after)
        return after, (copy.deepcopy(result[0]), *result[1:])

    def digest(self, kept: Any) -> bytes:
        """By the core and all attributes that matter."""
        return digest_of((self._core.digest(kept.core), [_without(seen) for seen in kept.python]))

    def parts(self, kept: Any) -> Any:
        """The attributes."""
        return kept.python


class _Saved:
    """A core and the attributes of all layers."""

    __slots__ = ("__weakref__", "core", "python")

    def __init__(self, core: Any, python: list[dict[str, Any]]) -> None:
        self.core, self.python = core, python


def _without(seen: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in seen.items() if name not in NOT_STATE}


class OwnCalls(Core):
    """Two functions of the user's."""

    def __init__(self, save: Callable[[Any], Any], restore: Callable[[Any, Any], object]) -> None:
        self._save, self._restore = save, restore

    def save(self, env: Any) -> Any:
        """Ask for it."""
        return self._save(env)

    def restore(self, env: Any, saved: Any) -> None:
        """Hand it back."""
        self._restore(env, saved)


class Emulator(Core):
    """Atari: the emulator clones and restores itself."""

    hidden = ("ale",)

    def save(self, env: Any) -> Any:
        """Ask for it."""
        return env.unwrapped.ale.cloneState()

    def restore(self, env: Any, saved: Any) -> None:
        """Hand it back."""
        env.unwrapped.ale.restoreState(saved)

    def digest(self, saved: Any) -> bytes:
        """By all that is saved."""
        return digest_of(saved.__getstate__())


class MuJoCo(Core):
    """All of mjData, for bodies lag behind positions and a restored integration state alone would move them.

    To make an mjData takes a hundred times as long as to copy into one, so those no longer needed are used again.
    """

    hidden = ("model", "data")

    def __init__(self) -> None:
        self._free: list[Any] = []

    def save(self, env: Any) -> Any:
        """Ask for it."""
        import mujoco

        model, data = env.unwrapped.model, env.unwrapped.data
        into = self._free.pop() if self._free else mujoco.MjData(model)
        mujoco.mj_copyData(into, model, data)
        return _Data(into, model, self._free)

    def restore(self, env: Any, saved: Any) -> None:
        """Hand it back."""
        import mujoco

        mujoco.mj_copyData(env.unwrapped.data, saved.model, saved.data)

    def digest(self, saved: Any) -> bytes:
        """By all that is saved."""
        import mujoco

        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(mujoco.mj_stateSize(saved.model, kind))
        mujoco.mj_getState(saved.model, saved.data, state, kind)
        return digest_of(state)


class _Data:
    """An mjData that goes back to the free ones when nobody needs it."""

    __slots__ = ("_free", "data", "model")

    def __init__(self, data: Any, model: Any, free: list[Any]) -> None:
        self.data, self.model, self._free = data, model, free

    def __del__(self) -> None:
        self._free.append(self.data)
