"""Powers of the discount factor, and bounds on the errors of discounted sums, by rounding and by underflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import ROUNDOFF, SMALLEST, Floats

_UP = 1 + 2.0**-40
"""Covers the rounding of a bound that is itself computed in floats."""


@dataclass(frozen=True, eq=False)
class Weights:
    """γᵗ for t = 0 … T as floats. A power that underflows is not 0, so each has an error of its own."""

    value: Floats  # [T + 1]
    error: Floats  # [T + 1], at least |γᵗ − value[t]|

    @classmethod
    def of(cls, discount: float, steps: int) -> Weights:
        """Powers up to γ^steps."""
        value = np.multiply.accumulate(np.array([1.0, *[discount] * steps]))
        error = np.zeros(steps + 1)
        if 0 < discount < 1:
            for t in range(2, steps + 1):
                error[t] = (discount * error[t - 1] + 2 * ROUNDOFF * value[t] + 2 * SMALLEST) * _UP
        return cls(value, error)

    def since(self, t: int) -> Weights:
        """The powers from γᵗ on."""
        return Weights(self.value[t:], self.error[t:])

    def total(self, x: Sequence[float] | Floats) -> float:
        """Σ γᵗ x[t], summed in floats."""
        return float(self.value[: len(x)] @ np.asarray(x, np.float64))

    def bounds(self, errors: Sequence[float] | Floats) -> Floats:
        """[n], at least γᵗ errors[t]."""
        sizes = np.asarray(errors, np.float64)
        most = (self.value + self.error)[: len(sizes)]
        counts = (most > 0) & (sizes > 0)
        return np.multiply(most, sizes * _UP, out=np.zeros(len(sizes)), where=counts) + np.where(counts, SMALLEST, 0.0)

    def rounding(self, sizes: Sequence[float] | Floats) -> float:
        """At least the error of `total`, if each x[t] is off by at most 4 units of rounding of its size."""
        n = len(sizes)
        relative = 4 * (n + 4) * ROUNDOFF * self.value[:n] + self.error[:n]
        size = np.abs(np.asarray(sizes, np.float64))
        counts = (self.value[:n] + self.error[:n] > 0) & (size > 0)
        lost = np.multiply(relative, size, out=np.zeros(n), where=counts) + np.where(counts, 4 * SMALLEST, 0.0)
        return float(lost.sum()) * _UP
