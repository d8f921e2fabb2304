"""Files of saved results: netCDF-4, written by xarray, with a checksum at the end.

Any program that reads netCDF-4 can read the variables; the checksum follows the end of the data and is ignored by them.
The variable `jmdp_record` contains the object as JSON, which refers to the other variables by name.

`load` computes the checksum before the HDF5 library sees a byte, so that a damaged file is noticed. It reads only plain
arrays: of numbers, contiguous, uncompressed and inside the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from jmdp.base import optional
from jmdp.base.arrays import refuse_large
from jmdp.base.guard import LARGEST_JSON, Plain, guarded
from jmdp.base.machine import in_words
from jmdp.base.settings import error_text, short
from jmdp.base.whole_files import whole_file
from jmdp.errors import FileError, JMDPError
from jmdp.files.opening import FIX, damage, opened, path_text
from jmdp.files.opening import Source as Opened
from jmdp.files.types import Sink, Source, WrongFieldError

if TYPE_CHECKING:
    import xarray

MAGIC = b"\x89HDF\r\n\x1a\n"
_END = struct.Struct("<8sQ32s")
_ENDS = b"jmdp-end"
RECORD = "jmdp_record"

_DTYPES = ("<f8", "<f4", "<i8", "<i4", "|i1", "|u1")
_CHUNK = 1 << 22
_MOST_VARIABLES = 10_000


def write(path: str | os.PathLike[str], labelled: xarray.Dataset, sink: Sink, record: Any) -> None:
    """Write a record and the arrays in the sink, all or nothing, beside variables and attributes for other programs."""
    place = Path(path_text(path))
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    sink.arrays[RECORD] = ("jmdp_record_bytes",), np.frombuffer(text, np.uint8)
    dataset = _printable(labelled).assign(_variables(sink, labelled))
    with tempfile.TemporaryDirectory(prefix="jmdp-") as folder, _writing(place):
        made = Path(folder) / "result.nc"
        dataset.to_netcdf(made, engine="h5netcdf")
        size = made.stat().st_size
        with open(made, "rb") as data, whole_file(place) as file:
            file.write(_END.pack(_ENDS, size, _checksum(data, size, copy=file)))


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{short(str(place), 300)} cannot be written: {error.strerror or error}. Give a file in a writable folder, "
            "and free disk space if there is none."
        ) from error
    except JMDPError:
        raise
    except Exception as error:  # of any kind: xarray and HDF5 raise many
        raise FileError(f"{short(str(place), 300)} cannot be written ({error_text(error)}).") from error


def _printable(labelled: xarray.Dataset) -> xarray.Dataset:
    """Labels and attributes without the null character, which netCDF does not have; the record keeps it."""
    names = {
        name: [str(label).replace("\0", "␀") for label in values.to_numpy().tolist()]
        for name, values in labelled.coords.items()
        if values.ndim == 1 and values.dtype.kind in "UO" and any("\0" in str(label) for label in values.to_numpy())
    }
    attributes = {key: value.replace("\0", "␀") for key, value in labelled.attrs.items() if isinstance(value, str)}
    return labelled.assign_coords(names).assign_attrs(attributes)


def _variables(sink: Sink, labelled: xarray.Dataset) -> dict[str, xarray.Variable]:
    """Arrays of the sink with named dimensions: those of the labelled variables where the lengths agree."""
    import xarray

    sizes = {str(name): length for name, length in labelled.sizes.items()}
    names = dict(zip("SA", map(str, labelled.sizes), strict=False))
    found = {}
    for name, (axes, array) in sink.arrays.items():
        dimensions: list[str] = []
        for axis, length in zip(axes, array.shape, strict=True):
            called = axis if sizes.get(names.get(axis, ""), -1) != length else names[axis]
            while called in dimensions or sizes.get(called, length) != length:
                called += "_2"
            sizes[called] = length
            dimensions.append(called)
        found[name] = xarray.Variable(dimensions, array)
    return found


def _checksum(file: BinaryIO, size: int, copy: BinaryIO | None = None) -> bytes:
    """SHA-256 of the next bytes, which are also written to `copy`."""
    total = hashlib.sha256()
    while size > 0 and (part := file.read(min(size, _CHUNK))):
        total.update(part)
        if copy is not None:
            copy.write(part)
        size -= len(part)
    return total.digest()


@contextmanager
def read(path: str | os.PathLike[str], trusted: bool) -> Iterator[tuple[Any, Source, str]]:
    """Yield the record of a file, its arrays, and the name of the file for messages."""
    with opened(path) as source, damage(source.name):
        if trusted:
            with _variables_of(source) as variables:
                yield _record(variables, source.name), variables, source.name
        else:
            ((_, found),) = guarded(read_all, [[path_text(path)]], ["h5py"])
            if RECORD in found and found[RECORD].nbytes > LARGEST_JSON:
                raise FileError(f"{source.name} has a {RECORD} of more than {in_words(LARGEST_JSON)}. {FIX}")
            arrays = _Arrays(found)
            yield _record(arrays, source.name), arrays, source.name


def read_all(path: str) -> Plain:
    """All variables that a record can refer to."""
    found = {}
    with opened(path) as source, damage(source.name), _variables_of(source) as arrays:
        for name in arrays.names:
            with suppress(WrongFieldError):  # the record refers to another one, or to none
                found[name] = arrays.array(name, name)
    return None, found


@contextmanager
def _variables_of(source: Opened) -> Iterator[_Variables]:
    """Variables of an undamaged file."""
    h5py = optional("h5py", 'Saved results need h5py: pip install "jmdp[io]"')
    name = source.name
    if source.start(8) != MAGIC:
        raise FileError(
            f"{name} is no file of a saved result. jmdp.load reads files that save() has written, and folders of "
            "studies; models in npz, CSV and Parquet files are read by jmdp.read_model."
        )
    _verify(source.file, name, source.size)
    source.file.seek(0)
    with h5py.File(source.file, "r", locking=False) as data:
        yield _Variables(data, name)


def _verify(file: BinaryIO, name: str, size: int) -> None:
    """Raise unless the checksum at the end is that of the file."""
    end = b""
    if size > _END.size:
        file.seek(size - _END.size)
        end = file.read(_END.size)
    mark, length, digest = _END.unpack(end) if len(end) == _END.size else (b"", 0, b"")
    if mark != _ENDS or length != size - _END.size:
        raise FileError(
            f"{name} does not end with the checksum of a saved result. It is truncated, or another program wrote it. "
            f"{FIX}"
        )
    file.seek(0)
    if _checksum(file, length) != digest:
        raise FileError(f"{name} is damaged: its checksum does not match its contents. {FIX}")


class _Arrays(Source):
    """Arrays that were read by a child process, of which each is used once."""

    def __init__(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self._arrays = arrays

    def array(self, name: str, place: str) -> npt.NDArray[Any]:
        """An array, which is given away."""
        if name not in self._arrays:
            raise WrongFieldError(place, f"{short(name)}, which is no variable of this file that can be read")
        return self._arrays.pop(name)


class _Variables(Source):
    """Variables of an open file."""

    def __init__(self, data: Any, name: str) -> None:
        self._data, self._name = data, name
        if len(data) > _MOST_VARIABLES:
            raise FileError(f"{name} has {len(data)} variables. A saved result has fewer: give another file.")

    @property
    def names(self) -> list[str]:
        """Names of all variables."""
        return list(self._data)

    def array(self, name: str, place: str) -> npt.NDArray[Any]:
        """A variable, read as it is."""
        import h5py

        if not name or "/" in name or "." in name or "\0" in name or len(name) > 1000:
            raise WrongFieldError(place, f"{short(name)}, which is no name of a variable")
        if not isinstance(self._data.get(name, getlink=True), h5py.HardLink):
            raise WrongFieldError(place, f"{short(name)}, which is no variable of this file")
        found = self._data.get(name)
        if not isinstance(found, h5py.Dataset):
            raise WrongFieldError(place, f"{short(name)}, which is no array")
        self._check(found, place)
        array = np.empty(found.shape, found.dtype)
        if array.size:
            found.read_direct(array)
        return array

    def _check(self, found: Any, place: str) -> None:
        """Raise unless this is a plain array that the file contains and memory can hold."""
        import h5py

        if found.dtype.str not in _DTYPES:
            raise WrongFieldError(place, f"an array of type {short(found.dtype)}, instead of numbers")
        plan = found.id.get_create_plist()
        layout = plan.get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)
        if not layout or plan.get_nfilters() or found.is_virtual or found.external:
            raise WrongFieldError(place, "an array that is compressed, in parts or in another file")
        size = float(found.dtype.itemsize)
        for length in found.shape:
            size *= length
        stored = found.id.get_storage_size()
        if stored != size:
            raise WrongFieldError(place, f"{stored} bytes for an array of shape {found.shape}")
        refuse_large(f"{place} in {self._name}", size)


def _record(arrays: Source, name: str) -> Any:
    try:
        data = arrays.array(RECORD, RECORD)
    except WrongFieldError as error:
        raise FileError(
            f"{name} cannot be loaded: its field {error.place} has {error.problem}. It is no saved result. {FIX}"
        ) from None
    try:
        return json.loads(data.tobytes().decode("utf-8", "strict"), parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} has a {RECORD} that is no JSON ({short(str(error))}). {FIX}") from error


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")
