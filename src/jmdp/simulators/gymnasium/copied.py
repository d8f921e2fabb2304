"""Snapshots by copying: the whole environment is copied as a Python object."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.digests import digest_of
from jmdp.simulators.gymnasium.env_operations import copies_by_rebuilding, layers, seeded_reset
from jmdp.simulators.gymnasium.snapshots import EnvSnapshots, Snapshot
from jmdp.simulators.gymnasium.state_attributes import CONSTANT, SPACES, not_state, transition_table

REPLAY = 'Replaying from the reset works for any environment: GymnasiumSimulator(env, snapshot="replay").'


class CopiedEnvs(EnvSnapshots):
    """Snapshots that are copies. A step copies once; a step with `use_up` modifies its snapshot and copies nothing."""

    def __init__(self, env: Any, global_generators: Callable[[Shock], Any]) -> None:
        self._global_generators = global_generators
        self.generator = Shock(bytes(16)).generator()
        self._pristine = self._copy(env, self.generator)

    def _copy(self, env: Any, generator: np.random.Generator) -> Any:
        """Copy an environment, with references to np_random replaced by this generator and constants shared."""
        chain = layers(env)
        core = chain[-1]
        # The spaces of the user's environment are copied because they contain generators.
        shared = CONSTANT if core._np_random is self.generator else set(CONSTANT) - SPACES
        memo: dict[int, Any] = {}
        for layer in chain:
            memo.update((id(vars(layer)[name]), vars(layer)[name]) for name in shared if name in vars(layer))
        table = transition_table(vars(core))
        if table is not None:
            memo[id(table)] = table
        memo.pop(id(None), None)
        if core._np_random is not None:
            memo[id(core._np_random)] = generator
        try:
            for layer in chain[::-1]:
                if copies_by_rebuilding(layer):  # deepcopy would rebuild it and lose its state
                    new = memo[id(layer)] = object.__new__(type(layer))
                    vars(new).update(copy.deepcopy(vars(layer), memo))
            made = copy.deepcopy(env, memo)
        except Exception as error:
            raise SimulatorError(
                f"{type(core).__name__} cannot be copied: {error}. {REPLAY} Or give functions for its state: "
                "GymnasiumSimulator(env, save=lambda env: …, restore=lambda env, saved: …)."
            ) from error
        made.unwrapped._np_random = generator
        return made

    def save(self, env: Any) -> Any:
        """Copy the environment."""
        return self._copy(env, self.generator)

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Reset a copy."""
        env = self._copy(self._pristine, self.generator)
        observation = seeded_reset(env, seed, options, self._global_generators)
        return self._copy(env, self.generator), observation  # because parts may refer to the reset's own generator

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Step in a copy or, with `use_up`, in place."""
        env = snapshot.saved
        generator = shock.restart(self.generator)
        if not use_up or env.unwrapped._np_random is not generator:
            env = self._copy(env, generator)
        with self._global_generators(shock):
            return env, env.step(action)

    def digest(self, saved: Any) -> bytes:
        """Digest of all attributes that affect future steps."""
        return digest_of(saved, partial(not_state, time_counts=self.time_counts))

    def inspectable(self, saved: Any) -> Any:
        """Return the copy."""
        return saved

    def digest_argument(self, saved: Any) -> Any:
        """Return the copy."""
        return saved
