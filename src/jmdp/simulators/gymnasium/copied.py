"""Snapshots by copying: the whole environment is copied as a Python object."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.simulators.digests import digest_of
from jmdp.simulators.gymnasium.env_operations import copies_by_rebuilding, layers, seeded_reset, uncopyable
from jmdp.simulators.gymnasium.global_generators import untouched_global_generators
from jmdp.simulators.gymnasium.quick_copies import CopyRecipe, copied_by_attributes, same_attributes
from jmdp.simulators.gymnasium.snapshots import EnvSnapshots, Snapshot
from jmdp.simulators.gymnasium.standard_wrappers import StandardWrappers, limited_step
from jmdp.simulators.gymnasium.state_attributes import CONSTANT, SPACES, not_state, transition_table


class _Copy:
    """A copy of the user's environment."""

    __slots__ = ("chain", "core", "env", "go", "limit", "recipe")

    def __init__(self, chain: list[Any], wrappers: StandardWrappers) -> None:
        self.chain, self.env, self.core = chain, chain[0], chain[-1]
        self.go, self.limit = wrappers.stepper(chain)
        self.recipe: CopyRecipe | None = None  # for copies by the same generator; None after a step in place

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.env,)


def _restored(env: Any) -> _Copy:
    chain = layers(env)
    return _Copy(chain, StandardWrappers(chain))


