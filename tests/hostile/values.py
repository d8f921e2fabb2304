"""Wrong values: what a caller could pass by mistake, each with a name and made anew for every call."""

from __future__ import annotations

import collections
import decimal
import fractions
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from jmdp.base.settings import short


@dataclass(frozen=True)
class Hostile:
    """One value; `same` if it means what the valid value means, so that an accepted call has the same answer."""

    name: str
    value: Any
    same: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {short(self.value, 60)}"


class CallError(RuntimeError):
    """Raised by a function of this file: it comes out of an entry that calls it."""


class _Anything:
    """A class that takes all arguments, so that what was meant as a function returns an object."""

    def __init__(self, *_: object, **__: object) -> None:
        pass


def _function_that_raises(*_: object, **__: object) -> Any:
    raise CallError("raised by a function of the caller")


def _endless() -> list[Any]:
    itself: list[Any] = []
    itself.append(itself)
    return itself


SCALARS: dict[str, Callable[[], Any]] = {
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "minus inf": lambda: -math.inf,
    **{
        f"{v!r}": lambda v=v: v
        for v in (-1, 0, 1, 2, 0.5, -0.0, 1e308, -1e308, 5e-324, 1e-310, 2**31, 2**62, 2**63, 2**64)
    },
    "10^400": lambda: 10**400,
    "minus 10^400": lambda: -(10**400),
    "int of 5,001 digits": lambda: 10**5000,
    "True": lambda: True,
    "False": lambda: False,
    "None": lambda: None,
    "empty text": lambda: "",
    "number as text": lambda: "0.9",
    "long text": lambda: "x" * 10_000,
    "NUL": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "path": lambda: "../nowhere/x",
    "markup": lambda: "<script>alert(1)</script>",
    "bytes": lambda: b"x",
    "complex": lambda: 0.9 + 0j,
    "float16": lambda: np.float16(0.9),
    "float32": lambda: np.float32(0.9),
    "longdouble": lambda: np.longdouble("0.9"),
    "NumPy nan": lambda: np.float64("nan"),
    "int8 -1": lambda: np.int8(-1),
    "uint64 max": lambda: np.uint64(2**64 - 1),
    "NumPy bool": lambda: np.bool_(True),
    "NumPy text": lambda: np.str_("a"),
    "array of no axes": lambda: np.array(0.9),
    "array of one": lambda: np.array([0.9]),
    "array of two": lambda: np.array([0.1, 0.2]),
    "not a time": lambda: np.datetime64("NaT"),
    "fraction": lambda: fractions.Fraction(9, 10),
    "large fraction": lambda: fractions.Fraction(10**400),
    "small fraction": lambda: fractions.Fraction(1, 10**400),
    "decimal": lambda: decimal.Decimal("0.9"),
    "decimal nan": lambda: decimal.Decimal("NaN"),
    "large decimal": lambda: decimal.Decimal("1e999"),
    "empty list": list,
    "empty tuple": tuple,
    "empty dict": dict,
    "set": lambda: {1},
    "dict": lambda: {"a": 1},
    "unhashable names": lambda: [["a"], ["b"]],
    "object": object,
    "class": lambda: _Anything,
    "function": lambda: lambda *a, **k: 0,
    "function that raises": lambda: _function_that_raises,
    "generator": lambda: (x for x in range(3)),
    "range": lambda: range(3),
    "slice": lambda: slice(None),
    "Ellipsis": lambda: Ellipsis,
    "NotImplemented": lambda: NotImplemented,
    "list that contains itself": _endless,
    "random generator": lambda: np.random.default_rng(0),
}


def scalar(rng: np.random.Generator) -> Hostile:
    """Any single value."""
    name = list(SCALARS)[rng.integers(len(SCALARS))]
    return Hostile(name, SCALARS[name]())


