"""Arrays: the conversions and checks every table passes once, before any kernel sees it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

ROUNDOFF = 2.0**-53
"""Unit roundoff of float64: a correctly rounded result is off by at most this, relative."""

UNDERFLOW = 2.0**-900
"""More than all underflows of a run can add up to, on rewards of size 1."""

ROW_SUM_TOLERANCE = 1e-6
"""A row of probabilities may miss 1 by this much (single precision does) and is then divided by its sum."""


def floats(name: str, value: npt.ArrayLike, axes: str, error: type[ValueError]) -> Floats:
    """Return a fresh float64 array with the axes written in `axes`, e.g. ``"[S, K, A]"``."""
    array = _array(name, value, axes, error)
    if array.dtype.kind not in "fiub":
        raise error(f"{name} has dtype {array.dtype}. Give real numbers.")
    return array.astype(np.float64)


def integers(name: str, value: npt.ArrayLike, axes: str, error: type[ValueError]) -> Integers:
    """Return a fresh int64 array; floats are refused, for a rounded index would go unnoticed."""
    array = _array(name, value, axes, error)
    if array.dtype.kind not in "iu":
        raise error(f"{name} has dtype {array.dtype}. Give integers; are the arguments in the right order?")
    return array.astype(np.int64)


def booleans(name: str, value: npt.ArrayLike, axes: str, error: type[ValueError]) -> Booleans:
    """Return a fresh boolean array; numbers are refused, for a list of indices would go unnoticed."""
    array = _array(name, value, axes, error)
    if array.dtype.kind != "b":
        raise error(
            f"{name} has dtype {array.dtype}. Give one True or False for each entry of {axes}; "
            "from indices, np.isin(np.arange(S), indices)."
        )
    return array.astype(np.bool_)


def _array(name: str, value: npt.ArrayLike, axes: str, error: type[ValueError]) -> npt.NDArray[np.generic]:
    refuse_masked(name, value, error)
    try:
        array = np.asarray(value)
    except ValueError as ragged:
        raise error(f"{name} is not a rectangular array {axes}: {ragged}") from None
    if array.ndim != axes.count(",") + 1:
        raise error(f"{name} has shape {array.shape}. Its axes are {axes}.")
    return array


def refuse_masked(name: str, value: object, error: type[ValueError]) -> None:
    """Raise where an entry is masked, also inside lists: NumPy's conversion would take what lies under the mask."""
    if isinstance(value, (list, tuple)):
        for part in value:
            refuse_masked(name, part, error)
    elif isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise error(f"{name} has masked entries. Fill them with numbers first, e.g. array.filled(0).")


def refuse_where(
    bad: Booleans,
    array: npt.NDArray[np.generic],
    name: str,
    rule: str,
    where: Callable[[Sequence[int]], str],
    error: type[ValueError],
) -> None:
    """Raise `error` at the first bad entry, saying where it is, what it is and what the rule is."""
    if not bad.any():
        return
    at = [int(i) for i in np.argwhere(bad)[0]]
    more = int(bad.sum()) - 1
    others = f" ({more} more like it)" if more else ""
    index = ", ".join(map(str, at))
    raise error(f"{name}[{index}] is {array[tuple(at)]} at {where(at)}{others}: {rule}.")


def normalised_rows(rows: Floats, describe: Callable[[int], str], error: type[ValueError]) -> Floats:
    """Return rows of probabilities that sum to 1 up to rounding, or raise for the one that does not.

    A row that already does is kept bit for bit, so that a table stored once is stored the same again.
    """
    sums = np.array([math.fsum(row) for row in rows])
    off = np.abs(sums - 1)
    if off.max() > ROW_SUM_TOLERANCE:
        s = int(off.argmax())
        raise error(f"{describe(s)} sums to {sums[s]:.9g}, not 1. Divide the row by its sum, or find what is missing.")
    loose = off > rows.shape[1] * np.finfo(float).eps
    rows[loose] /= sums[loose, None]
    return rows


def cumulative_rows(rows: Floats) -> Floats:
    """Return running sums along each row that reach 1.0 exactly at the last possible entry.

    Entry i is chosen by a uniform number u where ``cumulative[i − 1] ≤ u < cumulative[i]``; an entry of probability 0
    never is.
    """
    sums = np.minimum(np.cumsum(rows, axis=1), 1.0)
    last = rows.shape[1] - 1 - np.argmax(rows[:, ::-1] > 0, axis=1)
    sums[np.arange(rows.shape[1]) >= last[:, None]] = 1.0
    return sums


def largest(x: Floats) -> float:
    """max |x|, without the temporary that np.abs makes."""
    return max(float(x.max()), -float(x.min()))


class FrozenArrays:
    """A class whose arrays stay read-only when it is copied or pickled."""

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                frozen(value)
            object.__setattr__(self, name, value)


def frozen(array: npt.NDArray[np.generic]) -> None:
    """Make an array read-only."""
    array.setflags(write=False)
