"""How objects become JSON and arrays, and how they are checked when they are read: by the annotations of their fields.

What an annotation does not say is in the `Kind` of the class, or beside it: ``Annotated[Any, Methods()]`` has its own
`Type`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from jmdp.base.labels import Label, Labels, is_unicode
from jmdp.base.settings import short

Sizes = dict[str, int]
"""Lengths of axes by letter; equal letters within one object have equal lengths."""


class WrongFieldError(Exception):
    """Content of a file that does not have the type of its field: the place, and what is wrong."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place, self.problem = place, problem


class Sink:
    """Arrays of an object that is being saved, by name, with the names of their axes.

    `known` are arrays that the file has anyway; those are not repeated.
    """

    def __init__(self, known: Mapping[str, npt.NDArray[Any]]) -> None:
        self._known = known
        self.arrays: dict[str, tuple[tuple[str, ...], npt.NDArray[Any]]] = {}

    def add(self, place: str, axes: Sequence[str], array: npt.NDArray[Any]) -> str:
        """Add an array; return its name, which is its place in the object."""
        name, known = place.replace(".", "_"), self._known.get(place)
        same = known is not None and (known.dtype, known.shape) == (array.dtype, array.shape)
        if same and known is not None and known.tobytes() == array.tobytes():
            return place
        while name in self.arrays or name in self._known:
            name += "_"
        self.arrays[name] = tuple(axes), array
        return name


class Source(ABC):
    """Arrays of a file."""

    @abstractmethod
    def array(self, name: str, place: str) -> npt.NDArray[Any]:
        """The array of this name, newly read; raise `WrongFieldError` if it cannot be read."""


class Place(NamedTuple):
    """Where in an object a value is read."""

    source: Source
    name: str
    sizes: Sizes

    def inside(self, key: str | int) -> Place:
        """A field or an entry of the value."""
        return self._replace(name=f"{self.name}.{key}" if self.name else str(key))

    def wrong(self, problem: str) -> WrongFieldError:
        """The error of a value here."""
        return WrongFieldError(self.name, problem)


class Type(ABC):
    """How values of a field are written and read that annotations cannot describe."""

    @abstractmethod
    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """The value as JSON; arrays are added to the sink."""

    @abstractmethod
    def decode(self, node: Any, at: Place) -> Any:
        """The value of this JSON; raise `WrongFieldError` if it is of another type."""


