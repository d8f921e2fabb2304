"""Checkpoints: arrays saved atomically, with a checksum that detects damage.

A checkpoint is an uncompressed NumPy archive (.npz), written by `whole_files`: at every moment the file is either the
complete old checkpoint or the complete new one.

The caller of `load` gives the expected names, types and shapes, hence every header. `load` compares the headers and
reads exactly the expected number of bytes; nothing in the file is decompressed, evaluated or unpickled. A checksum must
agree.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from jmdp.base.settings import short
from jmdp.base.whole_files import opened, replacement, reserved, resolved
from jmdp.errors import CheckpointError

Arrays = Mapping[str, npt.NDArray[Any]]

_DIGEST = "digest"

FIX = "Give another file, or delete this one to start again."

_MEMBER = struct.Struct("<4s2xHH4x4x8xHH")
"""Header of a member of a zip file: signature, flags, method, lengths of its name and of its extra field."""


@contextmanager
def reserved_checkpoint(path: Path) -> Iterator[bool]:
    """Reserve a checkpoint for this run; yield whether there is one to resume from.

    Raises `CheckpointError` if another run has reserved it, or if no checkpoint can be saved there.
    """
    with ExitStack() as stack:
        try:
            exists = stack.enter_context(reserved(path)).exists
        except BlockingIOError as error:
            raise CheckpointError(
                f"{_named(path)} is {error.strerror}. Two runs cannot save to one checkpoint: wait until that run has "
                "ended, stop it, or give another file."
            ) from error
        except OSError as error:
            raise CheckpointError(
                f"No checkpoint can be saved to {_named(path)}: {_reason(error)}. Give a file in an existing, writable "
                "directory."
            ) from error
        yield exists


def save(path: Path, arrays: Arrays) -> None:
    """Write arrays to a checkpoint that this run has reserved, all or nothing; raise `CheckpointError` on failure."""
    try:
        with replacement(path) as file:
            _write(file, arrays)
    except OSError as error:
        raise CheckpointError(
            f"{_named(path)} cannot be saved: {_reason(error)}. An earlier checkpoint there, if any, is intact. "
            "Fix the cause, e.g. free disk space, and run again to resume."
        ) from error


def load(path: Path, like: Arrays) -> dict[str, npt.NDArray[Any]]:
    """Read arrays of the same names, types and shapes as `like`; raise `CheckpointError` for anything else."""
    try:
        with open(opened(resolved(path)), "rb") as file:
            found = {name: _read(file, path, name, like[name]) for name in sorted(like)}
            digest = _read(file, path, _DIGEST, _digest({}))
    except OSError as error:
        raise CheckpointError(f"{_named(path)} cannot be read: {_reason(error)}. {FIX}") from error
    if not np.array_equal(digest, _digest(found)):
        raise CheckpointError(f"{path} is damaged: its checksum does not match its contents. {FIX}")
    return found


def _named(path: Path) -> str:
    """The path for a message, which may be one that no file can have."""
    text = str(path)
    return text if text.isprintable() and len(text) <= 300 else short(text, 300)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _write(file: BinaryIO, arrays: Arrays) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in [*((name, arrays[name]) for name in sorted(arrays)), (_DIGEST, _digest(arrays))]:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), (1, 0), allow_pickle=False)


def _read(file: BinaryIO, path: Path, name: str, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    header = _header(like)
    signature, flags, method, name_length, more = _MEMBER.unpack(_take(file, path, _MEMBER.size))
    if signature != b"PK\3\4":
        raise CheckpointError(f"{path} is not a checkpoint, or is damaged before {name}. {FIX}")
    called = _take(file, path, name_length)
    if called != f"{name}.npy".encode() or flags or method:
        raise CheckpointError(f"{path} has {called[:40]!r} where {name} is expected. {FIX}")
    _take(file, path, more)
    if _take(file, path, len(header)) != header:
        raise CheckpointError(
            f"{path} contains {name} with another shape or type than {like.shape} and {like.dtype}. "
            f"It belongs to another model or other settings, or is damaged. {FIX}"
        )
    if os.fstat(file.fileno()).st_size - file.tell() < like.nbytes:  # before anything is allocated
        raise CheckpointError(f"{path} is truncated: it ends inside {name}. {FIX}")
    array: npt.NDArray[Any] = np.empty(like.shape, like.dtype)
    if file.readinto(_bytes(array)) != array.nbytes:  # type: ignore[attr-defined]  # a buffered file has it
        raise CheckpointError(f"{path} is truncated: it ends inside {name}. {FIX}")
    return array


def _take(file: BinaryIO, path: Path, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise CheckpointError(f"{path} is truncated: it ends after {file.tell()} bytes. {FIX}")
    return data


def _header(array: npt.NDArray[Any]) -> bytes:
    """Return the header that NumPy writes before the data."""
    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(array.dtype)
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": array.shape})
    return header.getvalue()


def _bytes(array: npt.NDArray[Any]) -> memoryview | bytearray:
    return array.data.cast("B") if array.size else bytearray()


def _digest(arrays: Arrays) -> npt.NDArray[np.uint8]:
    """SHA-256 of names, types, shapes and contents."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(_bytes(array))
    return np.frombuffer(total.digest(), np.uint8)
