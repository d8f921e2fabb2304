"""Step sizes of stochastic approximation, by the number of earlier updates of a coordinate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.settings import nonnegative
from jmdp.errors import SettingsError

StepSizes = Callable[[Floats], Floats]
"""Function from counts of earlier updates of a coordinate (0, 1, 2, …) to step sizes in (0, 1]."""

_DOUBLINGS = 48
"""Step sizes are tabulated for counts up to 2**48."""


@dataclass(frozen=True)
class ConstantSteps:
    """Constant α = `size`. Averages of iterates converge if every coordinate is updated regularly (`Incremental`).

    Constant steps do not satisfy Eq. (29).
    """

    size: float = 0.1

    def __post_init__(self) -> None:
        _check_first(self, "size")

    def __call__(self, counts: Floats) -> Floats:
        """Step sizes after these numbers of updates."""
        return np.full(counts.shape, self.size)


@dataclass(frozen=True)
class PolynomialSteps:
    """α_n = `first` × (1 + n/`delay`)^−`exponent` after n updates of the coordinate.

    With ½ < exponent ≤ 1 these are the steps of Robbins and Monro required by the paper's Theorem 5.4 (Eq. (29)). A
    larger delay keeps them large for longer.
    """

    exponent: float = 0.6
    first: float = 0.5
    delay: float = 100.0

    def __post_init__(self) -> None:
        _check_first(self, "first")
        nonnegative(self, "delay")
        nonnegative(self, "exponent")
        if not 0.5 < self.exponent <= 1:
            raise SettingsError(f"exponent is {self.exponent!r}. Give ½ < exponent ≤ 1, for which iterates converge.")
        if self.delay == 0:
            raise SettingsError("delay is 0. Give the number of updates after which steps begin to shrink, e.g. 1.")

    def __call__(self, counts: Floats) -> Floats:
        """Step sizes after these numbers of updates."""
        return np.asarray(self.first * (1 + counts / self.delay) ** -self.exponent)


def step_table(rule: StepSizes) -> Floats:
    """Table of step sizes for the kernel: of the 1st, 2nd, … update, at counts of twelve binary digits."""
    from jmdp.methods.kernels.moment_updates import DIGITS

    half = 2.0 ** (DIGITS - 1)
    leading = 1 + np.arange(half) / half
    counts = np.concatenate([np.floor(leading * 2.0**doublings) - 1 for doublings in range(_DOUBLINGS)])
    try:
        returned = rule(counts.copy())
    except Exception as error:
        error.add_note("Raised by steps. Give a function of an array of counts.")
        raise
    steps = arrays.floats("The result of steps", returned, "[counts]", SettingsError)
    if steps.shape != counts.shape:
        raise SettingsError(f"steps returned shape {steps.shape} for counts of shape {counts.shape}. Return one each.")
    bad = ~((steps > 0) & (steps <= 1))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise SettingsError(f"steps returned {steps[at]} after {counts[at]:.0f} updates. Return step sizes in (0, 1].")
    return np.ascontiguousarray(steps)


def _check_first(steps: object, name: str) -> None:
    nonnegative(steps, name)
    if not 0 < getattr(steps, name) <= 1:
        raise SettingsError(f"{name} is {getattr(steps, name)!r}. Give a step size in (0, 1].")
