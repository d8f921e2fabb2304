"""Results of a study in Parquet files: their columns, and reading and writing them whole."""

from __future__ import annotations

import errno
import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays, optional
from jmdp.base.guard import Plain, guarded
from jmdp.base.settings import short
from jmdp.base.whole_files import opened, replacement
from jmdp.errors import MemoryBudgetError, StudyError

if TYPE_CHECKING:
    import pyarrow

_BEFORE = {"number": "int64", "state": "string"}
_AFTER = {
    "best": "bool",
    "leader": "bool",
    "mean": "double",
    "mean_low": "double",
    "mean_high": "double",
    "rival": "string",
    "gap": "double",
    "gap_low": "double",
    "gap_high": "double",
    "better": "double",
    "better_low": "double",
    "better_high": "double",
    "worse": "double",
    "worse_low": "double",
    "worse_high": "double",
    "n": "int64",
    "outcome": "string",
    "key": "int64",
    "error": "string",
}
RESERVED = frozenset({*_BEFORE, *_AFTER, "action", "policy", "decided", "runner_up"})
"""Names that coordinates cannot have."""

_FIX = "The same call of study simulates its states again."


class Columns(NamedTuple):
    """Columns of a study: a row for each state and alternative."""

    alternative: str  # "action" or "policy"
    coordinates: Mapping[str, str]  # name: "int" or "float"

    @property
    def kinds(self) -> dict[str, str]:
        """Name and Arrow type of each column."""
        places = {name: "int64" if kind == "int" else "double" for name, kind in self.coordinates.items()}
        return {**_BEFORE, **places, self.alternative: "string", **_AFTER}

    def schema(self) -> pyarrow.Schema:
        """Arrow schema."""
        pa = arrow()
        return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in self.kinds.items()])

    def batch(self, rows: Sequence[Mapping[str, Any]]) -> pyarrow.RecordBatch:
        """Rows as an Arrow batch."""
        return arrow().RecordBatch.from_pylist(list(rows), schema=self.schema())


class Part(NamedTuple):
    """A finished part, as the ledger describes it."""

    rows: int
    bytes: int
    sha256: str


class Finished(NamedTuple):
    """Results of a block."""

    batches: list[pyarrow.RecordBatch]  # rows of the states that are finished
    waiting: list[bool]  # [states], True for those that are not decided yet
    outcomes: Counter[str]  # number of finished states by outcome

    @classmethod
    def joined(cls, parts: Sequence[Finished]) -> Finished:
        """Results of several blocks."""
        batches = [batch for part in parts for batch in part.batches]
        waiting = [flag for part in parts for flag in part.waiting]
        return cls(batches, waiting, sum((part.outcomes for part in parts), Counter()))


def packed(batches: Sequence[pyarrow.RecordBatch], columns: Columns) -> tuple[pyarrow.Buffer, Part]:
    """Contents of a part. They depend on the rows only, not on how they are divided into batches."""
    pa = arrow()
    from pyarrow import parquet

    table = pa.Table.from_batches(batches, schema=columns.schema()).combine_chunks()
    content = pa.BufferOutputStream()
    parquet.write_table(table, content, compression="zstd", row_group_size=max(1, table.num_rows))
    whole = content.getvalue()
    return whole, Part(table.num_rows, whole.size, hashlib.sha256(whole).hexdigest())


def write_whole(path: Path, content: pyarrow.Buffer) -> None:
    """Write a part. A link in its place, which could lead anywhere, is not followed."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, f"{path} is a symbolic link")
    with replacement(path) as file:
        file.write(content)


def fault(path: Path, part: Part, checksum: bool) -> str:
    """What is wrong with the file of a part, "" if nothing is. Its contents are read for the checksum only."""
    try:
        with open(opened(path), "rb") as file:
            if os.fstat(file.fileno()).st_size != part.bytes:
                return "another size"
            if checksum and hashlib.file_digest(file, "sha256").hexdigest() != part.sha256:
                return "another checksum"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def read_part(path: Path, part: Part, columns: Columns) -> pyarrow.Table:
    """Read a part; raise `StudyError` unless it is the one that was written."""
    pa = arrow()
    from pyarrow import parquet

    try:
        with open(opened(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(part.bytes) if size == part.bytes else b""
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror}. {_FIX}") from error
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise StudyError(f"{path} is not the file that the study wrote. {_FIX}")
    try:
        found = parquet.ParquetFile(pa.BufferReader(content))
        about = found.metadata
        needed = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        arrays.refuse_large(f"The table in {path}", max(0, needed))
        same = about.num_rows == part.rows and found.schema_arrow.equals(columns.schema())
        # A thread of pyarrow that releases `content` while Python ends would end the process by SIGABRT.
        table = found.read(use_threads=False) if same else None
    except MemoryBudgetError:
        raise
    except MemoryError as error:
        raise MemoryBudgetError(f"{path} needs more memory than this process may use. Free some memory.") from error
    except Exception as error:  # pyarrow raises several kinds, also OSError
        raise StudyError(f"{path} is not a Parquet file that can be read ({short(str(error))}). {_FIX}") from error
    if table is None or table.num_rows != part.rows:
        raise StudyError(f"{path} has other columns or rows than the ledger states. {_FIX}")
    return table


def read_parts(asked: Sequence[tuple[Path, Part]], columns: Columns, trusted: bool) -> list[pyarrow.Table]:
    """Read parts; those that are not trusted are read by one child process."""
    if trusted:
        return [read_part(path, part, columns) for path, part in asked]
    arrow()
    found = guarded(buffers, [[str(path), part, columns] for path, part in asked], ["pyarrow.parquet"], StudyError)
    return [_table(path, part, columns, arrays) for (path, part), (_, arrays) in zip(asked, found, strict=True)]


def buffers(path: str, part: Sequence[Any], columns: Sequence[Any]) -> Plain:
    """Arrow's buffers of the columns of a part, by the name of the column and the number of the buffer."""
    table = read_part(Path(path), Part(*part), Columns(*columns))
    found: dict[str, npt.NDArray[Any]] = {}
    for name in table.column_names:
        array = table[name].combine_chunks()
        if array.offset:
            raise StudyError(f"{path} has a column {short(name)} that does not begin at its first row. {_FIX}")
        found |= {
            f"{name} {i}": np.frombuffer(buffer, np.uint8)
            for i, buffer in enumerate(array.buffers())
            if buffer is not None
        }
    return None, found


def _table(path: Path, part: Part, columns: Columns, found: Mapping[str, npt.NDArray[Any]]) -> pyarrow.Table:
    """Table of these buffers; raise `StudyError` unless they are valid, because the file may have made them."""
    pa = arrow()
    try:
        made = []
        for field in columns.schema():
            names = [f"{field.name} {i}" for i in range(3 if field.type == pa.string() else 2)]
            own = [pa.py_buffer(found[name]) if name in found else None for name in names]
            made.append(pa.Array.from_buffers(field.type, part.rows, own))
            made[-1].validate(full=True)
    except pa.ArrowException as error:
        raise StudyError(f"{path} is not a part of a study ({short(str(error))}). {_FIX}") from error
    return pa.Table.from_arrays(made, schema=columns.schema())


def arrow() -> Any:
    """The module pyarrow."""
    return optional("pyarrow", 'Studies need pyarrow: pip install "jmdp[study]"')
