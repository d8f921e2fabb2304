"""Fast copies of environments whose attributes are plain values, and fast comparisons of them.

`copy.deepcopy` of a simple environment takes as long as ten of its steps. Attributes that are numbers, texts or tuples
of these are shared between copies, arrays and lists of plain values are copied directly, and only other objects are
copied by `deepcopy`.

Snapshots by copying: the whole environment is copied as a Python object.
"""

from __future__ import annotations

import copy
import pickle
import types
from collections.abc import Callable, Collection, Container
from functools import partial
from typing import Any

import numpy as np

from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.simulators.adapters.gymnasium.cores import (
    CONSTANT,
    SPACES,
    SharedTable,
    is_plain_table,
    not_state,
    transition_table,
)
from jmdp.simulators.adapters.gymnasium.env_operations import (
    EnvSnapshots,
    Snapshot,
    StandardWrappers,
    copies_by_rebuilding,
    layers,
    limited,
    seeded_reset,
    uncopyable,
)
from jmdp.simulators.digests import digest_of

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), np.bool_, np.int32, np.int64, np.uint8,
                    np.float32, np.float64, types.ModuleType})  # fmt: skip
"""Immutable types without parts, and modules, which exist once."""


def is_plain(value: Any) -> bool:
    """Whether a value is immutable and has only plain parts, so that copies may share it."""
    kind = type(value)
    return kind in _PLAIN or (kind is tuple and set(map(type, value)) <= _PLAIN)


def _copier(value: Any) -> Callable[[Any], Any] | None:
    """Function that copies a container or array of plain values; None for other values."""
    kind = type(value)
    if kind is np.ndarray and not value.dtype.hasobject:
        return _array_copy
    if kind is dict:
        if all(map(is_plain, value.values())) and all(map(is_plain, value)):
            return dict.copy
        return _pickled_copy if is_plain_table(value) else None
    return kind.copy if kind in (list, set) and all(map(is_plain, value)) else None


def _array_copy(array: Any) -> Any:
    return array.copy("K")


def _pickled_copy(table: Any) -> Any:
    return pickle.loads(pickle.dumps(table, 5))  # takes a fifth of the time of deepcopy


class CopyRecipe:
    """How to copy the wrappers of an environment and itself. It is valid until the environment changes.

    Attributes in `shared` are not copied. `known` maps ids of objects to their replacements; `memo` returns these and
    further ones, for `deepcopy`, with np_random replaced by its argument.
    """

    def __init__(
        self,
        chain: list[Any],
        shared: Container[str],
        known: dict[int, Any],
        memo: Callable[[np.random.Generator], dict[int, Any]],
        sharing: bool,
    ) -> None:
        self.sharing = sharing  # whether it was made in a block
        self._kinds, self._memo, self._chain = list(map(type, chain)), memo, chain
        self._templates = list(map(dict, map(vars, chain)))
        self._copied: dict[int, tuple[Any, Callable[[Any], Any], list[tuple[int, str]]]] = {}  # by id, with places
        self.deep: list[tuple[int, str, Any]] = []  # attributes that need `deepcopy`
        self._generator: list[tuple[int, str]] = []  # attributes that are np_random
        for i, template in enumerate(self._templates):
            for name, value in template.items():
                if type(value) in _PLAIN or name in shared or is_plain(value) or (name == "env" and i + 1 < len(chain)):
                    continue
                if value is chain[-1]._np_random:
                    self._generator.append((i, name))
                elif id(value) in known:
                    template[name] = known[id(value)]
                elif (copier := _copier(value)) is not None:
                    self._copied.setdefault(id(value), (value, copier, []))[2].append((i, name))
                else:
                    self.deep.append((i, name, value))

    def make(self, generator: np.random.Generator) -> list[Any]:
        """Copies of all layers, outermost first, with this generator."""
        made: list[Any] = list(map(object.__new__, self._kinds))
        attributes = list(map(dict.copy, self._templates))
        for layer, own, inner in zip(made, attributes, [*made[1:], None], strict=True):
            object.__setattr__(layer, "__dict__", own)
            if inner is not None and "env" in own:
                own["env"] = inner
        for i, name in self._generator:
            attributes[i][name] = generator
        copies: dict[int, Any] = {}
        for key, (value, copier, places) in self._copied.items():
            new = copies[key] = copier(value)
            for i, name in places:  # several attributes may refer to one object
                attributes[i][name] = new
        if self.deep:
            memo = {**self._memo(generator), **copies, **dict(zip(map(id, self._chain), made, strict=True))}
            for i, name, value in self.deep:
                attributes[i][name] = copy.deepcopy(value, memo)
        return made


_COPIED_BY_ATTRIBUTES: dict[type, bool] = {}


def copied_by_attributes(layer: Any) -> bool:
    """Whether a copy of the attributes is a copy of this object, as `deepcopy` would make it."""
    kind = type(layer)
    if kind not in _COPIED_BY_ATTRIBUTES:
        names = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__deepcopy__")
        default = all(getattr(kind, name, None) is getattr(object, name, None) for name in names)
        slots = any(vars(part).get("__slots__") for part in kind.__mro__)
        _COPIED_BY_ATTRIBUTES[kind] = (default or copies_by_rebuilding(layer)) and not slots
    return _COPIED_BY_ATTRIBUTES[kind]


