"""Reading of recorded scores: tables, and the logs of tools. The contents tell the format; nothing in a file is run.

What may be paired follows from what a tool records: Inspect by the id of a sample, with epochs as trials;
lm-evaluation-harness by task, document and hash of the document; lerobot by seed where it is recorded; monitors and
evaluations of stable-baselines3 by nothing.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from jmdp.base import arrays, optional
from jmdp.base.guard import Plain, guarded
from jmdp.base.settings import short
from jmdp.errors import FileError
from jmdp.files.opening import FIX, Source, damage, enough_memory, opened, path_text
from jmdp.files.table_files import parquet_reader

Columns = dict[str, list[Any]]

_BYTES = 40.0
"""Memory for each byte of text: cells are Python objects."""

_LARGEST = 1 << 28
"""Bytes of a member of a zip file, unpacked."""

_ZSTANDARD = 93
"""Its number among the methods of zip files."""

_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's correct, incorrect, partial and no answer."""

_UNPAIRED = "Episodes have no names or seeds in this file, so nothing pairs them: scores are compared as independent"


def read(path: str | PathLike[str], trusted: bool) -> tuple[Columns, str, bool]:
    """The columns of a file of scores, a sentence about its pairs, and whether anything pairs them."""
    if trusted:
        found, _ = _read(path_text(path))
    else:
        ((found, _),) = guarded(_read, [[path_text(path)]], ["pyarrow.parquet", "numpy"])
    name = path_text(path)
    with damage(name):
        columns, about, paired = found["columns"], found["about"], found["paired"]
        sizes = {len(cells) for cells in columns.values()}
        if len(sizes) != 1 or not isinstance(about, str) or type(paired) is not bool or not min(sizes):
            raise FileError(f"{name} has no scores. Give a table with a row for each score.")
        for cells in columns.values():
            if any(not isinstance(cell, str | int | float | bool | None) for cell in cells):
                raise FileError(f"{name} has a cell that is neither text nor a number. Give plain columns.")
        return {str(key): cells for key, cells in columns.items()}, about, paired


def _read(path: str) -> Plain:
    """What `read` needs, as JSON."""
    with opened(path) as source, damage(source.name), enough_memory(source.name):
        return dict(zip(("columns", "about", "paired"), _scores(source, Path(path)), strict=True)), {}


def _scores(source: Source, path: Path) -> tuple[Columns, str, bool]:
    start = source.start(4096)
    if start.startswith(b"PK\x03\x04"):
        return _zipped(source)
    if start.startswith(b"PAR1"):
        return _parquet(source), "", True
    if b"\0" in start:
        raise FileError(f"{source.name} is neither text, Parquet nor a log that jmdp knows. Save the scores as CSV.")
    arrays.refuse_large(f"The scores in {source.name}", _BYTES * source.size)
    text = source.file.read().decode("utf-8-sig")
    head = text.lstrip()[:1]
    if head == "{":
        return _json(text, source.name, path)
    if head == "[":
        return _rows(json.loads(text), source.name), "", True
    if head == "#" and "t_start" in start.decode(errors="replace").split("\n", 1)[0]:
        columns = _csv(text.split("\n", 1)[1], source.name)
        if "r" not in columns:
            raise FileError(f"{source.name} has no column r of a monitor of stable-baselines3.")
        return {"score": columns["r"]}, _UNPAIRED, False
    return _csv(text, source.name), "", True


# ---------------------------------------------------------------------------------------------------- tables


