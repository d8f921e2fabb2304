"""Whole episodes of a Gymnasium environment, in place: reset and steps under keyed luck, and no snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.gymnasium.env_operations import duplicate, replace_generator, seed_spaces, seeded_reset
from jmdp.simulators.simulator import Episode

_MANY, _FEW = 64, 16
"""Copies of the environment that run side by side, where one takes less than `_SOON` seconds to make or longer."""

_SOON = 0.02


class LiveEnvs:
    """Environments that episodes run in, one each; they are used again.

    They are copies of the user's, or made anew by its spec. Where neither can be done the user's own is worked with,
    one episode at a time.
    """

    def __init__(self, env: Any, global_generators: Callable[[Shock], Any]) -> None:
        self._env, self._global_generators = env, global_generators
        self._generator = Shock(bytes(16)).generator()
        self._free: list[Any] = []
        begun = time.perf_counter()
        try:
            self._free.append(duplicate(env))
            self.lanes = _MANY if time.perf_counter() - begun < _SOON else _FEW  # samples do not depend on it
        except SimulatorError:
            self._free.append(env)
            self.lanes = 1

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_free": []}

    def take(self, shock: Shock) -> tuple[Any, Any]:
        """An environment at the start that this luck draws, and its first observation."""
        env = self._free.pop() if self._free else self._another()
        seed = int.from_bytes(shock.words[:4], "little")
        observation = seeded_reset(env, seed, None, self._global_generators)
        seed_spaces(env, seed)  # for a reset may make new ones
        replace_generator(env, env.unwrapped.np_random, self._generator)
        return env, observation

    def _another(self) -> Any:
        return self._env if self.lanes == 1 else duplicate(self._env)

    def step(self, env: Any, action: Any, shock: Shock) -> Any:
        """What ``env.step(action)`` returns under this luck."""
        env.unwrapped.np_random = shock.restart(self._generator)
        with self._global_generators(shock):
            return env.step(action)

    def release(self, env: Any) -> None:
        """The episode is over."""
        self._free.append(env)


class LiveEpisode(Episode):
    """One episode. `truncated_ends`: the environment's truncation ends it."""

    def __init__(self, envs: LiveEnvs, shock: Shock, code: Callable[[Any], Any], truncated_ends: bool) -> None:
        self._envs, self._code, self._truncated_ends = envs, code, truncated_ends
        self._env, self._seen = envs.take(shock)
        self._steps, self._truncated_at = 0, 0

    @property
    def observation(self) -> Any:
        """What the environment returned last."""
        return self._seen

    def step(self, action: Any, shock: Shock) -> tuple[float, bool]:
        """``env.step(action)``."""
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
        """Give the environment back."""
        if self._env is not None:
            self._envs.release(self._env)
            self._env = None
