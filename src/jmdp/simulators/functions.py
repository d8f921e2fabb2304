"""Simulators out of plain functions, and tables as simulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmdp.base.arrays import cumulative_rows
from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError, UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.simulator import Simulator, Step, action_labels


def _never(state: Any) -> bool:  # no lambda, for those cannot be sent to other processes
    return False


def _all_of_it(state: Any) -> Any:
    return state


class FunctionSimulator(Simulator):
    """The paper's coupled environment: R = g(s, a, u) and S' = h(s, a, u) with luck u that does not know the action.

    u is drawn once for each shock, before anything is done with it, so no action can fall out of step with another.

    Paper: Assumption 4.5.

    Parameters
    ----------
    reward
        g: the reward of an action in a state, under luck u.
    next_state
        h: the state it leads to. States are plain values (numbers, tuples, arrays); it must return a new one.
    actions
        How many there are, or their names. Functions are given the index.
    luck
        Draws u from a NumPy generator. By default one uniform number.
    terminal
        Is the game over in this state? By default never.
    start
        A state to begin in, or a function that draws one from a generator.
    observe
        What a policy sees of a state; by default all of it.
    """

    def __init__(
        self,
        reward: Callable[[Any, int, Any], float],
        next_state: Callable[[Any, int, Any], Any],
        actions: int | Sequence[str],
        *,
        luck: Callable[[np.random.Generator], Any] | None = None,
        terminal: Callable[[Any], bool] = _never,
        start: Any = None,
        observe: Callable[[Any], Any] = _all_of_it,
    ) -> None:
        for name, function in (("reward", reward), ("next_state", next_state), ("terminal", terminal)):
            if not callable(function):
                raise SimulatorError(f"{name} is a {type(function).__name__}. Give a function.")
        self.actions = action_labels(actions)
        self._reward, self._next_state, self._luck = reward, next_state, luck
        self._terminal, self._start, self._observe = terminal, start, observe
        self._generator = Shock(bytes(16)).generator()

    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        """g and h at one u."""
        assert self.actions is not None
        a = self.actions.index(action)
        if self._terminal(state):
            return Step(0.0, state, True)
        u = shock.uniform() if self._luck is None else self._luck(shock.restart(self._generator))
        reward, after = float(self._reward(state, a, u)), self._next_state(state, a, u)
        return Step(reward, after, bool(self._terminal(after)))

    def observe(self, state: Any) -> Any:
        """What a policy sees."""
        return self._observe(state)

    def start(self, shock: Shock) -> Any:
        """As given."""
        if self._start is None:
            raise UnavailableError("These functions do not say where to start. Give a state, or start=….")
        return self._start(shock.generator()) if callable(self._start) else self._start

    def generators(self, state: Any) -> dict[str, Any]:
        """Generators in the state or in the functions' objects."""
        found = super().generators(state)
        return {name: generator for name, generator in found.items() if generator is not self._generator}

    def __repr__(self) -> str:
        assert self.actions is not None
        return f"FunctionSimulator({self.actions.size} actions)"


class TabularSimulator(Simulator):
    """A scenario table as a simulator; a state is its index. For tables `evaluate` is exact, or faster."""

    def __init__(self, model: TabularJMDP) -> None:
        self.model, self.actions, self.discount = model, model.actions, model.discount
        self._cumulative = cumulative_rows(model.prob)

    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        """One scenario, by inverting one uniform number, so `Synchronous` gives all states the same one."""
        s, a = self.model.states.index(state), self.model.actions.index(action)
        if self.model.terminal[s]:
            return Step(0.0, s, True)
        k = int(np.searchsorted(self._cumulative[s], shock.uniform(), side="right"))
        after = int(self.model.next_state[s, k, a])
        return Step(float(self.model.reward[s, k, a]), after, bool(self.model.terminal[after]))

    def largest_reward_from(self, state: Any) -> float:
        """The largest |reward| in the states that any actions can lead to."""
        model = self.model
        reached = np.zeros(model.shape[0], bool)
        new = np.array([model.states.index(state)])
        while new.size:
            reached[new] = True
            after = np.unique(model.next_state[new][model.prob[new] > 0])
            new = after[~reached[after]]
        return float(np.abs(model.reward[reached]).max())

    def check_coupling(self, coupling: Coupling) -> None:
        """As for the table itself."""
        coupling.check_fits(self.model)

    def start(self, shock: Shock) -> int:
        """The first state that goes on."""
        return int(np.argmin(self.model.terminal))

    def __repr__(self) -> str:
        return f"TabularSimulator({self.model!r})"