@dataclass(frozen=True)
class Kind:
    """A class that can be saved: by its fields and their annotations, unless this says otherwise."""

    of: type
    axes: Mapping[str, str] = field(default_factory=dict)  # letters of the axes of arrays, e.g. "S A A", and of labels
    names: Sequence[str] | None = None  # of the fields
    types: Mapping[str, Any] = field(default_factory=dict)  # of fields, in place of their annotations
    usual: Mapping[str, Any] = field(default_factory=dict)  # fields that are left out if they have this value
    axes_of_whole: bool = False  # whether letters mean the axes of the object that contains it
    made: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)  # values of fields that are no attributes
    build: Callable[[dict[str, Any]], Any] | None = None  # makes the object from its fields; by default the class
    name: str = ""  # in files; by default that of the class

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Types of the fields."""
        names = self.names or [one.name for one in fields(self.of)]
        types = {**get_type_hints(self.of, include_extras=True), **self.types}
        return {name: Annotated[types[name], self.axes[name]] if name in self.axes else types[name] for name in names}


KINDS: list[Kind] = []
"""All kinds; no other class is built from a file. Modules add those of their classes."""


def kinds_of(cls: type) -> dict[str, Kind]:
    """The class and its subclasses, as far as they can be saved, by name in files."""
    return {kind.name or kind.of.__name__: kind for kind in KINDS if issubclass(kind.of, cls)}


_UNIONS = (Union, UnionType)
_WORDS = {str: "a text", bool: "true or false", int: "a whole number"}
_DTYPES = {np.float64: ("<f8",), np.int64: ("<i8",), np.bool_: ("|b1",), np.signedinteger: ("<i4", "<i8")}


def encoded(of: Any, value: Any, sink: Sink, place: str, axes: str = "") -> Any:
    """A value with this annotation as JSON; its arrays, with axes of these letters, are added to the sink."""
    origin, inside = get_origin(of), get_args(of)
    if origin is Annotated:
        inner, how = inside
        return how.encode(value, sink, place) if isinstance(how, Type) else encoded(inner, value, sink, place, how)
    if origin in _UNIONS:
        return _encoded_member(inside, value, sink, place, axes)
    if of is float:  # JSON has no infinite numbers
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if of is str or origin is Literal:
        return value.encode(errors="backslashreplace").decode()  # what can be encoded
    if of in _WORDS:
        return of(value)
    if of is Labels:  # kind, size and labels, of which integers are numbers
        return [value.kind, value.size, None if value.names is None else [*map(value.label, range(value.size))]]
    if origin is np.ndarray:
        array = np.asarray(value)
        if not array.size:  # netCDF has none without entries
            return {"dtype": array.dtype.str, "shape": list(array.shape)}
        return sink.add(place, axes.split(), array)
    if origin in (tuple, Sequence):
        return [encoded(inside[0], one, sink, f"{place}.{i}") for i, one in enumerate(value)]
    if origin in (dict, Mapping):  # pairs, because the names of JSON objects may be reordered
        return [[name, encoded(inside[1], one, sink, f"{place}.{i}")] for i, (name, one) in enumerate(value.items())]
    return value.name if issubclass(of, Enum) else encoded_object(kinds_of(of), value, sink, place)


def decoded(of: Any, node: Any, at: Place, axes: str = "") -> Any:
    """The value of this JSON, if it has the type of the annotation; lists are read as tuples."""
    origin, inside = get_origin(of), get_args(of)
    if origin is Annotated:
        inner, how = inside
        return how.decode(node, at) if isinstance(how, Type) else decoded(inner, node, at, how)
    if origin in _UNIONS:
        return _decoded_member(inside, node, at, axes)
    if of is float:
        if type(node) is not float and node not in ("inf", "-inf", "nan"):
            raise at.wrong(f"{short(node)} instead of a number")
        return float(node)
    if of in _WORDS or origin is Literal:
        return _decoded_plain(str if origin is Literal else of, node, at)
    if of is Labels:
        return _decoded_labels(node, at, axes)
    if origin is np.ndarray:
        return _decoded_array(inside[1], node, at, axes)
    if origin in (tuple, Sequence):
        length = len(inside) if origin is tuple and inside[-1] is not Ellipsis else None
        return tuple(decoded(inside[0], one, at.inside(i)) for i, one in enumerate(listed(node, at, length)))
    if origin in (dict, Mapping):
        return dict(_decoded_pair(inside[1], pair, at.inside(i)) for i, pair in enumerate(listed(node, at)))
    if not issubclass(of, Enum):
        return decoded_object(kinds_of(of), node, at)
    if type(node) is not str or node not in of.__members__:
        raise at.wrong(f"{short(node)}, which is no {of.__name__}")
    return of[node]


def encoded_object(kinds: Mapping[str, Kind], value: Any, sink: Sink, place: str) -> dict[str, Any]:
    """An object of one of these kinds: the name of the kind, and the fields."""
    for name, kind in kinds.items():
        if type(value) is kind.of:
            found = {key: kind.made[key](value) if key in kind.made else getattr(value, key) for key in kind.fields}
            return {"class": name} | {
                key: encoded(kind.fields[key], one, sink, f"{place}.{key}" if place else key)
                for key, one in found.items()
                if key not in kind.usual or not _equal(one, kind.usual[key])
            }
    raise NotImplementedError(f"a {type(value).__name__} cannot be saved")


def decoded_object(kinds: Mapping[str, Kind], node: Any, at: Place) -> Any:
    """An object of one of these kinds, built by its constructor."""
    name = node.get("class") if type(node) is dict else None
    if type(name) is not str or name not in kinds:
        raise at.wrong(f"{short(node)} instead of one of: {', '.join(kinds)}")
    kind = kinds[name]
    expected = {"class", *kind.fields} - (set(kind.usual) - set(node))
    if set(node) != expected:
        odd = sorted(set(node) ^ expected)
        raise at.wrong(f"a {name} with other fields than expected: {short(odd, 200)}")
    own = at if kind.axes_of_whole else at._replace(sizes={})
    found = {
        key: decoded(of, node[key], own.inside(key)) if key in node else kind.usual[key]
        for key, of in kind.fields.items()
    }
    return kind.of(**found) if kind.build is None else kind.build(found)


def listed(node: Any, at: Place, length: int | None = None) -> list[Any]:
    """The node, if it is a list of this length."""
    if type(node) is not list:
        raise at.wrong(f"{short(node)} instead of a list")
    if length is not None and len(node) != length:
        raise at.wrong(f"{len(node)} values instead of {length}")
    return node


def _by_origin(members: Sequence[Any]) -> dict[Any, Any]:
    """Members of a union but None, by their class."""
    return {get_origin(of) or of: of for of in members if of is not NoneType}


def _told(by_origin: Mapping[Any, Any], found: type) -> Any:
    """The member of this class, or the last one that is neither an array nor a mapping."""
    return by_origin.get(found) or [of for origin, of in by_origin.items() if origin not in (np.ndarray, Mapping)][-1]


def _encoded_member(members: Sequence[Any], value: Any, sink: Sink, place: str, axes: str) -> Any:
    """A value of a union. Beside others, an array is in a list of its own, and a mapping is that of measures."""
    by_origin = _by_origin(members)
    if value is None:
        return None
    if len(by_origin) == 1:
        (of,) = by_origin.values()
        return encoded(of, value, sink, place, axes)
    if isinstance(value, np.ndarray):
        return [encoded(by_origin[np.ndarray], value, sink, place, axes)]
    if isinstance(value, Mapping):
        return {"measures": encoded(by_origin[Mapping], value, sink, place)}
    return encoded(_told(by_origin, type(value)), value, sink, place)


def _decoded_member(members: Sequence[Any], node: Any, at: Place, axes: str) -> Any:
    by_origin = _by_origin(members)
    if node is None and NoneType in members:
        return None
    if len(by_origin) == 1:
        (of,) = by_origin.values()
        return decoded(of, node, at, axes)
    if np.ndarray in by_origin and type(node) is list and len(node) == 1:
        return decoded(by_origin[np.ndarray], node[0], at, axes)
    if Mapping in by_origin and type(node) is dict and set(node) == {"measures"}:
        return decoded(by_origin[Mapping], node["measures"], at)
    return decoded(_told(by_origin, type(node)), node, at)


def _decoded_plain(of: type, node: Any, at: Place) -> Any:
    if type(node) is not of:
        raise at.wrong(f"{short(node)} instead of {_WORDS[of]}")
    if isinstance(node, str) and not is_unicode(node):
        raise at.wrong(f"{short(node)}, which is not valid Unicode")
    return node


def _decoded_pair(of: Any, pair: Any, at: Place) -> tuple[str, Any]:
    if type(pair) is not list or len(pair) != 2:
        raise at.wrong(f"{short(pair)} instead of a name and a value")
    return decoded(str, pair[0], at), decoded(of, pair[1], at)


def _decoded_labels(node: Any, at: Place, axis: str) -> Labels:
    """The labels, if there are as many as the axis is long."""
    kind, size, names = listed(node, at, 3)
    decoded(str, kind, at)
    if type(size) is not int or size < 0 or at.sizes.setdefault(axis, size) != size:
        raise at.wrong(f"{short(size)} labels along {axis}, where {at.sizes.get(axis)} are expected")
    if names is None:
        return Labels(kind, size)
    labels = decoded(tuple[Label, ...], names, at)
    return Labels(kind, size, tuple(map(str, labels)), integers=any(type(label) is int for label in labels))


def _decoded_array(dtype: Any, node: Any, at: Place, axes: str) -> npt.NDArray[Any]:
    """The array, if its type and shape are right."""
    if type(node) is dict:
        array = _empty(node, at)
    elif type(node) is str:
        array = at.source.array(node, at.name)
    else:
        raise at.wrong(f"{short(node)} instead of an array")
    (scalar,) = get_args(dtype)
    allowed = _DTYPES[get_origin(scalar) or scalar]
    if scalar is np.bool_ and array.dtype == np.int8 and ((array == 0) | (array == 1)).all():
        array = array.view(np.bool_)  # netCDF has no booleans
    if array.dtype.str not in allowed:
        raise at.wrong(f"an array of type {array.dtype} instead of {' or '.join(allowed)}")
    _check_shape(array, at, axes.split())
    return array


def _empty(node: dict[str, Any], at: Place) -> npt.NDArray[Any]:
    shape, dtype = node.get("shape"), node.get("dtype")
    if dtype not in ("<f8", "<i8", "<i4", "|b1", "<f4") or type(shape) is not list or not 0 < len(shape) <= 8:
        raise at.wrong(f"{short(node)} instead of an array")
    if not all(type(n) is int and 0 <= n <= 1 << 40 for n in shape) or 0 not in shape:
        raise at.wrong(f"{short(node)} instead of an array without entries")
    return np.zeros(shape, dtype)


def _check_shape(array: npt.NDArray[Any], at: Place, letters: list[str]) -> None:
    if array.ndim != len(letters):
        raise at.wrong(f"an array of shape {array.shape} instead of [{', '.join(letters)}]")
    for letter, length in zip(letters, array.shape, strict=True):
        if at.sizes.setdefault(letter, length) != length:
            raise at.wrong(f"{length} entries along {letter}, where {at.sizes[letter]} are expected")


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
