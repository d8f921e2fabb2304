"""Long tables in Parquet files, by pyarrow, after the sizes in the footer and in all pages have been checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.machine import in_words
from jmdp.errors import FileError, MissingExtraError, ModelError
from jmdp.files.columns import COLUMNS, NUMBERS, Coded, Rows, coded_integers
from jmdp.files.damage import FIX, damage
from jmdp.files.opening import Source
from jmdp.files.parquet_footer import LARGEST_FOOTER, Footer, read_footer
from jmdp.files.parquet_pages import unpacked_pages
from jmdp.files.row_rules import long_model
from jmdp.models.tabular import TabularJMDP

_EXPANSION = 100
"""Times that the pages may be larger in memory than in the file, beyond `_SPARE` bytes."""
_SPARE = 1 << 28
_ROW_BYTES = 250.0
"""Memory for each row: six columns, their codes, and arrays to sort rows."""
_NAME_BYTES = 250.0
"""Memory for each name, and its place in an index."""


def read(source: Source, discount: float | None) -> TabularJMDP:
    """Read a model from a Parquet file."""
    arrays.refuse_large(f"The table in {source.name}", source.size)
    content = source.file.read(source.size)
    footer = read_footer(source, content)
    _plan(source, content, footer)
    parquet = _parquet(source)
    with damage(source.name):
        file = _file(parquet, content)
        _check_types(source.name, file.schema_arrow)
        table = file.read(columns=list(COLUMNS), use_threads=False)
        table.validate(full=True)
        if table.num_rows != footer.rows:
            raise FileError(f"{source.name} is damaged: it has another number of rows than its footer says. {FIX}")
        del file, content
        cells = {name: _column(source.name, name, table.column(name)) for name in COLUMNS}
        del table
    return long_model(Rows(source.name, lambda i: f"row {i} (from 0)", **cells), discount)


def _parquet(source: Source) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError(f'Parquet files need pyarrow: pip install "jmdp[study]" ({source.name})') from None
    return parquet


def _file(parquet: Any, content: bytes) -> Any:
    """The file, of which only the footer is read. Text is read as codes: a few of them can stand for much text."""
    from pyarrow import BufferReader

    return parquet.ParquetFile(
        BufferReader(content),
        read_dictionary=[name for name in COLUMNS if name not in NUMBERS],
        thrift_string_size_limit=LARGEST_FOOTER,
        thrift_container_size_limit=LARGEST_FOOTER,
        pre_buffer=False,
        page_checksum_verification=True,
    )


def _check_types(name: str, schema: Any) -> None:
    """Raise unless names are text or integers, and the others are numbers."""
    from pyarrow import types

    for field in schema:
        kind = field.type
        if field.name in NUMBERS:
            good, wanted = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind), "numbers"
        else:
            value = kind.value_type if types.is_dictionary(kind) else None
            text = value is not None and (types.is_string(value) or types.is_large_string(value))
            good, wanted = types.is_integer(kind) or text, "text or integers"
        if not good:
            raise ModelError(f"{name}: column {field.name} has type {kind}. Give {wanted}.")


def _plan(source: Source, content: bytes, footer: Footer) -> None:
    """Raise if the table does not fit into memory, or is far larger than the file."""
    unpacked = names = 0
    for chunk in footer.chunks:
        pages = unpacked_pages(content, chunk)
        unpacked += pages.size
        names += pages.names if chunk.column not in NUMBERS else 0
    if unpacked > _SPARE + _EXPANSION * source.size:
        raise FileError(
            f"{source.name} has {in_words(source.size)} and would be unpacked to {in_words(unpacked)}. If that is "
            "right, write it with compression=None."
        )
    needed = _ROW_BYTES * footer.rows + _NAME_BYTES * names + 2 * unpacked
    arrays.refuse_large(f"The table of {footer.rows:,} rows in {source.name}", needed)


def _column(name: str, column: str, cells: Any) -> Any:
    if column in NUMBERS:
        numbers = cells.to_numpy()
        if numbers.dtype == object:
            raise ModelError(f"{name}: column {column} has type {cells.type} and empty cells. Give numbers.")
        return numbers.astype(np.float64)
    if not cells.null_count:
        labels = _labels(cells)
        if "" not in labels.names:
            return labels
        empty = labels.codes == labels.names.index("")
    else:
        empty = cells.is_null().to_numpy()
    raise ModelError(f"{name}, row {np.argmax(empty)} (from 0): {column} is empty. Give a name or an integer.")


def _labels(cells: Any) -> Coded:
    """Names of a column without empty cells, as codes. Text is stored as codes, with a list of names in each chunk."""
    from pyarrow import types

    if types.is_integer(cells.type):
        return coded_integers(cells.to_numpy())
    index: dict[str, int] = {}
    codes = [np.empty(0, np.int64)]
    for chunk in cells.chunks:
        texts = ((text or "").strip() for text in chunk.dictionary.to_pylist())
        here = np.array([index.setdefault(text, len(index)) for text in texts], np.int64)
        codes.append(here[chunk.indices.to_numpy()])
    names = list(index)
    return coded_integers(np.concatenate(codes), names.__getitem__)