def _csv(text: str, name: str) -> Columns:
    """Cells of a CSV file, by column; numbers stay text, and are read where a score is expected."""
    line = text.split("\n", 1)[0]
    separator = max(",;\t", key=line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    header = [cell.strip() for cell in next(reader, [])]
    if len(set(header)) != len(header) or "" in header:
        raise FileError(f"{name} has a column without a name, or two of the same: {short(header, 200)}.")
    columns: Columns = {cell: [] for cell in header}
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            raise FileError(
                f"{name}, line {reader.line_num} has {len(row)} cells, but the header has {len(header)}. Add or remove "
                "cells."
            )
        for cell, found in zip(row, columns.values(), strict=True):
            found.append(cell.strip() or None)
    return columns


def _parquet(source: Source) -> Columns:
    file = parquet_reader(source.name).ParquetFile(source.file, page_checksum_verification=True)
    arrays.refuse_large(
        f"The scores in {source.name}", 100.0 * file.metadata.num_rows * max(1, file.metadata.num_columns)
    )
    from pyarrow import types

    plain = [
        field.name
        for field in file.schema_arrow
        if types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)
        or types.is_string(field.type) or types.is_large_string(field.type) or types.is_dictionary(field.type)
    ]  # fmt: skip
    table = file.read(columns=plain, use_threads=False)
    table.validate(full=True)
    return {name: table.column(name).to_pylist() for name in plain}


def _rows(records: Any, name: str) -> Columns:
    """Objects, one for each score, as columns."""
    if not isinstance(records, list) or not records or not all(isinstance(one, dict) for one in records):
        raise FileError(f"{name} is JSON, but no list of objects with a score each. Give one object for each score.")
    keys = list(dict.fromkeys(key for one in records for key in one))
    kept = [key for key in keys if all(isinstance(one.get(key), str | int | float | bool | None) for one in records)]
    return {key: [one.get(key) for one in records] for key in kept}


# ---------------------------------------------------------------------------------------------------- logs of tools


def _json(text: str, name: str, path: Path) -> tuple[Columns, str, bool]:
    """One object: a log. Several: lines of JSON."""
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        if "Extra data" not in error.msg:
            raise
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
        if isinstance(records[0], dict) and {"doc_id", "doc_hash"} <= records[0].keys():
            return _harness(records, name, path)
        return _rows(records, name), "", True
    if {"doc_id", "doc_hash"} <= whole.keys():
        return _harness([whole], name, path)
    if isinstance(whole.get("samples"), list) and "eval" in whole:
        return _inspect(whole["eval"], whole["samples"], name)
    if "per_episode" in whole or "per_task" in whole:
        return _lerobot(whole, name)
    return _rows([whole], name), "", True


def _zipped(source: Source) -> tuple[Columns, str, bool]:
    """A log of Inspect, or the evaluations of stable-baselines3."""
    with zipfile.ZipFile(source.file) as archive:
        infos = archive.infolist()
        arrays.refuse_large(f"The scores in {source.name}", _BYTES * sum(info.file_size for info in infos))
        names = {info.filename: info for info in infos}
        if "results.npy" in names:
            return _evaluations(archive, source.name)
        samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
        header = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
        if header is None or not samples:
            raise FileError(f"{source.name} is a zip file, but no log of Inspect and no evaluations.npz.")

        def member(name: str) -> Any:
            if names[name].file_size > _LARGEST:
                raise FileError(f"{source.name} has a member of {names[name].file_size:,} bytes, which no log has.")
            return json.loads(_unpacked(archive, source, names[name]))

        return _inspect(member(header)["eval"], map(member, samples), source.name)


def _unpacked(archive: zipfile.ZipFile, source: Source, info: zipfile.ZipInfo) -> bytes:
    """The contents of a member. Logs are packed by Zstandard, which zipfile knows from Python 3.14 on."""
    if info.compress_type != _ZSTANDARD:
        return archive.read(info)
    pyarrow = optional("pyarrow", f'Logs of Inspect need pyarrow: pip install "jmdp[study]" ({source.name})')
    source.file.seek(info.header_offset)
    header = source.file.read(30)
    source.file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
    found: bytes = pyarrow.decompress(source.file.read(info.compress_size), info.file_size, codec="zstd", asbytes=True)
    if zlib.crc32(found) != info.CRC:
        raise FileError(f"{source.name} is damaged: {info.filename} has another checksum. {FIX}")
    return found


