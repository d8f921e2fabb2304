"""Returns divided by a power of two while they are worked on, and results multiplied back.

That is exact, keeps every square in range, and makes results scale bit for bit with rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import overload

import numpy as np

from jmdp.base.arrays import Floats, Integers

_HIDDEN = 2.0**-1073
"""What an underflow can hide."""


@dataclass(frozen=True)
class Scale:
    """The power of two, as its exponent.

    `power` says how a number grows with rewards: 1 for returns and means, 2 for products and covariances. `units` are
    exponents of further powers of two that it is to be multiplied with.
    """

    exponent: int

    @classmethod
    def above(cls, size: float) -> Scale:
        """The power of two just above a size, by which it comes to be in [½, 1); 1 for the size 0."""
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
        """Return rewards or returns, or what grows with them, as they are worked on."""
        return _times_power(x, -self.exponent)

    @overload
    def restore(self, x: float, power: int = ..., units: int = ...) -> float: ...

    @overload
    def restore(self, x: Floats, power: int | Integers = ..., units: int | Integers = ...) -> Floats: ...

    def restore(self, x: float | Floats, power: int | Integers = 1, units: int | Integers = 0) -> float | Floats:
        """Return numbers on the scale of the rewards as they were given."""
        return _times_power(x, power * self.exponent + units)

    @overload
    def restore_error(self, error: float, power: int = ..., units: int = ...) -> float: ...

    @overload
    def restore_error(self, error: Floats, power: int | Integers = ..., units: int | Integers = ...) -> Floats: ...

    def restore_error(
        self, error: float | Floats, power: int | Integers = 1, units: int | Integers = 0
    ) -> float | Floats:
        """Return errors likewise, with what an underflow can hide; infinite where they are too large."""
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
