"""Walk over all that an object refers to: attributes, slots, containers, bound methods, partial functions, closures.

Searches for random generators, sizes and replacements are loops over `walk`, each with its rule for what to enter.
"""

from __future__ import annotations

import contextlib
import logging
import random
import struct
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

Hop = tuple[str, Any]
"""One step of a path from an object to one of its parts: a kind, and a name, index or key."""

Path = tuple[Any, ...]
"""The empty tuple, or a path and the hop after it."""

ATTRIBUTE, ENTRY = "attribute", "entry"  # can be assigned
FIXED_ATTRIBUTE, FIXED_ENTRY = "fixed attribute", "fixed entry"
BOUND_TO = "bound to"  # the object of a method
NO_PATH = "inside"  # entries of sets and keys of dictionaries

_LEAVES = frozenset({bool, bytes, complex, float, int, str, type(None), range, np.float64, np.float32, np.int64,
                     np.int32, np.bool_, logging.Logger, logging.RootLogger})  # fmt: skip
"""Types of values that are no parts, because they refer to nothing, or to nothing of the object."""

BOUND = (types.MethodType, types.BuiltinMethodType)
CONTAINERS = frozenset({list, tuple, dict, set, frozenset, deque, np.ndarray, partial, *BOUND})
"""Types without attributes, unless they are those of a subclass."""

Parts = list[tuple[Hop, Any]]


def parts_of(value: Any) -> Parts:
    """Parts of an object that may have parts themselves."""
    found: Parts = []
    base = _base(type(value))  # type: ignore[arg-type]
    if base is list or base is tuple:
        if not _LEAVES.issuperset(map(type, value)):
            kind = FIXED_ENTRY if isinstance(value, tuple) else ENTRY
            found = [((kind, i), part) for i, part in enumerate(value) if type(part) not in _LEAVES]
    elif base is dict:
        if not _LEAVES.issuperset(map(type, value.values())):
            kind = ENTRY if isinstance(value, dict) else FIXED_ENTRY
            found = [((kind, key), part) for key, part in value.items() if type(part) not in _LEAVES]
        if not _LEAVES.issuperset(map(type, value)):
            found += [((NO_PATH, ".keys()"), key) for key in value if type(key) not in _LEAVES]
    elif base is set:
        found = [((NO_PATH, "{…}"), part) for part in value if type(part) not in _LEAVES]
    elif base is np.ndarray:
        if value.dtype == object:
            found = [((NO_PATH, f"[{i}]"), part) for i, part in enumerate(value.ravel().tolist())]
    elif base is partial:
        found = [((FIXED_ATTRIBUTE, name), getattr(value, name)) for name in ("func", "args", "keywords")]
    elif base is types.MethodType:
        return [((BOUND_TO, "__self__"), value.__self__)]
    elif base is type:
        return found
    if type(value) not in CONTAINERS:
        attributes = visible_attributes(value)
        found += [((ATTRIBUTE, name), part) for name, part in attributes.items() if type(part) not in _LEAVES]
    return found


_BASES: dict[type, tuple[type, ...]] = {
    list: (list, deque),
    tuple: (tuple,),
    dict: (dict, types.MappingProxyType),
    set: (set, frozenset),
    np.ndarray: (np.ndarray,),
    partial: (partial,),
    types.MethodType: BOUND,
    type: (type, types.FunctionType, types.ModuleType, np.dtype),  # copies of an object share what they refer to
}


@cache
def _base(kind: type) -> type:
    """Which kind of container this type is; `object` for others."""
    return next((base for base, kinds in _BASES.items() if issubclass(kind, kinds)), object)


def walk(
    thing: Any, parts: Callable[[Any], Parts] = parts_of, known: Iterable[Any] = ()
) -> Iterator[tuple[Path, Any, Any, bool]]:
    """All references within an object, nearest first: path, part, its owner, and whether the part was not seen before.

    Each object is entered once, those in `known` never. `parts` may return fewer parts than `parts_of`, or others.
    """
    seen = {id(thing), *map(id, known)}
    todo: list[tuple[Path, Any]] = [((), thing)]  # keeps parts alive, so that their ids are not reused
    for path, owner in todo:
        for hop, part in parts(owner):
            new, way = id(part) not in seen, (path, hop)
            yield way, part, owner, new
            if new:
                seen.add(id(part))
                todo.append((way, part))


