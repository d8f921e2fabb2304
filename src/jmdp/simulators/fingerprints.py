"""Cheap fingerprints of observations and actions, to find branches that may have reached equal states.

Values with equal digests (`digest_of`) have equal fingerprints. The converse does not hold: values with equal
fingerprints, such as 1 and True, are compared by their digests.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from jmdp.models.actors.actor import numpy_of
from jmdp.simulators.digests import digest_of

_NAN = "nan"
_HASHED_BY_VALUE = frozenset({int, str, bool, bytes, type(None)})


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
