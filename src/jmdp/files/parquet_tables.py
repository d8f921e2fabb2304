"""Long tables in Parquet files, by pyarrow."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.guard import Plain
from jmdp.errors import FileError, MissingExtraError, ModelError
from jmdp.files.long_tables import COLUMNS, NUMBERS, Coded, Rows, check_columns, coded_integers, long_model
from jmdp.files.opening import FIX, damage, opened

_ROW_BYTES = 250.0
"""Memory for each row: six columns, their codes, and arrays to sort rows."""


def read(path: str) -> Plain:
    """The names of a model in a Parquet file, and its arrays."""
    with opened(path) as source, damage(source.name):
        name, parquet = source.name, _parquet(source.name)
        schema = parquet.read_schema(source.file)
        check_columns(name, schema.names)
        # Text is read as codes: a few of them can stand for much text.
        file = parquet.ParquetFile(source.file, read_dictionary=_texts(name, schema), page_checksum_verification=True)
        rows = file.metadata.num_rows
        arrays.refuse_large(f"The table of {rows:,} rows in {name}", _ROW_BYTES * rows)
        table = file.read(columns=list(COLUMNS), use_threads=False)
        table.validate(full=True)
        if table.num_rows != rows:
            raise FileError(f"{name} is damaged: it has another number of rows than its footer says. {FIX}")
        cells = {column: _column(name, column, table.column(column)) for column in COLUMNS}
        del file, table
    return long_model(Rows(name, lambda i: f"row {i} (from 0)", **cells))


def _parquet(name: str) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError(f'Parquet files need pyarrow: pip install "jmdp[study]" ({name})') from None
    return parquet


def _texts(name: str, schema: Any) -> list[str]:
    """Columns of text; raise unless names are text or integers, and the others are numbers."""
    from pyarrow import types

    texts = []
    for field in schema:
        kind = field.type
        if field.name in NUMBERS:
            good, wanted = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind), "numbers"
        else:
            value = kind.value_type if types.is_dictionary(kind) else kind
            text = types.is_string(value) or types.is_large_string(value)
            texts += [field.name] * text
            good, wanted = types.is_integer(kind) or text, "text or integers"
        if not good:
            raise ModelError(f"{name}: column {field.name} has type {kind}. Give {wanted}.")
    return texts


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
