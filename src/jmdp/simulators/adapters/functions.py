"""Simulators from plain functions, and from tables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmdp.base.arrays import are_indices, cumulative_rows
from jmdp.base.luck import Shock, StepShocks
from jmdp.base.settings import function, short
from jmdp.errors import SimulatorError, UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.simulator import Outcomes, Simulator, Step, action_labels, is_over, plain_reward


def _never(state: Any) -> bool:  # no lambda, because lambdas cannot be pickled for worker processes
    return False


def _all_of_it(state: Any) -> Any:
    return state


_IMMUTABLE = frozenset({bool, int, float, str, np.float64, np.int64})


class FunctionSimulator(Simulator):
    """Simulator from two functions: R = g(s, a, u) and S' = h(s, a, u) with randomness (luck) u.

    u does not depend on the action: it is drawn once per shock, before g and h are called, so all actions receive the
    same u.

    Paper: the coupled environment of Assumption 4.5, Eq. (7) and Eq. (8); the outcomes of all actions at one u are the
    table of Eq. (9).

    Parameters
    ----------
    reward
        g: the reward of an action in a state, given u.
    next_state
        h: the next state. States are plain values (numbers, tuples, arrays); h must return a new one.
    actions
        Number of actions, or their names. The functions receive the index.
    luck
        Function that draws u from a NumPy generator. By default u is one uniform number.
    terminal
        Function that returns True for terminal states. By default no state is terminal.
    start
        Start state, or a function that draws one from a generator.
    observe
        Function that returns the observation of a state; by default the state itself.
    """

    lanes = 1024

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
        for name, given in (
            ("reward", reward),
            ("next_state", next_state),
            ("terminal", terminal),
            ("observe", observe),
        ):
            function(name, given, SimulatorError)
        function("luck", luck, SimulatorError, optional=True)
        self.actions = action_labels(actions)
        self._reward, self._next_state, self._luck = reward, next_state, luck
        self._terminal, self._start, self._observe = terminal, start, observe

    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        """Evaluate g and h at the u of this shock."""
        assert self.actions is not None
        a, terminal = self.actions.index(action), self._terminal
        if is_over(terminal(state)):
            return Step(0.0, state, True)
        u = shock.uniform() if self._luck is None else self._luck(shock.generator())
        reward, after = self._outcome(state, a, u)
        return Step(plain_reward(reward), after, is_over(terminal(after)))

    def _outcome(self, state: Any, a: int, u: Any) -> tuple[Any, Any]:
        """Reward and next state; what a function raises gets a note that says how to repeat the call."""
        assert self.actions is not None
        name = "reward"
        try:
            reward = self._reward(state, a, u)
            name = "next_state"
            return reward, self._next_state(state, a, u)
        except Exception as error:
            self._add_note(error, name, state, a, u)
            raise

    def _add_note(self, error: Exception, name: str, state: Any, a: int, u: Any) -> None:
        assert self.actions is not None
        action = f"{a} (action {self.actions[a]})"
        error.add_note(f"Raised by {name}(s, a, u) with s = {short(state)}, a = {action}, u = {short(u)}.")

    def step_all(self, states: Sequence[Any], actions: Sequence[Any], shocks: Sequence[Shock]) -> Outcomes:
        """Steps from each of these states; states are not changed, so `advance_all` does it if none is terminal."""
        if self._terminal is not _never and any(map(is_over, map(self._terminal, states))):
            return super().step_all(states, actions, shocks)
        return self.advance_all(states, actions, shocks)

    def advance_all(self, states: Sequence[Any], actions: Sequence[Any], shocks: Sequence[Shock]) -> Outcomes:
        """Steps from each of these states; u is drawn once for successive equal shocks."""
        assert self.actions is not None
        kind = type(self)
        if kind.step is not FunctionSimulator.step or kind.advance is not Simulator.advance:
            return super().advance_all(states, actions, shocks)
        if not are_indices(actions, self.actions.size):
            actions = [self.actions.index(action) for action in actions]
        us = shocks.uniform() if self._luck is None and isinstance(shocks, StepShocks) else self._drawn(shocks)
        rewards = self._values("reward", self._reward, states, actions, us)
        after = self._values("next_state", self._next_state, states, actions, us)
        over = [False] * len(after) if self._terminal is _never else list(map(self._terminal, after))
        return rewards, after, over

    def _drawn(self, shocks: Sequence[Shock]) -> list[Any]:
        """u of each of these shocks; it is drawn once for successive equal ones."""
        luck, found = self._luck, []
        before, u = None, None
        for shock in shocks:
            if shock is not before:
                u = shock.uniform() if luck is None else luck(shock.generator())
                before = shock if type(u) in _IMMUTABLE else None  # g and h may change an array
            found.append(u)
        return found

    def _values(
        self, name: str, function: Any, states: Sequence[Any], actions: Sequence[int], us: Sequence[Any]
    ) -> list[Any]:
        """Values of g or h; what it raises gets a note that says how to repeat the call."""
        left = iter(us)
        try:
            return list(map(function, states, actions, left))
        except Exception as error:
            i = len(us) - operator.length_hint(left) - 1
            self._add_note(error, name, states[i], actions[i], us[i])
            raise

    def observe(self, state: Any) -> Any:
        """Observation of a state."""
        return self._observe(state)

    def observe_all(self, states: list[Any]) -> list[Any]:
        """Observation of each of these states."""
        itself = self._observe is _all_of_it and type(self).observe is FunctionSimulator.observe
        return states if itself else super().observe_all(states)

    def start(self, shock: Shock) -> Any:
        """The given start state, or one drawn by the given function."""
        if self._start is None:
            raise UnavailableError("This FunctionSimulator has no start state. Give a state, or start=….")
        return self._start(shock.generator()) if callable(self._start) else self._start

    def __repr__(self) -> str:
        assert self.actions is not None
        return f"FunctionSimulator({self.actions.size} actions)"


class TabularSimulator(Simulator):
    """Scenario table as a simulator; a state is its index. For tables `evaluate` is exact or faster."""

    def __init__(self, model: TabularJMDP) -> None:
        if not isinstance(model, TabularJMDP):
            raise SimulatorError(f"model is {short(model)}. Give a jmdp.TabularJMDP.")
        self.model, self.actions, self.discount = model, model.actions, model.discount
        self._cumulative = cumulative_rows(model.prob)

    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        """Draw a scenario by inverting one uniform number, so that `Synchronous` gives all states the same one."""
        s, a = self.model.states.position(state), self.model.actions.position(action)
        if self.model.terminal[s]:
            return Step(0.0, s, True)
        k = self.scenario_of(s, shock)
        after = int(self.model.next_state[s, k, a])
        return Step(float(self.model.reward[s, k, a]), after, bool(self.model.terminal[after]))

    def scenario_of(self, state: int, shock: Shock) -> int:
        """Scenario by inversion of one uniform number."""
        return int(np.searchsorted(self._cumulative[state], shock.uniform(), side="right"))

    def largest_reward_from(self, state: Any) -> float:
        """Largest |reward| in the states that any actions can reach."""
        model = self.model
        reached = np.zeros(model.shape[0], bool)
        new = np.array([model.states.position(state)])
        while new.size:
            reached[new] = True
            after = np.unique(model.next_state[new][model.prob[new] > 0])
            new = after[~reached[after]]
        return float(np.abs(model.reward[reached]).max())

    def check_coupling(self, coupling: Coupling) -> None:
        """Raise if the coupling does not fit the table."""
        coupling.check_fits(self.model)

    def start(self, shock: Shock) -> int:
        """First state that is not terminal."""
        return int(np.argmin(self.model.terminal))

    def __repr__(self) -> str:
        made = "" if self.model.coupled_by is None else f", outcomes of actions coupled by {self.model.coupled_by}"
        return f"table of {self.model.shape[0]} states × {self.model.shape[2]} actions{made}"


def table_of(simulator: Simulator) -> TabularJMDP | None:
    """The table of which the observations are indices of states; None for other simulators."""
    return simulator.model if isinstance(simulator, TabularSimulator) else None


def table_state(simulator: Simulator, state: Any) -> Any:
    """State of a simulator as a user gives it: of a table by its label, otherwise itself."""
    model = table_of(simulator)
    return state if model is None else model.states.index(state)
