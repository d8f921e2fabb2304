"""The folder of a study: a ledger of finished chunks of states, and their parts.

Chunks may be finished in any order. When all are, the ledger is put into the order of rungs and states, so that the
files do not depend on interruptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
from jmdp.results.certificate import Outcome
from jmdp.studies.parts import RESERVED, Columns, Finished, Part, fault, packed, write_whole

_FORMAT = "jmdp study 1"
_DESCRIBES = ("simulator", "policy")
"""Entries of the header that do not determine the results: texts for readers."""
_MOST = 2**53
_PART = re.compile(r"\.?states-\d{9,}-\d{9,}-rung-\d+\.parquet(\.part)?")
"""Names of parts, and of those that were being written."""

Key = tuple[int, int, int]
"""Rung, first and last state of a chunk."""


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
    def key(self) -> Key:
        """Rung, first and last state."""
        return self.rung, self.first, self.last

    @property
    def finished(self) -> int:
        """Number of finished states."""
        return sum(self.outcomes.values())

    @property
    def failed(self) -> bool:
        """Whether a state has failed."""
        return Outcome.FAILED.name in self.outcomes

    @property
    def part(self) -> Part:
        """The part with its rows."""
        return Part(self.rows, self.bytes, self.sha256)

    def waiting(self, size: int) -> Booleans:
        """[size], True for the states of the range that wait for the next rung."""
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(self.bits), np.uint8))
        if not size <= bits.size < size + 8 or bits[:size].sum() + self.finished != size:
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


class Damage(NamedTuple):
    """A part whose file is missing or not the one that the study wrote."""

    chunk: Chunk
    file: str
    reason: str

    def __str__(self) -> str:
        first, last = self.chunk.first, self.chunk.last
        which = f"state {first} is" if first == last else f"states {first} to {last} are"
        return f"{which} missing or changed: {self.file} ({self.reason})"


class Folder:
    """Folder of a study, as far as its ledger has been read. Parts not `trusted` are read by a child process."""

    def __init__(self, path: Path, ledger: Ledger, checksums: bool = False, trusted: bool = True) -> None:
        self.path, self._ledger, self.trusted = path, ledger, trusted
        _check_header(path, self.header)
        self.chunks: dict[Key, Chunk] = {}  # in the order of the ledger
        for record in ledger.records[1:]:
            chunk = Chunk.of(record)
            if self.chunks.setdefault(chunk.key, chunk) is not chunk:
                raise StudyError(f"The ledger has the states {chunk.first} to {chunk.last} twice.")
        self.damaged = {damage.chunk.key: damage for damage in self.damages(checksums)}

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
        return cls(path, ledger, trusted=False)

    @classmethod
    @contextmanager
    def writer(cls, path: Path, header: dict[str, Any], resume: bool = True, trusted: bool = True) -> Iterator[Folder]:
        """Create a study, or continue the one that is there. Only one process at a time can do so."""
        header, file = {"format": _FORMAT, **header}, path / "ledger.jsonl"
        with ExitStack() as stack:
            with _writing(path):
                (path / "parts").mkdir(parents=True, exist_ok=True)
                exists, is_held = stack.enter_context(reserved(file))
                if exists and not resume:
                    raise StudyError(f"{path} has a study already. Give another path, or resume=True to continue it.")
                if exists and not trusted:
                    cls.read(path, trusted)  # a ledger that a child can read within its limits, this process can
                ledger = Ledger.read(file, is_held) if exists else Ledger.create(file, header, is_held)
                folder = cls(path, ledger, checksums=True, trusted=trusted or not exists)
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

    def damages(self, checksums: bool) -> list[Damage]:
        """Parts whose files are missing or have another size; or, if these are to be computed, another checksum."""
        found = []
        for chunk in self.chunks.values():
            file = self.part_path(*chunk.key)
            if chunk.rows and (reason := fault(file, chunk.part, checksums)):
                found.append(Damage(chunk, str(file.relative_to(self.path)), reason))
        return found

    def write(self, rung: int, numbers: Integers, labels: str, finished: Finished) -> Chunk:
        """Write a part with these results, then its record; or in place of one that failed or was damaged."""
        first, last = int(numbers[0]), int(numbers[-1])
        content, part = packed(finished.batches, self.columns) if finished.outcomes else (b"", Part(0, 0, ""))
        bits = np.packbits(np.array(finished.waiting)).tobytes().hex()
        chunk = Chunk(rung, first, last, *part, labels, dict(sorted(finished.outcomes.items())), bits)
        old = self.chunks.get(chunk.key)
        replaced = old is not None and old != chunk
        if old is not None and replaced and not old.failed:
            raise StudyError(
                f"States {first} to {last} have other results than in the ledger of {self.path}: the simulator, the "
                "policy or the states are not those of the study in this folder. Give the same ones, or another path."
            )
        with _writing(self.path), self._ledger.exclusive():
            if part.rows:
                write_whole(self.part_path(*chunk.key), content)
            if old is None:
                self._ledger.append(chunk._asdict())
        self.chunks[chunk.key] = chunk
        self.damaged.pop(chunk.key, None)
        if old is not None and replaced:
            # Ranges of later rungs consist of the states that wait: if others do, they are simulated again.
            same = chunk.bits == old.bits
            self._rewrite([key for key in self.chunks if same or key[0] <= rung])
        return chunk

    def settle(self, order: Sequence[Key]) -> None:
        """Put the ledger of a complete study into order, and delete parts that a call which was killed has left."""
        if list(self.chunks) != list(order):
            self._rewrite(order)
        else:
            self._delete_others()

    def _rewrite(self, keys: Sequence[Key]) -> None:
        """Keep these chunks, in this order."""
        self.chunks = {key: self.chunks[key] for key in keys}
        self.damaged = {key: damage for key, damage in self.damaged.items() if key in self.chunks}
        with _writing(self.path):
            self._ledger.rewrite(chunk._asdict() for chunk in self.chunks.values())
        self._delete_others()

    def _delete_others(self) -> None:
        """Delete parts without a record, which other readers of the folder would take for results."""
        known = {self.part_path(*key).name for key, chunk in self.chunks.items() if chunk.rows}
        with _writing(self.path), self._ledger.exclusive():
            for file in list((self.path / "parts").iterdir()):
                if _PART.fullmatch(file.name) and file.name not in known:
                    file.unlink()

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
