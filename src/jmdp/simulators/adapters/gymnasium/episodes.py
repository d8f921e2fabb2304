"""Whole episodes of a Gymnasium environment, simulated in place and without snapshots."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable
from typing import Any

from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.adapters.gymnasium.cores import SharedTable, transition_table
from jmdp.simulators.adapters.gymnasium.env_operations import (
    StandardWrappers,
    duplicate,
    held_once,
    layers,
    replace_generator,
    seed_spaces,
    seeded_reset,
    spaces_of,
    untouched_global_generators,
    wrong_result,
)
from jmdp.simulators.simulator import Episode, finite_reward, plain_reward

_MANY, _FEW = 64, 16
"""Number of parallel copies of the environment if making one takes less than `_SOON` seconds, and otherwise."""

_SOON = 0.02


class LiveEnvs:
    """Pool of environments, one per episode, that are reused.

    They are copies of the user's environment or made from its spec. If neither is possible, the user's environment is
    used, one episode at a time.
    """

    def __init__(self, env: Any, global_generators: Callable[[Shock], Any], table: SharedTable) -> None:
        self._env, self._global_generators = env, global_generators
        self.generator = KeyedGenerator.of(bytes(16))
        self.plain = global_generators is untouched_global_generators
        self._wrappers = StandardWrappers(layers(env))
        self._table = table
        self._free: dict[bool, list[LiveEnv]] = {False: [], True: []}  # by whether they share the table
        begun = time.perf_counter()
        try:
            self._free[table.sharing].append(LiveEnv(self._duplicate()))
            self.lanes = _MANY if time.perf_counter() - begun < _SOON else _FEW  # samples do not depend on this number
        except SimulatorError:
            self._free[table.sharing].append(LiveEnv(env))
            self.lanes = 1

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_free": {False: [], True: []}}

    def _duplicate(self) -> Any:
        table = transition_table(vars(self._env.unwrapped))
        return duplicate(self._env, {id(table): self._table.table} if self._table.replaces(table) else None)

    def take(self, shock: Shock) -> tuple[LiveEnv, Any]:
        """Take an environment, reset it with this shock, and return it with its first observation."""
        sharing = self._table.sharing
        free = self._free[sharing]
        live = free.pop() if free else LiveEnv(self._env if self.lanes == 1 else self._duplicate())
        live.sharing = sharing
        seed = int.from_bytes(shock.words[:4], "little")
        before = spaces_of(live.chain)
        observation = seeded_reset(live.chain, seed, None, self._global_generators, before)
        spaces = spaces_of(live.chain)
        if any(map(operator.is_not, spaces, before)):
            seed_spaces(spaces, seed)  # the reset made new ones
        live.once = held_once(live.core)  # before it is held here
        own = live.core.np_random
        if own is not self.generator:
            live.exchange(own, self.generator)
        live.go, live.limit = self._wrappers.stepper(live.chain)
        return live, observation

    def step_logged(self, live: LiveEnv, action: Any, shock: Shock) -> Any:
        """`LiveEpisode.step` where the shock may have a generator of its own, or seed the global ones."""
        logged = shock.restart(self.generator)
        try:
            live.exchange(self.generator, logged)
            with self._global_generators(shock):
                return live.go(action)
        finally:
            live.exchange(logged, self.generator)

    def release(self, live: LiveEnv) -> None:
        """Return an environment to the pool."""
        self._free[live.sharing].append(live)


class LiveEnv:
    """An environment of the pool, and its step after the reset."""

    __slots__ = ("chain", "core", "env", "go", "limit", "once", "sharing")

    def __init__(self, env: Any) -> None:
        self.env, self.chain = env, layers(env)
        self.core = self.chain[-1]
        self.go: Callable[[Any], Any] = env.step
        self.limit: Any = None
        self.once = False  # whether only the core refers to the generator
        self.sharing = False  # whether it has the shared table

    def exchange(self, old: Any, new: Any) -> None:
        """Replace the generator by another."""
        if self.once:
            self.core._np_random = new
        else:
            replace_generator(self.env, old, new)


class LiveEpisode(Episode):
    """One episode in an environment of the pool. If `truncated_ends`, a truncation ends it.

    `code` is what the environment receives for an action, and `codes` that for each of numbered actions.
    """

    def __init__(
        self, envs: LiveEnvs, shock: Shock, code: Callable[[Any], Any], codes: range, truncated_ends: bool
    ) -> None:
        self._envs, self._code, self._codes, self._truncated_ends = envs, code, codes, truncated_ends
        live, self._seen = envs.take(shock)
        self._env: LiveEnv | None = live
        self._steps, self._truncated_at = 0, 0

    @property
    def observation(self) -> Any:
        """Observation that the environment returned last."""
        return self._seen

    def step(self, action: Any, shock: Shock) -> tuple[float, bool]:
        """Step the environment; return the reward and whether the episode has ended."""
        rewards: list[float] = []
        over = self.play(lambda seen: action, (shock,), rewards)
        return rewards[0], over

    def play(self, choose: Callable[[Any], Any], shocks: Iterable[Shock], rewards: list[float]) -> bool:
        """`Episode.play` in one loop, because many environments take no longer for a step than some calls."""
        live, envs, seen, over, shock = self._env, self._envs, self._seen, False, None
        assert live is not None
        encode, codes, size = self._code, self._codes, len(self._codes)
        generator, core, go, limit, plain = envs.generator, live.core, live.go, live.limit, envs.plain
        restart, truncated_at, before = generator.restart, self._truncated_at, self._steps - len(rewards)
        for shock in shocks:
            action = choose(seen)
            code = codes[action] if type(action) is int and 0 <= action < size else encode(action)
            if core._np_random is not generator:
                core.np_random = generator
            try:
                if plain and type(shock) is Shock:
                    restart(shock._words or shock.peek())  # its use is noted at the end
                    result = go(code)
                else:
                    result = envs.step_logged(live, code, shock)
            except Exception as error:  # an environment may raise anything after its end
                if not truncated_at:
                    raise
                raise SimulatorError(
                    f"The environment signalled truncated at step {truncated_at}, and its step() then raised "
                    f"{type(error).__name__}: {error}. Use discount=1.0, which ends episodes there, "
                    f"GymnasiumSimulator(env, truncated_ends=True), or horizon ≤ {truncated_at}."
                ) from error
            try:
                seen, reward, terminated, truncated, _ = result
                if type(reward) is not float:
                    reward = plain_reward(reward)
            except (TypeError, ValueError) as error:
                raise wrong_result(result) from error
            if limit is not None:
                limit._elapsed_steps += 1
                truncated = truncated or limit._elapsed_steps >= limit._max_episode_steps
            if reward - reward != 0:
                reward = finite_reward(reward, action, before + len(rewards))
            rewards.append(reward)
            if truncated and not truncated_at:
                truncated_at = before + len(rewards)
            if terminated or (truncated and self._truncated_ends):
                over = True
                break
        if shock is not None:
            shock.note_use()
        self._seen, self._steps, self._truncated_at = seen, before + len(rewards), truncated_at
        return over

    def frame(self) -> Any:
        """What the environment renders; None unless its render_mode is "rgb_array"."""
        assert self._env is not None
        return self._env.env.render() if self._env.env.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Return the environment to the pool."""
        if self._env is not None:
            self._envs.release(self._env)
            self._env = None
