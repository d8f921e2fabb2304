"""Calls of a generator: how many numbers they use, and the variable to which they are assigned."""

from __future__ import annotations

import copy
import dis
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Number
from types import CodeType, FrameType
from typing import Any

import numpy as np

from jmdp.simulators.digests import digest_of

_CALLS_COMPARED = 256
"""Number of repetitions after which two calls are assumed to use equally many numbers."""

_LARGEST = 1000
"""Largest number of entries of an argument that is kept."""


StreamPosition = tuple[bytes, int]
"""Key of a stream, and the number of its half words that are used."""


def stream_position(generator: np.random.Generator) -> StreamPosition:
    """Position of a Philox generator in its stream."""
    state: Any = generator.bit_generator.state
    counter = int.from_bytes(state["state"]["counter"].tobytes(), "little")
    words = 4 * counter + state["buffer_pos"] - 4
    return state["state"]["key"].tobytes(), 2 * words - state["has_uint32"]


@dataclass(frozen=True)
class Call:
    """A method of a generator and its arguments."""

    method: str
    key: bytes | None  # equal for equal arguments; None if they are not plain and were not kept
    arguments: Any = field(compare=False, repr=False)  # (args, kwargs)

    @classmethod
    def of(cls, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Call with a copy of the arguments, if they are plain."""
        if not all(map(_plain, (*args, *kwargs.values()))):
            return cls(method, None, None)
        return cls(method, digest_of((args, kwargs)), copy.deepcopy((args, kwargs)))

    def repeat(self, generator: np.random.Generator) -> None:
        """Make the same call of this generator."""
        args, kwargs = copy.deepcopy(self.arguments) if self.method == "shuffle" else self.arguments
        getattr(generator, self.method)(*args, **kwargs)


def _plain(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufSU" and value.size <= _LARGEST
    if isinstance(value, (list, tuple)):
        return len(value) <= _LARGEST and all(map(_plain, value))
    return value is None or isinstance(value, (Number, str, type, np.dtype))


def consume_alike(one: tuple[Call, ...], other: tuple[Call, ...]) -> bool:
    """True if both sequences of calls used equally many numbers in all repetitions, or if arguments are unknown.

    With rejection sampling it depends on the arguments: poisson(20) and poisson(30) use equally many in most calls, not
    in all.
    """
    if [(call.method, call.key) for call in one] == [(call.method, call.key) for call in other]:
        return True
    if any(call.key is None for call in (*one, *other)):
        return True
    return _consume_alike(one, other)


@lru_cache(4096)
def _consume_alike(one: tuple[Call, ...], other: tuple[Call, ...]) -> bool:
    streams = [np.random.Generator(np.random.Philox(key=0)) for _ in range(2)]
    for repeat in range(_CALLS_COMPARED):
        for generator, calls in zip(streams, (one, other), strict=True):
            for call in calls:
                call.repeat(generator)
        if repeat % 16 in (0, 15):  # unequal positions stay unequal
            positions = [stream_position(generator)[1] for generator in streams]
            if positions[0] != positions[1]:
                return False
            if positions[0] > 16 * _CALLS_COMPARED and repeat:
                break
    return True


def target_of(frame: FrameType | None) -> str | None:
    """Variable or attribute to which the current call of a frame is assigned, with its function.

    If a function returns its draw, its caller is inspected. None if the number is used without assignment.
    """
    while frame is not None:
        name, returned = _stored(frame.f_code, frame.f_lasti)
        if not returned:
            code = frame.f_code
            return None if name is None else f"{code.co_filename} {code.co_qualname} {name}"
        frame = frame.f_back
    return None


@lru_cache(4096)
def _stored(code: CodeType, last: int) -> tuple[str | None, bool]:
    """Name that is stored next after this instruction, and whether the value is returned instead."""
    for instruction in dis.get_instructions(code):
        if instruction.offset <= last:
            continue
        if instruction.opname.startswith("STORE_") and instruction.opname not in ("STORE_SUBSCR", "STORE_SLICE"):
            return str(instruction.argval), False
        if instruction.opname.startswith("RETURN_"):
            return None, instruction.opname == "RETURN_VALUE"
        if "JUMP" in instruction.opname or instruction.opname in ("STORE_SUBSCR", "POP_TOP"):
            return None, False
    return None, False
