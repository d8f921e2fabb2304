"""Simulators from plain functions, and from tables.

Base class of simulators with K scenarios per step, and the table that follows from the same rules.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers, are_indices, cumulative_rows
from jmdp.base.luck import Shock, StepShocks
from jmdp.base.luck_batch import Shocks
from jmdp.base.settings import function, short
from jmdp.errors import SettingsError, SimulatorError, UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.models.tabular import TabularJMDP, checked_discount
from jmdp.simulators.adapters.exogenous import ExogenousInputs, Source
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
    exogenous
        Inputs that both functions take as keyword arguments, and how each is drawn where it was not recorded (see
        `RecordedLuck`): ``{"demand": history}`` draws a row of a history, ``{"demand": lambda luck: …}`` calls a
        function of a `Luck`. With ``luck=history`` of `compare_policies` or `review` it is that of the period instead.
        u is then None, unless `luck` is given here.
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
        exogenous: Mapping[str, Source] | None = None,
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
        self._inputs = ExogenousInputs(exogenous)
        self.exogenous = self._inputs.sources

    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        """Evaluate g and h at the u of this shock."""
        assert self.actions is not None
        a, terminal = self.actions.index(action), self._terminal
        if is_over(terminal(state)):
            return Step(0.0, state, True)
        inputs = self._inputs.of(shock)
        u = self._luck(shock.generator()) if self._luck is not None else None if inputs else shock.uniform()
        reward, after = self._outcome(state, a, u, inputs)
        return Step(plain_reward(reward), after, is_over(terminal(after)))

    def _outcome(self, state: Any, a: int, u: Any, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
        """Reward and next state; what a function raises gets a note that says how to repeat the call."""
        assert self.actions is not None
        name = "reward"
        try:
            reward = self._reward(state, a, u, **inputs)
            name = "next_state"
            return reward, self._next_state(state, a, u, **inputs)
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
        if self._inputs or kind.step is not FunctionSimulator.step or kind.advance is not Simulator.advance:
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
        """Scenario by inversion of one uniform number, or of one for each declared source if some are drawn again."""
        if type(shock) is Shock or self.model.sources is None:
            return int(np.searchsorted(self._cumulative[state], shock.uniform(), side="right"))
        sizes, k = tuple(self.model.sources.values()), 0
        for axis, name in enumerate(self.model.sources):
            u = shock.of_source(name).uniform()
            digits = np.unravel_index(np.searchsorted(self._cumulative[state], u, side="right"), sizes)
            k = k * sizes[axis] + int(digits[axis])
        return k

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
