"""Conversion and validation of arrays, applied once to every table before any kernel uses it.

Scaling of returns by a power of two during a computation, and of results back.

The scaling is exact, keeps every square in range, and makes results scale bit for bit with rewards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from jmdp.base.machine import budget, in_words
from jmdp.base.settings import UNCONVERTIBLE, real_number, short
from jmdp.errors import MemoryBudgetError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

ROUNDOFF = 2.0**-53
"""Unit roundoff of float64: a correctly rounded result has at most this relative error."""

SMALLEST = 2.0**-1074
"""Smallest positive float64: no product loses more to underflow."""

UNDERFLOW = 2.0**-900
"""Upper bound on the sum of all underflow errors of a run, for rewards of size 1."""

ROW_SUM_TOLERANCE = 1e-6
"""Largest deviation of a probability row's sum from 1 that is corrected (single precision needs it)."""


def floats(name: str, value: npt.ArrayLike, axes: str, error: type[ValueError]) -> Floats:
    """Return a new float64 array with the axes written in `axes`, e.g. ``"[S, K, A]"``."""
    array = _array(name, value, axes, error)
    if array.dtype.kind not in "fiub":
        raise error(f"{name} has dtype {array.dtype}{_no_number(array)}. Give real numbers.")
    return array.astype(np.float64)


def _no_number(array: npt.NDArray[np.generic]) -> str:
    """The first entry of an array that is no real number."""
    for place, value in np.ndenumerate(array):
        if not math.isfinite(real_number(value)):
            at = ", ".join(map(str, place))
            return f", and its entry [{at}] is {short(value)}"
    return ""


def integers(name: str, value: npt.ArrayLike, axes: str, error: type[ValueError]) -> Integers:
    """Return a new int64 array; floats are refused because a rounded index would go unnoticed."""
    array = _array(name, value, axes, error)
    if array.dtype.kind not in "iu":
        raise error(f"{name} has dtype {array.dtype}. Give integers, and check the order of the arguments.")
    return array.astype(np.int64)


def booleans(name: str, value: npt.ArrayLike, axes: str, error: type[ValueError]) -> Booleans:
    """Return a new boolean array; numbers are refused because a list of indices would go unnoticed."""
    array = _array(name, value, axes, error)
    if array.dtype.kind != "b":
        raise error(
            f"{name} has dtype {array.dtype}. Give one True or False for each entry of {axes}; "
            "to convert indices: np.isin(np.arange(S), indices)."
        )
    return array.astype(np.bool_)


def _array(name: str, value: npt.ArrayLike, axes: str, error: type[ValueError]) -> npt.NDArray[np.generic]:
    refuse_masked(name, value, error)
    try:
        array = np.asarray(value)
    except UNCONVERTIBLE as reason:
        raise error(f"{name} is not a rectangular array {axes}: {short(str(reason), 200)}") from None
    if array.ndim != axes.count(",") + 1:
        raise error(f"{name} has shape {array.shape}. Its axes are {axes}.")
    refuse_large(f"{name} of shape {array.shape}", 8.0 * array.size)
    return array


def dimensions(value: object) -> int | None:
    """Number of axes of an array or of nested lists; None if they cannot be converted to an array."""
    try:
        return np.ndim(value)  # type: ignore[arg-type]
    except UNCONVERTIBLE:
        return None


_SMALL = 1 << 24
"""Bytes that are allocated without a look at the memory that is free."""


def refuse_large(what: str, size: float) -> None:
    """Raise if this many bytes are not free: a broadcast array has any size before it is copied."""
    if size > _SMALL and size > (allowed := budget(None)):
        raise MemoryBudgetError(f"{what} needs {in_words(size)}, but only {in_words(allowed)} may be used.")


def refuse_large_copies(what: str, values: Sequence[object], each: float) -> None:
    """Raise if copies of these arrays, with so many bytes for each number, do not fit into memory together.

    Lists are not counted: they occupy more memory already than their copies will.
    """
    size = 0
    for value in values:
        shape = getattr(value, "shape", None)
        size += math.prod(shape) if isinstance(shape, tuple) else 0
    refuse_large(f"{what} of {size:.3g} numbers", each * size)


def refuse_masked(name: str, value: object, error: type[ValueError], depth: int = 4) -> None:
    """Raise if an entry is masked, also in nested lists: NumPy's conversion would use the value under the mask."""
    if depth and isinstance(value, (list, tuple)):
        for part in value:
            refuse_masked(name, part, error, depth - 1)
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
    """Raise `error` for the first bad entry, with its position, its value and the rule it violates."""
    if not bad.any():
        return
    at = [int(i) for i in np.argwhere(bad)[0]]
    more = int(bad.sum()) - 1
    others = f" ({more} more like it)" if more else ""
    index = ", ".join(map(str, at))
    raise error(f"{name}[{index}] is {array[tuple(at)]} at {where(at)}{others}: {rule}.")


