"""Worlds: a model with standard policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.settings import checked_grid, instance, number, short
from jmdp.errors import ModelError, PolicyError
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP, check_model
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
        check_model(self.model)
        _check_policies(self.policies)
        for policy in self.policies.values():
            instance("A policy", policy, TabularPolicy, PolicyError)
            policy.check_fits(self.model)
        if self.simulator is not None:
            instance("simulator", self.simulator, Simulator)
        if self.grid is not None:
            object.__setattr__(self, "grid", checked_grid(self.grid, self.model.states.size))
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

    def __post_init__(self) -> None:
        instance("model", self.model, LazyJMDP, ModelError)
        _check_policies(self.policies)
        for policy in self.policies.values():
            if not callable(policy):
                raise PolicyError(f"A policy is {short(policy)}. Give a function of the state.")


def _check_policies(policies: object) -> None:
    instance("policies", policies, Mapping, PolicyError)
    assert isinstance(policies, Mapping)
    if not all(isinstance(name, str) for name in policies):
        raise PolicyError(f"policies is {short(policies)}. Give policies by name.")


_LARGEST = 1e140
"""Largest amount of money: rewards are sums of products of it with whole numbers."""


def amount(name: str, value: object) -> float:
    """Return a reward, price or cost as a float."""
    return number(name, value, -_LARGEST, _LARGEST)
