"""Random generators of an ordinary object: found by a walk over its parts, and set to the key of each step.

The walk goes through attributes, slots, containers, bound methods and partial functions. NumPy generators in places
that can be assigned are replaced by `KeyedGenerator`, which is reset in a fraction of a microsecond and whose draws the
checks of simulators can log. All others are seeded in place. Generators that copies of an object share (closures, class
attributes, global variables) are not keyed; `hidden` finds them.
"""

from __future__ import annotations

import random
import types
from collections import deque
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import numpy as np

from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.checking.probe import GLOBALS, SavedGenerator
from jmdp.simulators.digests import attributes_of

Hop = tuple[str, Any]
"""One step of a path from an object to one of its parts: a kind, and a name, index or key."""

_ATTRIBUTE, _ENTRY = "attribute", "entry"  # can be assigned
_FIXED_ATTRIBUTE, _FIXED_ENTRY = "fixed attribute", "fixed entry"
_NO_PATH = "inside"  # entries of sets and keys of dictionaries

_KEYABLE = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_LEAVES = frozenset({bool, bytes, complex, float, int, str, type(None), range, np.float64, np.float32, np.int64,
                     np.int32, np.bool_, type, types.ModuleType, types.FunctionType})  # fmt: skip
"""Types that hold no generator, or none that is keyed."""


def is_keyable(value: object) -> bool:
    """Whether a value is a generator that can be set to a key, and is not one of the global ones."""
    if not isinstance(value, _KEYABLE) or isinstance(value, random.SystemRandom):
        return False
    if isinstance(value, np.random.BitGenerator):
        return value is not GLOBALS["np.random"]._bit_generator
    return not any(value is one for one in GLOBALS.values())


def parts_of(value: Any) -> Iterator[tuple[Hop, str, Any]]:
    """Parts of an object: hop, text for messages, part."""
    if isinstance(value, (list, deque)):
        if not set(map(type, value)) <= _LEAVES:
            yield from (((_ENTRY, i), f"[{i}]", entry) for i, entry in enumerate(value))
    elif isinstance(value, tuple):
        yield from (((_FIXED_ENTRY, i), f"[{i}]", entry) for i, entry in enumerate(value))
    elif isinstance(value, dict):
        yield from (((_ENTRY, key), f"[{key!r}]", entry) for key, entry in value.items() if type(entry) not in _LEAVES)
        yield from (((_NO_PATH, "key"), ".keys()", key) for key in value if type(key) not in _LEAVES)
    elif isinstance(value, (set, frozenset)):
        yield from (((_NO_PATH, "set"), "{…}", entry) for entry in value if type(entry) not in _LEAVES)
    elif isinstance(value, np.ndarray):
        if value.dtype == object:
            yield from (((_NO_PATH, "array"), f"[{i}]", entry) for i, entry in enumerate(value.ravel().tolist()))
        return
    elif isinstance(value, partial):
        yield from (((_FIXED_ATTRIBUTE, name), f".{name}", getattr(value, name)) for name in ("func", "args"))
        yield (_FIXED_ATTRIBUTE, "keywords"), ".keywords", dict(value.keywords)
        return
    elif isinstance(value, (types.MethodType, types.BuiltinMethodType)):
        yield (_FIXED_ATTRIBUTE, "__self__"), "", value.__self__
        return
    found = attributes_of(value) or getattr(value, "__dict__", None) or {}
    yield from (((_ATTRIBUTE, name), f".{name}", part) for name, part in found.items() if type(part) not in _LEAVES)


