"""Fast copies of environments whose attributes are plain values, and fast comparisons of them.

`copy.deepcopy` of a simple environment takes as long as ten of its steps. Attributes that are numbers, texts or tuples
of these are shared between copies, arrays and lists of plain values are copied directly, and only other objects are
copied by `deepcopy`.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from jmdp.simulators.gymnasium.env_operations import copies_by_rebuilding
from jmdp.simulators.gymnasium.state_attributes import CONSTANT, transition_table

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), np.bool_, np.int32, np.int64, np.uint8,
                    np.float32, np.float64, types.ModuleType})  # fmt: skip
"""Immutable types without parts, and modules, which exist once."""


def is_plain(value: Any) -> bool:
    """Whether a value is immutable and has only plain parts, so that copies may share it."""
    kind = type(value)
    return kind in _PLAIN or (kind is tuple and set(map(type, value)) <= _PLAIN)


def _copier(value: Any) -> Callable[[Any], Any] | None:
    """Function that copies a container or array of plain values; None for other values."""
    kind = type(value)
    if kind is np.ndarray and not value.dtype.hasobject:
        return _array_copy
    if kind is dict:
        return dict.copy if all(map(is_plain, value.values())) and all(map(is_plain, value)) else None
    return kind.copy if kind in (list, set) and all(map(is_plain, value)) else None


def _array_copy(array: Any) -> Any:
    return array.copy("K")


class CopyRecipe:
    """How to copy the wrappers of an environment and itself. It is valid until the environment changes.

    Attributes in `shared` are not copied. `known` maps ids of objects to their replacements; `memo` returns these and
    further ones, for `deepcopy`.
    """

    def __init__(
        self, chain: list[Any], shared: Container[str], known: dict[int, Any], memo: Callable[[], dict[int, Any]]
    ) -> None:
        self._kinds, self._memo, self._chain = [type(layer) for layer in chain], memo, chain
        self._templates = [{**vars(layer)} for layer in chain]
        self._inner = [(i, name) for i, layer in enumerate(chain[:-1]) for name in vars(layer) if name == "env"]
        self._copied: list[tuple[int, str, Any, Callable[[Any], Any]]] = []
        self._deep: list[tuple[int, str, Any]] = []
        for i, template in enumerate(self._templates):
            for name, value in template.items():
                if type(value) in _PLAIN or name in shared or is_plain(value) or (name == "env" and i + 1 < len(chain)):
                    continue
                copier = _copier(value)
                if id(value) in known:
                    template[name] = known[id(value)]
                elif copier is not None:
                    self._copied.append((i, name, value, copier))
                else:
                    self._deep.append((i, name, value))

    @property
    def quick(self) -> bool:
        """True if `deepcopy` is not needed."""
        return not self._deep

    def make(self) -> list[Any]:
        """Copies of all layers, outermost first."""
        made = [object.__new__(kind) for kind in self._kinds]
        attributes: list[dict[str, Any]] = [new.__dict__ for new in made]
        for into, template in zip(attributes, self._templates, strict=True):
            into.update(template)
        for i, name in self._inner:
            attributes[i][name] = made[i + 1]
        copies: dict[int, Any] = {}
        for i, name, value, copier in self._copied:
            if id(value) not in copies:  # two attributes may refer to one object
                copies[id(value)] = copier(value)
            attributes[i][name] = copies[id(value)]
        if self._deep:
            memo = {**self._memo(), **copies, **dict(zip(map(id, self._chain), made, strict=True))}
            for i, name, value in self._deep:
                attributes[i][name] = copy.deepcopy(value, memo)
        return made


def holds_generator_once(chain: list[Any]) -> bool:
    """True if np_random can only be in ``_np_random``, because all other attributes are plain or constant."""
    for layer in chain:
        for name, value in vars(layer).items():
            known = type(value) in _PLAIN or name in CONSTANT or name in ("_np_random", "env") or is_plain(value)
            if not known and _copier(value) is None and value is not transition_table(vars(layer)):
                return False
    return True


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
