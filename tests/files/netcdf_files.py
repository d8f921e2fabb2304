"""Saved results for the mutants, and damage that passes their checksum."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from jmdp.files import saving
from jmdp.files.schema import VERSION
from jmdp.files.types import Sink, encoded_object

FOLDER = Path(__file__).parent / "fixtures"
VALID = sorted(FOLDER.glob(f"{VERSION} *.nc"))
"""A file of each kind of result."""


def make(number: int) -> bytes:
    """A saved result."""
    return VALID[number % len(VALID)].read_bytes()


def load(path: Path, trusted: bool) -> str:
    """Digest of what is loaded."""
    found = saving.load(path, trusted=trusted)
    sink = Sink({})
    record = encoded_object(saving._FORMS[type(found)], found, sink, "")
    arrays = [(name, array.shape, array.tobytes()) for name, (_, array) in sorted(sink.arrays.items())]
    return hashlib.sha256(repr((record, arrays)).encode()).hexdigest()


def sealed(body: bytes) -> bytes:
    """The bytes with their checksum."""
    return body + struct.pack("<8sQ32s", b"jmdp-end", len(body), hashlib.sha256(body).digest())


def body(data: bytes) -> bytes:
    """A saved result without its checksum."""
    return data[:-48]


def rewritten(rng: random.Random, data: bytes) -> bytes:
    """The record is changed somewhere, or one of the arrays; everything else is written as it was."""
    with h5py.File(io.BytesIO(data), "r") as file:
        arrays = {name: file[name][...] for name in file if file[name].dtype.kind in "fiu"}
    record = json.loads(arrays.pop("jmdp_record").tobytes())
    if rng.random() < 0.8:
        _change(rng, record)
    else:
        name = rng.choice(sorted(arrays))
        arrays[name] = _other_array(rng, arrays[name])
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for name, array in arrays.items():
            file[name] = array
        file["jmdp_record"] = np.frombuffer(json.dumps(record).encode("utf-8", "surrogatepass"), np.uint8)
    return sealed(out.getvalue())


def _change(rng: random.Random, node: Any) -> None:
    """Replace a value in a tree, or drop or exchange entries."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = rng.choice(keys)
        inside = node[key]
        if not isinstance(inside, (dict, list)) or not inside or rng.random() < 0.2:
            break
        node = inside
    odd = [
        None,
        True,
        0,
        -1,
        1,
        2,
        10**30,
        1.5,
        "nan",
        "inf",
        -0.0,
        1e308,
        "",
        "x",
        "\ud800",
        [],
        {},
        [[]],
        {"class": "Margin"},
    ]
    match rng.randrange(4):
        case 0 if isinstance(node, dict):
            del node[key]
        case 1:
            other = rng.choice(keys)
            node[key], node[other] = node[other], node[key]
        case _:
            node[key] = rng.choice(odd)


@np.errstate(all="ignore")
def _other_array(rng: random.Random, array: Any) -> Any:
    match rng.randrange(5):
        case 0:
            return array.astype(rng.choice(["f4", "i8", "u1", ">f8", "f8"]))
        case 1:
            return array[:-1]
        case 2:
            return array.reshape(-1)
        case 3:
            out = array.copy().reshape(-1)
            if out.size:
                out[rng.randrange(out.size)] = rng.choice([np.nan, np.inf, 1e300, -1]) if out.dtype.kind == "f" else -7
            return out.reshape(array.shape)
        case _:
            return np.concatenate([array, array])
