"""The folder of a study: a ledger of finished chunks of states, and their parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jmdp.base.arrays import Booleans, Integers
from jmdp.base.guard import Plain, guarded
from jmdp.base.settings import short
from jmdp.base.whole_files import reserved
from jmdp.distribute.ledger import Ledger
from jmdp.errors import StudyError
from jmdp.results.outcome import Outcome
from jmdp.studies.parts import RESERVED, Columns, Finished, Part, write_part

_FORMAT = "jmdp study 1"
_DESCRIBES = ("simulator", "policy")
"""Entries of the header that do not determine the results: texts for readers."""
_MOST = 2**53


class Chunk(NamedTuple):
    """A range of states that a rung has finished."""

    rung: int
    first: int
    last: int
    rows: int
    bytes: int
    sha256: str
    labels: str  # checksum of the labels and coordinates of the states
    outcomes: dict[str, int]  # number of finished states by outcome
    bits: str  # hexadecimal, a bit for each state of the range: 1 if it waits for the next rung

    @property
    def part(self) -> Part:
        """The part with its rows."""
        return Part(self.rows, self.bytes, self.sha256)

    def waiting(self, size: int) -> Booleans:
        """[size], True for the states of the range that wait for the next rung."""
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(self.bits), np.uint8))
        if not size <= bits.size < size + 8 or bits[:size].sum() + sum(self.outcomes.values()) != size:
            raise StudyError(f"The ledger has a record of states {self.first} to {self.last} that is not valid.")
        return bits[:size].astype(bool)

    @classmethod
    def of(cls, record: dict[str, Any]) -> Chunk:
        """Chunk from a record of the ledger; raise `StudyError` unless it is one."""
        try:
            found = cls(**record)
        except TypeError:
            raise StudyError(f"The ledger has the record {short(record)}, which is not valid.") from None
        numbers = found.rung, found.first, found.last, found.rows, found.bytes
        valid = (
            all(type(n) is int and 0 <= n < _MOST for n in numbers)
            and isinstance(found.sha256, str)
            and isinstance(found.labels, str)
            and isinstance(found.bits, str)
            and re.fullmatch("([0-9a-f]{2})+", found.bits) is not None
            and isinstance(found.outcomes, dict)
            and set(found.outcomes) <= set(Outcome.__members__)
            and all(type(n) is int and 0 < n < _MOST for n in found.outcomes.values())
        )
        if not valid:
            raise StudyError(f"The ledger has the record {short(record)}, which is not valid.")
        return found


class Folder:
    """Folder of a study, as far as its ledger has been read."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self.path, self._ledger = path, ledger
        _check_header(path, self.header)
        self.chunks = [Chunk.of(record) for record in ledger.records[1:]]

    @classmethod
    def read(cls, path: Path, trusted: bool = True) -> Folder:
        """Read the ledger of a study; one that is not trusted is read by a child process."""
        file = path / "ledger.jsonl"
        if trusted:
            return cls(path, Ledger.read(file))
        ((records, _),) = guarded(ledger_records, [[str(file)]], [], StudyError)
        if not isinstance(records, list) or not records or not all(isinstance(record, dict) for record in records):
            raise StudyError(f"{file} has no valid records.")
        ledger = Ledger(file)
        ledger.records = records
        return cls(path, ledger)

    @classmethod
    @contextmanager
    def writer(cls, path: Path, header: dict[str, Any], resume: bool) -> Iterator[Folder]:
        """Create a study, or continue the one that is there. Only one process at a time can do so."""
        header, file = {"format": _FORMAT, **header}, path / "ledger.jsonl"
        with ExitStack() as stack:
            with _writing(path):
                (path / "parts").mkdir(parents=True, exist_ok=True)
                exists = stack.enter_context(reserved(file))
                if exists and not resume:
                    raise StudyError(f"{path} has a study already. Give another path, or resume=True to continue it.")
                folder = cls(path, Ledger.read(file) if exists else Ledger.create(file, header))
            folder._check_same(header)
            yield folder

    @property
    def header(self) -> dict[str, Any]:
        """Settings of the study and descriptions of what is compared."""
        return self._ledger.records[0]

    @cached_property
    def columns(self) -> Columns:
        """Columns of the parts."""
        return Columns(self.header["alternative"], self.header["coordinates"])

    def part_path(self, rung: int, first: int, last: int) -> Path:
        """File of a part, named by its range of states."""
        return self.path / "parts" / f"states-{first:09d}-{last:09d}-rung-{rung}.parquet"

    def write(self, rung: int, numbers: Integers, labels: str, finished: Finished) -> Chunk:
        """Write a part with these results, then its record."""
        first, last = int(numbers[0]), int(numbers[-1])
        with _writing(self.path):
            part = Part(0, 0, "")
            if finished.outcomes:
                part = write_part(self.part_path(rung, first, last), finished.batches, self.columns)
            bits = np.packbits(np.array(finished.waiting)).tobytes().hex()
            chunk = Chunk(rung, first, last, *part, labels, dict(sorted(finished.outcomes.items())), bits)
            self._ledger.append(chunk._asdict())
        self.chunks.append(chunk)
        return chunk

    def _check_same(self, header: dict[str, Any]) -> None:
        """Raise if the study in the folder has other settings."""
        for name, value in header.items():
            mine = self.header.get(name)
            if name in _DESCRIBES or mine == value:
                continue
            if isinstance(value, dict) and isinstance(mine, dict):
                name, mine, value = next((key, mine.get(key), x) for key, x in value.items() if mine.get(key) != x)
            raise StudyError(
                f"{self.path} has a study with {name} {short(mine)}, but {short(value)} is given. Give the same, or "
                "another path."
            )


def ledger_records(path: str) -> Plain:
    """The records of a ledger."""
    return Ledger.read(Path(path)).records, {}


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Convert errors of the file system."""
    try:
        yield
    except BlockingIOError as error:
        raise StudyError(
            f"{path} is {error.strerror}. Wait until that study has ended, stop it, or give another path."
        ) from error
    except OSError as error:
        raise StudyError(
            f"The study cannot be written to {path}: {error.strerror or error}. States that were finished are safe. "
            "Remove the cause, then run the same study again."
        ) from error


def _check_header(path: Path, header: dict[str, Any]) -> None:
    """Raise unless this is the header of a study."""
    texts, coordinates = ("format", "alternative", *_DESCRIBES), header.get("coordinates")
    names = header.get("alternatives")
    valid = (
        header.get("format") == _FORMAT
        and all(isinstance(header.get(name), str) for name in texts)
        and header["alternative"] in ("action", "policy")
        and isinstance(names, list)
        and len(names) > 0
        and all(isinstance(name, str) for name in names)
        and isinstance(coordinates, dict)
        and not RESERVED & set(coordinates)
        and all(kind in ("int", "float") for kind in coordinates.values())
        and isinstance(header.get("settings"), dict)
        and type(header.get("states")) is int
        and 0 < header["states"] < _MOST
    )
    if not valid:
        raise StudyError(f"{path} is not the folder of a study that this version of jmdp can read.")
