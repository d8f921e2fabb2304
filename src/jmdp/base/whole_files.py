"""Atomic writing of files: complete or absent, also after a crash or with two processes that write the same file.

A temporary file in the same directory, ``.NAME.part``, is written, flushed to disk and renamed. While a process has
reserved the file, it holds the operating system's lock on ``.NAME.lock``, which also states the process. The system
releases the lock of a process that was killed; its two files are then replaced by the next process.

Checkpoints: arrays saved atomically, with a checksum that detects damage.

A checkpoint is an uncompressed NumPy archive (.npz), written by `whole_files`: at every moment the file is either the
complete old checkpoint or the complete new one.

The caller of `load` gives the expected names, types and shapes, hence every header. `load` compares the headers and
reads exactly the expected number of bytes; nothing in the file is decompressed, evaluated or unpickled. A checksum must
agree.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import platform
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base.settings import short
from jmdp.errors import CheckpointError

# Flags that some platforms lack. A link is not followed, and a pipe does not block.
_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Reservation(NamedTuple):
    """A file that this process has reserved."""

    exists: bool  # when it was reserved
    is_held: Callable[[], bool]  # False if the lock file was removed, so that another process may have reserved it


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces `path` at the end; on an error the previous file stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with reserved(path), replacement(path) as file:
            yield file
    except OSError as error:
        error.filename = error.filename or os.fspath(path)  # errors of a write do not name the file
        raise


@contextmanager
def reserved(path: Path) -> Iterator[Reservation]:
    """Reserve a file, which need not exist.

    Raises `BlockingIOError` at once if the file is reserved already, by another process or by this one.
    """
    place = resolved(path)
    lock = place.with_name(f".{place.name}.lock")
    descriptor = _locked(lock)
    try:
        yield Reservation(os.path.exists(place), lambda: _is_called(descriptor, lock))
    finally:
        try:
            if _is_called(descriptor, lock):
                os.unlink(lock)  # while it is locked, so that no other process can have locked it
        except OSError:  # Windows deletes no open file
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(lock)
        else:
            os.close(descriptor)


@contextmanager
def replacement(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces a file reserved by the caller; it takes over the permissions."""
    place = resolved(path)
    mode = _mode(place)
    part = place.with_name(f".{place.name}.part")
    with _naming(part):
        with suppress(FileNotFoundError):
            part.unlink()  # only the name: whatever it links to stays
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
        descriptor = os.open(part, flags, 0o666 if mode is None else mode)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.chmod(part, mode)  # the umask may have removed some
            yield file
            file.flush()
            os.fsync(file.fileno())
            ours = _is_called(file.fileno(), part)
        if not ours:
            raise OSError(errno.EBUSY, "another process replaced the temporary file")
        os.replace(part, place)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _flush_directory(place.parent)


def opened(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file: its descriptor. Raise `OSError` at once for a link, a pipe, a device or a directory."""
    try:
        _mode(path)
        descriptor = os.open(path, flags | _SAFELY)
    except ValueError as error:  # a null character, or one that the file system cannot encode
        raise OSError(errno.EINVAL, f"not a file name ({error})") from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)  # it has just been replaced
    raise OSError(errno.EINVAL, "not a regular file")


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Open a file for reading and writing, under the system's lock, which readers do not need.

    Raises `OSError` if another process has locked or replaced it. On Windows, where readers would need it, without the
    lock.
    """
    descriptor = opened(path, os.O_RDWR)
    try:
        if os.name == "posix" and not _lock(descriptor):
            raise BlockingIOError(errno.EAGAIN, "in use by another process")
        if not _is_called(descriptor, path):
            raise OSError(errno.EBUSY, "another process replaced it")
        yield descriptor
    finally:
        os.close(descriptor)


def resolved(path: Path) -> Path:
    """Path with links resolved; raise `OSError` unless a file is there or can be."""
    try:
        place = Path(os.path.realpath(path))
        _mode(place)
    except ValueError as error:  # a null character, or one that the file system cannot encode
        raise OSError(errno.EINVAL, f"not a file name ({error})") from None
    return place


def _mode(place: Path) -> int | None:
    """Permissions of a file; None if it does not exist. Raise `OSError` for anything but a file."""
    try:
        found = os.lstat(place).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(found):
        raise OSError(errno.ELOOP, "a symbolic link")
    if not stat.S_ISREG(found):  # a pipe or a device would be replaced by a file
        raise OSError(errno.EINVAL, "not a regular file")
    return stat.S_IMODE(found) & 0o777


def _locked(lock: Path) -> int:
    """Open and lock a lock file."""
    while True:
        with _naming(lock):
            if os.path.islink(lock):  # for platforms without O_NOFOLLOW
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | _SAFELY, 0o666)
        try:
            with _naming(lock):
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # writing would change another file
                    raise OSError(errno.EEXIST, "not a lock of jmdp")
            if not _lock(descriptor):
                raise BlockingIOError(errno.EAGAIN, f"in use by {_holder(descriptor)}")
            if _is_called(descriptor, lock):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f" process {os.getpid()} on {platform.node() or 'this machine'}".encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder has just removed it


def _lock(descriptor: int) -> bool:
    from filelock import lock_descriptor  # imported on use: it imports asyncio and sqlite3

    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError:  # the file system or the platform has no locks
        return True


def _holder(descriptor: int) -> str:
    """What the holder wrote. Windows does not let others read the locked byte, which is the first."""
    with suppress(OSError):
        os.lseek(descriptor, 1, os.SEEK_SET)
        said = os.read(descriptor, 200).decode(errors="replace")
        if said.startswith("process ") and said.isprintable():
            return said
    return "another process"


@contextmanager
def _naming(beside: Path) -> Iterator[None]:
    """State the file beside in an error, if there is one: the path that the user gave is not at fault."""
    try:
        yield
    except OSError as error:
        if not os.path.lexists(beside):
            raise
        reason = f"{beside} is in the way ({error.strerror}); delete it if you do not need it"
        raise OSError(error.errno, reason) from error


def _is_called(descriptor: int, name: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(name))
    except FileNotFoundError:
        return False


def _flush_directory(folder: Path) -> None:
    """Write the new name to disk, where directories can be opened: not on Windows."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # files may be made in it but not listed
        return
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


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
