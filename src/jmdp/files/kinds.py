"""Classes that can be saved, and objects of them as fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jmdp.base.settings import short
from jmdp.files.types import Sink, Sizes, Source, Type, WrongFieldError


@dataclass(frozen=True)
class Kind:
    """A class that can be saved, and the types of its fields."""

    of: type
    fields: Mapping[str, Type]
    build: Callable[[dict[str, Any]], Any] | None = None  # makes the object from its fields; by default the class
    axes_of_whole: bool = False  # whether letters mean the axes of the object that contains it
    usual: Mapping[str, Any] = field(default_factory=dict)  # fields that are left out if they have this value


@dataclass(frozen=True)
class Object(Type):
    """An object of one of these kinds, by name; `kinds` is looked up on use, because kinds may contain each other."""

    kinds: Callable[[], Mapping[str, Kind]]

    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """Name of the kind, and the fields."""
        for name, kind in self.kinds().items():
            if type(value) is kind.of:
                inside = {
                    key: of.encode(getattr(value, key), sink, f"{place}.{key}" if place else key)
                    for key, of in kind.fields.items()
                    if key not in kind.usual or not _equal(getattr(value, key), kind.usual[key])
                }
                return {"class": name, **inside}
        raise NotImplementedError(f"a {type(value).__name__} cannot be saved")

    def decode(self, node: Any, source: Source, place: str, sizes: Sizes) -> Any:
        """The object, built by its constructor."""
        kinds = self.kinds()
        name = node.get("class") if type(node) is dict else None
        if type(name) is not str or name not in kinds:
            raise WrongFieldError(place, f"{short(node)} instead of one of: {', '.join(kinds)}")
        kind = kinds[name]
        expected = {"class", *kind.fields} - (set(kind.usual) - set(node))
        if set(node) != expected:
            odd = sorted(set(node) ^ expected)
            raise WrongFieldError(place, f"a {name} with other fields than expected: {short(odd, 200)}")
        own = sizes if kind.axes_of_whole else {}
        found = {
            key: of.decode(node[key], source, f"{place}.{key}" if place else key, own)
            if key in node
            else kind.usual[key]
            for key, of in kind.fields.items()
        }
        return kind.of(**found) if kind.build is None else kind.build(found)


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
