"""Which states are the same: a fingerprint of any object made of plain values, arrays, containers and attributes."""

from __future__ import annotations

import hashlib
import random
import struct
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Container, Mapping
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from jmdp.errors import SimulatorError

Ignored = Callable[[object], Container[str]]
"""Which attributes of this object do not matter?"""

_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_NONE: Container[str] = frozenset()


def digest_of(value: object, ignored: Ignored = lambda owner: _NONE) -> bytes:
    """Sixteen bytes that are equal for equal values, and for no others but by a chance of 2⁻¹²⁸.

    Numbers count by value, −0.0 as 0.0; objects by their class and attributes, and by which of them are one and the
    same; generators of random numbers not at all, for luck is no part of a state. What hides its insides is refused.
    """
    walk = _Walk(ignored)
    walk.visit(value)
    return hashlib.blake2b(walk.out, digest_size=16).digest()


class _Walk:
    """One fingerprint under way: what was written of it, and which objects were met already."""

    def __init__(self, ignored: Ignored) -> None:
        self.out = bytearray()
        self._ignored = ignored
        self._met: dict[int, int] = {}
        self._kept: list[object] = []  # so that their ids stay taken

    def visit(self, value: Any) -> None:
        plain = _plain(value)
        if plain is not None:
            self.out += b"%d:" % len(plain)
            self.out += plain
        elif isinstance(value, tuple):
            self._several(b"(", value)
        elif id(value) in self._met:
            self.out += b"@%d;" % self._met[id(value)]
        else:
            self._met[id(value)] = len(self._met)
            self._kept.append(value)
            self._look_into(value)

    def _several(self, sign: bytes, values: Collection[object]) -> None:
        self.out += sign + b"%d;" % len(values)
        for value in values:
            self.visit(value)

    def _look_into(self, value: Any) -> None:
        if isinstance(value, (list, deque)):
            self._several(b"[", value)
        elif isinstance(value, (dict, types.MappingProxyType)):
            self._several(b"{", [part for item in value.items() for part in item])
        elif isinstance(value, (set, frozenset)):
            self._several(b"s", sorted(digest_of(entry, self._ignored) for entry in value))
        elif isinstance(value, np.ndarray):  # of objects
            self._several(b"a", [value.shape, *value.ravel().tolist()])
        elif isinstance(value, partial):
            self._several(b"p", [value.func, value.args, value.keywords])
        elif isinstance(value, types.MethodType):
            self._several(b"m", [value.__func__.__qualname__, value.__self__])
        elif hasattr(value, "__array__") and hasattr(value, "dtype"):  # arrays of other libraries
            self.visit(np.asarray(value))
        else:
            self._attributes(value)

    def _attributes(self, value: Any) -> None:
        attributes = attributes_of(value)
        if attributes is None:
            raise SimulatorError(
                f"A state holds a {type(value).__module__}.{type(value).__qualname__}, which cannot be looked into. "
                "Say what makes two states the same with digest=…, or leave the object out of the state."
            )
        ignored = self._ignored(value)
        self.out += f"<{type(value).__module__} {type(value).__qualname__};".encode()
        for name, entry in attributes.items():
            if name not in ignored and not isinstance(entry, _GENERATORS):
                self.out += name.encode() + b"="
                self.visit(entry)
        self.out += b">"


def attributes_of(value: object) -> Mapping[str, Any] | None:
    """Attributes of an object by name; None where it keeps something that Python cannot see."""
    opaque, slots = _layout(type(value))
    if opaque:
        return None
    found: Mapping[str, Any] = getattr(value, "__dict__", None) or {}
    if slots:
        found = {**{name: getattr(value, name) for name in slots if hasattr(value, name)}, **found}
    return found if found or hasattr(value, "__dict__") else None


_HEAP_TYPE = 1 << 9
"""Flag of classes that were made at run time; those of C libraries mostly were not."""


_LAYOUTS: dict[type, tuple[bool, list[str]]] = {}


def _layout(kind: type) -> tuple[bool, list[str]]:
    """Does a class keep something that Python cannot see, and the names of its slots."""
    if kind not in _LAYOUTS:
        _LAYOUTS[kind] = _look_at(kind)
    return _LAYOUTS[kind]


def _look_at(kind: type) -> tuple[bool, list[str]]:
    names: list[str] = []
    for part in kind.__mro__[:-1]:
        if not part.__flags__ & _HEAP_TYPE or part.__module__ in ("pybind11_builtins", "nanobind"):
            return True, []
        slots = part.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    return False, [name for name in names if name not in ("__dict__", "__weakref__")]


def _plain(value: Any) -> bytes | None:
    """Bytes of a value without parts; None for others."""
    kind = type(value)
    if kind is int:
        return b"i%d" % value
    if kind is float:
        return b"f" + _DOUBLE.pack(value + 0.0)
    if kind is str:
        return b"s" + value.encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]
    if value is None:
        return b"n"
    if kind is tuple or kind is list or kind is dict:
        return None
    if kind is np.ndarray and not value.dtype.hasobject:
        entries = value + 0.0 if value.dtype.kind == "f" else value
        return b"a%s%s " % (value.dtype.str.encode(), str(value.shape).encode()) + entries.tobytes()  # type: ignore[no-any-return]
    return _rarer(value)


_DOUBLE = struct.Struct("<d")


def _rarer(value: Any) -> bytes | None:
    """`_plain` for what is met less often."""
    if isinstance(value, (bool, np.bool_)):
        return b"t" if value else b"u"
    if isinstance(value, Enum):
        return f"e{type(value).__qualname__} {value.name}".encode()
    if isinstance(value, (int, np.integer)):
        return b"i%d" % int(value)
    if isinstance(value, (float, np.floating)):
        return b"f" + _DOUBLE.pack(float(value) + 0.0)
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b"b" + bytes(value)
    if isinstance(value, (complex, np.complexfloating, np.datetime64, np.timedelta64)):
        return f"c{type(value).__name__} {value!r}".encode()
    if isinstance(value, _GENERATORS):
        return b"g"
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.dtype, np.ufunc)):
        name = getattr(value, "__qualname__", value)
        return f"q{type(value).__name__} {getattr(value, '__module__', '')} {name}".encode()
    return None


def generators_in(value: object, name: str, depth: int = 12) -> dict[str, Any]:
    """Generators of random numbers found in an object, by where they are."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    todo: list[tuple[object, str, int]] = [(value, name, depth)]
    while todo:
        value, name, depth = todo.pop()
        if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            found.setdefault(name, value)
            continue
        if depth == 0 or id(value) in seen or _plain(value) is not None:
            continue
        seen.add(id(value))
        if isinstance(value, (list, tuple, deque, set, frozenset)):
            todo += [(entry, f"{name}[{i}]", depth - 1) for i, entry in enumerate(value)]
        elif isinstance(value, (dict, OrderedDict, defaultdict, types.MappingProxyType)):
            todo += [(entry, f"{name}[{key!r}]", depth - 1) for key, entry in value.items()]
        else:
            todo += [(entry, f"{name}.{key}", depth - 1) for key, entry in (attributes_of(value) or {}).items()]
    return found
