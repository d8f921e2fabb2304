"""Fingerprints that identify equal states: objects made of plain values, arrays, containers and attributes.

Cheap fingerprints of observations and actions, to find branches that may have reached equal states.

Values with equal digests (`digest_of`) have equal fingerprints. The converse does not hold: values with equal
fingerprints, such as 1 and True, are compared by their digests.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
import operator
import random
import struct
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum, Flag
from functools import cache, partial
from typing import Any

import numpy as np

from jmdp.base.settings import UNCONVERTIBLE, cut
from jmdp.errors import SimulatorError
from jmdp.models.actors.actor import numpy_of
from jmdp.simulators.object_graph import (
    BOUND,
    CONTAINERS,
    attributes_of,
    closure_of,
    has_dictionary_only,
    visible_attributes,
)

_NAN = "nan"
_HASHED_BY_VALUE = frozenset({int, str, bool, bytes, type(None)})


def differ_at_a_glance(values: Sequence[Any]) -> bool:
    """True if all values are different floats, or begin with different floats; False if this is unknown."""
    kind = type(values[0])
    try:
        if kind is tuple:
            values = list(map(_FIRST, values))
        elif kind is np.ndarray and values[0].ndim == 1:
            values = [value.item(0) for value in values]
        total = sum(values) if type(values[0]) is float else None
    except (TypeError, LookupError, AttributeError):  # values of several kinds, or without entries
        return False
    # A sum with anything but numbers is no float. NaN is not equal to itself.
    return type(total) is float and total == total and len(set(values)) == len(values)


_FIRST = operator.itemgetter(0)


def fingerprints(values: Sequence[Any]) -> Sequence[Hashable]:
    """Fingerprint of each value."""
    kinds = set(map(type, values))
    if kinds <= _HASHED_BY_VALUE:
        return values
    if kinds == {float}:
        total = sum(values)
        if total == total:  # no NaN, which is not equal to itself
            return values
    return [fingerprint_of(value) for value in values]


def fingerprint_of(value: Any) -> Hashable:
    """Hashable value that is equal for values with equal digests; −0.0 equals 0.0 and 1.0 equals 1."""
    kind = type(value)
    if kind in _HASHED_BY_VALUE:
        return value  # type: ignore[no-any-return]
    if kind is float:
        return value if value == value else _NAN
    if isinstance(value, tuple):
        return tuple(fingerprints(value))
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.char != "g":
        return fingerprint_of(value.item())
    if hasattr(value, "__array__") and hasattr(value, "dtype"):  # arrays of other libraries
        return _of_array(numpy_of(value))
    return digest_of(value)


def _of_array(array: Any) -> Hashable:
    kind = array.dtype.char
    if kind in "fd":
        entries = array + 0.0 if kind == "d" else array + _ZERO  # −0.0 becomes 0.0
        return (
            digest_of(array) if (entries != entries).any() else (array.shape, entries.tobytes())
        )  # NaN has many bytes
    if array.dtype.kind in "biuSU":
        return array.shape, array.tobytes()
    return digest_of(array)


_ZERO = np.float32(0)


def equal_values(one: Any, other: Any) -> bool:
    """Whether two values have equal digests, without computing them if both are the same kind of number or text."""
    kind = type(one)
    if kind is type(other) and (kind is int or kind is str or (kind is float and one == one)):
        return one == other  # type: ignore[no-any-return]
    return digest_of(one) == digest_of(other)


def same_at_a_glance(one: Any, other: Any, ignored: Container[str]) -> bool | None:
    """Whether two objects have equal digests apart from these attributes; None if plain attributes do not tell."""
    if type(one) is not type(other) or not _has_attributes_only(type(one)):  # type: ignore[arg-type]
        return None
    mine, theirs = vars(one), vars(other)
    if mine.keys() != theirs.keys():
        return None
    for name, value in mine.items():
        second = theirs[name]
        if value is second or name in ignored:
            continue
        kind = type(value)
        if kind is not type(second) or kind not in _COMPARED:
            return None
        if value != second:
            return False if value == value and second == second else None
    return True


_COMPARED = frozenset({int, float, str, bool, bytes})


@cache
def _has_attributes_only(kind: Any) -> bool:
    """Whether `digest_of` reads nothing but the class and the attributes of objects of this class."""
    return has_dictionary_only(kind) and not hasattr(kind, "__array__")


@cache
def _has_ordinary_attributes(kind: Any) -> bool:
    """Whether objects of this class are none of those that `_plain_of_rarer_type` describes."""
    return has_dictionary_only(kind) and not issubclass(kind, (Enum, logging.Logger))


Ignored = Callable[[object], Container[str]]
"""Function that returns the names of the attributes of an object to ignore."""

_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_USUAL = frozenset({int, float, str, bool, type(None), tuple, list, dict, np.ndarray})
_NONE: Container[str] = frozenset()


def digest_of(value: object, ignored: Ignored = lambda owner: _NONE) -> bytes:
    """Sixteen bytes that are equal for equal values; different values collide with probability 2⁻¹²⁸.

    Numbers are compared by value, with −0.0 equal to 0.0 and 1.0 to 1; objects by class, attributes and object identity
    within the value; sets and dictionaries (except `OrderedDict`) in any order; functions by their code and the plain
    values they refer to. Random number generators are ignored, because they are not part of a state. An object that
    cannot be inspected raises `SimulatorError`.
    """
    traversal = _Traversal(ignored)
    try:
        traversal.visit(value)
    except SimulatorError:
        raise
    except RecursionError:
        raise SimulatorError(f"A state is nested too deeply to be inspected. {_FIX}") from None
    except (*UNCONVERTIBLE, ReferenceError) as error:  # also a released memoryview, or a dead weak reference
        raise SimulatorError(f"A state cannot be inspected: {cut(repr(error))}. {_FIX}") from error
    return hashlib.blake2b(traversal.out, digest_size=16).digest()


_FIX = "Define which states are equal with digest=…, or remove it from the state."


class _Traversal:
    """Computation of one fingerprint: the bytes written so far, and the objects already visited."""

    def __init__(self, ignored: Ignored, *, outline: bool = False) -> None:
        self.out = bytearray()
        self._ignored = ignored
        self._outline = outline  # write only the size of sets of objects: they have no order of their own
        self._numbers: dict[int, int] = {}
        self._references: list[object] = []  # kept alive so that their ids are not reused

    def visit(self, value: Any) -> None:
        plain = _plain(value)
        if plain is not None:
            self.out += b"%d:" % len(plain)
            self.out += plain
        elif isinstance(value, tuple):
            self._write_parts(b"(", value)
            self._write_extra_attributes(value)
        elif id(value) in self._numbers:
            self.out += b"@%d;" % self._numbers[id(value)]
        else:
            self._numbers[id(value)] = len(self._numbers)
            self._references.append(value)
            self._write_contents(value)

    def _write_parts(self, sign: bytes, values: Collection[object]) -> None:
        self.out += sign + b"%d;" % len(values)
        for value in values:
            self.visit(value)

    def _write_contents(self, value: Any) -> None:
        if isinstance(value, list):
            self._write_parts(b"[", value)
        elif isinstance(value, deque):
            self._write_parts(b"d", [value.maxlen, *value])
        elif isinstance(value, (dict, types.MappingProxyType)):
            keys = value if isinstance(value, OrderedDict) else self._ordered(value)
            self._write_parts(b"{", [part for key in keys for part in (key, value[key])])
        elif isinstance(value, (set, frozenset)):
            rough = self._outline and isinstance(value, set)
            plain = [entry for entry in value if _plain(entry) is not None] if rough else value
            self._write_parts(b"s%d " % len(value), self._ordered(plain))
        elif isinstance(value, np.ndarray):
            self._write_parts(b"a", _parts_of_array(value))
        elif isinstance(value, partial):
            self._write_parts(b"p", [value.func, value.args, value.keywords])
        elif isinstance(value, BOUND):
            self._write_parts(b"m", [value.__name__, value.__self__])
        elif hasattr(value, "__array__") and hasattr(value, "dtype"):  # arrays of other libraries
            self.visit(numpy_of(value))
            return
        elif (attributes := attributes_of(value)) is not None:
            self._write_attributes(value, attributes)
            return
        else:
            kind = type(value)
            raise SimulatorError(
                f"A state contains a {getattr(kind, '__module__', '')}.{kind.__qualname__}, which cannot be inspected. "
                f"{_FIX}"
            )
        self._write_extra_attributes(value)

    def _ordered(self, entries: Iterable[Any]) -> list[Any]:
        """Entries in an order that depends on their values, as far as possible."""

        def place(entry: Any) -> bytes:
            plain = _plain(entry)
            if plain is None:
                traversal = _Traversal(self._ignored, outline=True)
                if self._outline:  # within a frozenset: avoid infinite recursion
                    traversal._numbers = dict(self._numbers)
                traversal.visit(entry)
                plain = bytes(traversal.out)
            return plain

        return sorted(entries, key=place)

    def _write_extra_attributes(self, value: Any) -> None:
        """Write the attributes of a subclass of a container."""
        if type(value) not in CONTAINERS:
            attributes = visible_attributes(value)
            if attributes:
                self._write_attributes(value, attributes)

    def _write_attributes(self, owner: Any, attributes: Mapping[str, Any]) -> None:
        ignored = self._ignored(owner)
        self.out += f"<{type(owner).__module__} {type(owner).__qualname__};".encode()
        for name in sorted(attributes):
            value = attributes[name]
            if name not in ignored and (type(value) in _USUAL or not isinstance(value, _GENERATORS)):
                self.out += b"%d:" % len(name) + name.encode() + b"="
                self.visit(value)
        self.out += b">"


def _parts_of_array(value: Any) -> list[Any]:
    """Parts of an array that its bytes do not describe: an array of objects or records, or a subclass."""
    array = value.view(np.ndarray)
    if array.dtype.names:
        return [str(array.dtype), *(array[name] for name in array.dtype.names)]
    return [array.shape, *array.ravel().tolist()] if array.dtype.hasobject else [array]


def _plain(value: Any) -> bytes | None:
    """Bytes of a value without parts; None for other values."""
    kind = type(value)
    if kind is int:  # Python may refuse to print long decimals
        return b"i%d" % value if value.bit_length() < 2000 else b"I%x" % value
    if kind is float:
        return _number(value)
    if kind is str:
        return b"s" + value.encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]
    if value is None:
        return b"n"
    if kind is bool:
        return b"t" if value else b"u"
    if kind is tuple or kind is list or kind is dict:
        return None
    if kind is np.ndarray:
        return None if value.dtype.hasobject or value.dtype.names else _entries(value)
    return _plain_of_rarer_type(value)


def _number(value: float) -> bytes:
    if value.is_integer():
        return b"i%d" % value
    return b"f" + _DOUBLE.pack(value) if value == value else b"f"


_DOUBLE = struct.Struct("<d")


def _entries(array: Any) -> bytes:
    """Bytes of shape and entries; all NaN are equal, and −0.0 equals 0.0."""
    header = b"a%s%s " % (array.dtype.str.encode(), str(array.shape).encode())
    if array.dtype.kind not in "fc":
        return header + array.tobytes()  # type: ignore[no-any-return]
    if array.dtype.char in "gG":  # long doubles have padding bytes
        return header + repr(array.ravel().tolist()).encode()
    entries = array + array.dtype.type(0)
    unknown = entries != entries
    if unknown.any():
        entries = np.where(unknown, array.dtype.type(np.nan), entries)
    return header + entries.tobytes()  # type: ignore[no-any-return]


def _plain_of_rarer_type(value: Any) -> bytes | None:
    """`_plain` for less frequent types."""
    if _has_ordinary_attributes(type(value)):  # type: ignore[arg-type]
        return None
    if isinstance(value, (bool, np.bool_)):
        return b"t" if value else b"u"
    if isinstance(value, Enum):
        kind, name = type(value), value.value if isinstance(value, Flag) else value.name
        return f"e{kind.__module__} {kind.__qualname__} {name}".encode()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return b"T" + str(value.dtype).encode() + value.tobytes()
    if isinstance(value, (int, np.integer)):
        return _plain(int(value))
    if isinstance(value, (float, np.floating)):
        known = float(value)
        return _number(known) if known == value or known != known else b"l" + repr(value).encode()
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b"b" + bytes(value)
    if isinstance(value, (complex, np.complexfloating)):
        return b"c%s %s" % (_plain_of_rarer_type(value.real), _plain_of_rarer_type(value.imag))
    if isinstance(value, (range, Decimal, datetime.date, datetime.time, datetime.timedelta)):
        return f"r{value!r}".encode()
    if isinstance(value, _GENERATORS):
        return b"g"
    if isinstance(value, types.FunctionType):
        return _function(value)
    return _named(value)


_KNOWN_BY_NAME = (type, types.BuiltinFunctionType, types.MethodDescriptorType, types.ModuleType, np.dtype, np.ufunc)


def _named(value: Any) -> bytes | None:
    """Bytes of a value that is identified by its name; None for other values."""
    if isinstance(value, logging.Logger):
        return b"q" + value.name.encode()
    if isinstance(value, types.BuiltinFunctionType) and not isinstance(
        value.__self__, (types.ModuleType, type, type(None))
    ):
        return None  # a bound method
    if isinstance(value, _KNOWN_BY_NAME):
        name = getattr(value, "__qualname__", value)
        return f"q{type(value).__name__} {getattr(value, '__module__', '')} {name}".encode()
    return None


def _function(function: types.FunctionType) -> bytes:
    """Bytes of a function: name, code, and plain values it refers to. Copies of a function share all other values."""
    code = function.__code__
    held = [*code.co_consts, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    held += [content for _, content in closure_of(function)]
    parts = [_plain(entry) or type(entry).__qualname__.encode() for entry in held if not callable(entry)]
    name = f"Q{function.__module__} {function.__qualname__} {code.co_firstlineno} {code.co_names}".encode()
    return b" ".join([name, code.co_code, *(b"%d:%s" % (len(part), part) for part in parts)])
