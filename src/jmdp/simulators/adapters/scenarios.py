"""Base class of simulators with K scenarios per step, and the table that follows from the same rules."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers, cumulative_rows
from jmdp.base.luck import Shock
from jmdp.base.luck_batch import Shocks
from jmdp.errors import SettingsError
from jmdp.models.discount import checked_discount
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.simulator import Simulator, action_labels

MOST_STATES = 200_000
"""Largest number of states of a table."""

_STATE_BYTES = 600.0
"""Memory of the name of a state and of its place in lists and dictionaries."""

_NUMBER_BYTES = 64.0
"""Memory for each number of a table while it is computed."""


class ScenarioSimulator(Simulator):
    """A simulator with K scenarios, whose probabilities are the same in every state and for every action.

    A state is a tuple of whole numbers. A step inverts the shock's uniform number through the cumulative probabilities
    of the scenarios, so `Synchronous` gives every branch the same scenario. Episodes never terminate.

    `step` computes one step in plain Python. `outcomes` computes many at once with NumPy, for `step_many` and for the
    table of the world; the tests compare the two for all states, actions and scenarios.
    """

    weights: Floats  # [K], probability of each scenario
    policies: Mapping[str, Callable[[Any], Any]]  # by name; functions of one state, or of many [n, d]

    def __init__(self, actions: Sequence[str], weights: Floats, discount: float) -> None:
        self.actions, self.weights, self.discount = action_labels(actions), weights, checked_discount(discount)
        self._cumulative = cumulative_rows(weights[None])[0]
        self._sums: list[float] = self._cumulative.tolist()

    @abstractmethod
    def outcomes(self, states: Integers, actions: Integers, scenarios: Integers) -> tuple[Floats, Integers]:
        """Rewards [...] and next states [..., d] of states [..., d], action indices [...] and scenarios [...]."""

    def scenario(self, shock: Shock) -> int:
        """Return the scenario of a shock, by inversion."""
        return bisect_right(self._sums, shock.uniform())

    def scenario_of(self, state: Any, shock: Shock) -> int:
        """Return the scenario of a shock, which is the same in every state."""
        return self.scenario(shock)

    def step_many(self, states: Integers, actions: Integers, shocks: Shocks) -> tuple[Floats, Integers, Booleans]:
        """Rewards [n], next states [n, d] and terminations [n] of n steps: `step` for many branches at once."""
        scenarios = np.searchsorted(self._cumulative, shocks.uniform(), side="right")
        rewards, after = self.outcomes(states, actions, scenarios)
        return rewards, after, np.zeros(len(states), bool)

    def table(self, states: Integers, names: Sequence[str]) -> TabularJMDP:
        """Return the scenario table over these states [S, d], in lexicographic order and closed under all actions."""
        assert self.actions is not None
        assert self.discount is not None
        K, A = self.weights.size, self.actions.size
        refuse_large_table(len(states), K, A)
        reward, after = self.outcomes(states[:, None, None, :], np.arange(A), np.arange(K)[:, None])
        sizes = tuple(int(most) + 1 for most in states.max(axis=0))
        keys = np.ravel_multi_index(tuple(states.T), sizes)
        next_state = np.searchsorted(keys, np.ravel_multi_index(tuple(np.moveaxis(after, -1, 0)), sizes))
        prob = np.broadcast_to(self.weights, (len(states), K))
        action_names = [self.actions.name(a) for a in range(A)]
        return TabularJMDP(prob, reward, next_state, self.discount, None, names, action_names)


def all_tuples(sizes: Sequence[int], fewer: str) -> Integers:
    """Return all tuples [S, d] of whole numbers below these sizes, in lexicographic order.

    Raise if there are more than a table may have; `fewer` is the advice in the error message.
    """
    count = float(np.prod(np.array(sizes, float)))
    if count > MOST_STATES:
        raise SettingsError(f"The table would have up to {count:.3g} states, the limit is {MOST_STATES}. {fewer}")
    return np.indices(sizes).reshape(len(sizes), -1).T


def refuse_large_table(states: int, scenarios: int, actions: int) -> None:
    """Raise `MemoryBudgetError` if a table, its names and its policies do not fit into memory, before it is made."""
    needed = states * (_STATE_BYTES + _NUMBER_BYTES * actions * (scenarios + 1.0))
    arrays.refuse_large(f"A table of {states:,} states, {scenarios:,} scenarios and {actions:,} actions", needed)
