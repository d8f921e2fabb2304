"""Which states are the same: a fingerprint of any object made of plain values, arrays, containers and attributes."""

from __future__ import annotations

import hashlib
import random
import struct
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from jmdp.errors import SimulatorError

Ignored = Callable[[object, str], bool]
"""Does this attribute of this object not matter?"""

_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


def digest_of(value: object, ignored: Ignored = lambda owner, name: False) -> bytes:
    """Sixteen bytes that are equal for equal values, and for no others but by a chance of 2⁻¹²⁸.

    Numbers count by value, −0.0 as 0.0; objects by their class and attributes; generators of random numbers not at all,
    for luck is no part of a state. What cannot be looked into is refused.
    """
    return _Walk(ignored).digest(value)


class _Walk:
    """One fingerprint under way: what was met already, and what is being looked into."""

    def __init__(self, ignored: Ignored) -> None:
        self._ignored = ignored
        self._known: dict[int, bytes] = {}
        self._open: dict[int, int] = {}
        self._kept: list[object] = []  # ids stay taken

    def digest(self, value: object) -> bytes:
        plain = _plain(value)
        if plain is not None:
            return _hash(plain)
        known = self._known.get(id(value))
        if known is not None:
            return known
        if id(value) in self._open:  # a cycle: by how far up it leads back
            return _hash(b"up %d" % (len(self._open) - self._open[id(value)]))
        self._open[id(value)] = len(self._open)
        found = _hash(b"".join(self._parts(value)))
        del self._open[id(value)]
        self._known[id(value)] = found
        self._kept.append(value)
        return found

    def _parts(self, value: Any) -> list[bytes]:
        if isinstance(value, (list, tuple, deque)):
            head = [b"list" if not isinstance(value, tuple) else b"tuple"]
            return head + [self.digest(entry) for entry in value]
        if isinstance(value, (dict, types.MappingProxyType)):
            return [b"dict", *(self.digest(part) for item in value.items() for part in item)]
        if isinstance(value, (set, frozenset)):
            return [b"set", *sorted(self.digest(entry) for entry in value)]
        if isinstance(value, np.ndarray):  # of objects
            return [b"array", str(value.shape).encode(), *(self.digest(entry) for entry in value.ravel().tolist())]
        if isinstance(value, partial):
            return [b"partial", *(self.digest(part) for part in (value.func, value.args, value.keywords))]
        if isinstance(value, types.MethodType):
            return [b"method", value.__func__.__qualname__.encode(), self.digest(value.__self__)]
        if hasattr(value, "__array__") and hasattr(value, "dtype"):  # arrays of other libraries
            return [b"array", self.digest(np.asarray(value))]
        attributes = attributes_of(value)
        if attributes is None:
            raise SimulatorError(
                f"A state holds a {type(value).__module__}.{type(value).__qualname__}, which cannot be looked into. "
                "Say what makes two states the same with digest=…, or leave the object out of the state."
            )
        parts = [type(value).__module__.encode(), type(value).__qualname__.encode()]
        for name, entry in attributes.items():
            if not self._ignored(value, name) and not isinstance(entry, _GENERATORS):
                parts += [name.encode(), self.digest(entry)]
        return parts


def attributes_of(value: object) -> Mapping[str, Any] | None:
    """Attributes of an object by name; None where it keeps something that Python cannot see."""
    found: dict[str, Any] = {}
    for kind in type(value).__mro__[:-1]:
        if not kind.__flags__ & _HEAP_TYPE or kind.__module__ in ("pybind11_builtins", "nanobind"):
            return None
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    found.update(getattr(value, "__dict__", {}))
    return found if found or hasattr(value, "__dict__") else None


_HEAP_TYPE = 1 << 9
"""Flag of classes that were made at run time; those of C libraries mostly were not."""


def _plain(value: object) -> bytes | None:
    """Bytes of a value without parts; None for others."""
    if value is None:
        return b"none"
    if isinstance(value, (bool, np.bool_)):
        return b"true" if value else b"false"
    if isinstance(value, Enum):
        return f"enum {type(value).__qualname__} {value.name}".encode()
    if isinstance(value, (int, np.integer)):
        return b"int %d" % int(value)
    if isinstance(value, (float, np.floating)):
        return b"float" + struct.pack("<d", float(value) + 0.0)
    if isinstance(value, (str, np.str_)):
        return b"str" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b"bytes" + bytes(value)
    if isinstance(value, (complex, np.complexfloating, np.datetime64, np.timedelta64)):
        return f"{type(value).__name__} {value!r}".encode()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        entries = value + 0.0 if value.dtype.kind == "f" else value
        return b"array %s %s " % (value.dtype.str.encode(), str(value.shape).encode()) + entries.tobytes()
    if isinstance(value, _GENERATORS):
        return b"generator"
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.dtype, np.ufunc)):
        name = getattr(value, "__qualname__", value)
        return f"{type(value).__name__} {getattr(value, '__module__', '')} {name}".encode()
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


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
