"""Opening files to read: regular files only, whose size is known.

Errors of other packages while they read a file, as errors of jmdp that name the file and the place in it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from jmdp.base.settings import error_text, short
from jmdp.errors import FileError, JMDPError, MemoryBudgetError, SettingsError

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
"""Opening a pipe does not wait for its writer."""


class Source(NamedTuple):
    """An open file."""

    file: BinaryIO
    name: str  # the path, for messages
    size: int  # bytes, when it was opened

    def start(self, count: int) -> bytes:
        """The first bytes; the next read begins at the start again."""
        self.file.seek(0)
        first = self.file.read(count)
        self.file.seek(0)
        return first


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open a regular file; raise `FileError` for anything else, and for errors of the system while it is read."""
    text = path_text(path)
    name = text if text.isprintable() and 0 < len(text) <= 300 else short(text, 300)
    try:
        with open(_descriptor(text), "rb") as file:
            yield Source(file, name, os.fstat(file.fileno()).st_size)
    except FileNotFoundError as error:
        raise FileError(f"There is no file {name}. Check the path; it is relative to {_folder()}.") from error
    except OSError as error:
        raise FileError(f"{name} cannot be read: {error.strerror or error}. Give another file.") from error


def path_text(path: object) -> str:
    """The path as text; raise `SettingsError` if it is no path."""
    try:
        text = os.fspath(path)  # type: ignore[call-overload]
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise SettingsError(f"path is {short(path)}. Give the path of a file as text or as a pathlib.Path.")
    return text


def _descriptor(text: str) -> int:
    """Open a file; a device or a pipe is not opened, or closed at once if it took the file's place."""
    try:
        _refuse_others(os.stat(text))
        descriptor = os.open(text, _FLAGS)
    except ValueError as error:  # a null character, or one that the file system cannot encode
        raise OSError(errno.EINVAL, f"not a file name ({error})") from None
    try:
        _refuse_others(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_others(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "the current directory, which was deleted"


FIX = "Save it again, or restore it from a copy."


@contextmanager
def damage(place: str, fix: str = FIX) -> Iterator[None]:
    """Raise `FileError` for any error that is not one of jmdp; `MemoryBudgetError` if there is too little memory."""
    try:
        with enough_memory(place):
            yield
    except JMDPError:
        raise
    except Exception as error:  # of any kind: zipfile, zlib, NumPy and pyarrow raise many
        raise FileError(f"{place} cannot be read ({error_text(error)}). {fix}") from error


@contextmanager
def enough_memory(place: str) -> Iterator[None]:
    """Raise `MemoryBudgetError` if memory that was planned is not there, e.g. because of a limit of the process."""
    try:
        yield
    except JMDPError:
        raise
    except MemoryError as error:
        raise MemoryBudgetError(f"{place} needs more memory than this process may use. Free some memory.") from error