def same_attributes(
    one: dict[str, Any], other: dict[str, Any], ignored: Callable[[], Container[str]], inner: bool
) -> bool | None:
    """Whether two environments of one class have equal attributes; None if some must be compared by digests.

    `inner`: the attribute ``env`` is another layer, which is compared by itself.
    """
    if one.keys() != other.keys():
        return None
    for name in [name for name, value in one.items() if value is not other[name]]:
        if inner and name == "env":
            continue
        equal = _equal(one[name], other[name])
        if not equal and name not in ignored():
            return equal
    return True


def _equal(one: Any, other: Any) -> bool | None:
    """Whether two values without objects are equal; None if this is not certain without digests."""
    if one is other:
        return True
    if type(one) in _PLAIN and type(other) in _PLAIN:
        if isinstance(one, _BOOLEANS) != isinstance(other, _BOOLEANS):
            return False
        return True if one == other else None if one != one or other != other else False
    if type(one) is not type(other):
        return None
    if isinstance(one, np.ndarray):
        same = one.dtype == other.dtype and one.dtype.kind in "biufSU" and one.shape == other.shape
        return True if same and one.tobytes() == other.tobytes() else None  # None: also of 0.0 and −0.0
    if type(one) in (list, tuple):
        return True if len(one) == len(other) and all(map(_equal, one, other)) else None
    return None


_BOOLEANS = (bool, np.bool_)


class _Copy:
    """A copy of the user's environment."""

    __slots__ = ("chain", "core", "env", "go", "limit", "recipe")

    def __init__(self, chain: list[Any], wrappers: StandardWrappers) -> None:
        self.chain, self.env, self.core = chain, chain[0], chain[-1]
        self.go, self.limit = wrappers.stepper(chain)
        self.recipe: CopyRecipe | None = None  # None after a step in place

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.env,)


def _restored(env: Any) -> _Copy:
    chain = layers(env)
    return _Copy(chain, StandardWrappers(chain))


class CopiedEnvs(EnvSnapshots):
    """Snapshots that are copies. A step copies once; a step with `use_up` modifies its snapshot and copies nothing."""

    def __init__(self, env: Any, global_generators: Callable[[Shock], Any], table: SharedTable) -> None:
        self._global_generators = global_generators
        self.generator: KeyedGenerator = KeyedGenerator.of(bytes(16))
        self._wrappers = StandardWrappers(layers(env))
        self._table, self._was_reset = table, False
        self._pristine = self._copy(layers(env), self.generator)

    def quick(self) -> bool:
        """True if copies of the environment are cheap."""
        recipe = self._recipe(self._pristine.chain)
        return recipe is not None and not recipe.deep

    def _copy(self, chain: list[Any], generator: np.random.Generator, source: _Copy | None = None) -> _Copy:
        """Copy an environment, with references to np_random replaced by this generator and constants shared."""
        try:
            recipe = None if source is None else source.recipe
            if recipe is None or recipe.sharing != self._table.sharing:
                recipe = self._recipe(chain)
            made = _deep_copied(chain, self._memo(chain, generator)) if recipe is None else recipe.make(generator)
        except Exception as error:  # copying may raise anything
            raise uncopyable(chain[0], error) from error
        if source is not None:
            source.recipe = recipe
        made[-1]._np_random = generator
        return _Copy(made, self._wrappers)

    def copied(self, one: _Copy) -> _Copy:
        """A copy of a saved state."""
        return self._copy(one.chain, self.generator, one)

    def _recipe(self, chain: list[Any]) -> CopyRecipe | None:
        """How to copy an environment attribute by attribute; None if a class defines how it is copied."""
        if not all(map(copied_by_attributes, chain)):
            return None
        table = transition_table(vars(chain[-1]))
        known = {id(table): self._table.table} if self._table.replaces(table) else {}
        return CopyRecipe(chain, self._shared(chain), known, partial(self._memo, chain), self._table.sharing)

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
        if self._table.replaces(table):
            memo[id(table)] = self._table.table
        memo.pop(id(None), None)
        if chain[-1]._np_random is not None:
            memo[id(chain[-1]._np_random)] = generator
        return memo

    def save(self, env: Any) -> Any:
        """Copy the environment."""
        return self._copy(layers(env), self.generator)

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Reset a copy."""
        chain = self._copy(self._pristine.chain, self.generator, self._pristine).chain
        observation = seeded_reset(chain, seed, options, self._global_generators)
        if self._table.sharing and not self._was_reset:
            self._was_reset = True
            if not self._table.unwritten():  # each reset makes a table of its own
                return self.reset(seed, options)
        return self._copy(layers(chain[0]), self.generator), observation  # parts may refer to the reset's own generator

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Step in a copy or, with `use_up`, in place."""
        copied, generator = snapshot.saved, self.generator
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
            return copied, limited(copied.limit, copied.go(action))

    def digest(self, saved: Any) -> bytes:
        """Digest of all attributes that affect future steps."""
        return digest_of(saved.env, self._not_state)

    def _not_state(self, owner: object) -> Container[str]:
        return not_state(owner, time_counts=self.time_counts, tables=not self._table.written)

    def same(self, one: Any, other: Any) -> bool:
        """Whether two saved states are equal; digests are computed only if this is not seen from plain attributes."""
        for first, second in zip(one.chain, other.chain, strict=True):
            ignored, inner = partial(self._not_state, first), first is not one.core
            found = same_attributes(vars(first), vars(second), ignored, inner)
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
