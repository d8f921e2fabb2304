"""Scaling of returns by a power of two during a computation, and of results back.

The scaling is exact, keeps every square in range, and makes results scale bit for bit with rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import overload

import numpy as np

from jmdp.base.arrays import Floats, Integers

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
