"""Snapshots by save and restore: the core of one live environment is saved, and its Python attributes are copied.

Snapshots by replay: a state is stored as the seed, actions and shocks that led to it.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.adapters.gymnasium.cores import CONSTANT, SPACES, Core, UserCore, not_state, not_state_of
from jmdp.simulators.adapters.gymnasium.env_operations import (
    EnvSnapshots,
    Snapshot,
    StandardWrappers,
    dead_reference,
    duplicate,
    held_once,
    layers,
    limited,
    replace_generator,
    seed_spaces,
    seeded_reset,
    spaces_of,
    untouched_global_generators,
    was_reset,
)
from jmdp.simulators.digests import digest_of


class SavedEnvs(EnvSnapshots):
    """Snapshots that consist of the saved core of one live environment and a copy of its Python attributes.

    Parameters
    ----------
    env
        The user's environment.
    private
        If True, simulate in a duplicate, which only this class modifies. If False, simulate in the user's environment
        and restore it after each step.
    """

    def __init__(self, env: Any, core: Core, global_generators: Callable[[Shock], Any], *, private: bool) -> None:
        self._core, self._global_generators, self._private = core, global_generators, private
        self.generator = Shock(bytes(16)).generator()
        self._env = env
        if private:
            self._env = duplicate(env)
            self._env.reset(seed=0)
            core.adopt(self._env, env)
        self._first = self._copied_attributes(env)  # a reset does not restore all attributes of wrappers
        self._current: Callable[[], object] = dead_reference

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_current": dead_reference}

    def save(self, env: Any) -> Any:
        """Save the core and copy the attributes of all layers."""
        return _SavedEnv(self._core.save(env), self._copied_attributes(env))

    def _layers(self, env: Any) -> list[Any]:
        found = layers(env)
        return found[:-1] if isinstance(self._core, UserCore) else found

    def _copied_attributes(self, env: Any) -> list[dict[str, Any]]:
        """Copy the Python attributes of each layer, with references redirected to the live environment."""
        return copy.deepcopy([self._saved_attributes(layer, env) for layer in self._layers(env)], self._memo(env))

    def _saved_attributes(self, layer: Any, env: Any) -> dict[str, Any]:
        left_out = {*CONSTANT, "_np_random", "mujoco_renderer"}
        not_copied = self._not_copied(env)
        return {
            name: value
            for name, value in vars(layer).items()
            if name not in left_out and not any(value is x for x in not_copied)
        }

    def _not_copied(self, env: Any) -> list[Any]:
        """Objects that are not copied: the layers themselves and the core."""
        return [*layers(env), *(getattr(env.unwrapped, name, None) or self for name in self._core.hidden)]

    def _memo(self, env: Any) -> dict[int, Any]:
        """`deepcopy` memo that redirects references to layers, core and generator to those of the live environment."""
        memo = {id(old): new for old, new in zip(self._not_copied(env), self._not_copied(self._env), strict=True)}
        generators = [getattr(env.unwrapped, "_np_random", None), self.generator]
        return memo | {id(generator): self.generator for generator in generators if generator is not None}

    def _set_attributes(self, attributes: list[dict[str, Any]]) -> None:
        """Set the attributes of the live environment."""
        attributes = copy.deepcopy(attributes, self._memo(self._env))
        for layer, seen in zip(self._layers(self._env), attributes, strict=True):
            for name in self._saved_attributes(layer, self._env).keys() - seen.keys():
                del vars(layer)[name]
            vars(layer).update(seen)

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Start a new episode in the live environment."""
        self._current = dead_reference
        with self._borrowed():
            self._set_attributes(self._first)
            observation = seeded_reset(layers(self._env), seed, options, self._global_generators)
            return self.save(self._env), kept(observation)

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Restore the snapshot unless it is current, step, and save."""
        with self._borrowed():
            self._restore_unless_current(snapshot.saved)
            self._current = dead_reference  # in case the step raises
            self._env.unwrapped.np_random = shock.restart(self.generator)
            with self._global_generators(shock):
                result = self._env.step(action)
            after = self.save(self._env)
            self._current = weakref.ref(after)
            return after, (kept(result[0]), *result[1:])

    def _restore_unless_current(self, saved: Any) -> None:
        if not self._private or self._current() is not saved:
            self._restore(saved)
            self._current = weakref.ref(saved)

    def _restore(self, saved: Any) -> None:
        self._core.restore(self._env, saved.core_state)
        self._set_attributes(saved.attributes)

    @contextmanager
    def _borrowed(self) -> Iterator[None]:
        """Use the live environment; if it is the user's own, restore its state and generator on exit."""
        if self._private or not was_reset(self._env):
            yield
            return
        before, generator = self.save(self._env), self._env.unwrapped._np_random
        try:
            yield
        finally:
            self._restore(before)
            self._env.unwrapped._np_random = generator

    @property
    def shared(self) -> dict[str, Any]:
        """The generator, the layers of the live environment, and what its core shares."""
        live = {f"layer {i}": layer for i, layer in enumerate(layers(self._env))}
        return super().shared | live | self._core.shared(self._env)

    def digest(self, saved: Any) -> bytes:
        """Digest of the core and of all attributes that affect future steps."""
        return digest_of((self._core.digest(saved.core_state), self._compared_attributes(saved)), self._ignored)

    def _compared_attributes(self, saved: Any) -> list[dict[str, Any]]:
        compared = []
        for layer, seen in zip(self._layers(self._env), saved.attributes, strict=True):
            left_out = not_state_of(type(layer), seen, time_counts=self.time_counts)
            compared.append({name: value for name, value in seen.items() if name not in left_out})
        return compared

    def _ignored(self, owner: object) -> Container[str]:
        if any(owner is layer for layer in layers(self._env)):
            return _EVERYTHING
        return not_state(owner, time_counts=self.time_counts)

    def inspectable(self, saved: Any) -> Any:
        """Return the saved attributes."""
        return saved.attributes

    def digest_argument(self, saved: Any) -> Any:
        """State saved by the user's own function, or the live environment restored to the snapshot."""
        if isinstance(self._core, UserCore):
            return saved.core_state
        self._restore_unless_current(saved)
        return self._env


