"""Hostile Parquet files: footers and headers of pages with impossible values, bombs, wrong types."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import sample_files
import thrift_tree
from hostile_registry import MIB, added, hostile


@cache
def table(**options: Any) -> bytes:
    return sample_files.parquet(sample_files.records(sample_files.small_model()), **options)


def footer(change: Callable[[thrift_tree.Tree], None], **options: Any) -> bytes:
    """A Parquet file whose footer is changed."""
    data = table(**options)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    tree, _ = thrift_tree.parse(data, start)
    change(tree)
    text = thrift_tree.written(tree)
    return data[:start] + text + len(text).to_bytes(4, "little") + b"PAR1"


def columns(tree: thrift_tree.Tree) -> list[thrift_tree.Tree]:
    return [chunk for group in tree[4][1][1] for chunk in group[1][1][1]]


def every_column(number: int, value: int) -> Callable[[thrift_tree.Tree], None]:
    def change(tree: thrift_tree.Tree) -> None:
        for chunk in columns(tree):
            chunk[3][1].setdefault(number, [6, 0])[1] = value

    return change


def every_row(value: int) -> Callable[[thrift_tree.Tree], None]:
    """The footer says everywhere that there are so many rows."""

    def change(tree: thrift_tree.Tree) -> None:
        tree[3][1] = value
        for group in tree[4][1][1]:
            group[3][1] = value
        every_column(5, value)(tree)

    return change


added("footer of 4 GiB", "a length of the footer of 2³² − 1", lambda: table()[:-8] + b"\xff\xff\xff\xffPAR1")
added(
    "footer of 2 MiB",
    "a footer of zeros that is really there",
    lambda: b"PAR1" + bytes(2 * MIB) + struct.pack("<L", 2 * MIB) + b"PAR1",
)
added(
    "footer of structs", "a list of a million empty structs", lambda: foot(b"\x29\xfc" + varint(10**6) + bytes(10**6))
)
added("footer of a huge list", "a list that claims 2³¹ entries", lambda: foot(b"\x29\xfc" + varint(2**31) + bytes(100)))
added("footer of nested structs", "structs within structs, 100,000 deep", lambda: foot(b"\x1c" * 100_000))
added("footer of long text", "a text that claims 2³¹ characters", lambda: foot(b"\x68" + varint(2**31) + bytes(100)))
added("rows: 2⁶²", "the footer says 2⁶² rows everywhere", lambda: footer(every_row(2**62)))
added("rows: 10⁹", "the footer says 10⁹ rows everywhere", lambda: footer(every_row(10**9)))
added("rows: −1", "a negative number of rows", lambda: footer(every_row(-1)))
added("rows: one more", "a row more than there is", lambda: footer(every_row(19)))
for codec in (3, 8, 99, -1, 2**31 - 1):
    added(f"codec {codec}", "a codec that does not exist or is not read", lambda c=codec: footer(every_column(4, c)))
added("another codec", "pages of Zstandard called Snappy", lambda: footer(every_column(4, 1), compression="zstd"))
for number, what in {1: "type", 7: "compressed size", 9: "offset of data", 11: "offset of the dictionary"}.items():
    for value in (-1, 2**31 - 1, 2**62):
        added(
            f"{what}: {value}",
            f"the {what} of each column is {value}",
            lambda n=number, v=value: footer(every_column(n, v)),
        )


def pages(
    field: int, value: Any, inner: int | None = None, *, whole: bool = False, of: str = "", **options: Any
) -> bytes:
    """A Parquet file in which a field of the header of each first page is changed, in place; in one column if given."""
    data = table(**options)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    tree, _ = thrift_tree.parse(data, start)
    body, moved = b"", 0
    end = 0
    for chunk in columns(tree):
        about = chunk[3][1]
        for key in sorted((11, 9), key=lambda key: about[key][1] if key in about else 0):
            if key not in about:
                continue
            at = about[key][1]
            head, after = thrift_tree.parse(data, at)
            fields = head if inner is None else head[inner][1] if inner in head else {}
            if field in fields and (not of or about[3][1][1] == [of.encode()]):
                fields[field] = value if whole else [fields[field][0], value]
            text = thrift_tree.written(head)
            body += data[end:at] + text
            about[key][1] += moved
            about[7][1] += len(text) - (after - at)
            moved += len(text) - (after - at)
            end = after
    foot_text = thrift_tree.written(tree)
    return body + data[end:start] + foot_text + len(foot_text).to_bytes(4, "little") + b"PAR1"


for value in (2**31 - 1, -1, 2**33 + 5):
    added(
        f"page of {value}",
        f"pages that say they unpack to {value} bytes",
        lambda v=value: pages(2, v, compression="zstd"),
    )
    added(f"packed page of {value}", f"pages that say they have {value} bytes", lambda v=value: pages(3, v))
    added(f"values in a page: {value}", f"pages of {value} values", lambda v=value: pages(1, v, 5))
    added(f"dictionary of {value}", f"dictionaries of {value} names", lambda v=value: pages(1, v, 7))
    added(
        f"dictionary of {value} numbers", f"{value} entries in a few bytes", lambda v=value: pages(1, v, 7, of="reward")
    )
for value in (7, 6, 99, -1):
    added(
        f"encoding {value}", "an encoding in the page that the footer does not mention", lambda v=value: pages(2, v, 5)
    )
added("encoding that is a struct", "a field of another type than an integer", lambda: pages(2, [12, {}], 5, whole=True))
added("type of page 9", "pages of a type that does not exist", lambda: pages(1, 9))


def made(change: Callable[[Any], Any], **options: Any) -> bytes:
    """A Parquet file of a valid table that is changed by a function of its pyarrow table."""
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    rows = pyarrow.Table.from_pylist(sample_files.records(sample_files.small_model()))
    parquet.write_table(change(rows), out, **options)
    return out.getvalue()


def column_of(values: Any, name: str = "state") -> Callable[[Any], Any]:
    return lambda rows: rows.set_column(rows.column_names.index(name), name, [values])


@hostile("huge dictionary", "dictionaries of 200,000 names of 200 characters, packed to little")
def huge_dictionary() -> bytes:
    import pyarrow

    count = 200_000
    names = pyarrow.array([f"{i:0200d}" for i in range(count)])
    rows = {name: pyarrow.array(np.zeros(count)) for name in ("probability", "reward")}
    return written(
        {**dict.fromkeys(("state", "scenario", "action", "next"), names), **rows},
        compression="zstd",
        dictionary_pagesize_limit=1 << 30,
    )


@hostile("much text from few codes", "a name of 1 MB that a million rows repeat: 1 TB of text")
def repeated_text() -> bytes:
    import pyarrow

    count = 300_000
    name = pyarrow.DictionaryArray.from_arrays(np.zeros(count, np.int32), ["x" * MIB])
    rows = {name: pyarrow.array(np.zeros(count)) for name in ("probability", "reward")}
    return written({**dict.fromkeys(("state", "scenario", "action", "next"), name), **rows}, compression="zstd")


@hostile("two million equal rows", "two million rows in a few KB, by run lengths")
def equal_rows() -> bytes:
    import pyarrow

    zeros = pyarrow.array(np.zeros(2 * 10**6, np.int64))
    names = ("state", "scenario", "action", "next", "probability", "reward")
    return written(dict.fromkeys(names, zeros), compression="zstd", row_group_size=2 * 10**6)


@hostile("page bomb", "a page of 40 MB of zeros in a few KB")
def page_bomb() -> bytes:
    import pyarrow

    count = 5_000_000
    zeros = pyarrow.array(np.zeros(count, np.int64))
    small = dict.fromkeys(("scenario", "action", "next", "probability", "reward"), zeros)
    return written(
        {"state": zeros, **small}, compression="zstd", use_dictionary=False, data_page_size=2**29, row_group_size=count
    )


@hostile("many row groups", "a row group for each row: a footer of megabytes")
def many_groups() -> bytes:
    import pyarrow

    zeros = pyarrow.array(np.zeros(2500, np.int64))
    names = ("state", "scenario", "action", "next", "probability", "reward")
    return written(dict.fromkeys(names, zeros), row_group_size=1)


def written(data: dict[str, Any], **options: Any) -> bytes:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.table(data), out, **options)
    return out.getvalue()


added(
    "text by differences",
    "DELTA_BYTE_ARRAY, which repeats what came before without writing it",
    lambda: made(lambda rows: rows, use_dictionary=False, column_encoding={"state": "DELTA_BYTE_ARRAY"}),
)
added("lists", "a column of lists", lambda: made(column_of([[1, 2]] * 18)))
added("structs", "a column of structs", lambda: made(column_of([{"a": 1}] * 18)))
added("binary", "names that are bytes", lambda: made(column_of([b"\xff"] * 18)))
added(
    "no UTF-8 in names",
    "bytes that are called text",
    lambda: made(column_of(["QQQQ"] * 18), compression="none", write_statistics=False).replace(
        b"QQQQ", b"\xff\xfe\xc0\xaf"
    ),
)
added("booleans as names", "states that are True", lambda: made(column_of([True] * 18)))
added("10⁴ columns", "a table of ten thousand columns", lambda: written({f"c{i}": [1] for i in range(10**4)}))
added("encrypted Parquet", "the signature of an encrypted file", lambda: b"PARE" + table()[4:])
added("encrypted footer", "the signature of an encrypted footer", lambda: table()[:-4] + b"PARE")
added(
    "Parquet of noise",
    "signatures around noise",
    lambda: b"PAR1" + np.random.default_rng(0).bytes(5000) + struct.pack("<L", 4000) + b"PAR1",
)
added("only PAR1", "four bytes of a Parquet file", lambda: b"PAR1")
added("PAR1PAR1", "a Parquet file without a footer", lambda: b"PAR1PAR1")
added("Arrow schema of noise", "a stored Arrow schema that is noise", lambda: footer(noise_schema))


def noise_schema(tree: thrift_tree.Tree) -> None:
    for pair in tree[5][1][1]:
        pair[2][1] = np.random.default_rng(0).bytes(len(pair[2][1]))


def foot(fields: bytes) -> bytes:
    return b"PAR1" + fields + len(fields).to_bytes(4, "little") + b"PAR1"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


for fraction in range(1, 8):
    added(
        f"Parquet cut at {fraction}/8",
        "a Parquet file that ends too early",
        lambda f=fraction: table()[: len(table()) * f // 8],
    )
