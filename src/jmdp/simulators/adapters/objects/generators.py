"""Random generators of an ordinary object: found by a walk over its parts, and set to the key of each step.

NumPy generators in places that can be assigned are replaced by `KeyedGenerator`, which is reset in a fraction of a
microsecond and whose draws the checks of simulators can log. All others are seeded in place. Generators that copies of
an object share (closures, class attributes, global variables) are not keyed; `hidden` finds them.

Watch for random generators that objects make after the trial, and that are therefore not keyed.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Collection
from typing import Any

import numpy as np

from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.checking.probe import GLOBALS, SavedGenerator
from jmdp.simulators.object_graph import (
    ATTRIBUTE,
    ENTRY,
    NO_PATH,
    Hop,
    Parts,
    follow,
    hops,
    name_of,
    parts_of,
    put,
    walk,
)

_KEYABLE = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_GLOBAL_IDS = frozenset(map(id, GLOBALS.values()))
_SIZED = frozenset({list, tuple, dict, set, frozenset, deque})

FIXED = frozenset({bool, bytes, complex, float, int, str, type(None), np.bool_, np.float64, np.int64})
"""Types of values that cannot be changed and refer to nothing."""

are_simple = (FIXED | {KeyedGenerator}).issuperset
"""Whether an object with attributes of these types has no other generators than keyed ones."""


def is_keyable(value: object) -> bool:
    """Whether a value is a generator that can be set to a key, and is not one of the global ones."""
    if not isinstance(value, _KEYABLE) or isinstance(value, random.SystemRandom):
        return False
    if isinstance(value, np.random.BitGenerator):
        return value is not GLOBALS["np.random"]._bit_generator
    return id(value) not in _GLOBAL_IDS


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
        known = all(kind != NO_PATH for kind, _ in path)
        self.followed = self.followed and (known or bool(self.paths))
        self.assignable = self.assignable and known and path[-1][0] in (ATTRIBUTE, ENTRY)
        self.paths.append(path)

    def find(self, thing: Any) -> Any:
        """The generator at this place of an object; None if there is no path to it now."""
        if not self.followed:
            return None
        path = self.paths[0]
        if len(path) == 1 and path[0][0] == ATTRIBUTE:  # the usual case
            return getattr(thing, path[0][1], None)
        try:
            return follow(thing, path)
        except (AttributeError, LookupError, TypeError):
            return None

    def put(self, thing: Any, generator: Any) -> None:
        """Replace the generator of an object."""
        for path in self.paths:
            put(follow(thing, path[:-1]), path[-1], generator)


def generator_places(thing: Any, skipped: Collection[str] = ()) -> tuple[list[tuple[Place, Any]], int]:
    """All generators of an object that can be keyed, nearest first; attributes in `skipped` are not searched.

    Also the cost: the number of values that were looked at, entries of plain containers for less.
    """
    found: dict[int, tuple[Place, Any]] = {}
    left_out = {(ATTRIBUTE, name) for name in skipped} if skipped else ()
    searched = entries = 0

    def parts(owner: Any) -> Parts:
        nonlocal searched, entries
        if isinstance(owner, _KEYABLE) and owner is not thing:
            return []
        searched += 1
        entries += len(owner) if type(owner) in _SIZED else 0
        kept = parts_of(owner)
        return [part for part in kept if part[0] not in left_out] if left_out and owner is thing else kept

    for path, part, _, _ in walk(thing, parts):
        if is_keyable(part):
            if id(part) not in found:
                found[id(part)] = Place(name_of(path).removeprefix(".")), part
            found[id(part)][0].add(hops(path))
    places = list(found.values())
    names = [place.where for place, _ in places]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise SimulatorError(f"Several random generators are at {double}, in no order. Keep them in a list.")
    return places, searched + len(places) + entries // 8


class GeneratorKeys:
    """Sets the generators of objects to the keys of their steps.

    The generators of the first object are expected at the same places in all others. If places change with time, set
    `places` to None: objects are then searched before each step.
    """

    def __init__(self, thing: Any, skipped: Collection[str]) -> None:
        self._skipped = skipped
        self.held: dict[str, KeyedGenerator] = {}  # by place; set before each step, so that all objects may share them
        found = [place for place, _ in generator_places(thing, skipped)[0]]
        self.first = found[0].where if found else ""  # this generator has the key of the shock itself
        self.places: list[Place] | None = found if all(place.followed for place in found) else None

    def names(self, thing: Any) -> list[str]:
        """Names of the generators of an object, found by a search."""
        return [place.where for place, _ in generator_places(thing, self._skipped)[0]]

    def unknown(self, thing: Any) -> tuple[list[str], int]:
        """Names of the generators that `find` does not find, and the cost of the search."""
        held, near = set(map(id, self.held.values())), {id(part) for _, part in parts_of(thing)}
        if near <= held:  # it refers to keyed generators only, as most simple objects do
            return [], 1 + len(near)
        found, cost = generator_places(thing, self._skipped)
        keyed = {id(generator) for _, generator in self.find(thing)}  # one of them may be at a new place too
        return [place.where for place, generator in found if id(generator) not in keyed], cost

    def find(self, thing: Any) -> list[tuple[Place, Any]]:
        """The generators of an object."""
        if self.places is not None:
            found = []
            for place in self.places:
                generator = place.find(thing)
                if type(generator) is not KeyedGenerator and not is_keyable(generator):
                    break
                found.append((place, generator))
            else:
                return found
        return generator_places(thing, self._skipped)[0]  # they move, or the object is not complete before its reset

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
        return KeyedStep(thing, self.find(thing), shock, self)

    def hold(self, where: str) -> KeyedGenerator:
        """The generator at this place of all objects."""
        if where not in self.held:
            self.held[where] = KeyedGenerator.of(bytes(16))
        return self.held[where]

    def attributes(self) -> list[tuple[str, KeyedGenerator, bytes | None]] | None:
        """Attributes that are all generators of an object, with what their keys derive from; None if it has others."""
        found = []
        for place in self.places or ():
            path = place.paths[0]
            if not place.assignable or len(place.paths) > 1 or len(path) > 1 or place.where not in self.held:
                return None
            where = None if place.where == self.first else place.where.encode()
            found.append((path[0][1], self.held[place.where], where))
        return None if self.places is None else found


class KeyedStep:
    """Generators of an object that have just been set to their keys."""

    __slots__ = ("_set", "_thing", "shock")

    def __init__(self, thing: Any, found: list[tuple[Place, Any]], shock: Shock, keys: GeneratorKeys) -> None:
        self._thing, self.shock = thing, shock
        self._set: list[tuple[Place, Any, Any]] = []  # place, generator, its state if it was seeded in place
        for place, generator in found:
            own = shock.of_source(place.where)
            if place.where != keys.first:
                own = own.derived(b"generator", 0, place.where.encode())
            self._set.append((place, *_set(thing, place, generator, own, keys)))

    def note_use(self) -> None:
        """Record in the shock whether any of the generators was drawn from or replaced since."""
        shock = self.shock
        if type(shock) is Shock and (shock.usage is None or shock.usage.used):
            return  # nothing would change, and the state of some generators takes long to read
        for entry in self._set:
            if self._moved(*entry):
                note_use(shock.of_source(entry[0].where))
                if type(shock) is Shock:
                    return

    def drew(self) -> bool:
        """Whether numbers were drawn from the generators that were set, even if there are others in their places."""
        return any(
            generator.moved if type(generator) is KeyedGenerator else self._moved(place, generator, before)
            for place, generator, before in self._set
        )

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


def _set(thing: Any, place: Place, generator: Any, shock: Shock, keys: GeneratorKeys) -> tuple[Any, Any]:
    """Set one generator to the key of a shock; return it, or its replacement, and its state if seeded in place."""
    if place.assignable and (type(generator) is np.random.Generator or type(generator).__module__.startswith("jmdp.")):
        keyed = keys.hold(place.where)
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


_FIRST_STEPS = 64
"""Steps of an episode after each of which an object is searched, the first time that an episode gets so far."""

_PAUSE = 16
"""Steps to the next search for each value that a search looks at, so that searches cost little beside the steps."""

_MOST_SHAPES = 1000
"""Largest number of sequences of types that are kept."""

_SMALL = 32
"""Size up to which a container is searched at each new size; above it, at each doubling."""

_CONTAINERS = frozenset({list, dict, set, deque})


class Watch:
    """Searches objects after some of their steps, and raises if there is a generator that is not keyed.

    An object is searched if its attributes are not simple and their types are new or one of its containers is larger
    than before, which costs little to see, and at times that depend on the numbers of steps only. A generator usually
    stays in its object, so that a search after a later step finds it too.
    """

    def __init__(self, keys: GeneratorKeys, name: str) -> None:
        self._keys, self._name, self._searches = keys, name, 0
        # Types of the attributes of objects that were searched, each with the largest sizes of its containers.
        self._shapes: dict[tuple[type, ...], dict[str, int]] = {}
        self.furthest = 0.0  # objects that have taken more steps are searched
        self.pause = 0  # steps to the next search

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_shapes": {}}  # not all types can be pickled

    def look(self, thing: Any, steps: int) -> None:
        """Search an object that has taken this number of steps, if it is time; raise if there is a new generator."""
        attributes: dict[str, Any] = getattr(thing, "__dict__", {})
        shape = tuple(map(type, attributes.values()))
        sizes = self._shapes.get(shape)
        known = sizes is not None and not any(len(attributes.get(name, ())) > size for name, size in sizes.items())
        if known and self.pause > 0 and steps <= self.furthest:
            return
        new, cost = self._keys.unknown(thing)
        if new:
            raise SimulatorError(
                f"After {steps} steps {self._name} has a random generator that it did not have at first: "
                f"{', '.join(sorted(new))}. Make all generators in __init__ or reset, or give new parts the same "
                "generator."
            )
        self._note(shape, {name: len(part) for name, part in attributes.items() if type(part) in _CONTAINERS})
        self.furthest = max(self.furthest, steps if steps < _FIRST_STEPS else math.inf)
        self._searches += 1
        # Pauses of different lengths: equal ones could skip the same step of all episodes.
        self.pause = _PAUSE * cost // 2 + self._searches * 40503 % (_PAUSE * cost)

    def _note(self, shape: tuple[type, ...], sizes: dict[str, int]) -> None:
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        before = self._shapes.get(shape, {})
        self._shapes[shape] = {
            name: max(before.get(name, 0), size if size < _SMALL else 2 * size) for name, size in sizes.items()
        }
