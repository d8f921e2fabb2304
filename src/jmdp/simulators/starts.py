"""Start states of episodes: given states with probabilities, or the simulator's own resets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import ROW_SUM_TOLERANCE, Floats, Integers, cumulative_rows
from jmdp.base.labels import names_of
from jmdp.base.luck import Shock
from jmdp.base.settings import listed, real_number, short
from jmdp.errors import SettingsError
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.simulator import Simulator

_MOST_STARTS = 10_000_000

GOLDEN = 2654435769
"""2**32 times the golden ratio less 1."""

Unsigned = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Starts:
    """Start states and their probabilities; `states` is empty if the simulator draws its own starts."""

    states: Sequence[Any]
    probabilities: Floats  # [states]
    names: Sequence[str]

    @property
    def given(self) -> bool:
        """True if start states are given."""
        return bool(self.states)

    @cached_property
    def cumulative(self) -> Floats:
        """Cumulative probabilities [states]; the last entry is 1."""
        return np.asarray(cumulative_rows(self.probabilities[None])[0])

    def number(self, shock: Shock) -> int:
        """Index of the start state drawn by this shock; −1 if none are given."""
        if len(self.states) <= 1:  # nothing is drawn
            return len(self.states) - 1
        return int(np.searchsorted(self.cumulative, shock.uniform(), side="right"))

    def order(self, seed: int) -> tuple[Unsigned, int]:
        """Order [starts] in which a seed takes the starts, and an offset below 2**32."""
        rng = Shock.of_sample(seed, 0).derived(b"shares of starts").generator()
        return rng.permutation(len(self.states)).astype(np.uint64), int(rng.integers(2**32))

    @cached_property
    def edges(self) -> Unsigned:
        """Inner ends of the intervals of [0, m) that belong to the m starts, in units of 2**−32."""
        return np.rint(self.cumulative[:-1] * len(self.states) * 2.0**32).astype(np.uint64)

    def in_shares(self, seed: int, first: int, count: int) -> Integers:
        """Indices of the starts of samples first … first + count − 1, in shares that are their probabilities.

        Systematic sampling: m samples in turn take the points k + f of [0, m), k = 0, …, m − 1 in a random order. So
        of m equally likely starts each is taken once. From one turn to the next f changes by the golden ratio, so that
        the shares of other starts approach their probabilities as fast as possible.
        """
        order, offset = self.order(seed)
        turn, place = np.divmod(np.arange(first, first + count, dtype=np.uint64), np.uint64(order.size))
        points = (order[place] << np.uint64(32)) + (np.uint64(offset) + turn * np.uint64(GOLDEN)) % np.uint64(2**32)
        return np.searchsorted(self.edges, points, side="right")

    @classmethod
    def of(cls, starts: Any, simulator: Simulator, source: Any = None, *, name: str = "starts") -> Starts:
        """Convert an argument of this name; the default for a table is the `start` of `source`."""
        table = isinstance(simulator, TabularSimulator)
        if starts is None and table:
            starts = getattr(source, "start", None)
            if starts is None or callable(starts):
                raise SettingsError(
                    "A table has no start state. Give starts=…: a list of states, {state: probability}, or an array "
                    "[S] of probabilities."
                )
        if starts is None:
            return cls((), np.zeros(0), ())
        states, chances = _states(starts, simulator, name)
        if table:
            assert isinstance(simulator, TabularSimulator)
            labels = simulator.model.states
            if not isinstance(starts, np.ndarray) or starts.dtype.kind != "f":  # otherwise probabilities by position
                states = [labels.index(state) for state in states]
            names = [labels.name(state) for state in states]
        else:
            names = names_of("start", states)
        if len(set(names)) < len(names):
            raise SettingsError(
                f"{name} contains a state twice. Give each state once, with its probability: {{state: probability}}."
            )
        return cls(states, chances, names)


def _states(starts: Any, simulator: Simulator, name: str) -> tuple[list[Any], Floats]:
    """States with positive probability, and their probabilities."""
    if isinstance(starts, np.ndarray) and starts.dtype.kind == "f":
        if not isinstance(simulator, TabularSimulator) or starts.shape != simulator.model.terminal.shape:
            raise SettingsError(
                f"{name} is an array of shape {starts.shape}. Give probabilities [S] for a table, or a list of states."
            )
        states, chances = list(range(len(starts))), starts.astype(np.float64)
    elif isinstance(starts, Mapping):
        states, chances = list(starts), np.array([real_number(p) for p in starts.values()], np.float64)
    else:
        states = _listed(starts, name)
        if isinstance(simulator, TabularSimulator) and any(isinstance(state, float) for state in states):
            raise SettingsError(
                f"{name} is a list of floats. Give states, or probabilities as an array: np.array([…])."
            )
        chances = np.full(len(states), 1 / max(1, len(states)))
    if not states:
        raise SettingsError(f"{name} is empty. Give at least one state.")
    if not (np.isfinite(chances).all() and chances.min() >= 0 and abs(chances.sum() - 1) <= ROW_SUM_TOLERANCE):
        shown = short(chances.tolist(), 200)
        raise SettingsError(f"Probabilities of {name} are {shown}. Give non-negative numbers that sum to 1.")
    kept = np.flatnonzero(chances > 0)
    return [states[i] for i in kept], chances[kept] / chances[kept].sum()


def _listed(starts: Any, name: str) -> list[Any]:
    """The states as a list."""
    states = None
    if hasattr(starts, "__len__"):  # no generator
        one_by_one = isinstance(starts, np.ndarray) and starts.size <= _MOST_STARTS
        states = listed(starts.tolist() if one_by_one else starts, _MOST_STARTS)
    if states is None:
        raise SettingsError(f"{name} is {short(starts)}. Give a list of states, or {{state: probability}}.")
    if len(states) > _MOST_STARTS:
        raise SettingsError(f"{name} has more than {_MOST_STARTS:,} states. Give fewer.")
    return states