def like(valid: object, rng: np.random.Generator) -> Hostile:
    """A variant of the valid value, or any single value."""
    if isinstance(valid, (list, tuple)) and not _is_array(valid):
        return _contained(valid, rng)
    if isinstance(valid, (np.ndarray, list, tuple)) and rng.random() < 0.8:
        return variant(np.asarray(valid), rng)
    if isinstance(valid, (int, float)) and not isinstance(valid, bool) and rng.random() < 0.1:
        kinds = (np.int64, np.int32) if isinstance(valid, int) else (np.float64, fractions.Fraction)
        kind = kinds[rng.integers(len(kinds))]
        return Hostile(f"valid number as {kind.__name__}", kind(valid), same=True)
    return scalar(rng)


def _is_array(valid: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a list is one of numbers or of names, nested or not, so that an array means the same."""
    try:
        array = np.asarray(valid)
        return array.dtype.kind != "O" and array.tolist() == _listed(valid)
    except ValueError:  # ragged
        return False


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, (list, tuple)) else value


def _contained(valid: list[Any] | tuple[Any, ...], rng: np.random.Generator) -> Hostile:
    """A list of objects of which one is hostile, or a hostile list of them."""
    parts = list(valid)
    kind = rng.integers(6)
    if kind == 0:
        return Hostile("other sequence", tuple(parts) if isinstance(valid, list) else parts, same=True)
    if kind == 1:
        return Hostile("twice as long", parts + parts)
    if kind == 2:
        return scalar(rng)
    at = int(rng.integers(len(parts)))
    inner = like(parts[at], rng)
    parts[at] = inner.value
    return Hostile(f"part {at} is {inner.name}", type(valid)(parts))


def variant(valid: np.ndarray[Any, Any], rng: np.random.Generator) -> Hostile:
    """A hostile array of about the shape of the valid one."""
    makers = [*_entries, *_layouts, *_shapes, *_dtypes, *_others, *_libraries]
    for _ in range(20):
        made = makers[rng.integers(len(makers))](valid, rng)
        if made is not None:
            return made
    return scalar(rng)


Maker = Callable[[np.ndarray, np.random.Generator], Hostile | None]


def _entry(value: float) -> Maker:
    def make(valid: np.ndarray, rng: np.random.Generator) -> Hostile | None:
        if not valid.size or valid.dtype.kind not in "fiub":
            return None
        array = valid.astype(float)
        array.flat[rng.integers(array.size)] = value
        return Hostile(f"one entry {value}", array)

    return make


_entries = [_entry(v) for v in (math.nan, math.inf, -math.inf, -1.0, 2.0, 1e308, -1e308, 5e-324, 1e149, 0.3)]


def _layout(name: str, change: Callable[[np.ndarray], Any], same: bool = True) -> Maker:
    return lambda valid, rng: Hostile(name, change(valid), same) if valid.ndim and valid.size else None


def _strided(valid: np.ndarray) -> np.ndarray:
    wide = np.repeat(valid, 2, axis=-1)
    return wide[..., ::2]


def _read_only(valid: np.ndarray) -> np.ndarray:
    array = valid.copy()
    array.setflags(write=False)
    return array


def _masked(valid: np.ndarray) -> np.ndarray:
    array = np.ma.array(valid.copy(), mask=False)
    array[(0,) * valid.ndim] = np.ma.masked
    return array


_layouts = [
    _layout("list", np.ndarray.tolist),
    _layout("tuple of lists", lambda v: tuple(v.tolist())),
    _layout("deque", lambda v: collections.deque(v.tolist())),
    _layout("Fortran order", np.asfortranarray),
    _layout("reversed strides", lambda v: np.flip(np.flip(v).copy())),
    _layout("strided", _strided),
    _layout("read-only", _read_only),
    _layout("other byte order", lambda v: v.astype(v.dtype.newbyteorder())),
    _layout("masked array without a mask", lambda v: np.ma.array(v.copy())),
    _layout("subclass of ndarray", lambda v: v.view(type("Sub", (np.ndarray,), {}))),
    _layout("memoryview", lambda v: memoryview(np.ascontiguousarray(v)) if v.dtype.kind in "fiub" else v),
    _layout("masked entry", _masked, same=False),
]

_shapes = [
    _layout("no rows", lambda v: v[:0], same=False),
    _layout("all axes 0", lambda v: np.zeros((0,) * v.ndim), same=False),
    _layout("one axis more", lambda v: v[None], same=False),
    _layout("one axis less", lambda v: v[0], same=False),
    _layout("last axis of 10^5", lambda v: np.broadcast_to(v[..., :1], (*v.shape[:-1], 100_000)), same=False),
    _layout(
        "first axis of 10^11", lambda v: np.broadcast_to(v[:1], (10**11 // max(v[0].size, 1), *v.shape[1:])), same=False
    ),
]


def _dtype(code: str) -> Maker:
    def make(valid: np.ndarray, rng: np.random.Generator) -> Hostile | None:
        try:
            with np.errstate(all="ignore"):
                return Hostile(f"dtype {code}", valid.astype(code))
        except (TypeError, ValueError):
            return None

    return make


_dtypes = [
    _dtype(c) for c in ["f2", "f4", "f16", "i1", "i8", "u1", "u8", "c16", "?", "O", "S8", "U8", "M8[s]", "m8[s]"]
]

_others = [
    _layout("structured", lambda v: np.zeros(v.shape, [("a", "f8"), ("b", "i4")]), same=False),
    _layout("ragged", lambda v: [[1], [1, 2]], same=False),
    _layout("text", lambda v: [["a"]], same=False),
    _layout("generator", lambda v: (x for x in v.tolist()), same=False),
    _layout("integers of 30 digits", lambda v: [[10**30]], same=False),
    _layout("uint64 max", lambda v: np.full(v.shape, 2**64 - 1, "u8"), same=False),
    _layout("int64 min", lambda v: np.full(v.shape, -(2**63)), same=False),
    _layout("dict", lambda v: {0: v.tolist()}, same=False),
    _layout("bytes", np.ndarray.tobytes, same=False),
    _layout("list of objects", lambda v: [[object()]], same=False),
    lambda valid, rng: scalar(rng),
]


def _torch(valid: np.ndarray, rng: np.random.Generator) -> Hostile | None:
    import torch

    if valid.dtype.kind not in "fib":
        return None
    tensor = torch.tensor(np.ascontiguousarray(valid))
    made: list[Iterator[Hostile] | Hostile] = [Hostile("torch tensor", tensor, same=True)]
    made += [Hostile("torch sparse", tensor.to_sparse()), Hostile("torch meta", tensor.to("meta"))]
    if valid.dtype.kind == "f":
        made += [Hostile("torch requires grad", tensor.clone().requires_grad_(), same=True)]
        made += [Hostile("torch bfloat16", tensor.to(torch.bfloat16))]
    return made[rng.integers(len(made))]


def _jax(valid: np.ndarray, rng: np.random.Generator) -> Hostile | None:
    import jax.numpy as jnp

    if valid.dtype.kind not in "fib":
        return None
    array = jnp.asarray(valid)
    return Hostile("jax bfloat16", array.astype(jnp.bfloat16)) if rng.random() < 0.5 else Hostile("jax array", array)


def _tables(valid: np.ndarray, rng: np.random.Generator) -> Hostile | None:
    import pandas as pd
    import scipy.sparse
    import xarray as xr

    if not valid.ndim or not valid.size:
        return None
    made = [
        Hostile("xarray", xr.DataArray(valid)),
        Hostile("pandas integers with NA", pd.array([1, None], dtype="Int64")),
    ]
    if valid.ndim == 2:
        frame = pd.DataFrame(valid).astype("object")
        frame.iloc[0, 0] = pd.NA
        made += [Hostile("frame", pd.DataFrame(valid)), Hostile("frame with NA", frame)]
    if valid.ndim == 2 and valid.dtype.kind in "fi":
        made += [Hostile("sparse matrix", scipy.sparse.csr_matrix(valid))]
    return made[rng.integers(len(made))]


_torches = [_torch] if find_spec("torch") else []  # it is not installed with every version of Python
_libraries: list[Maker] = [*_torches, _jax, _tables, *_torches, _jax, _tables]
