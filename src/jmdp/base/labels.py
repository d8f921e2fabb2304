"""Labels of states and actions: an index, or a name if the model has names.

The identity of a run: a digest of everything that determines its results, the same in every process.

Files of a run carry it, so that a run is resumed from its own files only. Values are digested by content: arrays by
their bits, settings by their fields, functions by their code. An object's `repr` is not used, because it may contain a
memory address or omit something.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from jmdp.base.settings import integer, listed, short
from jmdp.errors import LabelError, ModelError

Label = int | str
"""A state or action as a user writes it: its index or its name."""

PolicyLike: TypeAlias = Any
"""A policy of any kind: what `jmdp.as_policy` takes."""

SimulatorLike: TypeAlias = Any
"""A table, a simulator or an environment: what `jmdp.simulators.as_simulator` takes."""

StartsLike: TypeAlias = Any
"""Start states: a list of states, a dictionary of their probabilities, or an array of probabilities."""


@dataclass(frozen=True)
class Labels:
    """Names along one axis, and the conversion of a name or index to an index.

    Parameters
    ----------
    kind
        "state", "action" or "policy", for messages.
    size
        Number of entries.
    names
        Unique strings, one each; None if entries have no names but their index.
    integers
        Whether names that are integers are found by the integer too. An integer is then a label, never an index.
    read
        Whether the names come from a file or frame, so that the caller may not know their order.
    """

    kind: str
    size: int
    names: tuple[str, ...] | None = None
    integers: bool = False
    read: bool = field(default=False, compare=False)
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = self.names or ()
        if self.names is not None and len(names) != self.size:
            raise ModelError(
                f"{self.kind}_names has {len(names)} entries for {self.size} {self.plural}. Give one name each."
            )
        if not all(isinstance(name, str) for name in names):
            raise ModelError(f"{self.kind}_names must be strings. Convert them, e.g. with map(str, names).")
        object.__setattr__(self, "_index", dict(zip(names, range(len(names)), strict=True)))
        if len(self._index) != len(names):
            twice = next(name for i, name in enumerate(names) if self._index[name] != i)
            raise ModelError(f"{self.kind}_names has {short(twice)} more than once. Names must be unique.")
        if not is_unicode("".join(names)):
            wrong = next(name for name in names if not is_unicode(name))
            raise ModelError(f"{self.kind}_names has {short(wrong)}, which is not valid Unicode. Rename it.")

    @classmethod
    def of(cls, kind: str, size: int, names: Sequence[str] | None) -> Labels:
        """Labels from any sequence of names, or None."""
        return cls(kind, size, None if names is None else plain_names(kind, size, names))

    @classmethod
    def of_table(cls, kind: str, size: int, names: Sequence[str] | None, *, read: bool = False) -> Labels:
        """Labels of a table: an integer is an index only if no name is an integer."""
        found = cls.of(kind, size, names)
        some = found.names or ()
        return replace(found, integers=any(map(is_integer, some)), read=read and found.names is not None)

    @property
    def plural(self) -> str:
        """Plural of the kind, e.g. "states"."""
        return f"{self.kind[:-1]}ies" if self.kind.endswith("y") else f"{self.kind}s"

    def index(self, label: Label) -> int:
        """Return the index of a label as users write it: an integer is a label if names are integers, else an index."""
        number = integer(label) if self.integers else None
        if number is None:
            return self.position(label)
        if (text := label_text(number)) in self._index:
            return self._index[text]
        raise LabelError(f"There is no {self.kind} {short(number)}: {self.plural} are {self.shown}.")

    def has(self, label: object) -> bool:
        """Whether `index` finds this label."""
        number = integer(label)
        if number is not None and not self.integers:
            return 0 <= number < self.size
        return (label if isinstance(label, str) else label_text(label)) in self._index

    def position(self, label: Label) -> int:
        """Return the index of a name or of an index (NumPy integers too), or of a tuple whose text is a name."""
        if isinstance(label, str):
            if (name := str.__str__(label)) in self._index:
                return self._index[name]
            if self.names is None:
                raise LabelError(
                    f"There is no {self.kind} {short(name)}: the {self.plural} have no names. Use an index."
                )
            close = difflib.get_close_matches(name[:100], self.names, n=1)
            hint = f" Did you mean {short(close[0])}?" if close else ""
            raise LabelError(f"There is no {self.kind} {short(name)}: names are {self.shown}.{hint}")
        i = integer(label)
        if i is None and (text := label_text(label)) is not None and text in self._index:
            return self._index[text]
        if i is None or not 0 <= i < self.size:
            names = "" if self.names is None else f", and names are {self.shown}"
            fix = f" Convert it: int({label})." if isinstance(label, (bool, np.bool_)) else ""
            raise LabelError(
                f"There is no {self.kind} {short(label)}: indices run from 0 to {self.size - 1}{names}.{fix}"
            )
        return i

    @property
    def shown(self) -> str:
        """The labels, or the first of many, for messages."""
        shown = ", ".join(short(self.label(i)) for i in range(min(self.size, _SHOWN)))
        return shown if self.size <= _SHOWN else f"{shown}, … ({self.size} in all)"

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Label]:
        """Names, or indices if there are no names."""
        return iter(range(self.size) if self.names is None else self.names)

    def __getitem__(self, i: int) -> Label:
        return range(self.size)[i] if self.names is None else self.names[i]

    def label(self, index: int) -> Label:
        """Return the label of an index as users write it: an integer, or a name that is no integer."""
        name = self[index]
        return int(name) if self.integers and isinstance(name, str) and is_integer(name) else name

    def name(self, index: int) -> str:
        """Return the name of an index; the index itself, as text, if there are no names."""
        return str(index) if self.names is None else self.names[index]


def plain_names(kind: str, size: int, names: Iterable[str]) -> tuple[str, ...]:
    """The names as a tuple of plain strings, at most one more than there are entries."""
    some = listed(names, size)
    if some is None:
        raise ModelError(f"{kind}_names is {short(names)}. Give a list with one name each.")
    if len(some) > size:
        raise ModelError(f"{kind}_names has more than {size} entries. Give one name for each {kind}.")
    return tuple(str.__str__(name) if isinstance(name, str) else name for name in some)


def is_integer(name: str) -> bool:
    """Whether a name is an integer as Python writes it: "12", but not "012" or "1.0"."""
    return _INTEGER.fullmatch(name) is not None


def label_text(value: object) -> str | None:
    """Name of a state that is a text, a number, or a tuple of such; None for other objects, and if it is too long."""
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if isinstance(value, tuple) and len(value) <= _LONGEST:
        value = tuple(one.item() if isinstance(one, (np.bool_, np.integer, np.floating)) else one for one in value)
        if not all(type(one) in (str, int, float, bool) for one in value):
            return None
    elif type(value) not in (str, int, float, bool):
        return None
    try:
        text = str(value)
    except ValueError:  # an integer with too many digits
        return None
    return text if len(text) <= _LONGEST and is_unicode(text) else None


def names_of(kind: str, values: Sequence[object]) -> list[str]:
    """Names of states: their texts if all have different ones, else their numbers, "state 0"."""
    names = [label_text(value) or f"{kind} {i}" for i, value in enumerate(values)]
    return names if len(set(names)) == len(names) else [f"{kind} {i}" for i in range(len(names))]


_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")

_LONGEST = 40
"""Characters of the name of a state."""

_SHOWN = 8
"""Names in a message."""


def is_unicode(name: str) -> bool:
    """Whether a text has no lone surrogates, which cannot be printed or drawn."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


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