def hops(path: Path) -> tuple[Hop, ...]:
    """All hops of a path, from the object on."""
    found = []
    while path:
        path, hop = path
        found.append(hop)
    return tuple(found[::-1])


def name_of(path: Path, name: str = "") -> str:
    """Name of the end of a path from an object of this name. Hops of other kinds than `_TEXTS` have full names."""
    for kind, key in hops(path):
        name = name + _TEXTS[kind].format(key) if kind in _TEXTS else key
    return name


_TEXTS = {ATTRIBUTE: ".{}", FIXED_ATTRIBUTE: ".{}", ENTRY: "[{!r}]", FIXED_ENTRY: "[{!r}]", NO_PATH: "{}", BOUND_TO: "",
          "closure": " (the variable {} of its closure)", "default": " (a default argument)",
          "frame": " (its variable {})"}  # fmt: skip


def put(owner: Any, hop: Hop, value: Any) -> None:
    """Replace a part of its owner, if it can be assigned."""
    kind, key = hop
    if kind == ENTRY:
        owner[key] = value
    elif kind == ATTRIBUTE:
        object.__setattr__(owner, key, value)  # also in frozen dataclasses


def follow(value: Any, way: Iterable[Hop]) -> Any:
    """The part of an object at the end of these hops, none of them through `NO_PATH`."""
    for kind, key in way:
        value = value[key] if kind in (ENTRY, FIXED_ENTRY) else getattr(value, key)
    return value


_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_MODULES: Any = {np.random: np.random.random_sample.__self__, random: random.random.__self__}  # type: ignore[attr-defined]


def generators_in(value: object, name: str, known: Iterable[Any] = ()) -> dict[str, Any]:
    """Random number generators found in an object, by location. The modules np.random and random are global ones.

    Objects in `known` have none.
    """
    found: dict[str, Any] = {name: value} if isinstance(value, _GENERATORS) else {}
    for path, part, _, _ in walk(value, _parts_and_closures, known):
        part = _MODULES.get(part, part) if isinstance(part, types.ModuleType) else part
        if isinstance(part, _GENERATORS):
            where = name_of(path, name)
            found[where if where not in found else f"{where} {len(found)}"] = part  # several in a set
    return found


def _parts_and_closures(value: Any) -> Parts:
    if isinstance(value, _GENERATORS):
        return []
    if isinstance(value, types.FunctionType):
        return [((FIXED_ATTRIBUTE, name), part) for name, part in closure_of(value)]
    return parts_of(value)


def closure_of(function: types.FunctionType) -> list[tuple[str, Any]]:
    """Variables of enclosing scopes that a function refers to."""
    found = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not set yet
            found.append((name, cell.cell_contents))
    return found


def attributes_of(value: Any) -> Mapping[str, Any] | None:
    """Attributes of an object by name; None if it keeps data that Python cannot access."""
    return None if type(value) is object or _layout(type(value))[0] else visible_attributes(value)  # type: ignore[arg-type]


def has_dictionary_only(kind: Any) -> bool:
    """Whether objects of this class keep all their data in ``__dict__``."""
    in_c, slots = _layout(kind)
    return not in_c and not slots and kind.__dictoffset__ != 0


def visible_attributes(value: Any) -> Mapping[str, Any]:
    """Attributes of an object by name, as far as Python can access them."""
    found: Mapping[str, Any] = getattr(value, "__dict__", None) or {}
    slots = _layout(type(value))[1]  # type: ignore[arg-type]
    return {**{name: getattr(value, name) for name in slots if hasattr(value, name)}, **found} if slots else found


_HEAP_TYPE = 1 << 9
"""Flag of classes that were created at run time; classes of C libraries mostly were not."""


@cache
def _layout(kind: type) -> tuple[bool, list[str]]:
    """Whether a class keeps data that Python cannot access, and the names of its slots."""
    names: list[str] = []
    in_c = False
    for part in kind.__mro__[:-1]:
        in_c = in_c or (not part.__flags__ & _HEAP_TYPE and part is not types.SimpleNamespace)
        slots = part.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{part.__name__.lstrip('_')}{name}" if private else name)
    names = [name for name in names if name not in ("__dict__", "__weakref__")]
    # Classes of pybind11, nanobind and SWIG are created at run time too, but their objects are larger.
    pointers = len(names) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    known = object.__basicsize__ + pointers * struct.calcsize("P")
    return in_c or kind.__basicsize__ > known or kind.__itemsize__ > 0, names
