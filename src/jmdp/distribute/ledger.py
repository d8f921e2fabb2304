"""Append-only file of JSON records with checksums: what a long computation has finished.

Each line is a checksum, a space and a JSON object. A checksum covers its line and, through the checksum of the line
before, all earlier lines, so that no line can be changed, moved or removed from the middle unnoticed. The first record,
the header, is written as a whole file. Later ones are appended and flushed to disk. The last line may be incomplete
after a crash or while another process appends; it is then ignored, and the next writer removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from jmdp.base.settings import short
from jmdp.base.whole_files import replacement
from jmdp.errors import StudyError

_DIGEST = 32
"""Hexadecimal digits of a checksum."""

_LONGEST_LINE = 1 << 24
"""Bytes. Longer lines are not those of a ledger."""


class Ledger:
    """The records of a file, and, for its only writer, the end at which the next one is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[dict[str, Any]] = []
        self._last = ""  # checksum of the last line
        self._end = 0  # bytes of complete lines

    @classmethod
    def create(cls, path: Path, header: dict[str, Any]) -> Ledger:
        """Write a new ledger with this first record."""
        ledger = cls(path)
        line = ledger._line(header)
        with replacement(path) as file:
            file.write(line)
        ledger._accept(header, line)
        return ledger

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Read a ledger; raise `StudyError` if it is damaged."""
        ledger = cls(path)
        try:
            with open(path, "rb") as file:
                ledger._read(file)
        except OSError as error:
            raise StudyError(f"{path} cannot be read: {error.strerror}. Give the folder of a study.") from error
        if not ledger.records:
            raise StudyError(f"{path} is damaged in its first line. {_FIX}")
        return ledger

    def append(self, record: dict[str, Any]) -> None:
        """Append a record and flush it to disk. An incomplete last line is removed first."""
        line = self._line(record)
        descriptor = os.open(self.path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
        try:
            if os.fstat(descriptor).st_size != self._end:
                os.ftruncate(descriptor, self._end)
            os.lseek(descriptor, self._end, os.SEEK_SET)
            left = memoryview(line)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._accept(record, line)

    def _read(self, file: Any) -> None:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            record = self._record(line)
            if record is not None:
                self._accept(record, line)
            elif file.readline(1):  # not the last line
                raise StudyError(f"{self.path} is damaged in line {number}. {_FIX}")

    def _record(self, line: bytes) -> dict[str, Any] | None:
        """The record of a line; None if the line is incomplete or damaged."""
        found, payload = line[:_DIGEST], line[_DIGEST + 1 : -1]
        if line[-1:] != b"\n" or line[_DIGEST : _DIGEST + 1] != b" " or found != self._checksum(payload).encode():
            return None
        try:
            record = json.loads(payload)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise StudyError(f"{self.path} has the line {short(payload)}, which is not a record. {_FIX}")
        return record

    def _line(self, record: dict[str, Any]) -> bytes:
        payload = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()
        return self._checksum(payload).encode() + b" " + payload + b"\n"

    def _checksum(self, payload: bytes) -> str:
        return hashlib.blake2b(self._last.encode() + payload, digest_size=_DIGEST // 2).hexdigest()

    def _accept(self, record: dict[str, Any], line: bytes) -> None:
        self.records.append(record)
        self._last = line[:_DIGEST].decode()
        self._end += len(line)


_FIX = "Restore the folder from a copy, or delete it to start again."