class Place:
    """A random generator of an object, with all paths to it."""

    __slots__ = ("assignable", "followed", "paths", "where")

    def __init__(self, where: str) -> None:
        self.where = where  # the shortest path as text, its name
        self.paths: list[tuple[Hop, ...]] = []
        self.assignable = True  # whether it can be replaced by another generator
        self.followed = True  # whether the first path leads to it without a search

    def add(self, path: tuple[Hop, ...]) -> None:
        """Add a path."""
        known = all(kind != _NO_PATH for kind, _ in path)
        self.followed = self.followed and (known or bool(self.paths))
        self.assignable = self.assignable and known and path[-1][0] in (_ATTRIBUTE, _ENTRY)
        self.paths.append(path)

    def find(self, thing: Any) -> Any:
        """The generator at this place of an object; None if there is no path to it now."""
        if not self.followed:
            return None
        path = self.paths[0]
        if len(path) == 1 and path[0][0] == _ATTRIBUTE:  # the usual case
            return getattr(thing, path[0][1], None)
        try:
            return _follow(thing, path)
        except (AttributeError, LookupError, TypeError):
            return None

    def put(self, thing: Any, generator: Any) -> None:
        """Replace the generator of an object."""
        for path in self.paths:
            owner, (kind, key) = _follow(thing, path[:-1]), path[-1]
            if kind == _ENTRY:
                owner[key] = generator
            else:
                object.__setattr__(owner, key, generator)  # also in frozen dataclasses


def _follow(value: Any, path: tuple[Hop, ...]) -> Any:
    for kind, key in path:
        value = value[key] if kind in (_ENTRY, _FIXED_ENTRY) else getattr(value, key)
    return value


def generator_places(thing: Any, skipped: Collection[str] = ()) -> list[tuple[Place, Any]]:
    """All generators of an object that can be keyed, nearest first; attributes in `skipped` are not searched."""
    return search(thing, skipped)[0]


def search(thing: Any, skipped: Collection[str] = ()) -> tuple[list[tuple[Place, Any]], int]:
    """The same, and the cost: the number of values that were looked at, entries of plain containers for less."""
    found: dict[int, tuple[Place, Any]] = {}
    seen: dict[int, Any] = {id(thing): thing}
    todo: deque[tuple[Any, str, tuple[Hop, ...]]] = deque([(thing, "", ())])
    entries = 0
    while todo:
        value, where, path = todo.popleft()
        entries += len(value) if isinstance(value, (list, deque, tuple, dict, set, frozenset)) else 0
        for hop, text, part in parts_of(value):
            if type(part) in _LEAVES or (not path and hop[0] == _ATTRIBUTE and hop[1] in skipped):
                continue
            name = where + text
            if is_keyable(part):
                place, _ = found.setdefault(id(part), (Place(name.removeprefix(".")), part))
                place.add((*path, hop))
            elif id(part) not in seen:
                seen[id(part)] = part
                todo.append((part, name, (*path, hop)))
    places = list(found.values())
    names = [place.where for place, _ in places]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise SimulatorError(f"Several random generators are at {double}, in no order. Keep them in a list.")
    return places, len(seen) + len(places) + entries // 8


class GeneratorKeys:
    """Sets the generators of objects to the keys of their steps.

    The generators of the first object are expected at the same places in all others. If places change with time, set
    `places` to None: objects are then searched before each step.
    """

    def __init__(self, thing: Any, skipped: Collection[str]) -> None:
        self._skipped = skipped
        found = [place for place, _ in generator_places(thing, skipped)]
        self.first = found[0].where if found else ""  # this generator has the key of the shock itself
        self.places: list[Place] | None = found if all(place.followed for place in found) else None

    def names(self, thing: Any) -> list[str]:
        """Names of the generators of an object, found by a search."""
        return [place.where for place, _ in generator_places(thing, self._skipped)]

    def unknown(self, thing: Any) -> tuple[list[str], int]:
        """Names of the generators that `find` does not find, and the cost of the search."""
        found, cost = search(thing, self._skipped)
        keyed = {id(generator) for _, generator in self.find(thing)}  # one of them may be at a new place too
        return [place.where for place, generator in found if id(generator) not in keyed], cost

    def find(self, thing: Any) -> list[tuple[Place, Any]]:
        """The generators of an object."""
        if self.places is not None:
            found = [(place, place.find(thing)) for place in self.places]
            if all(type(generator) is KeyedGenerator or is_keyable(generator) for _, generator in found):
                return found
        return generator_places(thing, self._skipped)  # they move, or the object is not complete before its reset

    def detach(self, thing: Any) -> None:
        """Replace generators that are seeded in place, because the factory may give one to several objects."""
        for place, generator in self.find(thing):
            if place.assignable and type(generator) is random.Random:
                place.put(thing, random.Random(0))
            elif place.assignable and type(generator) is np.random.RandomState:
                place.put(thing, np.random.RandomState(0))
            elif place.assignable and isinstance(generator, np.random.BitGenerator):
                place.put(thing, type(generator)(0))

    def set(self, thing: Any, shock: Shock) -> KeyedStep:
        """Set all generators of an object to the keys derived from this shock."""
        return KeyedStep(thing, self.find(thing), shock, self.first)


