"""Reading a model from a file of any supported format. The format is told by the contents.

Models in NumPy archives (npz). Nothing is unpickled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import refuse_large
from jmdp.base.guard import Plain, guarded
from jmdp.base.settings import boolean_value, short
from jmdp.errors import FileError, ModelError, SettingsError
from jmdp.files.long_tables import finished_model, table_model
from jmdp.files.opening import FIX, damage, opened, path_text
from jmdp.files.table_files import read_csv, read_parquet
from jmdp.models.tabular import TabularJMDP

_SAVE = "Save the model with np.savez(FILE, prob=…, reward=…, next_state=…, discount=…), as CSV or as Parquet."
_OTHERS = {
    b"\x93NUMPY": f"is one array (npy). {_SAVE}",
    b"\x80": f"is a pickle, which can run any code and is not read. {_SAVE}",
    b"\x89HDF\r\n": "is an HDF5 or netCDF file, such as a saved result, and not a model. Read results with jmdp.load.",
    b"CDF": f"is a netCDF file. {_SAVE}",
    b"PARE": "is an encrypted Parquet file. Write it without encryption.",
    b"PK\x05\x06": f"is an empty zip file. {_SAVE}",
    b"ARROW1": "is an Arrow file. Write it as Parquet: pyarrow.parquet.write_table.",
    b"\x1f\x8b": "is compressed with gzip. Unpack it first.",
    b"BZh": "is compressed with bzip2. Unpack it first.",
    b"\xfd7zXZ": "is compressed with xz. Unpack it first.",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd. Unpack it first.",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook. Save the sheet as CSV UTF-8.",
    b"%PDF": f"is a PDF file. {_SAVE}",
}
"""First bytes of files that hold no model, and what to say."""


def read_model(path: Any, discount: float | None = None, *, trusted: bool = True) -> TabularJMDP:
    """Read a scenario table from a file, or from a pandas DataFrame; nothing in a file is run.

    The contents tell the format, not the name of the file:

    - **npz** (``np.savez``): arrays ``prob [S, K]``, ``reward [S, K, A]``, ``next_state [S, K, A]``, and optionally
      ``discount`` (one number), ``terminal [S]``, ``state_names [S]`` and ``action_names [A]`` (text).
    - **CSV**, **Parquet** or a **DataFrame**: a row for each state, scenario and action, with the columns `state`,
      `scenario`, `probability`, `action`, `reward` and `next`. CSV is UTF-8 with separator comma, semicolon or tab, and
      decimal points. Parquet needs ``pip install "jmdp[study]"``.

    In these tables, states, scenarios and actions are text or integers. Integers are sorted, and names follow in order
    of appearance. An integer then denotes the label, never the position; policies are given by label too,
    ``{state: action}``. A `next` that is no `state` is terminal. The same scenario name in
    two states is the same scenario, which `Synchronous` shares. Every scenario of a state needs each action once, and
    one probability, which may be left empty after its first row.

    Parameters
    ----------
    path
        A regular file, or a DataFrame.
    discount
        γ, 0 ≤ γ < 1, if the file has none.
    trusted
        False: read the file in a child process with limits of memory and time, as "Security" in the documentation
        says. Needs Linux.

    Raises
    ------
    FileError
        The file is damaged, of another kind, too large, or unsafe.
    ModelError
        The file can be read, but its model is invalid.
    SettingsError
        Neither the file nor the call has a discount, or they differ.
    """
    if getattr(path, "columns", None) is not None:
        if discount is None:
            raise SettingsError("A DataFrame has no discount. Give one, e.g. discount=0.99.")
        return table_model(path, discount)
    with opened(path) as source:
        name, read = source.name, _reader(source.name, source.file.read(8))
    if boolean_value("trusted", trusted):
        found = read(path_text(path))
    else:
        (found,) = guarded(read, [[path_text(path)]], ["pyarrow.parquet"] if read is read_parquet else [])
    with damage(name):
        return finished_model(name, found, discount)


def _reader(name: str, begin: bytes) -> Callable[[str], Plain]:
    """Function that reads a file that begins so; raise if there is none."""
    if not begin:
        raise FileError(f"{name} is empty. {_SAVE}")
    if begin.startswith(b"PK\x03\x04"):
        return _read_npz
    if begin.startswith(b"PAR1"):
        return read_parquet
    for first, what in _OTHERS.items():
        if begin.startswith(first):
            raise FileError(f"{name} {what}")
    return read_csv


class _Rule(NamedTuple):
    """What an array must be."""

    axes: str
    kinds: str  # of dtypes
    words: str


_RULES = {
    "prob": _Rule("SK", "fiub", "real numbers"),
    "reward": _Rule("SKA", "fiub", "real numbers"),
    "next_state": _Rule("SKA", "iu", "integers"),
    "discount": _Rule("", "fiu", "one number"),
    "terminal": _Rule("S", "b", "True or False for each state"),
    "state_names": _Rule("S", "U", "text: np.array(names, dtype=str)"),
    "action_names": _Rule("A", "U", "text: np.array(names, dtype=str)"),
}
_REQUIRED = ("prob", "reward", "next_state")


def _read_npz(path: str) -> Plain:
    """The discount and the names in an npz file, and its arrays."""
    with opened(path) as source, damage(source.name), np.load(source.file, allow_pickle=False) as archive:
        _check_names(source.name, archive.files)
        size = sum(info.file_size for info in archive.zip.infolist())
        refuse_large(f"The model in {source.name}", 2.0 * size)
        arrays = {name: _array(source.name, name, archive[name]) for name in archive.files}
    _check_shapes(source.name, arrays)
    names: dict[str, Any] = {
        key: _names(source.name, key, arrays.pop(key)) for key in ("state_names", "action_names") if key in arrays
    }
    own = arrays.pop("discount", None)
    return names | {"discount": None if own is None else float(own)}, arrays


def _check_names(name: str, found: list[str]) -> None:
    for key in found:
        if key not in _RULES:
            raise ModelError(f"{name} has a member {short(key)}. A model has only {', '.join(_RULES)}.")
    if missing := [key for key in _REQUIRED if key not in found]:
        raise ModelError(f"{name} has no {' and no '.join(missing)}. Save them with np.savez.")


def _array(name: str, key: str, array: Any) -> npt.NDArray[Any]:
    """An array of the kind that a model has."""
    rule = _RULES[key]
    if not isinstance(array, np.ndarray):
        raise FileError(f"{key} in {name} is not an array in NumPy's format. Save it with np.savez.")
    if array.dtype.kind not in rule.kinds or (array.dtype.kind == "f" and array.dtype.itemsize > 8):
        raise ModelError(f"{key} in {name} has dtype {array.dtype}. Give {rule.words}.")
    if array.ndim != len(rule.axes):
        axes = f"Its axes are [{', '.join(rule.axes)}]" if rule.axes else f"Give {rule.words}"
        raise ModelError(f"{key} in {name} has shape {short(array.shape)}. {axes}.")
    if array.ndim and not array.size:
        raise ModelError(f"{key} in {name} has shape {array.shape}. Give at least one state, scenario and action.")
    if rule.kinds == "b" and array.view(np.uint8).max() > 1:
        raise FileError(f"{key} in {name} is damaged: a boolean is neither 0 nor 1. {FIX}")
    return np.asarray(array, order="C")


def _check_shapes(name: str, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Raise unless all shapes agree with that of the rewards."""
    shape = arrays["reward"].shape
    sizes = dict(zip("SKA", shape, strict=True))
    for key, array in arrays.items():
        wanted = tuple(sizes[axis] for axis in _RULES[key].axes)
        if array.shape != wanted:
            raise ModelError(
                f"{key} in {name} has shape {array.shape}, but reward {shape} = [S, K, A] requires {wanted}."
            )


def _names(name: str, key: str, texts: npt.NDArray[Any]) -> list[str]:
    """Texts as a list. NumPy would also make characters that do not exist, which no program expects."""
    characters = texts.view(np.dtype(np.uint32).newbyteorder(texts.dtype.byteorder))
    if characters.max() > sys.maxunicode:
        raise FileError(f"{key} in {name} is damaged: it has characters that do not exist. {FIX}")
    found: list[str] = texts.tolist()
    return found
