"""Environments whose core is in C: kept by the core's own state calls, and what Python sees of them by a copy."""

from __future__ import annotations

import copy
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.simulators.digests import digest_of
from jmdp.simulators.gymnasium.snapshots import (
    CONSTANT,
    EnvSnapshots,
    Snapshot,
    another,
    begin,
    layers,
    nobody,
    not_state,
    not_state_of,
    was_reset,
)


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

    def adopt(self, live: Any, env: Any) -> None:  # noqa: B027 (most have nothing to adopt)
        """Let an environment that was made anew be like this one in what no state holds."""


class SavedEnvs(EnvSnapshots):
    """One live environment; what is kept is its core, by its own calls, and a copy of what Python sees.

    Parameters
    ----------
    env
        The user's environment.
    private
        Work with another of the same kind, so that what stands in it is known; else with the user's own, which is put
        back after each step.
    """

    def __init__(self, env: Any, core: Core, luck: Callable[[Shock], Any], *, private: bool) -> None:
        self._core, self._luck, self._private = core, luck, private
        self.own = Shock(bytes(16)).generator()
        self._env = env
        if private:
            self._env = another(env)
            self._env.reset(seed=0)
            core.adopt(self._env, env)
        self._first = self._python(env)  # wrappers remember more than a reset takes back
        self._standing: Callable[[], object] = nobody

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_standing": nobody}

    def now(self, env: Any) -> Any:
        """The core, saved, and all attributes, copied."""
        return _Saved(self._core.save(env), self._python(env))

    def _layers(self, env: Any) -> list[Any]:
        found = layers(env)
        return found[:-1] if isinstance(self._core, OwnCalls) else found

    def _python(self, env: Any) -> list[dict[str, Any]]:
        """A copy of what Python sees of each layer, as it would be in the environment that is worked with."""
        return copy.deepcopy([self._kept(layer, env) for layer in self._layers(env)], self._memo(env))

    def _kept(self, layer: Any, env: Any) -> dict[str, Any]:
        left_out = {*CONSTANT, "_np_random", "mujoco_renderer"}
        fixed = self._fixed(env)
        found = vars(layer).items()
        return {name: value for name, value in found if name not in left_out and not any(value is x for x in fixed)}

    def _fixed(self, env: Any) -> list[Any]:
        """What stays where it is: the layers themselves, and the core."""
        return [*layers(env), *(getattr(env.unwrapped, name, None) or self for name in self._core.hidden)]

    def _memo(self, env: Any) -> dict[int, Any]:
        """Where references to parts of an environment, and to its generator, lead in copies."""
        memo = {id(old): new for old, new in zip(self._fixed(env), self._fixed(self._env), strict=True)}
        generators = [getattr(env.unwrapped, "_np_random", None), self.own]
        return memo | {id(generator): self.own for generator in generators if generator is not None}

    def _put(self, python: list[dict[str, Any]]) -> None:
        """Let the live environment's attributes be these."""
        python = copy.deepcopy(python, self._memo(self._env))
        for layer, seen in zip(self._layers(self._env), python, strict=True):
            for name in self._kept(layer, self._env).keys() - seen.keys():
                del vars(layer)[name]
            vars(layer).update(seen)

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """A new episode of the live environment."""
        self._standing = nobody
        with self._borrowed():
            self._put(self._first)
            observation = begin(self._env, seed, options, self._luck)
            return self.now(self._env), copy.deepcopy(observation)

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Restore if need be, step, save."""
        with self._borrowed():
            self._go_to(snapshot.kept)
            self._standing = nobody  # in case the step raises
            self._env.unwrapped.np_random = shock.restart(self.own)
            with self._luck(shock):
                result = self._env.step(action)
            after = self.now(self._env)
            self._standing = weakref.ref(after)
            return after, (copy.deepcopy(result[0]), *result[1:])

    def _go_to(self, kept: Any) -> None:
        if not self._private or self._standing() is not kept:
            self._restore(kept)
            self._standing = weakref.ref(kept)

    def _restore(self, kept: Any) -> None:
        self._core.restore(self._env, kept.core)
        self._put(kept.python)

    @contextmanager
    def _borrowed(self) -> Iterator[None]:
        """The live environment. The user's own is left where the user put it, with its generator."""
        if self._private or not was_reset(self._env):
            yield
            return
        before, generator = self.now(self._env), self._env.unwrapped._np_random
        try:
            yield
        finally:
            self._restore(before)
            self._env.unwrapped._np_random = generator

    def digest(self, kept: Any) -> bytes:
        """By the core and all attributes that matter."""
        return digest_of((self._core.digest(kept.core), self._told(kept)), self._ignored)

    def _told(self, kept: Any) -> list[dict[str, Any]]:
        told = []
        for layer, seen in zip(self._layers(self._env), kept.python, strict=True):
            left_out = not_state_of(type(layer), seen, time_counts=self.time_counts)
            told.append({name: value for name, value in seen.items() if name not in left_out})
        return told

    def _ignored(self, owner: object) -> Container[str]:
        if any(owner is layer for layer in layers(self._env)):
            return _EVERYTHING
        return not_state(owner, time_counts=self.time_counts)

    def parts(self, kept: Any) -> Any:
        """The attributes."""
        return kept.python

    def shown(self, kept: Any) -> Any:
        """What was saved, by the user's own calls; else the live environment, put there."""
        if isinstance(self._core, OwnCalls):
            return kept.core
        self._go_to(kept)
        return self._env


class _Everything(Container[str]):
    def __contains__(self, name: object) -> bool:
        return True


_EVERYTHING = _Everything()


class _Saved:
    """A core and the attributes of all layers."""

    __slots__ = ("__weakref__", "core", "python")

    def __init__(self, core: Any, python: list[dict[str, Any]]) -> None:
        self.core, self.python = core, python


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

    def __getstate__(self) -> dict[str, Any]:
        return {"_free": []}

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


class _Data:
    """An mjData that goes back to the free ones when nobody needs it."""

    __slots__ = ("_free", "data", "model")

    def __init__(self, data: Any, model: Any, free: list[Any]) -> None:
        self.data, self.model, self._free = data, model, free

    def __del__(self) -> None:
        self._free.append(self.data)
