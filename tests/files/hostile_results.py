"""Saved results that try to make `jmdp.load` fail, all with a correct checksum; each with what it tries."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import h5py
import netcdf_files
import numpy as np

from jmdp.files import netcdf
from jmdp.files.schema import VERSION

FILES: dict[str, tuple[str, Callable[[], bytes]]] = {}
"""Name: what the file tries, and its bytes."""


def hostile(tries: str) -> Callable[[Callable[[], bytes]], Callable[[], bytes]]:
    def added(make: Callable[[], bytes]) -> Callable[[], bytes]:
        FILES[make.__name__] = (tries, make)
        return make

    return added


def parts() -> tuple[dict[str, Any], Any]:
    """Arrays and record of a saved table."""
    with h5py.File(netcdf_files.FOLDER / f"{VERSION} table.nc", "r") as file:
        arrays = {name: file[name][...] for name in file if file[name].dtype.kind in "fiu"}
    return arrays, json.loads(arrays.pop("jmdp_record").tobytes())


def written(arrays: dict[str, Any], record: Any, change: Callable[[Any], None] = lambda file: None) -> bytes:
    """A sealed file; `change` is called with it before it is closed."""
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for name, array in arrays.items():
            file[name] = array
        text = record if isinstance(record, bytes) else json.dumps(record).encode()
        file["jmdp_record"] = np.frombuffer(text, np.uint8)
        change(file)
    return netcdf_files.sealed(out.getvalue())


def changed(**fields: Any) -> bytes:
    """The table with other fields."""
    arrays, record = parts()
    record["object"] |= fields
    return written(arrays, record)


def replaced(name: str, make: Callable[[Any], None]) -> bytes:
    """The table with one of its arrays made in another way."""
    arrays, record = parts()
    del arrays[name]
    return written(arrays, record, make)


@hostile("a shape of 8 TiB without data")
def huge_shape() -> bytes:
    return replaced("reward", lambda file: file.create_dataset("reward", (1 << 40,), "<f8"))


@hostile("a compressed array of 1 GiB of zeros")
def bomb() -> bytes:
    shape = 4, 1 << 14, 1 << 11
    return replaced("reward", lambda file: file.create_dataset("reward", shape, "<f8", compression="gzip"))


@hostile("an array in parts that need not exist")
def chunks() -> bytes:
    return replaced("reward", lambda file: file.create_dataset("reward", (4, 2, 2), "<f8", chunks=(1, 1, 1)))


@hostile("an array whose data are another file")
def external_data() -> bytes:
    def make(file: Any) -> None:
        file.create_dataset("reward", (4, 2, 2), "<f8", external=[("/etc/hostname", 0, 128)])

    return replaced("reward", make)


@hostile("a link to another file")
def external_link() -> bytes:
    def make(file: Any) -> None:
        file["reward"] = h5py.ExternalLink("/etc/hostname", "/reward")

    return replaced("reward", make)


@hostile("a link to itself")
def soft_link() -> bytes:
    def make(file: Any) -> None:
        file["reward"] = h5py.SoftLink("/reward")

    return replaced("reward", make)


@hostile("an array that is a view of other files")
def virtual() -> bytes:
    def make(file: Any) -> None:
        layout = h5py.VirtualLayout((4, 2, 2), "<f8")
        layout[0] = h5py.VirtualSource("/etc/hostname", "reward", (2, 2))
        file.create_virtual_dataset("reward", layout)

    return replaced("reward", make)


@hostile("a group in place of an array")
def group() -> bytes:
    return replaced("reward", lambda file: file.create_group("reward"))


@hostile("texts of any length in place of numbers")
def texts() -> bytes:
    return replaced("reward", lambda file: file.create_dataset("reward", data=["x" * 100] * 16))


@hostile("references to objects in place of numbers")
def references() -> bytes:
    def make(file: Any) -> None:
        file.create_dataset("reward", (4, 2, 2), h5py.ref_dtype)

    return replaced("reward", make)


@hostile("records with fields in place of numbers")
def compound() -> bytes:
    return replaced("reward", lambda file: file.create_dataset("reward", data=np.zeros((4, 2, 2), "f8,i4")))


@hostile("big-endian numbers, which would be read as others")
def byte_order() -> bytes:
    return replaced("reward", lambda file: file.create_dataset("reward", data=np.zeros((4, 2, 2), ">f8")))


@hostile("lists nested 100,000 deep")
def nested() -> bytes:
    return written(parts()[0], b"[" * 100_000 + b"]" * 100_000)


@hostile("a whole number of a million digits")
def digits() -> bytes:
    return written(parts()[0], b'{"schema": ' + b"9" * 1_000_000 + b', "object": {}}')


@hostile("numbers that JSON does not have")
def constants() -> bytes:
    return written(parts()[0], b'{"schema": NaN, "object": Infinity}')


@hostile("text that is not UTF-8")
def encoding() -> bytes:
    return written(parts()[0], b'{"schema": "\xff\xfe"}')


@hostile("a record that is missing")
def no_record() -> bytes:
    arrays, record = parts()

    def make(file: Any) -> None:
        del file["jmdp_record"]

    return written(arrays, record, make)


@hostile("a record that is an array of texts")
def record_of_texts() -> bytes:
    arrays, record = parts()

    def make(file: Any) -> None:
        del file["jmdp_record"]
        file["jmdp_record"] = json.dumps(record)

    return written(arrays, record, make)


@hostile("a version of the future")
def future() -> bytes:
    arrays, record = parts()
    return written(arrays, record | {"schema": 3})


@hostile("a class of Python")
def python_class() -> bytes:
    return changed(**{"class": "os.system"})


@hostile("a field that the class does not have")
def more_fields() -> bytes:
    return changed(__init__="print(1)")


@hostile("the name of a variable that leaves the file")
def path_of_variable() -> bytes:
    return changed(reward="../../etc/passwd")


@hostile("one array for two fields of other types")
def confused() -> bytes:
    return changed(next_state="reward")


@hostile("10¹⁸ labels")
def many_labels() -> bytes:
    return changed(states=["state", 10**18, None])


@hostile("an array without entries, of 2⁴⁰ rows")
def empty() -> bytes:
    return changed(reward={"dtype": "<f8", "shape": [1 << 40, 0, 2]})


@hostile("an array without entries, of −1 rows")
def negative() -> bytes:
    return changed(reward={"dtype": "<f8", "shape": [-1, 0, 2]})


@hostile("a discount above 1")
def discount() -> bytes:
    return changed(discount=1.5)


@hostile("names with half of a Unicode character")
def surrogate() -> bytes:
    return changed(states=["state", 4, ["a", "b", "c", "\ud800"]])


@hostile("one variable too many")
def variables() -> bytes:
    arrays, record = parts()

    def make(file: Any) -> None:
        for i in range(netcdf._MOST_VARIABLES):
            file[f"x{i}"] = np.int8(0)

    return written(arrays, record, make)
