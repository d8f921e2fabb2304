"""Footer of a Parquet file, checked before pyarrow reads it: pyarrow ends the process for some values in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jmdp.base.machine import in_words
from jmdp.errors import FileError, ModelError
from jmdp.files.columns import check_columns
from jmdp.files.damage import FIX
from jmdp.files.opening import Source
from jmdp.files.thrift import Reader, ThriftError

LARGEST_FOOTER = 1 << 20
_CODECS = frozenset({0, 1, 2, 4, 5, 6, 7})
"""None, Snappy, gzip, Brotli, LZ4 (two ways) and Zstandard."""
_TYPES = frozenset({0, 1, 2, 4, 5, 6, 7})
"""Physical types: all but INT96, which is for dates."""
_ENCODINGS = range(10)


class Chunk(NamedTuple):
    """A column of a row group."""

    place: str  # for messages
    column: str
    codec: int
    start: int  # of its first page
    end: int
    rows: int


class Footer(NamedTuple):
    """What the footer says."""

    rows: int
    columns: list[str]
    chunks: list[Chunk]


def read_footer(source: Source, content: bytes) -> Footer:
    """Parse and check the footer."""
    start = len(content) - 8 - _length(source.name, content)
    try:
        about = Reader(content, start, len(content) - 8).struct()
        columns, types = _schema(source.name, about[2])
        chunks = list(_chunks(source.name, about[4], columns, types, start))
        rows = sum(group[3] for group in about[4])
        if rows != about[3]:
            raise ThriftError(f"its row groups have {rows:,} rows, not {about[3]:,}")
    except (ThriftError, LookupError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise FileError(f"The footer of {source.name} is damaged ({error}). {FIX}") from None
    return Footer(rows, columns, chunks)


def _length(name: str, content: bytes) -> int:
    """Length of the footer, from the last 8 bytes."""
    end = content[-8:]
    length = int.from_bytes(end[:4], "little")
    if end[4:] == b"PARE":
        raise FileError(f"{name} has an encrypted footer. Write it without encryption.")
    if end[4:] != b"PAR1" or length > len(content) - 12:
        raise FileError(f"{name} is a Parquet file that is truncated or damaged at its end. {FIX}")
    if length > LARGEST_FOOTER:
        raise FileError(
            f"{name} has a footer of {in_words(length)}, more than {in_words(LARGEST_FOOTER)}. Write it with "
            "fewer row groups, and only the columns of a model."
        )
    return length


def _schema(name: str, elements: list[Any]) -> tuple[list[str], list[int]]:
    """Names and physical types of the columns, which must be flat and those of a model."""
    columns = [_text(element[4]) for element in elements[1:]]
    check_columns(name, columns)
    for element, column in zip(elements[1:], columns, strict=True):
        if element.get(5) or element.get(3, 0) not in (0, 1):
            raise ModelError(f"{name}: column {column} is nested. Give one value in each row.")
        if element[1] not in _TYPES or (element[1] == 7 and element.get(2) != 2):  # of fixed length is only float16
            raise ModelError(f"{name}: column {column} has neither numbers nor text. Give {_wanted(column)}.")
    if elements[0][5] != len(columns):
        raise ThriftError("the schema has another number of columns than it says")
    return columns, [element[1] for element in elements[1:]]


def _wanted(column: str) -> str:
    return "numbers" if column in ("probability", "reward") else "text or integers"


def _chunks(name: str, groups: list[Any], columns: list[str], types: list[int], end: int) -> Iterator[Chunk]:
    for g, group in enumerate(groups):
        if len(group[1]) != len(columns) or not 0 <= group[3] < 2**40:
            raise ThriftError(f"row group {g} has impossible numbers of columns or rows")
        for chunk, column, kind in zip(group[1], columns, types, strict=True):
            place = f"{name}, row group {g}, column {column}"
            if chunk.get(1):
                raise FileError(f"{place} is in another file. Write the table into one file.")
            if chunk.keys() & {8, 9}:
                raise FileError(f"{place} is encrypted. Write it without encryption.")
            yield _chunk(place, column, chunk[3], (kind, group[3], end))


def _chunk(place: str, column: str, about: dict[int, Any], wanted: tuple[int, int, int]) -> Chunk:
    kind, rows, end = wanted
    start = min(about[9], about.get(11) or about[9])  # 0 stands for no dictionary
    within = 4 <= start <= about[9] <= start + about[7] <= end
    if about[4] not in _CODECS:
        raise FileError(f"{place} is compressed by codec {about[4]}. Write it with compression='zstd'.")
    good = about[1] == kind and about[5] == rows and [_text(part) for part in about[3]] == [column]
    if not good or not within or any(code not in _ENCODINGS for code in about[2]):
        raise FileError(f"{place} is damaged: the footer has impossible values. {FIX}")
    return Chunk(place, column, about[4], start, start + about[7], rows)


def _text(value: bytes) -> str:
    return value.decode()
