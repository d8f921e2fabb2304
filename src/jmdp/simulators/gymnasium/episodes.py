"""Whole episodes of a Gymnasium environment, simulated in place and without snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.gymnasium.env_operations import duplicate, replace_generator, seed_spaces, seeded_reset
from jmdp.simulators.simulator import Episode

_MANY, _FEW = 64, 16
"""Number of parallel copies of the environment if making one takes less than `_SOON` seconds, and otherwise."""

_SOON = 0.02


class LiveEnvs:
    """Pool of environments, one per episode, that are reused.

    They are copies of the user's environment or made from its spec. If neither is possible, the user's environment is
    used, one episode at a time.
    """

    def __init__(self, env: Any, global_generators: Callable[[Shock], Any]) -> None:
        self._env, self._global_generators = env, global_generators
        self._generator = Shock(bytes(16)).generator()
        self._free: list[Any] = []
        begun = time.perf_counter()
        try:
            self._free.append(duplicate(env))
            self.lanes = _MANY if time.perf_counter() - begun < _SOON else _FEW  # samples do not depend on this number
        except SimulatorError:
            self._free.append(env)
            self.lanes = 1

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_free": []}

    def take(self, shock: Shock) -> tuple[Any, Any]:
        """Take an environment, reset it with this shock, and return it with its first observation."""
        env = self._free.pop() if self._free else self._another()
        seed = int.from_bytes(shock.words[:4], "little")
        observation = seeded_reset(env, seed, None, self._global_generators)
        seed_spaces(env, seed)  # because a reset may make new ones
        replace_generator(env, env.unwrapped.np_random, self._generator)
        return env, observation

    def _another(self) -> Any:
        return self._env if self.lanes == 1 else duplicate(self._env)

    def step(self, env: Any, action: Any, shock: Shock) -> Any:
        """Return the result of ``env.step(action)`` under this shock."""
        env.unwrapped.np_random = shock.restart(self._generator)
        with self._global_generators(shock):
            return env.step(action)

    def release(self, env: Any) -> None:
        """Return an environment to the pool."""
        self._free.append(env)


class LiveEpisode(Episode):
    """One episode in an environment of the pool. If `truncated_ends`, a truncation ends it."""

    def __init__(self, envs: LiveEnvs, shock: Shock, code: Callable[[Any], Any], truncated_ends: bool) -> None:
        self._envs, self._code, self._truncated_ends = envs, code, truncated_ends
        self._env, self._seen = envs.take(shock)
        self._steps, self._truncated_at = 0, 0

    @property
    def observation(self) -> Any:
        """Observation that the environment returned last."""
        return self._seen

    def step(self, action: Any, shock: Shock) -> tuple[float, bool]:
        """Step the environment; return the reward and whether the episode has ended."""
        try:
            self._seen, reward, terminated, truncated, _ = self._envs.step(self._env, self._code(action), shock)
        except Exception as error:
            if not self._truncated_at:
                raise
            raise SimulatorError(
                f"The environment signalled truncated at step {self._truncated_at}, and its step() then raised "
                f"{type(error).__name__}: {error}. Use discount=1.0, which ends episodes there, "
                f"GymnasiumSimulator(env, truncated_ends=True), or horizon ≤ {self._truncated_at}."
            ) from error
        self._steps += 1
        if truncated and not self._truncated_at:
            self._truncated_at = self._steps
        return float(reward), bool(terminated or (truncated and self._truncated_ends))

    def close(self) -> None:
        """Return the environment to the pool."""
        if self._env is not None:
            self._envs.release(self._env)
            self._env = None
