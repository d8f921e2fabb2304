"""Inputs of regressions: the observation of a state as one row of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Floats

_MOST_VALUES = 200
"""A single integer with at most so many values has one input for each of them."""

_SIDE = 12
"""Images are averaged over a grid of so many cells along each side."""


@dataclass(frozen=True, eq=False)
class Inputs(arrays.FrozenArrays):
    """How the observations of a simulator become inputs; fitted to observations of visited states."""

    shape: tuple[int, ...]
    dtype: str
    values: Floats | None  # of a single integer, each with an input of its own
    kept: npt.NDArray[np.int64]  # inputs that vary

    @classmethod
    def of(cls, observations: npt.NDArray[Any]) -> Inputs:
        """Inputs for observations [n, …]."""
        shape, values = observations.shape[1:], None
        if np.prod(shape) == 1 and observations.dtype.kind in "iu":
            found = np.unique(observations).astype(np.float64)
            values = found if len(found) <= _MOST_VALUES else None
        every = cls(shape, observations.dtype.str, values, np.zeros(0, np.int64))
        numbers = every._numbers(observations)
        kept = np.flatnonzero(np.ptp(numbers, axis=0) > 0)
        return cls(shape, observations.dtype.str, values, kept if len(kept) else np.zeros(1, np.int64))

    def __call__(self, observations: npt.NDArray[Any]) -> Floats:
        """Inputs [n, d] of observations [n, …]."""
        return np.ascontiguousarray(self._numbers(observations)[:, self.kept])

    def _numbers(self, observations: npt.NDArray[Any]) -> Floats:
        if self.values is not None:
            return np.asarray(observations.reshape(-1, 1) == self.values, np.float64)
        if (sides := _sides(self.shape)) is not None:
            observations = _averaged(observations, sides)
        return np.asarray(observations.reshape(len(observations), -1), np.float64)


def _sides(shape: Sequence[int]) -> tuple[int, int] | None:
    """The axes of an image that is larger than the grid: the two longest of two or three."""
    if len(shape) not in (2, 3):
        return None
    one, other = sorted(np.argsort(shape, kind="stable")[-2:].tolist())
    return (one, other) if min(shape[one], shape[other]) > _SIDE else None


def _averaged(images: npt.NDArray[Any], sides: tuple[int, int]) -> Floats:
    """Means over the cells of the grid."""
    found: Floats = images.astype(np.float64)
    for axis in (1 + side for side in sides):
        ends = np.linspace(0, found.shape[axis], _SIDE + 1).astype(np.int64)
        sums = np.add.reduceat(found, ends[:-1], axis=axis)
        size = [1] * found.ndim
        size[axis] = _SIDE
        found = sums / np.diff(ends).reshape(size)
    return found