def _inspect(about: Mapping[str, Any], samples: Iterable[Mapping[str, Any]], name: str) -> tuple[Columns, str, bool]:
    """Samples of an Inspect log; the first scorer. Those that ended in an error have no score."""
    scorer: str | None = None
    columns: Columns = {"alternative": [], "id": [], "trial": [], "score": []}
    for sample in samples:
        scores = sample.get("scores") or {}
        scorer = next(iter(scores), None) if scorer is None else scorer
        value = scores.get(scorer, {}).get("value") if scorer is not None else None
        columns["alternative"].append(str(about.get("model", "")))
        columns["id"].append(f"{about.get('task', '')}/{sample['id']}")
        columns["trial"].append(sample.get("epoch", 1))
        columns["score"].append(_inspect_value(value))
    order = sorted(range(len(columns["id"])), key=lambda i: (columns["id"][i], columns["trial"][i]))
    columns = {key: [cells[i] for i in order] for key, cells in columns.items()}
    return columns, f"{name}: scores of {scorer}, paired by the id of the sample; epochs are trials", True


def _inspect_value(value: Any) -> float | None:
    if isinstance(value, str):
        if value in _LETTERS:
            return _LETTERS[value]
        return {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}.get(value.lower(), _float(value))
    if isinstance(value, Mapping):
        value = next(iter(value.values()), None)
    if isinstance(value, Sequence) and value:
        value = value[0]
    return float(value) if isinstance(value, bool | int | float) and math.isfinite(value) else None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _harness(records: Sequence[Mapping[str, Any]], name: str, path: Path) -> tuple[Columns, str, bool]:
    """Logged samples of lm-evaluation-harness: its first metric, of the first filter."""
    metric = next((key for key in records[0].get("metrics", ()) if isinstance(records[0].get(key), int | float)), None)
    if metric is None:
        raise FileError(f"{name} has no metric with a number for each document.")
    filtered = records[0].get("filter")
    task = re.sub(r"^samples_|_\d{4}-\d\d-\d\dT[\d.:-]+$", "", path.stem)
    kept = [one for one in records if one.get("filter") == filtered]
    columns: Columns = {
        "id": [f"{task}/{one['doc_id']}/{str(one['doc_hash'])[:12]}" for one in kept],
        "score": [one.get(metric) for one in kept],
    }
    of = "" if filtered in (None, "none") else f" after the filter {filtered}"
    return columns, f"{name}: metric {metric}{of}, paired by task, document and hash of the document", True


def _lerobot(whole: Mapping[str, Any], name: str) -> tuple[Columns, str, bool]:
    """Episodes of an evaluation of lerobot: success, paired by seed where it is recorded."""
    columns: Columns = {"id": [], "score": []}
    seeded = True
    for one in whole.get("per_episode") or ():
        seeded &= one.get("seed") is not None
        columns["id"].append(f"seed {one.get('seed')}")
        columns["score"].append(float(one["success"]))
    for one in whole.get("per_task") or ():
        task, metrics = f"{one.get('task_group', '')}/{one.get('task_id', '')}", one["metrics"]
        seeds = metrics.get("seeds")
        seeded &= seeds is not None
        for i, success in enumerate(metrics["successes"]):
            columns["id"].append(f"{task}/seed {seeds[i]}" if seeds is not None else str(i))
            columns["score"].append(float(success))
    if seeded:
        return columns, f"{name}: success of each episode, paired by its seed", True
    return {"score": columns["score"]}, _UNPAIRED, False


def _evaluations(archive: zipfile.ZipFile, name: str) -> tuple[Columns, str, bool]:
    """The last evaluation of an EvalCallback of stable-baselines3."""
    with archive.open("results.npy") as member:
        size = archive.getinfo("results.npy").file_size
        version = np.lib.format.read_magic(member)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(member)
        if dtype.kind not in "fiu" or math.prod(shape) * dtype.itemsize > size:  # before memory is allocated
            raise FileError(f"{name} has results of type {dtype} and shape {shape}, which its size does not allow.")
        results = np.frombuffer(member.read(), dtype)[: math.prod(shape)].reshape(shape).astype(float)
    if results.ndim != 2 or not results.size:
        raise FileError(f"{name} has results of shape {results.shape}, not a row for each evaluation.")
    return {"score": results[-1].tolist()}, f"{_UNPAIRED}; of the last of {len(results)} evaluations", False
