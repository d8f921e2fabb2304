"""The identity of a run: a digest of everything that determines its results, the same in every process.

Files of a run carry it, so that a run is resumed from its own files only. Values are digested by content: arrays by
their bits, settings by their fields, functions by their code. An object's `repr` is not used, because it may contain a
memory address or omit something.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def identity(*parts: object) -> bytes:
    """SHA-256 of all parts, 32 bytes: equal if the parts have the same content."""
    total = hashlib.sha256()
    for piece in _pieces(parts, ()):
        total.update(len(piece).to_bytes(8, "little"))
        total.update(piece)
    return total.digest()


def _pieces(value: Any, inside: tuple[int, ...]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a value; each piece is digested with its length. `inside`: ids of the enclosing values."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}".encode()
        return
    if id(value) in inside:  # a reference cycle, identified by its depth
        yield f"loop {len(inside) - inside.index(id(value))}".encode()
        return
    if isinstance(value, (type, types.BuiltinFunctionType, types.ModuleType)):
        yield f"name {getattr(value, '__module__', '')} {getattr(value, '__qualname__', value.__name__)}".encode()
        return
    if hasattr(value, "dtype") and hasattr(value, "shape"):  # NumPy's arrays and numbers, and JAX's
        array = np.asarray(value)
        yield f"array {array.dtype.str} {array.shape}".encode()
        if array.dtype.hasobject:
            yield from _pieces(array.tolist(), inside)
        else:
            yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        return
    yield f"{type(value).__module__} {type(value).__qualname__}".encode()
    inner = (*inside, id(value))
    for part in _parts(value):
        yield from _pieces(part, inner)
    yield b"end"


def _parts(value: Any) -> Iterator[Any]:
    """Yield the components of a value, in an order that does not depend on the process."""
    if isinstance(value, Enum):
        yield value.name
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, (set, frozenset)):
        yield from sorted(identity(part) for part in value)
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, types.CodeType):
        yield from (value.co_code, value.co_names, value.co_consts)
    elif isinstance(value, types.FunctionType):
        yield from (value.__module__, value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__)
        yield from (_content(cell) for cell in value.__closure__ or ())
    elif isinstance(value, types.MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif hasattr(value, "__wrapped__"):  # a compiled function
        yield value.__wrapped__
    elif is_dataclass(value):
        yield from ((field.name, getattr(value, field.name, None)) for field in fields(value))
    else:
        yield from sorted(getattr(value, "__dict__", {}).items(), key=lambda item: item[0])
        slots = [
            name for kind in type(value).__mro__ for name in np.atleast_1d(getattr(kind, "__slots__", ())).tolist()
        ]
        yield from ((name, getattr(value, name)) for name in sorted(slots) if hasattr(value, name))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
