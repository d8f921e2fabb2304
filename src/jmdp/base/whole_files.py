"""Files that are there whole or not at all, whatever happens while they are written, and if two processes write them.

A file is written beside its place, flushed to the disk and renamed. The file beside it has one name and is locked while
it is written, so what a killed process left there is overwritten by the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path, *, make_folder: bool = True) -> Iterator[BinaryIO]:
    """Write to a file beside it, which takes its name at the end; on an error what was there before stays."""
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
    """An empty file in the same directory, its name, and where links lead; removed unless it is renamed.

    Who finds it locked waits. What was waited for is then gone, or was renamed and must not be touched.
    """
    import fcntl  # there is none on Windows

    place = Path(os.path.realpath(path))
    part = place.with_name(f".{place.name}.part")
    while True:
        with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "wb") as file:
            with suppress(OSError):  # a file system without locks
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
