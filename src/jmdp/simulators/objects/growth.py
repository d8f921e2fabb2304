"""Sizes of the attributes of an object, to name those that grow with time and make copies slow."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jmdp.simulators.digests import attributes_of
from jmdp.simulators.objects.generators import is_keyable, parts_of

MEASURED_AT = (0, 10, 20)
"""Numbers of steps after which sizes are measured."""

_LEAST = 100
"""Bytes in ten steps below which an attribute does not count as growing."""


def attribute_sizes(thing: Any) -> dict[str, int]:
    """Approximate size of each attribute in bytes; values that several attributes refer to count in each once."""
    attributes = {
        name: value
        for name, value in (attributes_of(thing) or getattr(thing, "__dict__", {})).items()
        if not is_keyable(value)
    }
    outside = {id(thing), *(id(value) for value in attributes.values() if not isinstance(value, (int, str, float)))}
    return {name: _size(value, outside - {id(value)}) for name, value in attributes.items()}


def _size(value: Any, outside: set[int]) -> int:
    try:
        written = io.BytesIO()
        _Measure(written, outside).dump(value)
        return written.tell()
    except Exception:  # cannot be pickled: the attempt may raise anything
        return _size_of_parts(value, outside)


class _Measure(pickle.Pickler):
    """Pickler that leaves out the object itself and its other attributes."""

    def __init__(self, written: io.BytesIO, outside: set[int]) -> None:
        super().__init__(written, pickle.HIGHEST_PROTOCOL)
        self._outside = outside

    def persistent_id(self, value: Any) -> str | None:
        return "" if id(value) in self._outside else None


def _size_of_parts(value: Any, outside: set[int]) -> int:
    total, seen, todo = 0, set(outside), [value]
    while todo:
        part = todo.pop()
        if id(part) not in seen:
            seen.add(id(part))
            total += sys.getsizeof(part, 0)
            todo += [inner for _, _, inner in parts_of(part)]
    return total


def growing(sizes: Sequence[Mapping[str, int]]) -> dict[str, list[int]]:
    """Sizes of the attributes that grew in both intervals, largest first."""
    if len(sizes) < len(MEASURED_AT):
        return {}
    found = {name: [at.get(name, 0) for at in sizes] for name in sizes[-1]}
    grown = {name: seen for name, seen in found.items() if min(seen[1] - seen[0], seen[2] - seen[1]) >= _LEAST}
    return dict(sorted(grown.items(), key=lambda entry: -entry[1][-1]))
