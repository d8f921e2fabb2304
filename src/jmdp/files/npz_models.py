"""Models in NumPy archives (npz). Nothing is unpickled."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import refuse_large
from jmdp.base.guard import Plain
from jmdp.base.settings import short
from jmdp.errors import FileError, ModelError
from jmdp.files.opening import FIX, damage, opened


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


def read(path: str) -> Plain:
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
