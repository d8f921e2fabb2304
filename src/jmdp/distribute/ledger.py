"""Append-only file of JSON records with checksums: what a long computation has finished.

Each line is a checksum, a space and a JSON object. A checksum covers its line and, through the checksum of the line
before, all earlier lines, so that no line can be changed, moved or removed from the middle unnoticed. The first record,
the header, is written as a whole file. Later ones are appended and flushed to disk. After a crash or while another
process appends, the last line may be the beginning of one; it is then ignored, and the next writer removes it. Any
other line that is not valid is damage.

There is one writer. Before it writes, it checks that the file is as it left it: two processes can become writers if the
lock file is deleted, or where the file system has no locks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from jmdp.base.settings import short
from jmdp.base.whole_files import locked, opened, replacement
from jmdp.errors import StudyError

_DIGEST = 32
"""Hexadecimal digits of a checksum."""

_LONGEST_LINE = 1 << 24
"""Bytes. Longer lines are not those of a ledger."""


class Ledger:
    """The records of a file, and, for its only writer, the end at which the next one is written.

    `is_held` returns whether this process still has the file reserved.
    """

    def __init__(self, path: Path, is_held: Callable[[], bool] = lambda: True) -> None:
        self.path, self._is_held = path, is_held
        self.records: list[dict[str, Any]] = []
        self._last = b""  # the last line
        self._end = 0  # bytes of complete lines
        self._size = 0  # bytes of the file, as it was read or left
        self._descriptor = -1

    @classmethod
    def create(cls, path: Path, header: dict[str, Any], is_held: Callable[[], bool] = lambda: True) -> Ledger:
        """Write a new ledger with this first record."""
        ledger = cls(path, is_held)
        ledger._replace([header])
        return ledger

    @classmethod
    def read(cls, path: Path, is_held: Callable[[], bool] = lambda: True) -> Ledger:
        """Read a ledger; raise `StudyError` if it is damaged."""
        ledger = cls(path, is_held)
        try:
            with open(opened(path), "rb") as file:
                ledger._read(file)
        except OSError as error:
            raise StudyError(f"{path} cannot be read: {error.strerror}. Give the folder of a study.") from error
        return ledger

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock of the file; raise `StudyError` if another process has written to it, or can."""
        with locked(self.path) as descriptor:
            os.lseek(descriptor, self._end - len(self._last), os.SEEK_SET)
            same = os.fstat(descriptor).st_size == self._size and os.read(descriptor, len(self._last)) == self._last
            if not same or not self._is_held():
                what = "its lock file was removed" if same else "another process has written to it"
                raise StudyError(
                    f"{self.path} is no longer this study's own: {what}. Stop one of the two; what is finished is "
                    "safe, and the same call of study continues."
                )
            self._descriptor = descriptor
            try:
                yield
            finally:
                self._descriptor = -1

    def append(self, record: dict[str, Any]) -> None:
        """Append a record and flush it to disk; within `exclusive`. An incomplete last line is removed first."""
        line = self._line(record)
        if self._size != self._end:
            os.ftruncate(self._descriptor, self._end)
        os.lseek(self._descriptor, self._end, os.SEEK_SET)
        left = memoryview(line)
        while left:
            left = left[os.write(self._descriptor, left) :]
        os.fsync(self._descriptor)
        self._accept(record, line)
        self._size = self._end

    def rewrite(self, records: Iterable[dict[str, Any]]) -> None:
        """Replace all records but the header, as a whole."""
        with ExitStack() as stack:
            stack.enter_context(self.exclusive())
            if os.name != "posix":
                stack.close()  # Windows replaces no open file; there the lock file cannot be removed
            self._replace([self.records[0], *records])

    def _replace(self, records: list[dict[str, Any]]) -> None:
        made = Ledger(self.path)
        with replacement(self.path) as file:
            for record in records:
                line = made._line(record)
                file.write(line)
                made._accept(record, line)
        self.records, self._last, self._end, self._size = made.records, made._last, made._end, made._end

    def _read(self, file: Any) -> None:
        while line := file.readline(_LONGEST_LINE):
            self._size += len(line)
            record = self._record(line)
            if record is not None:
                self._accept(record, line)
            elif not self.records or file.readline(1) or not _is_beginning(line):
                raise StudyError(f"{self.path} is damaged in line {len(self.records) + 1}. {_FIX}")
        if not self.records:
            raise StudyError(f"{self.path} is empty. {_FIX}")

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
        return hashlib.blake2b(self._last[:_DIGEST] + payload, digest_size=_DIGEST // 2).hexdigest()

    def _accept(self, record: dict[str, Any], line: bytes) -> None:
        self.records.append(record)
        self._last = line
        self._end += len(line)


def _is_beginning(line: bytes) -> bool:
    """Whether a last line can be the beginning of one that was not finished: nothing follows its JSON object."""
    if line.endswith(b"\n"):
        return False
    text = line[_DIGEST + 1 :].decode("latin-1")
    try:
        return json.JSONDecoder().raw_decode(text)[1] == len(text)
    except (ValueError, RecursionError):  # the object is not complete
        return True


_FIX = (
    "Restore the folder from a copy, or delete this line and those after it: the same call of study then simulates "
    "their states again."
)