def normalised_rows(rows: Floats, describe: Callable[[int], str], error: type[ValueError]) -> Floats:
    """Return rows of probabilities normalised to sum to 1 up to rounding; raise if a sum is too far from 1.

    A row that already sums to 1 is kept bit for bit, so that saving and loading a table does not change it.
    """
    sums = np.fromiter(map(math.fsum, rows), np.float64, len(rows))
    off = np.abs(sums - 1)
    if off.max() > ROW_SUM_TOLERANCE:
        s = int(off.argmax())
        raise error(
            f"{describe(s)} sums to {sums[s]:.9g}, not 1. Divide the row by its sum, or add the missing probability."
        )
    loose = off > rows.shape[1] * np.finfo(float).eps
    rows[loose] /= sums[loose, None]
    return rows


def certain(probabilities: Floats) -> Booleans:
    """Whether only one entry along the last axis is possible."""
    return np.asarray(np.count_nonzero(probabilities, axis=-1) == 1)


def cumulative_rows(rows: Floats) -> Floats:
    """Return cumulative sums along each row, exactly 1.0 from the last entry of positive probability on.

    A uniform number u selects entry i if ``cumulative[i − 1] ≤ u < cumulative[i]``; an entry of probability 0 is never
    selected.
    """
    sums = np.minimum(np.cumsum(rows, axis=1), 1.0)
    last = rows.shape[1] - 1 - np.argmax(rows[:, ::-1] > 0, axis=1)
    sums[np.arange(rows.shape[1]) >= last[:, None]] = 1.0
    return sums


def largest(x: Floats) -> float:
    """Return max |x| without the temporary array of np.abs."""
    return max(float(x.max()), -float(x.min()))


class FrozenArrays:
    """Base class whose arrays stay read-only in copied and unpickled instances."""

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self.freeze()

    def freeze(self) -> None:
        """Make all arrays read-only."""
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                frozen(value)


def frozen(array: npt.NDArray[np.generic]) -> None:
    """Make an array read-only."""
    array.setflags(write=False)


class Indices(list[int]):
    """A list of integers from 0 to count − 1, which is not changed, so that it need not be checked again."""

    __slots__ = ("below",)

    def __init__(self, values: Iterable[int], count: int) -> None:
        super().__init__(values)
        self.below = count


def are_indices(values: Sequence[Any], count: int) -> bool:
    """Whether all values are Python integers from 0 to count − 1; at least one must be given."""
    if type(values) is Indices and values.below <= count:
        return True
    if set(map(type, values)) != {int}:
        return False
    distinct = set(values)
    return bool(min(distinct) >= 0 and max(distinct) < count)


_HIDDEN = 2.0**-1073
"""Largest amount that an underflow can lose."""


@dataclass(frozen=True)
class Scale:
    """A power of two that divides rewards and returns, stored as its exponent.

    `power` is the degree of a number in the rewards: 1 for returns and means, 2 for products and covariances. `units`
    are exponents of further powers of two to multiply with.
    """

    exponent: int

    @classmethod
    def above(cls, size: float) -> Scale:
        """Return the power of two just above a size, which scales it into [½, 1); 1 for the size 0."""
        return cls(math.frexp(size)[1] if size else 0)

    @property
    def factor(self) -> Fraction:
        """The power of two itself."""
        return Fraction(2) ** self.exponent

    @overload
    def divide(self, x: float) -> float: ...

    @overload
    def divide(self, x: Floats) -> Floats: ...

    def divide(self, x: float | Floats) -> float | Floats:
        """Return rewards, returns or other quantities of degree 1 divided by the scale."""
        return _times_power(x, -self.exponent)

    @overload
    def restore(self, x: float, power: int = ..., units: int = ...) -> float: ...

    @overload
    def restore(self, x: Floats, power: int | Integers = ..., units: int | Integers = ...) -> Floats: ...

    def restore(self, x: float | Floats, power: int | Integers = 1, units: int | Integers = 0) -> float | Floats:
        """Return numbers on the original scale of the rewards."""
        return _times_power(x, power * self.exponent + units)

    @overload
    def restore_error(self, error: float, power: int = ..., units: int = ...) -> float: ...

    @overload
    def restore_error(self, error: Floats, power: int | Integers = ..., units: int | Integers = ...) -> Floats: ...

    def restore_error(
        self, error: float | Floats, power: int | Integers = 1, units: int | Integers = 0
    ) -> float | Floats:
        """Return errors on the original scale, plus the largest loss by underflow; infinite if too large."""
        with np.errstate(over="ignore"):
            restored = np.ldexp(error, power * self.exponent + units)
        restored = restored + np.where(np.greater(error, 0), _HIDDEN, 0.0)
        return np.asarray(restored) if isinstance(error, np.ndarray) else float(restored)


def _times_power(x: float | Floats, exponent: int | Integers) -> float | Floats:
    if isinstance(x, np.ndarray):
        return np.ldexp(x, exponent)
    try:
        return math.ldexp(x, int(exponent))
    except OverflowError:
        return math.copysign(math.inf, x)
