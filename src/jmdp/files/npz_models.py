"""Models in NumPy archives (npz): headers are parsed and sizes planned before an array is allocated; no pickles."""

from __future__ import annotations

import ast
import math
import re
import sys
import zipfile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.machine import in_words
from jmdp.base.settings import short
from jmdp.errors import FileError, ModelError
from jmdp.files.damage import FIX
from jmdp.files.finishing import finished_model
from jmdp.files.opening import Source
from jmdp.files.zip_members import Member, archive_of, opened_member
from jmdp.models.tabular import TabularJMDP


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

_DTYPE = re.compile(r"[<>|](f[248]|[iu][1248]|b1|U[1-9][0-9]{0,3})")
_LONGEST_HEADER = 4096
_EXPANSION = 100
"""Times that a file may be larger in memory than on disk, beyond `_SPARE` bytes."""
_SPARE = 1 << 28
_NAME_BYTES = 300
"""Memory for a name: text, entry of a tuple and of an index."""


class Header(NamedTuple):
    """What an array's header declares."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    length: int  # bytes before the data


def read(source: Source, discount: float | None) -> TabularJMDP:
    """Read a model from an npz file."""
    with archive_of(source) as (archive, members):
        infos = _arrays(source, members)
        headers = {name: _header(source, archive, name, info) for name, info in infos.items()}
        _check_shapes(source, headers)
        _plan(source, infos, headers)
        found: dict[str, Any] = {name: _array(source, archive, infos[name], header) for name, header in headers.items()}
    for name in found.keys() & {"state_names", "action_names"}:
        found[name] = _names(source, name, found[name])
    own = found.pop("discount", None)
    return finished_model(source.name, found, None if own is None else float(own), discount)


def _arrays(source: Source, members: dict[str, zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Members by name of the array; raise if one is missing or unknown."""
    if "[Content_Types].xml" in members:
        raise FileError(f"{source.name} is an Office document. Save the sheet as CSV UTF-8.")
    if not any(name.endswith(".npy") for name in members):
        raise FileError(f"{source.name} is a zip file without arrays. Save the model with np.savez.")
    infos = {}
    for member, info in members.items():
        name = member.removesuffix(".npy")
        if name not in _RULES or name == member:
            raise ModelError(f"{source.name} has a member {short(member)}. A model has only {', '.join(_RULES)}.")
        infos[name] = info
    if missing := [name for name in _REQUIRED if name not in infos]:
        raise ModelError(f"{source.name} has no {' and no '.join(missing)}. Save them with np.savez.")
    return infos


def _header(source: Source, archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> Header:
    with opened_member(source, archive, info) as member:
        header = _parsed(member)
    rule = _RULES[name]
    if header.dtype.kind not in rule.kinds:
        raise ModelError(f"{name} in {source.name} has dtype {header.dtype}. Give {rule.words}.")
    if len(header.shape) != len(rule.axes):
        axes = f"Its axes are [{', '.join(rule.axes)}]" if rule.axes else f"Give {rule.words}"
        raise ModelError(f"{name} in {source.name} has shape {short(header.shape)}. {axes}.")
    if header.shape and min(header.shape) == 0:
        raise ModelError(
            f"{name} in {source.name} has shape {header.shape}. Give at least one state, scenario and action."
        )
    declared = header.length + header.dtype.itemsize * math.prod(header.shape)
    if declared != info.file_size:
        raise FileError(
            f"{member.place} is damaged: shape {header.shape} and dtype {header.dtype} need {declared:,} bytes, but it "
            f"has {info.file_size:,}. {FIX}"
        )
    return header


def _parsed(member: Member) -> Header:
    """Read and parse the header of an array, without NumPy's parser, which accepts any dtype."""
    begin = member.read(8)
    if begin[:6] != b"\x93NUMPY" or begin[6:] not in (b"\1\0", b"\2\0"):
        raise FileError(f"{member.place} is not an array in NumPy's format 1.0 or 2.0. Save it with np.savez.")
    width = 2 if begin[6] == 1 else 4
    length = int.from_bytes(member.read(width), "little")
    if length > _LONGEST_HEADER:
        raise FileError(f"{member.place} has a header of {length:,} bytes, more than {_LONGEST_HEADER:,}. {FIX}")
    said = ast.literal_eval(member.read(length).decode("latin-1").strip())
    if not isinstance(said, dict) or set(said) != {"descr", "fortran_order", "shape"}:
        raise FileError(f"{member.place} has a header that describes no array. {FIX}")
    descr, shape = said["descr"], said["shape"]
    if not isinstance(descr, str) or not _DTYPE.fullmatch(descr):
        objects = "Python objects are pickles, which can run any code. " if "O" in str(descr) else ""
        raise FileError(
            f"{member.place} has dtype {short(descr)}, which is not read. {objects}Use numbers, or for names "
            "np.array(names, dtype=str)."
        )
    if not isinstance(shape, tuple) or any(type(n) is not int or not 0 <= n < 2**63 for n in shape):
        raise FileError(f"{member.place} has shape {short(shape)}, which no array has. {FIX}")
    return Header(np.dtype(descr), shape, bool(said["fortran_order"]), 8 + width + length)


def _check_shapes(source: Source, headers: dict[str, Header]) -> None:
    """Raise unless all shapes agree with that of the rewards."""
    shape = headers["reward"].shape
    sizes = dict(zip("SKA", shape, strict=True))
    for name, header in headers.items():
        wanted = tuple(sizes[axis] for axis in _RULES[name].axes)
        if header.shape != wanted:
            raise ModelError(
                f"{name} in {source.name} has shape {header.shape}, but reward {shape} = [S, K, A] requires {wanted}."
            )


def _plan(source: Source, infos: dict[str, zipfile.ZipInfo], headers: dict[str, Header]) -> None:
    """Raise if the arrays do not fit into memory, or are far larger than the file."""
    raw = sum(info.file_size for info in infos.values())
    if raw > _SPARE + _EXPANSION * source.size:
        raise FileError(
            f"{source.name} has {in_words(source.size)} and would be unpacked to {in_words(raw)}. If that is right, "
            "save it uncompressed, with np.savez."
        )
    numbers = names = 0
    for header in headers.values():
        if header.dtype.kind == "U":
            names += math.prod(header.shape) * (_NAME_BYTES + header.dtype.itemsize)
        else:
            numbers += math.prod(header.shape)
    arrays.refuse_large(f"The model in {source.name}", raw + 12.0 * numbers + names)


def _names(source: Source, name: str, texts: npt.NDArray[Any]) -> list[str]:
    """Texts as a list. NumPy would also make characters that do not exist, which no program expects."""
    characters = texts.view(np.dtype(np.uint32).newbyteorder(texts.dtype.byteorder))
    if characters.max() > sys.maxunicode:
        raise FileError(f"{name} in {source.name} is damaged: it has characters that do not exist. {FIX}")
    found: list[str] = texts.tolist()
    return found


def _array(source: Source, archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: Header) -> npt.NDArray[Any]:
    """Read an array."""
    order: Any = "F" if header.fortran else "C"
    logical = header.dtype.kind == "b"
    array: npt.NDArray[Any] = np.empty(header.shape, np.uint8 if logical else header.dtype, order)
    with opened_member(source, archive, info) as member:
        member.read(header.length)
        member.read_into(array.reshape(-1, order="A").view(np.uint8).data)
    if logical:
        if array.max() > 1:
            raise FileError(f"{member.place} is damaged: a boolean is neither 0 nor 1. {FIX}")
        array = array.view(np.bool_)
    return np.ascontiguousarray(array).reshape(header.shape)  # a scalar becomes [1] in between
