"""Long tables in CSV files, by the standard module `csv`, in pieces of some thousand lines.

Long tables in Parquet files, by pyarrow.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from jmdp.base import arrays, optional
from jmdp.base.arrays import Floats, Integers
from jmdp.base.guard import Plain
from jmdp.base.settings import short
from jmdp.errors import FileError, ModelError
from jmdp.files.long_tables import COLUMNS, NUMBERS, Coded, Coder, Rows, check_columns, coded_integers, long_model
from jmdp.files.opening import FIX, Source, damage, enough_memory, opened

_SEPARATORS = ",;\t"
_LONGEST_LINE = 1 << 16
_BLOCK = 1 << 20
_PIECE = 1 << 14
"""Lines that are converted at a time."""
_BYTES = 28.0
"""Memory for each byte of a file of short cells: names with their index, codes, and arrays to sort rows."""

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_IN_NUMBERS = re.compile(r"[^0-9+\-.eE]")
_UTF_8 = 'Save it as UTF-8 (in a spreadsheet program: "CSV UTF-8").'


def read_csv(path: str) -> Plain:
    """The names of a model in a CSV file, and its arrays."""
    with opened(path) as source, enough_memory(source.name):
        arrays.refuse_large(f"The table in {source.name}", _BYTES * source.size)
        return long_model(_CsvCells(source).rows())


class _CsvCells:
    """The cells of a CSV file, column by column."""

    def __init__(self, source: Source) -> None:
        self._name = source.name
        lines = _lines(source)
        self._header_line, header, separator = _header(source.name, lines)
        check_columns(source.name, header)
        self._width = len(header)
        self._place = {column: header.index(column) for column in COLUMNS}
        self._reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
        self._coders = {column: Coder() for column in COLUMNS if column not in NUMBERS}
        self._numbers: dict[str, list[Floats]] = {column: [] for column in NUMBERS}
        self._lines: list[Integers] = []

    def rows(self) -> Rows:
        """Read all rows."""
        while self._read_piece():
            pass
        lines = np.concatenate(self._lines or [np.empty(0, np.int64)])
        cells: dict[str, Any] = {column: coder.done() for column, coder in self._coders.items()}
        for column, found in self._numbers.items():
            cells[column] = np.concatenate(found or [np.empty(0)])
        return Rows(self._name, lambda row: f"line {lines[row]}", **cells)

    def _read_piece(self) -> bool:
        """Read and convert some lines; return False at the end."""
        before = self._reader.line_num
        first = self._header_line + before + 1
        records: list[list[str]] = []
        try:
            records.extend(islice(self._reader, _PIECE))
        except csv.Error as error:
            self._refuse_line_breaks(records, first)
            at = f"{self._name}, line {first + len(records)}"
            raise FileError(f"{at}: {error}. Check the quotation marks in this line.") from None
        if self._reader.line_num - before != len(records):
            self._refuse_line_breaks(records, first)
        lines = np.arange(first, first + len(records))
        if {*map(len, records)} != {self._width} or not all(record[0] for record in records):
            kept = [i for i, record in enumerate(records) if "".join(record).strip()]
            records, lines = [self._row(records[i], first + i) for i in kept], lines[kept]
        if records:
            self._convert(list(zip(*records, strict=True)), lines)
        return before != self._reader.line_num

    def _row(self, record: list[str], line: int) -> list[str]:
        """Cells of a line without empty ones at its end; raise if there are too few or too many."""
        if len(record) < self._width or "".join(record[self._width :]).strip():
            raise FileError(
                f"{self._name}, line {line} has {len(record)} cells, but the header has {self._width}. Add or remove "
                "cells; a name with a separator in it needs quotation marks."
            )
        return record[: self._width]

    def _refuse_line_breaks(self, records: Sequence[Sequence[str]], first: int) -> None:
        for i, record in enumerate(records):
            if "\n" in "".join(record):
                raise FileError(
                    f"{self._name}, line {first + i}: a cell goes on in the next line. Close its quotation mark, or "
                    "remove the line break."
                )

    def _convert(self, columns: Sequence[Sequence[str]], lines: Integers) -> None:
        self._lines.append(lines)
        for column, at in self._place.items():
            cells = list(map(str.strip, columns[at]))
            if column in NUMBERS:
                self._numbers[column].append(self._converted(column, cells, lines))
            else:
                self._coders[column].add(cells)

    def _converted(self, column: str, cells: list[str], lines: Integers) -> Floats:
        """Numbers; nan for empty cells. `float` alone would also accept 1_000, nan and digits of other scripts."""
        try:
            if not _NOT_IN_NUMBERS.search("".join(cells)):
                return np.array([float(cell) if cell else math.nan for cell in cells] if "" in cells else cells, float)
        except ValueError:
            pass
        at = next(i for i, cell in enumerate(cells) if cell and not _NUMBER.fullmatch(cell))
        fix = "Give a number, e.g. 0.25."
        if "," in cells[at]:
            fix = "Use a decimal point and no separators of thousands, e.g. 1234.5."
        raise ModelError(f"{self._name}, line {lines[at]}: {column} is {short(cells[at])}. {fix}")


def _lines(source: Source) -> Iterator[str]:
    """Lines of text, each of limited length."""
    before = 0
    while block := source.file.read(_BLOCK):
        if not block.endswith(b"\n"):
            block += source.file.readline(_LONGEST_LINE + 1)
        if not before:
            if block.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise FileError(f"{source.name} is UTF-16 or UTF-32 text. {_UTF_8}")
            block = block.removeprefix(b"\xef\xbb\xbf")
        lines = block.split(b"\n")  # the last one is empty, or the last of the file
        if b"\0" in block or block.count(b"\r") != block.count(b"\r\n") or max(map(len, lines)) > _LONGEST_LINE:
            _refuse_line(source.name, before, lines)
        yield from _decoded(source.name, before, lines)
        before += len(lines) - 1


def _refuse_line(name: str, before: int, lines: list[bytes]) -> None:
    """Raise for the first line that is too long or has characters that no table has."""
    for number, line in enumerate(lines, before + 1):
        if b"\0" in line:
            raise FileError(f"{name}, line {number} has a null byte: it is no npz, Parquet or text file. {_UTF_8}")
        if b"\r" in line.removesuffix(b"\r"):
            raise FileError(
                f"{name}, line {number} has a carriage return inside. Save it with line ends of Unix or Windows."
            )
        if len(line) > _LONGEST_LINE:
            raise FileError(
                f"{name}, line {number} has more than {_LONGEST_LINE:,} bytes. If it is a table, save it as CSV with a "
                "line for each row."
            )


def _decoded(name: str, before: int, lines: list[bytes]) -> list[str]:
    found: list[str] = []
    try:
        found.extend(line.decode() + "\n" for line in lines)
    except UnicodeDecodeError as error:
        number = before + len(found) + 1
        raise FileError(f"{name}, line {number} is not UTF-8 text ({error.reason}). {_UTF_8}") from None
    if found[-1] == "\n":
        del found[-1]
    return found


def _header(name: str, lines: Iterator[str]) -> tuple[int, list[str], str]:
    """Line number and columns of the header, and the separator: the one that finds most columns of a model."""
    for number, line in enumerate(lines, 1):
        if not line.strip(f"{_SEPARATORS}\r\n ") or (number == 1 and re.fullmatch(r"sep=.\s*", line)):
            continue
        columns = {separator: _split(line, separator) for separator in _SEPARATORS}
        separator = max(_SEPARATORS, key=lambda one: len({*columns[one]} & {*COLUMNS}))
        header = columns[separator]
        while header and not header[-1]:
            header.pop()
        return number, header, separator
    raise FileError(f"{name} has only empty lines. Give a table with columns {', '.join(COLUMNS)}.")


def _split(line: str, separator: str) -> list[str]:
    try:
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True))
    except (csv.Error, StopIteration):
        return []
    return [cell.strip().casefold() for cell in cells]


_ROW_BYTES = 250.0
"""Memory for each row: six columns, their codes, and arrays to sort rows."""


def read_parquet(path: str) -> Plain:
    """The names of a model in a Parquet file, and its arrays."""
    with opened(path) as source, damage(source.name):
        name, parquet = source.name, parquet_reader(source.name)
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


def parquet_reader(name: str) -> Any:
    """The module that reads the file of this name."""
    return optional("pyarrow.parquet", f'Parquet files need pyarrow: pip install "jmdp[study]" ({name})')


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
