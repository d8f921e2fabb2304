"""Worlds: a model with standard policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.errors import ModelError, SettingsError
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.simulator import Simulator


@dataclass(frozen=True, eq=False)
class World:
    """A built-in problem: a model, its standard policies, and optionally a start distribution and a simulator.

    Attributes
    ----------
    model
        The scenario table.
    policies
        Standard policies by name; the first is the default.
    grid
        (rows, columns) if the states are the cells of a grid, row by row from the top; else None.
    start
        ``[S]``, probability that an episode begins in state s. None if unspecified.
    simulator
        The same problem as a simulator that does not use the table; None if there is only the table. Its states are
        tuples, and its `policies` are functions of them.
    """

    model: TabularJMDP
    policies: Mapping[str, TabularPolicy]
    grid: tuple[int, int] | None = None
    start: Floats | None = None
    simulator: Simulator | None = None

    def __post_init__(self) -> None:
        if self.start is None:
            return
        start = arrays.floats("start", self.start, "[S]", ModelError)
        S = self.model.states.size
        if start.shape != (S,):
            raise ModelError(f"start has shape {start.shape}, the model has {S} states. Give a probability for each.")
        if not (start >= 0).all():
            raise ModelError(f"start has an entry {start.min()}. Give probabilities in [0, 1].")
        start = arrays.normalised_rows(start[None], lambda s: "start", ModelError)[0]
        arrays.frozen(start)
        object.__setattr__(self, "start", start)


@dataclass(frozen=True, eq=False)
class LazyWorld:
    """A problem too large for a table: a lazy model, and policies as functions of the state."""

    model: LazyJMDP
    policies: Mapping[str, Callable[[Any], npt.ArrayLike]]


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise `SettingsError` unless the value is a number in [low, high]."""
    if not (isinstance(value, Real) and low <= value <= high):
        raise SettingsError(f"{name} is {value!r}. Give a number from {low:g} to {high:g}.")


def check_whole(name: str, value: int, low: int, high: int) -> None:
    """Raise `SettingsError` unless the value is a whole number in [low, high]."""
    if not (isinstance(value, Integral) and low <= value <= high):
        raise SettingsError(f"{name} is {value!r}. Give a whole number from {low} to {high}.")
