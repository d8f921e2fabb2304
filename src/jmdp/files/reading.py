"""Reading a model from a file of any supported format. The format is told by the contents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jmdp.base.guard import Plain, guarded
from jmdp.base.settings import boolean_value
from jmdp.errors import FileError, SettingsError
from jmdp.files import csv_tables, npz_models, parquet_tables
from jmdp.files.long_tables import finished_model, table_model
from jmdp.files.opening import damage, opened, path_text
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
        (found,) = guarded(read, [[path_text(path)]], ["pyarrow.parquet"] if read is parquet_tables.read else [])
    with damage(name):
        return finished_model(name, found, discount)


def _reader(name: str, begin: bytes) -> Callable[[str], Plain]:
    """Function that reads a file that begins so; raise if there is none."""
    if not begin:
        raise FileError(f"{name} is empty. {_SAVE}")
    if begin.startswith(b"PK\x03\x04"):
        return npz_models.read
    if begin.startswith(b"PAR1"):
        return parquet_tables.read
    for first, what in _OTHERS.items():
        if begin.startswith(first):
            raise FileError(f"{name} {what}")
    return csv_tables.read