class KeyedStep:
    """Generators of an object that have just been set to their keys."""

    __slots__ = ("_set", "_thing", "shock")

    def __init__(self, thing: Any, found: list[tuple[Place, Any]], shock: Shock, first: str) -> None:
        self._thing, self.shock = thing, shock
        self._set: list[tuple[Place, Any, Any]] = []  # place, generator, its state if it was seeded in place
        for place, generator in found:
            own = shock if place.where == first else shock.derived(b"generator", 0, place.where.encode())
            self._set.append((place, *_set(thing, place, generator, own)))

    def note_use(self) -> None:
        """Record in the shock whether any of the generators was drawn from or replaced since."""
        shock = self.shock
        if type(shock) is Shock and (shock.usage is None or shock.usage.used):
            return  # nothing would change, and the state of some generators takes long to read
        for entry in self._set:
            if self._moved(*entry):
                note_use(self.shock)
                return

    def moved(self) -> list[str]:
        """Names of the generators that were drawn from or replaced."""
        return [place.where for place, generator, before in self._set if self._moved(place, generator, before)]

    def replaced(self) -> list[str]:
        """Names of the generators in whose place there is another one now."""
        return [place.where for place, one, _ in self._set if place.followed and place.find(self._thing) is not one]

    def _moved(self, place: Place, generator: Any, before: Any) -> bool:
        if place.followed and place.find(self._thing) is not generator:
            return True
        if type(generator) is KeyedGenerator:
            return bool(generator.moved)
        if before is _SEEDED:
            return bool(_twister_position(generator) != _SEEDED)
        return before is not None and bool(SavedGenerator.of(generator) != before)


def note_use(shock: Shock) -> None:
    """Record that a shock was used, in the log of a logged one too."""
    if type(shock) is Shock:
        shock.note_use()
    else:
        shock.uniform()


def _set(thing: Any, place: Place, generator: Any, shock: Shock) -> tuple[Any, Any]:
    """Set one generator to the key of a shock; return it, or its replacement, and its state if seeded in place."""
    if place.assignable and (type(generator) is np.random.Generator or type(generator).__module__.startswith("jmdp.")):
        keyed = generator if type(generator) is KeyedGenerator else KeyedGenerator.of(bytes(16))
        if type(shock) is Shock:
            keyed.restart(shock.peek())
            new: Any = keyed
        else:
            new = shock.restart(keyed)  # a logged one
        if new is not generator:
            place.put(thing, new)
        return new, None
    words = shock.peek()
    if isinstance(generator, random.Random):
        random.Random.seed(generator, int.from_bytes(words, "little"))
        return generator, _SEEDED
    if isinstance(generator, np.random.RandomState) and type(generator._bit_generator) is np.random.MT19937:
        generator.seed(np.frombuffer(words, np.uint32))
        return generator, _SEEDED
    bits: Any = generator
    if not isinstance(generator, np.random.BitGenerator):
        bits = getattr(generator, "bit_generator", None) or generator._bit_generator
    bits.state = type(bits)(int.from_bytes(words, "little")).state
    return generator, SavedGenerator.of(generator)


_SEEDED = (624, 0x80000000)
"""Position and first word of a Mersenne twister that was seeded, before its first draw; the first word has one bit."""


def _twister_position(generator: Any) -> tuple[int, int]:
    if isinstance(generator, random.Random):
        words = generator.getstate()[1]
        return words[-1], words[0]
    state = generator.get_state(legacy=False)["state"]
    return int(state["pos"]), int(state["key"][0])
