"""Double-double arithmetic: unevaluated sums of two float64 arrays, about 106 bits, in plain NumPy.

Rounding errors in the mean of a return at discount γ are amplified by 1/(1−γ). Keeping the mean in two words makes the
TD errors, and so every central moment, accurate to the last bit. The algorithms are Knuth's two-sum and Dekker's
two-product; each operation below is within 2⁻¹⁰² of the exact result, relative to the magnitudes it adds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jmdp.base.arrays import Booleans, Floats

RELATIVE_ERROR = 2.0**-102
_SPLITTER = 2.0**27 + 1


class DoubleDouble(NamedTuple):
    """The number high + low, with |low| ≤ ulp(high)/2."""

    high: Floats
    low: Floats

    def at(self, index: Any) -> DoubleDouble:
        """Entries at an index, as of an array."""
        return DoubleDouble(self.high[index], self.low[index])

    def times(self, factor: Floats | Booleans) -> DoubleDouble:
        """The product with powers of two, 0 and 1, which is exact."""
        return DoubleDouble(self.high * factor, self.low * factor)

    @property
    def transposed(self) -> DoubleDouble:
        """Transpose of a table."""
        return DoubleDouble(self.high.T, self.low.T)


def of(values: Floats) -> DoubleDouble:
    """Convert float64 values, exactly."""
    return DoubleDouble(values, np.zeros_like(values))


def _two_sum(a: Floats, b: Floats) -> DoubleDouble:
    s = a + b
    t = s - a
    return DoubleDouble(s, (a - (s - t)) + (b - t))


def _quick_two_sum(a: Floats, b: Floats) -> DoubleDouble:
    s = a + b
    return DoubleDouble(s, b - (s - a))


def _two_product(a: Floats, b: Floats) -> DoubleDouble:
    p = a * b
    t = _SPLITTER * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = _SPLITTER * b
    b_high = t - (t - b)
    b_low = b - b_high
    return DoubleDouble(p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low)


def difference(x: Floats, y: Floats) -> DoubleDouble:
    """Return x − y of float64 arrays, exactly."""
    return _two_sum(x, -y)


def add(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return x + y."""
    high, error = _two_sum(x.high, y.high)
    low, error_2 = _two_sum(x.low, y.low)
    high, error = _quick_two_sum(high, error + low)
    return _quick_two_sum(high, error + error_2)


def add_float(x: DoubleDouble, y: Floats) -> DoubleDouble:
    """Return x + y for a float64 y."""
    high, error = _two_sum(x.high, y)
    return _quick_two_sum(high, error + x.low)


def negative(x: DoubleDouble) -> DoubleDouble:
    """Return −x."""
    return DoubleDouble(-x.high, -x.low)


def scale(x: DoubleDouble, factor: Floats) -> DoubleDouble:
    """Return x × factor for a float64 factor."""
    high, error = _two_product(x.high, factor)
    return _quick_two_sum(high, error + x.low * factor)


def multiply(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return x × y."""
    high, error = _two_product(x.high, y.high)
    return _quick_two_sum(high, error + (x.high * y.low + x.low * y.high))


def differences(x: DoubleDouble, error: Floats) -> tuple[Floats, Floats]:
    """x(s, a) − x(s, b) [S, A, A], rounded once, and bounds on their errors, from x [S, A] and errors of x."""
    found = add(x.at(np.s_[:, :, None]), negative(x.at(np.s_[:, None])))
    size = np.abs(x.high[:, :, None]) + np.abs(x.high[:, None])
    off = error[:, :, None] + error[:, None] + np.abs(found.low) + 4 * RELATIVE_ERROR * size
    return found.high, np.asarray(off * (1 + 2.0**-40))


def total(x: DoubleDouble, axis: int) -> DoubleDouble:
    """Sum along an axis, slice by slice."""
    parts = [
        DoubleDouble(*part) for part in zip(np.moveaxis(x.high, axis, 0), np.moveaxis(x.low, axis, 0), strict=True)
    ]
    result = parts[0]
    for part in parts[1:]:
        result = add(result, part)
    return result


def minimum(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return the smaller of x and y."""
    smaller = (x.high < y.high) | ((x.high == y.high) & (x.low < y.low))
    return DoubleDouble(np.where(smaller, x.high, y.high), np.where(smaller, x.low, y.low))
