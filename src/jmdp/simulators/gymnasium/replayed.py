"""Snapshots by replay: a state is stored as the seed, actions and shocks that led to it."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.digests import digest_of
from jmdp.simulators.gymnasium.env_operations import duplicate, replace_generator, seed_spaces, seeded_reset
from jmdp.simulators.gymnasium.snapshots import EnvSnapshots, Snapshot


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
        self._running: list[tuple[Any, Callable[[], object]]] = []  # environments, and the history each is at

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_running": []}

    def save(self, env: Any) -> Any:
        """Unsupported: the history before the simulator was made is unknown."""
        raise SimulatorError(
            "The current state of this environment cannot be replayed: its history is unknown. Start with state = "
            "simulator.reset(seed) and continue with simulator.step(state, action, shock).state."
        )

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Start a new episode, whose history is the reset."""
        history = History(None, (seed, options))
        env, observation = self._reset_env(seed, options)
        self._store_running(env, history)
        return history, copy.deepcopy(observation)

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Replay the snapshot if necessary, step, and append the step to the history."""
        history = snapshot.saved
        env = self._env_at(history)
        after = History(history, (copy.deepcopy(action), shock))
        result = self._step_env(env, action, shock)
        self._store_running(env, after)
        return after, (copy.deepcopy(result[0]), *result[1:])

    def _env_at(self, history: History) -> Any:
        for i, (env, at) in enumerate(self._running):
            if at() is history:
                del self._running[i]
                return env
        path = history.path()
        env, _ = self._reset_env(*path[0])
        for action, shock in path[1:]:
            self._step_env(env, action, shock)
        return env

    def _reset_env(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        if self._error is not None:
            raise self._error
        env = duplicate(self._pristine)
        observation = seeded_reset(env, seed, options, self._global_generators)
        seed_spaces(env, seed)  # because a reset may make new ones
        replace_generator(env, env.unwrapped.np_random, self.generator)
        return env, observation

    def _step_env(self, env: Any, action: Any, shock: Shock) -> tuple[Any, ...]:
        env.unwrapped.np_random = shock.restart(self.generator)
        with self._global_generators(shock):
            result: tuple[Any, ...] = env.step(action)
        return result

    def _store_running(self, env: Any, history: History) -> None:
        """Keep an environment at this history; drop those of deleted snapshots, and the oldest beyond the limit."""
        self._running = [(other, at) for other, at in self._running if at() is not None]
        self._running = [*self._running[1 - self._max_running :], (env, weakref.ref(history))]

    def digest(self, saved: Any) -> bytes:
        """Digest of the history, so states with different histories count as different."""
        return saved.digest()  # type: ignore[no-any-return]

    def inspectable(self, saved: Any) -> Any:
        """Return an environment replayed to this state."""
        return self.digest_argument(saved)

    def digest_argument(self, saved: Any) -> Any:
        """Return an environment replayed to this state."""
        env = self._env_at(saved)
        self._store_running(env, saved)
        return env


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
