"""Watch for random generators that objects make after the trial, and that are therefore not keyed."""

from __future__ import annotations

from collections import deque
from typing import Any

from jmdp.errors import SimulatorError
from jmdp.simulators.objects.generators import GeneratorKeys

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

    An object is searched if the types of its attributes are new or one of its containers is larger than before, which
    costs little to see, and at times that depend on the numbers of steps only. A generator usually stays in its object,
    so that a search after a later step finds it too.
    """

    def __init__(self, keys: GeneratorKeys, name: str) -> None:
        self._keys, self._name = keys, name
        # Types of the attributes of objects that were searched, each with the largest sizes of its containers.
        self._shapes: dict[tuple[type, ...], dict[str, int]] = {}
        self._furthest = self._pause = self._searches = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_shapes": {}}  # not all types can be pickled

    def look(self, thing: Any, steps: int) -> None:
        """Search an object that has taken this number of steps, if it is time; raise if there is a new generator."""
        attributes: dict[str, Any] = getattr(thing, "__dict__", {})
        shape = tuple(map(type, attributes.values()))
        sizes = self._shapes.get(shape)
        self._pause -= 1
        if (
            sizes is not None
            and self._pause > 0
            and (steps <= self._furthest or steps > _FIRST_STEPS)
            and not (sizes and any(len(attributes.get(name, ())) > size for name, size in sizes.items()))
        ):
            return
        new, cost = self._keys.unknown(thing)
        if new:
            raise SimulatorError(
                f"After {steps} steps {self._name} has a random generator that it did not have at first: "
                f"{', '.join(sorted(new))}. Make all generators in __init__ or reset, or give new parts the same "
                "generator."
            )
        self._note(shape, {name: len(part) for name, part in attributes.items() if type(part) in _CONTAINERS})
        self._furthest = max(self._furthest, steps)
        self._searches += 1
        # Pauses of different lengths: equal ones could skip the same step of all episodes.
        self._pause = _PAUSE * cost // 2 + self._searches * 40503 % (_PAUSE * cost)

    def _note(self, shape: tuple[type, ...], sizes: dict[str, int]) -> None:
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        before = self._shapes.get(shape, {})
        self._shapes[shape] = {
            name: max(before.get(name, 0), size if size < _SMALL else 2 * size) for name, size in sizes.items()
        }
