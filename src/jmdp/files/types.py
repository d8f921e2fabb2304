"""Types of the fields of saved objects: how a value becomes JSON and arrays, and how it is checked when it is read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.labels import Labels, is_unicode
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


class Type(ABC):
    """How values of a field are written and read."""

    @abstractmethod
    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """The value as JSON; arrays are added to the sink."""

    @abstractmethod
    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> Any:
        """The value of this JSON; raise `WrongFieldError` if it is of another type."""


@dataclass(frozen=True)
class Plain(Type):
    """Text, true or false, or whole numbers."""

    kind: type
    name: str

    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """The value itself; of a text, what can be encoded."""
        return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else self.kind(value)

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> Any:
        """The value, if it has the type."""
        if type(node) is not self.kind:
            raise WrongFieldError(place, f"{short(node)} instead of {self.name}")
        if isinstance(node, str) and not is_unicode(node):
            raise WrongFieldError(place, f"{short(node)}, which is not valid Unicode")
        return node


TEXT, FLAG, WHOLE = Plain(str, "a text"), Plain(bool, "true or false"), Plain(int, "a whole number")


class Number(Type):
    """A float, which may be infinite or nan."""

    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """JSON has no infinite numbers."""
        number = float(value)
        return number if math.isfinite(number) else str(number)

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> float:
        """The number."""
        if type(node) is float:
            return node
        if node in ("inf", "-inf", "nan"):
            return float(node)
        raise WrongFieldError(place, f"{short(node)} instead of a number")


NUMBER = Number()


@dataclass(frozen=True)
class Optional(Type):
    """A value or nothing."""

    of: Type

    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """The value, or null."""
        return None if value is None else self.of.encode(value, sink, place)

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> Any:
        """The value, or None."""
        return None if node is None else self.of.decode(node, source, place, sizes)


@dataclass(frozen=True)
class Listed(Type):
    """A list of values of one type, read as a tuple."""

    of: Type

    def encode(self, value: Any, sink: Sink, place: str) -> list[Any]:
        """All values."""
        return [self.of.encode(one, sink, f"{place}.{i}") for i, one in enumerate(value)]

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> tuple[Any, ...]:
        """All values."""
        if type(node) is not list:
            raise WrongFieldError(place, f"{short(node)} instead of a list")
        return tuple(self.of.decode(one, source, f"{place}.{i}", sizes) for i, one in enumerate(node))


@dataclass(frozen=True)
class Tuple(Type):
    """A fixed number of values of one type."""

    of: Type
    length: int

    def encode(self, value: Any, sink: Sink, place: str) -> list[Any]:
        """All values."""
        return Listed(self.of).encode(value, sink, place)

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> tuple[Any, ...]:
        """All values."""
        found = Listed(self.of).decode(node, source, place, sizes)
        if len(found) != self.length:
            raise WrongFieldError(place, f"{len(found)} values instead of {self.length}")
        return found


@dataclass(frozen=True)
class ByName(Type):
    """A dictionary from names to values of one type, in order."""

    of: Type

    def encode(self, value: Mapping[str, Any], sink: Sink, place: str) -> list[Any]:
        """Pairs, because the names of JSON objects may be reordered."""
        return [[name, self.of.encode(one, sink, f"{place}.{i}")] for i, (name, one) in enumerate(value.items())]

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> dict[str, Any]:
        """All values."""
        found: dict[str, Any] = {}
        for i, pair in enumerate(Listed(_ANY).decode(node, source, place, sizes)):
            if type(pair) is not list or len(pair) != 2:
                raise WrongFieldError(f"{place}.{i}", f"{short(pair)} instead of a name and a value")
            name = TEXT.decode(pair[0], source, f"{place}.{i}", sizes)
            found[name] = self.of.decode(pair[1], source, f"{place}.{i}", sizes)
        return found


@dataclass(frozen=True)
class ByMeasure(Type):
    """A value, or values of one type by name of a measure."""

    of: Type

    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """The value, or an object with the pairs of names and values."""
        if isinstance(value, Mapping):
            return {"measures": ByName(self.of).encode(value, sink, place)}
        return self.of.encode(value, sink, place)

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> Any:
        """The value, or a dictionary."""
        if type(node) is dict and set(node) == {"measures"}:
            return ByName(self.of).decode(node["measures"], source, place, sizes)
        return self.of.decode(node, source, place, sizes)


class _Any(Type):
    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        return value

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> Any:
        return node


_ANY = _Any()


class Label(_Any):
    """A text or a whole number."""

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> str | int:
        """The label."""
        return node if type(node) is int else str(TEXT.decode(node, source, place, sizes))


LABEL = Label()


@dataclass(frozen=True)
class OneOf(Type):
    """A member of an enumeration, by its name."""

    members: type[Enum]

    def encode(self, value: Any, sink: Sink, place: str) -> str:
        """The name."""
        name: str = value.name
        return name

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> Enum:
        """The member."""
        if type(node) is not str or node not in self.members.__members__:
            raise WrongFieldError(place, f"{short(node)}, which is no {self.members.__name__}")
        return self.members[node]


@dataclass(frozen=True)
class Array(Type):
    """An array of one of these dtypes, with axes of these letters."""

    dtypes: str  # e.g. "<f8" or "<i4 <i8"
    axes: str  # e.g. "S A A"

    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """The name of the array; arrays without entries, which netCDF lacks, by their type and shape."""
        array = np.asarray(value)
        if not array.size:
            return {"dtype": array.dtype.str, "shape": list(array.shape)}
        return sink.add(place, self.axes.split(), array)

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> npt.NDArray[Any]:
        """The array, if its type and shape are right."""
        if type(node) is dict:
            array = self._empty(node, place)
        elif type(node) is str:
            array = source.array(node, place)
        else:
            raise WrongFieldError(place, f"{short(node)} instead of an array")
        allowed = self.dtypes.split()
        if allowed == ["|b1"] and array.dtype == np.int8 and ((array == 0) | (array == 1)).all():
            array = array.view(np.bool_)  # netCDF has no booleans
        if array.dtype.str not in allowed:
            raise WrongFieldError(place, f"an array of type {array.dtype} instead of {' or '.join(allowed)}")
        self._check_shape(array, place, sizes)
        return array

    @staticmethod
    def _empty(node: dict[str, Any], place: str) -> npt.NDArray[Any]:
        shape, dtype = node.get("shape"), node.get("dtype")
        if dtype not in ("<f8", "<i8", "<i4", "|b1", "<f4") or type(shape) is not list or not 0 < len(shape) <= 8:
            raise WrongFieldError(place, f"{short(node)} instead of an array")
        if not all(type(n) is int and 0 <= n <= 1 << 40 for n in shape) or 0 not in shape:
            raise WrongFieldError(place, f"{short(node)} instead of an array without entries")
        return np.zeros(shape, dtype)

    def _check_shape(self, array: npt.NDArray[Any], place: str, sizes: Sizes) -> None:
        letters = self.axes.split()
        if array.ndim != len(letters):
            raise WrongFieldError(place, f"an array of shape {array.shape} instead of [{', '.join(letters)}]")
        for letter, length in zip(letters, array.shape, strict=True):
            if sizes.setdefault(letter, length) != length:
                raise WrongFieldError(place, f"{length} entries along {letter}, where {sizes[letter]} are expected")


@dataclass(frozen=True)
class NumberOrArray(Type):
    """One number for all entries, or an array."""

    axes: str

    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """The number, or the name of the array in a list."""
        if isinstance(value, np.ndarray):
            return [Array("<f8", self.axes).encode(value, sink, place)]
        return NUMBER.encode(value, sink, place)

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> Any:
        """The number or the array."""
        if type(node) is list and len(node) == 1:
            return Array("<f8", self.axes).decode(node[0], source, place, sizes)
        return NUMBER.decode(node, source, place, sizes)


@dataclass(frozen=True)
class LabelsOf(Type):
    """Labels of the axis with this letter."""

    axis: str

    def encode(self, value: Labels, sink: Sink, place: str) -> Any:
        """Kind, size and labels, of which integers are numbers."""
        return [value.kind, value.size, None if value.names is None else [*map(value.label, range(value.size))]]

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> Labels:
        """The labels, if there are as many as the axis is long."""
        kind, size, names = Tuple(_ANY, 3).decode(node, source, place, sizes)
        TEXT.decode(kind, source, place, sizes)
        if type(size) is not int or size < 0 or sizes.setdefault(self.axis, size) != size:
            raise WrongFieldError(
                place, f"{short(size)} labels along {self.axis}, where {sizes.get(self.axis)} are expected"
            )
        if names is None:
            return Labels(kind, size)
        labels = Listed(LABEL).decode(names, source, place, sizes)
        return Labels(kind, size, tuple(map(str, labels)), integers=any(type(label) is int for label in labels))
