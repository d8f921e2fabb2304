"""Folders of studies with any part or ledger, for the mutants and the hostile files."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import jmdp
from jmdp.distribute.ledger import Ledger
from jmdp.studies.parts import Columns

COORDINATES = {"x": "int", "y": "float"}
COLUMNS = Columns("action", COORDINATES)
NAMES = ("left", "right")
STATES = 6
HEADER = {
    "format": "jmdp study 1",
    "simulator": "a walk",
    "policy": "none",
    "alternative": "action",
    "alternatives": list(NAMES),
    "coordinates": COORDINATES,
    "settings": {"seed": 0, "max_samples": 64, "discount": 0.9, "confidence": 0.95},
    "states": STATES,
}


def rows(first: int, count: int = STATES // 2, **changes: Any) -> list[dict[str, Any]]:
    """A row for each state and action; some cells are empty."""
    numbers = dict.fromkeys(("mean", "mean_low", "mean_high", "gap", "gap_low", "gap_high", "better", "worse"), 0.25)
    common = {"outcome": "BEST_FOUND", "n": 64, "key": 7, **numbers, **changes}
    return [
        {
            "number": i,
            "state": f"état {i}",
            "x": i,
            "y": i / 2,
            "action": name,
            "best": name == "left",
            "leader": name == "left",
            "rival": NAMES[name == "left"],
            **common,
        }
        for i in range(first, first + count)
        for name in NAMES
    ]


def part(listed: list[dict[str, Any]], **options: Any) -> bytes:
    """A part as a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(listed, schema=COLUMNS.schema()), out, **options)
    return out.getvalue()


def make_part(seed: int) -> bytes:
    codec = ["zstd", "none", "snappy", "gzip", "brotli", "lz4"][seed % 6]
    page, errors = "2.0" if seed % 4 == 0 else "1.0", {"error": None if seed % 3 else "an error"}
    return part(rows(0, **errors), compression=codec, data_page_version=page, use_dictionary=seed % 5 != 0)


def record(first: int, content: bytes, count: int = STATES // 2, rows_each: int = len(NAMES)) -> dict[str, Any]:
    """What the ledger says of a part."""
    return {
        "rung": 1,
        "first": first,
        "last": first + count - 1,
        "rows": rows_each * count,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "labels": "",
        "outcomes": {"BEST_FOUND": count},
        "bits": bytes((count + 7) // 8).hex(),
    }


def make_ledger(seed: int) -> bytes:
    """Ledger of a study of two parts."""
    return signed([HEADER, *(record(first, content) for first, content in _valid_parts().items())])


def signed(records: list[Any]) -> bytes:
    """A ledger with valid checksums."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "ledger.jsonl", records[0])
        with ledger.exclusive():
            for one in records[1:]:
                ledger.append(one)
        return ledger.path.read_bytes()


def _valid_parts() -> dict[int, bytes]:
    return {first: part(rows(first)) for first in (0, STATES // 2)}


def write_folder(path: Path, ledger: bytes, parts: dict[int, bytes], count: int = STATES // 2) -> None:
    shutil.rmtree(path, ignore_errors=True)
    (path / "parts").mkdir(parents=True)
    (path / "ledger.jsonl").write_bytes(ledger)
    for first, content in parts.items():
        (path / "parts" / f"states-{first:09d}-{first + count - 1:09d}-rung-1.parquet").write_bytes(content)


def load_part(path: Path, trusted: bool) -> str:
    """Contents of a study whose first part is this file, with its checksum."""
    parts = _valid_parts() | {0: path.read_bytes()}
    return _contents(
        path, signed([HEADER, *(record(first, content) for first, content in parts.items())]), parts, trusted
    )


def load_ledger(path: Path, trusted: bool) -> str:
    """Contents of a study with this ledger."""
    return _contents(path, path.read_bytes(), _valid_parts(), trusted)


def _contents(path: Path, ledger: bytes, parts: dict[int, bytes], trusted: bool) -> str:
    folder = path.with_name(f"{path.name} study")
    write_folder(folder, ledger, parts)
    found = jmdp.load(folder, trusted=trusted)
    said = repr((repr(found), found.settings, found.to_arrow().to_pylist()))
    return hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()


def rerecorded(rng: random.Random, data: bytes) -> bytes:
    """A value of a record is changed, and all checksums are valid."""
    records = [json.loads(line[33:]) for line in data.splitlines()]
    one = rng.choice(records)
    name = rng.choice(list(one))
    odd = [
        None,
        True,
        -1,
        0,
        2**53 - 1,
        2**80,
        1.5,
        "text",
        "",
        [],
        {},
        [1, "a"],
        {"BEST_FOUND": -3},
        "ff",
        "../x",
        1e300,
    ]
    match rng.randrange(5):
        case 0:
            del one[name]
        case 1:
            one[rng.choice(["more", "x" * 5000, "\ud800"])] = rng.choice(odd)
        case 2:
            records.insert(rng.randrange(1, len(records) + 1), rng.choice(records))
        case _:
            one[name] = rng.choice(odd)
    return signed(records)
