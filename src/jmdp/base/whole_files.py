"""Atomic writing of files: complete or absent, also after a crash or with two processes that write the same file.

A temporary file in the same directory is written, flushed to disk and renamed. It has a fixed name and is locked while
it is written, so one that a killed process left is overwritten by the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path, *, make_folder: bool = True) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces `path` at the end; on an error the previous file stays."""
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    with locked_part_file(path) as (file, part, place):
        yield file
        file.flush()
        os.fsync(file.fileno())
        os.replace(part, place)
    directory = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextmanager
def locked_part_file(path: Path) -> Iterator[tuple[BinaryIO, Path, Path]]:
    """Yield an empty file in the same directory, its name, and the target with links resolved.

    The file is removed unless it was renamed. A process that finds it locked waits; the file it waited for is then
    removed or renamed and must not be touched, so the process opens a new one.
    """
    import fcntl  # not available on Windows

    place = Path(os.path.realpath(path))
    part = place.with_name(f".{place.name}.part")
    while True:
        with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "wb") as file:
            with suppress(OSError):  # the file system may not support locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_called(file, part):
                continue
            try:
                file.truncate(0)
                yield file, part, place
            finally:
                if _is_called(file, part):
                    part.unlink()
            return


def _is_called(file: BinaryIO, name: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(name))
    except FileNotFoundError:
        return False
