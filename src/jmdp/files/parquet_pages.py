"""Pages of a Parquet file. Their headers state what will be allocated, and need not agree with the file's footer."""

from __future__ import annotations

from typing import NamedTuple

from jmdp.errors import FileError
from jmdp.files.damage import FIX
from jmdp.files.parquet_footer import Chunk
from jmdp.files.thrift import Reader, ThriftError

_ENCODINGS = frozenset({0, 2, 3, 4, 5, 8, 9})
"""Without those of text by differences (6, 7): a few bytes of 7 can stand for any amount of text."""
_CODES = frozenset({2, 8})
"""Encodings of indices into a dictionary."""
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_HEADERS = {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_V2: (8, 4)}
"""By type of page: the fields of its header, and of the encoding in it."""
_MOST_PAGES = 200_000


class Pages(NamedTuple):
    """What the pages of a chunk hold."""

    size: int  # bytes, unpacked
    names: int  # entries of dictionaries, and values that are in none


def unpacked_pages(content: bytes, chunk: Chunk) -> Pages:
    """Sizes of all pages of a chunk, from their headers; raise if they are no pages or do not have its rows."""
    reader = Reader(content, chunk.start, chunk.end)
    values = total = names = pages = 0
    while reader.at < chunk.end and values < chunk.rows:
        kind, encoding, rows, unpacked, packed = _page(reader, chunk)
        pages += 1
        total += unpacked
        values += rows if kind != _DICTIONARY else 0
        names += rows if kind == _DICTIONARY or encoding not in _CODES else 0
        if packed > chunk.end - reader.at or pages > _MOST_PAGES:
            raise FileError(f"{chunk.place} is damaged: page {pages} is not within it, or it has too many. {FIX}")
        if chunk.codec == 0 and packed != unpacked:
            raise FileError(f"{chunk.place} is damaged: page {pages} has two different sizes. {FIX}")
        if kind == _DICTIONARY and rows > unpacked:  # pyarrow allocates for the stated number
            raise FileError(f"{chunk.place} is damaged: page {pages} has {rows:,} entries in {unpacked:,} bytes. {FIX}")
        reader.at += packed
    if values != chunk.rows:
        raise FileError(f"{chunk.place} is damaged: its pages have {values:,} rows instead of {chunk.rows:,}. {FIX}")
    return Pages(total, names)


def _page(reader: Reader, chunk: Chunk) -> tuple[int, int, int, int, int]:
    """Type, encoding, number of values, size and compressed size of the page whose header is next."""
    at = reader.at
    try:
        head = reader.struct()
        kind, unpacked, packed = head[1], head[2], head[3]
        header, encoding = _HEADERS[kind]
        rows, code = head[header][1], head[header][encoding]
        if type(code) is not int or not all(0 <= number < 2**31 for number in (rows, unpacked, packed)):
            raise ThriftError("an impossible size or encoding")
    except (ThriftError, KeyError, TypeError) as error:
        raise FileError(f"{chunk.place} is damaged: there is no page at byte {at:,} ({error}). {FIX}") from None
    if code not in _ENCODINGS:
        raise FileError(f"{chunk.place} has encoding {code}, which is not read. Write it with pyarrow's defaults.")
    return kind, code, rows, unpacked, packed