class CopiedEnvs(EnvSnapshots):
    """Snapshots that are copies. A step copies once; a step with `use_up` modifies its snapshot and copies nothing."""

    def __init__(self, env: Any, global_generators: Callable[[Shock], Any]) -> None:
        self._global_generators = global_generators
        self._shock: Shock | None = None  # shock to which the generator is set, if nothing was drawn since
        self.generator: KeyedGenerator = KeyedGenerator.of(bytes(16))
        self._wrappers = StandardWrappers(layers(env))
        self._pristine = self._copy(layers(env), self.generator)

    @property
    def quick(self) -> bool:
        """True if copies of the environment are cheap."""
        recipe = self._recipe(self._pristine.chain, self.generator)
        return recipe is not None and recipe.quick

    def _copy(self, chain: list[Any], generator: np.random.Generator, source: _Copy | None = None) -> _Copy:
        """Copy an environment, with references to np_random replaced by this generator and constants shared."""
        try:
            recipe = source.recipe if source is not None and generator is self.generator else None
            recipe = recipe or self._recipe(chain, generator)
            made = _deep_copied(chain, self._memo(chain, generator)) if recipe is None else recipe.make()
        except Exception as error:  # copying may raise anything
            raise uncopyable(chain[0], error) from error
        if source is not None and generator is self.generator:
            source.recipe = recipe
        made[-1]._np_random = generator
        return _Copy(made, self._wrappers)

    def _recipe(self, chain: list[Any], generator: np.random.Generator) -> CopyRecipe | None:
        """How to copy an environment attribute by attribute; None if a class defines how it is copied."""
        if not all(map(copied_by_attributes, chain)):
            return None
        own, table = chain[-1]._np_random, transition_table(vars(chain[-1]))
        known: dict[int, Any] = {} if own is None else {id(own): generator}
        if table is not None:
            known[id(table)] = table
        return CopyRecipe(chain, self._shared(chain), known, partial(self._memo, chain, generator))

    @property
    def shared(self) -> dict[str, Any]:
        """The generator and the constants of all layers."""
        constants = {
            f"{i} {name}": vars(layer)[name]
            for i, layer in enumerate(self._pristine.chain)
            for name in CONSTANT
            if vars(layer).get(name) is not None
        }
        return super().shared | constants | {"table": transition_table(vars(self._pristine.core)) or ()}

    def _shared(self, chain: list[Any]) -> Collection[str]:
        """Names of attributes that copies share."""
        # The spaces of the user's environment are copied because they contain generators.
        return CONSTANT if chain[-1]._np_random is self.generator else set(CONSTANT) - SPACES

    def _memo(self, chain: list[Any], generator: np.random.Generator) -> dict[int, Any]:
        """`deepcopy` memo that keeps constants and replaces np_random."""
        memo: dict[int, Any] = {}
        for layer in chain:
            memo.update(
                (id(vars(layer)[name]), vars(layer)[name]) for name in self._shared(chain) if name in vars(layer)
            )
        table = transition_table(vars(chain[-1]))
        if table is not None:
            memo[id(table)] = table
        memo.pop(id(None), None)
        if chain[-1]._np_random is not None:
            memo[id(chain[-1]._np_random)] = generator
        return memo

    def save(self, env: Any) -> Any:
        """Copy the environment."""
        return self._copy(layers(env), self.generator)

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Reset a copy."""
        self._shock = None
        env = self._copy(self._pristine.chain, self.generator, self._pristine).env
        observation = seeded_reset(env, seed, options, self._global_generators)
        return self._copy(layers(env), self.generator), observation  # parts may refer to the reset's own generator

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Step in a copy or, with `use_up`, in place."""
        copied, generator, self._shock = snapshot.saved, self.generator, None
        if type(shock) is not Shock:  # it may replace the generator
            return self._step_with(shock.restart(generator), copied, action, shock, use_up)
        generator.restart(shock.peek())
        result = self._step_with(generator, copied, action, shock, use_up)
        if generator.moved or result[0].core._np_random is not generator:
            shock.note_use()
        return result

    def _step_with(
        self, generator: np.random.Generator, copied: _Copy, action: Any, shock: Shock, use_up: bool
    ) -> tuple[Any, tuple[Any, ...]]:
        if not use_up or copied.core._np_random is not generator:
            copied = self._copy(copied.chain, generator, copied)
        else:
            copied.recipe = None
        with self._global_generators(shock):
            return copied, limited_step(copied.go, copied.limit, action)

    def advance(self, copied: Any, action: Any, shock: Shock) -> tuple[Any, ...] | None:
        """Result of a step in place; None if only `step` can take it."""
        generator = self.generator
        if self._global_generators is not untouched_global_generators or copied.core._np_random is not generator:
            return None
        if shock is not self._shock:  # otherwise the generator is as it was left, before its first draw
            generator.restart(shock.peek())
            self._shock = shock
        copied.recipe = None
        result = limited_step(copied.go, copied.limit, action)
        if generator.moved or copied.core._np_random is not generator:
            shock.note_use()
            self._shock = None
        return result

    def digest(self, saved: Any) -> bytes:
        """Digest of all attributes that affect future steps."""
        return digest_of(saved.env, partial(not_state, time_counts=self.time_counts))

    def same(self, one: Any, other: Any) -> bool:
        """Whether two saved states are equal; digests are computed only if this is not seen from plain attributes."""
        for first, second in zip(one.chain, other.chain, strict=True):
            mine, others = dict(vars(first)), dict(vars(second))
            if first is not one.core:
                del mine["env"], others["env"]
            found = same_attributes(mine, others, partial(not_state, first, time_counts=self.time_counts))
            if found is None:
                return self.digest(one) == self.digest(other)
            if not found:
                return False
        return True

    def inspectable(self, saved: Any) -> Any:
        """Return the copy."""
        return saved.env

    def digest_argument(self, saved: Any) -> Any:
        """Return the copy."""
        return saved.env


def _deep_copied(chain: list[Any], memo: dict[int, Any]) -> list[Any]:
    """Copies made by `deepcopy`, for classes that define how they are copied."""
    for layer in chain[::-1]:
        if copies_by_rebuilding(layer):  # deepcopy would rebuild it and lose its state
            new = memo[id(layer)] = object.__new__(type(layer))
            vars(new).update(copy.deepcopy(vars(layer), memo))
    return layers(copy.deepcopy(chain[0], memo))