class _Everything(Container[str]):
    def __contains__(self, name: object) -> bool:
        return True


_EVERYTHING = _Everything()


class _SavedEnv:
    """Saved state of a core and attributes of all layers."""

    __slots__ = ("__weakref__", "attributes", "core_state")

    def __init__(self, core_state: Any, attributes: list[dict[str, Any]]) -> None:
        self.core_state, self.attributes = core_state, attributes


def kept(value: Any) -> Any:
    """An action or observation that later steps do not change."""
    if value is None or type(value) in (int, float, str, bool):
        return value
    return value.copy("K") if type(value) is np.ndarray and not value.dtype.hasobject else copy.deepcopy(value)


class ReplayedEnvs(EnvSnapshots):
    """Snapshots that store a seed, actions and shocks, and replay them when an environment is needed.

    Some environments are kept running, so that a rollout continues without replay. Each is a new copy, because a reset
    may not restore everything (running means of wrappers, for example).
    """

    def __init__(self, env: Any, global_generators: Callable[[Shock], Any], max_running: int) -> None:
        self._global_generators, self._max_running = global_generators, max_running
        self._pristine: Any = None
        self._error: SimulatorError | None = None
        try:
            self._pristine = duplicate(env)
        except SimulatorError as error:  # raised when a state is needed: whole episodes need none
            self._error = error
        self.generator = Shock(bytes(16)).generator()
        self._wrappers = StandardWrappers(layers(env))
        self._running: dict[int, tuple[_Running, Callable[[], object]]] = {}  # by id of the history that each is at

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_running": {}}

    def save(self, env: Any) -> Any:
        """Unsupported: the history before the simulator was made is unknown."""
        raise SimulatorError(
            "The current state of this environment cannot be replayed: its history is unknown. Start with state = "
            "simulator.reset(seed) and continue with simulator.step(state, action, shock).state."
        )

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Start a new episode, whose history is the reset."""
        history = History(None, (seed, options))
        running, observation = self._reset_env(seed, options)
        self._store_running(running, history)
        return history, kept(observation)

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Replay the snapshot if necessary, step, and append the step to the history."""
        history = snapshot.saved
        running = self._running_at(history)
        after = History(history, (kept(action), shock))
        result = self._step_env(running, action, shock)
        self._store_running(running, after)
        return after, (kept(result[0]), *result[1:])

    def _running_at(self, history: History) -> _Running:
        running, at = self._running.pop(id(history), (None, dead_reference))
        if running is not None and at() is history:
            return running
        path = history.path()
        running, _ = self._reset_env(*path[0])
        for action, shock in path[1:]:
            self._step_env(running, action, shock)
        return running

    def _reset_env(self, seed: int, options: dict[str, Any] | None) -> tuple[_Running, Any]:
        if self._error is not None:
            raise self._error
        pristine = layers(self._pristine)
        named = (vars(layer).get(name) for layer in pristine for name in CONSTANT if name not in SPACES)
        env = duplicate(self._pristine, {id(value): value for value in named if value is not None})
        chain = layers(env)
        observation = seeded_reset(chain, seed, options, self._global_generators)
        seed_spaces(spaces_of(chain), seed)  # because a reset may make new ones
        if not held_once(chain[-1]):
            replace_generator(env, chain[-1].np_random, self.generator)
        chain[-1].np_random = self.generator
        for layer in pristine:
            if "checked_reset" in vars(layer):
                layer.checked_reset = True  # `PassiveEnvChecker` checks once
        return _Running(chain, *self._wrappers.stepper(chain)), observation

    def _step_env(self, running: _Running, action: Any, shock: Shock) -> tuple[Any, ...]:
        generator, core = shock.restart(self.generator), running.core
        if core._np_random is not generator:
            core.np_random = generator
        if self._global_generators is untouched_global_generators:
            return limited(running.limit, running.go(action))
        with self._global_generators(shock):
            return limited(running.limit, running.go(action))

    def _store_running(self, running: _Running, history: History) -> None:
        """Keep an environment at this history. Of too many, drop those of deleted snapshots and the oldest."""
        self._running.pop(id(history), None)  # of a deleted one, which had the same id
        self._running[id(history)] = running, weakref.ref(history)
        if len(self._running) > self._max_running:
            used = [(key, one) for key, one in self._running.items() if one[1]() is not None]
            self._running = dict(used[-self._max_running :])

    def digest(self, saved: Any) -> bytes:
        """Digest of the history, so states with different histories count as different."""
        return saved.digest()  # type: ignore[no-any-return]

    def inspectable(self, saved: Any) -> Any:
        """Return an environment replayed to this state."""
        return self.digest_argument(saved)

    def digest_argument(self, saved: Any) -> Any:
        """Return an environment replayed to this state."""
        running = self._running_at(saved)
        self._store_running(running, saved)
        return running.env


class _Running:
    """An environment that is kept running, and its step."""

    __slots__ = ("core", "env", "go", "limit")

    def __init__(self, chain: list[Any], go: Callable[[Any], Any], limit: Any) -> None:
        self.env, self.core, self.go, self.limit = chain[0], chain[-1], go, limit


class History:
    """History of a state, a linked list whose earlier part is shared between states."""

    __slots__ = ("__weakref__", "_before", "_digest", "_event")

    def __init__(self, before: History | None, event: tuple[Any, Any]) -> None:
        self._before, self._event = before, event
        self._digest: bytes | None = None

    def path(self) -> list[tuple[Any, Any]]:
        """All events, the first one first."""
        events, at = [], self
        while at is not None:
            events.append(at._event)
            at = at._before  # type: ignore[assignment]
        return events[::-1]

    def digest(self) -> bytes:
        """Digest of all events of the history."""
        if self._digest is None:
            before = b"" if self._before is None else self._before.digest()
            what, chance = self._event
            self._digest = digest_of((before, what, chance.words if isinstance(chance, Shock) else chance))
        return self._digest
