"""NumPy generators (Philox) that are reset to a key in a fraction of a microsecond.

A new Philox generator takes 20 µs, and setting its public `state` 3 µs, which would dominate the time of a short step.
So the key is written directly to the memory of the bit generator. The layout of that memory is compared with the public
`state` when this module is imported; if it differs, `state` is used.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence

from jmdp.errors import SimulatorError

_SIZE = 96
"""Bytes of a Philox state from its buffer position on: position, buffer, half word, key, counter."""

_HEAD, _UNUSED = (4).to_bytes(48, "little"), bytes(32)
"""The bytes before the key and those after it, before the first draw: the buffer is used up, the counter is 0."""

_WRITE = struct.Struct("48s48s").pack_into
"""Writes two parts of a state, each filled up with zeros: `_HEAD`, and a key with the counter."""

_Memory = ctypes.c_ubyte * _SIZE
_FIELDS = struct.Struct("<i36xi4x16s32s")  # position, half word, key, counter


class _KeySeed(ISpawnableSeedSequence):
    """Sixteen bytes that become the key of a Philox generator.

    ``Philox(key=…)`` gives the same generator in three times the time, because it also asks the operating system for a
    seed.
    """

    def __init__(self, words: bytes) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """Return the bytes as two words of 64 bits, which is what Philox asks for."""
        assert (n_words, dtype) == (2, np.uint64)
        return np.frombuffer(self.words, "<u8").astype(np.uint64)

    def spawn(self, n_children: int) -> Any:
        """Raise: children would not depend on the key of the step."""
        raise SimulatorError(
            "This generator is set to a key, so there is no seed for spawn. If it belongs to a Luck, use another key "
            'for each child: luck["name", i]. In a simulator, call spawn in __init__, or draw a seed: '
            "np.random.default_rng(rng.integers(2**63))."
        )


def philox(words: bytes) -> np.random.Philox:
    """Philox bit generator with this key of 16 bytes."""
    key: Any = _KeySeed(words)  # NumPy's annotations know SeedSequence only
    return np.random.Philox(key)


class KeyedGenerator(np.random.Generator):
    """A Philox generator that can be reset to another key."""

    restart: Callable[[bytes], object]
    """Reset to this key of 16 bytes, before the first draw. It is called in each step, so it calls no Python code."""

    def __init__(self, bit_generator: np.random.BitGenerator) -> None:
        super().__init__(bit_generator)
        self._counter: memoryview | None = None
        if _LAYOUT_KNOWN:
            memory = _memory(bit_generator)
            self.restart, self._counter = partial(_WRITE, memory, 0, _HEAD), memory[64:]
        else:
            self.restart = partial(_set_state, bit_generator)

    @classmethod
    def of(cls, words: bytes) -> KeyedGenerator:
        """Return a new generator with this key of 16 bytes."""
        return cls(philox(words))

    @property
    def moved(self) -> bool:
        """True if a number was drawn since the last restart."""
        if self._counter is None:
            state: Any = self.bit_generator.state
            return bool(state["state"]["counter"].any())
        return self._counter != _UNUSED

    def __reduce__(self) -> tuple[type[KeyedGenerator], tuple[np.random.BitGenerator]]:  # type: ignore[override]
        return type(self), (self.bit_generator,)


def _set_state(bit_generator: np.random.BitGenerator, words: bytes) -> None:
    bit_generator.state = _state(words)


def stream_position(bit_generator: np.random.BitGenerator) -> tuple[bytes, int]:
    """Key of a Philox generator, and the number of half words of its stream that are used."""
    if _LAYOUT_KNOWN:
        place, half, key, counter = _FIELDS.unpack(_Memory.from_address(_address(bit_generator)))
    else:
        state: Any = bit_generator.state
        place, half = state["buffer_pos"], state["has_uint32"]
        key, counter = (state["state"][name].tobytes() for name in ("key", "counter"))
    return key, 2 * (4 * int.from_bytes(counter, "little") + place - 4) - half


def _state(words: bytes) -> dict[str, Any]:
    """Public state of a Philox generator with this key before its first draw."""
    counters = {"counter": np.zeros(4, np.uint64), "key": np.frombuffer(words, np.uint64)}
    return {**_START, "state": counters}


_START: Any = np.random.Philox(key=0).state


def _memory(bit_generator: np.random.BitGenerator) -> memoryview:
    """Memory of the state from the buffer position on; the bit generator must be kept alive."""
    return memoryview(_Memory.from_address(_address(bit_generator))).cast("B")


def _address(bit_generator: np.random.BitGenerator) -> int:
    state: int = bit_generator.ctypes.state_address
    return state + 2 * ctypes.sizeof(ctypes.c_void_p)  # after two pointers


def _layout_is_known() -> bool:
    """Whether the memory of a Philox generator is laid out as `KeyedGenerator.restart` assumes."""
    words = bytes(range(101, 117))
    bits = np.random.Philox(key=7)
    rng = np.random.Generator(bits)
    pointers = (ctypes.c_void_p * 2).from_address(bits.ctypes.state_address)
    start = bits.ctypes.state_address + ctypes.sizeof(pointers)
    if sys.byteorder != "little" or (pointers[0], pointers[1]) != (start + 64, start + 48):
        return False  # counter and key are elsewhere
    rng.random(), rng.integers(9, dtype=np.uint32)  # leaves a used buffer and a half word
    _WRITE(_memory(bits), 0, _HEAD, words)
    return _flat(bits.state) == _flat(_state(words))


def _flat(state: Any) -> tuple[Any, ...]:
    inner = state["state"]
    half = state["has_uint32"] and state["uinteger"]
    return inner["counter"].tolist(), inner["key"].tolist(), state["buffer_pos"], state["has_uint32"], half


_LAYOUT_KNOWN = _layout_is_known()


class _Held(threading.local):
    """A generator of each thread."""

    def __init__(self) -> None:
        self.generator = KeyedGenerator.of(bytes(16))


_HELD = _Held()


def _references() -> tuple[int, int]:
    """Numbers of references to the generator of this thread and to its bit generator."""
    generator = _HELD.generator
    return sys.getrefcount(generator), sys.getrefcount(generator.bit_generator)


_UNSHARED = _references()


def unshared_generator(words: bytes) -> KeyedGenerator:
    """Generator with this key: the one of this thread if no other code refers to it, else a new one."""
    if _references() != _UNSHARED:  # a caller has kept it and may still draw from it
        _HELD.generator = KeyedGenerator.of(words)
    else:
        _HELD.generator.restart(words)
    return _HELD.generator
