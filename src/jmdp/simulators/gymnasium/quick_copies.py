"""Fast copies of environments whose attributes are plain values, and fast comparisons of them.

`copy.deepcopy` of a simple environment takes as long as ten of its steps. Attributes that are numbers, texts or tuples
of these are shared between copies, arrays and lists of plain values are copied directly, and only other objects are
copied by `deepcopy`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from jmdp.simulators.gymnasium.env_operations import copies_by_rebuilding

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), np.bool_, np.int32, np.int64, np.uint8,
                    np.float32, np.float64})  # fmt: skip
"""Immutable types without parts."""

_MISSING = object()


def is_plain(value: Any) -> bool:
    """Whether a value is immutable and has only plain parts, so that copies may share it."""
    kind = type(value)
    return kind in _PLAIN or (kind is tuple and set(map(type, value)) <= _PLAIN)


def plain_copy(value: Any) -> Any:
    """Copy of a container or array of plain values; `_MISSING` for other values."""
    kind = type(value)
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.copy("K")
    if kind in (list, set) and all(map(is_plain, value)):
        return kind(value)
    if kind is dict and all(map(is_plain, value.values())) and all(map(is_plain, value)):
        return dict(value)
    return _MISSING


def copied_layers(
    chain: list[Any], shared: Container[str], known: dict[int, Any], memo: Callable[[], dict[int, Any]]
) -> list[Any]:
    """Copies of the wrappers of an environment and of itself, outermost first.

    Attributes in `shared` are not copied. `known` maps ids of objects to their replacements; `memo` returns further
    ones, for `deepcopy`.
    """
    made = [object.__new__(type(layer)) for layer in chain]
    known.update(zip(map(id, chain), made, strict=True))
    later: list[tuple[dict[str, Any], str, Any]] = []
    for layer, new in zip(chain, made, strict=True):
        attributes = vars(new)
        attributes.update(vars(layer))
        for name, value in vars(layer).items():
            if type(value) in _PLAIN or name in shared or is_plain(value):
                continue
            if id(value) not in known:
                own = plain_copy(value)
                if own is _MISSING:
                    later.append((attributes, name, value))
                    continue
                known[id(value)] = own
            attributes[name] = known[id(value)]
    if later:
        everything = {**memo(), **known}
        for attributes, name, value in later:
            attributes[name] = copy.deepcopy(value, everything)
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


def same_attributes(one: dict[str, Any], other: dict[str, Any], ignored: Callable[[], Container[str]]) -> bool | None:
    """Whether two environments of one class have equal attributes; None if some must be compared by digests."""
    if one.keys() != other.keys():
        return None
    for name, value in one.items():
        second = other[name]
        if value is second:
            continue
        equal = _equal(value, second)
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
        return True if same and bool((one == other).all()) else None
    if type(one) in (list, tuple):
        return True if len(one) == len(other) and all(map(_equal, one, other)) else None
    return None


_BOOLEANS = (bool, np.bool_)
