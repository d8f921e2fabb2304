"""States of the global generators of NumPy and Python, read in less than a microsecond.

NumPy takes 100 µs to return the state of its global generator, as long as many short steps. Here the memory of both
generators is read. Its layout is compared with their public states when this module is imported; if it differs, states
are unknown. A normal number of which the global generator of NumPy has already drawn the pair is not seen.
"""

from __future__ import annotations

import ctypes
import random
import sys
from typing import Any

import numpy as np

_SIZE = 625 * 4
"""Bytes of a Mersenne twister: 624 words, with the position after them (NumPy) or before them (Python)."""

_NUMPY: Any = np.random.random_sample.__self__  # type: ignore[attr-defined]
_PYTHON: Any = random.random.__self__  # type: ignore[attr-defined]


def _memory_at(address: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * _SIZE).from_address(address)).cast("B")


def _memories() -> tuple[Any, memoryview, memoryview] | None:
    """Bit generator of NumPy's global generator, and the memory of both; None if the layout is unknown."""
    bits = _NUMPY._bit_generator
    if (
        type(bits) is not np.random.MT19937
        or sys.implementation.name != "cpython"
        or type(_PYTHON) is not random.Random
    ):
        return None
    one, other = _memory_at(bits.ctypes.state_address), _memory_at(id(_PYTHON) + object.__basicsize__)
    state: Any = bits.state["state"]
    words = random.getstate()[1]
    known = state["key"].tobytes() + int(state["pos"]).to_bytes(4, sys.byteorder)
    known_python = b"".join(word.to_bytes(4, sys.byteorder) for word in (words[-1], *words[:-1]))
    return (bits, one, other) if (bytes(one), bytes(other)) == (known, known_python) else None


_KNOWN = _memories()

GlobalState = tuple[bytes, bytes, Any]


def global_state() -> GlobalState | None:
    """State of both generators; None if it cannot be read in this way."""
    if _KNOWN is None or _NUMPY._bit_generator is not _KNOWN[0]:
        return None
    return bytes(_KNOWN[1]), bytes(_KNOWN[2]), _PYTHON.gauss_next


def restore_global_state(state: GlobalState) -> None:
    """Restore a state that was read."""
    assert _KNOWN is not None
    moved = bytes(_KNOWN[1]) != state[0]
    _KNOWN[1][:], _KNOWN[2][:], _PYTHON.gauss_next = state
    if moved:  # half of a pair of normal numbers, drawn since, is not in that memory
        _NUMPY.set_state(_NUMPY.get_state(legacy=False) | {"has_gauss": 0, "gauss": 0.0})
