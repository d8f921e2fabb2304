"""Members of a zip file, whose directory is checked before `zipfile` reads it, and which are read with a limit."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from jmdp.errors import FileError
from jmdp.files.damage import FIX, damage
from jmdp.files.opening import Source

MOST_MEMBERS = 64
_LARGEST_DIRECTORY = 1 << 16
"""Bytes of the directory, of which `zipfile` makes an object for each member, however many there are."""

_END = struct.Struct("<4s4H2LH")  # signature, disks and counts (4), size and offset of the directory, comment
_LOCATOR = struct.Struct("<4sLQL")  # signature, disk, offset of the 64-bit end, disks
_END_64 = struct.Struct("<4sQ2H2L4Q")  # signature, size, versions, disks (2), counts (2), size and offset
_ENCRYPTED = 0x2041
"""Flags of a member: encrypted, strongly encrypted, directory encrypted."""
_PATCH = 0x20


@contextmanager
def archive_of(source: Source) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """Open a zip file; yield it and its members by name."""
    _check_directory(source)
    with damage(f"The zip directory of {source.name}"):
        archive = zipfile.ZipFile(source.file)
    with archive:
        yield archive, _checked(source, archive.infolist())


@contextmanager
def opened_member(source: Source, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[Member]:
    """Open a member to read."""
    place = f"{info.filename!r} in {source.name}"
    with damage(place), archive.open(info) as stream:
        yield Member(stream, place)


class Member:
    """A member that is read piece by piece; it never gives more bytes than asked for."""

    _PIECE = 1 << 20

    def __init__(self, stream: IO[bytes], place: str) -> None:
        self._stream, self.place = stream, place

    def read_into(self, target: memoryview) -> None:
        """Fill the target; raise `FileError` if the member ends before."""
        done = 0
        while done < len(target):
            piece = self._stream.read(min(self._PIECE, len(target) - done))
            if not piece:
                raise FileError(f"{self.place} is truncated: it ends after {done:,} of {len(target):,} bytes. {FIX}")
            target[done : done + len(piece)] = piece
            done += len(piece)

    def read(self, count: int) -> bytes:
        """Read exactly so many bytes."""
        data = bytearray(count)
        self.read_into(memoryview(data))
        return bytes(data)


def _check_directory(source: Source) -> None:
    """Raise unless the end of the file describes one small directory just before it, in a way that has one reading."""
    end = _unpacked(_END, source, source.size - _END.size, b"PK\5\6")
    size, offset, comment = end[5:8]
    begin_of_end = source.size - _END.size
    locator = begin_of_end - _LOCATOR.size
    if locator >= 0 and _bytes_at(source, locator, 4) == b"PK\6\7":
        begin_of_end = locator - _END_64.size
        place = _unpacked(_LOCATOR, source, locator, b"PK\6\7")[2]
        end_64 = _unpacked(_END_64, source, begin_of_end, b"PK\6\6")
        size, offset = end_64[8:10]
        if place != begin_of_end or end_64[1] != _END_64.size - 12:
            raise FileError(f"The zip directory of {source.name} is damaged: its 64-bit end is not in place. {FIX}")
    if comment or offset + size != begin_of_end:
        raise FileError(f"The zip directory of {source.name} is damaged: it is not at the end of the file. {FIX}")
    if size > _LARGEST_DIRECTORY:
        raise FileError(
            f"The zip directory of {source.name} has {size:,} bytes, more than {_LARGEST_DIRECTORY:,}. A model has a "
            "few arrays: remove the other members."
        )


def _unpacked(layout: struct.Struct, source: Source, at: int, signature: bytes) -> tuple[int, ...]:
    data = _bytes_at(source, at, layout.size) if at >= 0 else b""
    if len(data) != layout.size or data[:4] != signature:
        raise FileError(f"{source.name} is a zip file that is truncated or has bytes after its end. {FIX}")
    return layout.unpack(data)


def _bytes_at(source: Source, at: int, count: int) -> bytes:
    source.file.seek(at)
    return source.file.read(count)


def _checked(source: Source, infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Members by name; raise for those that cannot be read, or that other programs would read differently."""
    if len(infos) > MOST_MEMBERS:
        raise FileError(f"{source.name} has {len(infos)} members. A model has a few arrays: remove the others.")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        place = f"{info.filename!r} in {source.name}"
        if info.filename in members:
            raise FileError(f"{place} is there twice. Save the arrays again, each once.")
        if info.flag_bits & _ENCRYPTED:
            raise FileError(f"{place} is encrypted. Save the arrays without a password.")
        if info.flag_bits & _PATCH:
            raise FileError(f"{place} is a patch of another file. Save the arrays themselves.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileError(
                f"{place} is compressed by method {info.compress_type}. Use np.savez or np.savez_compressed."
            )
        stored = info.compress_type == zipfile.ZIP_STORED
        if info.compress_size > source.size or (stored and info.compress_size != info.file_size):
            raise FileError(f"{place} is damaged: its sizes in the zip directory are impossible. {FIX}")
        members[info.filename] = info
    return members
