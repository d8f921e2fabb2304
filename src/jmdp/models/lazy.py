"""A joint MDP that is not enumerated: the scenario table of a state is computed when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Labels, plain_names
from jmdp.base.settings import real_number, short
from jmdp.errors import ModelError
from jmdp.models.tabular import LARGEST_RETURN, TabularJMDP, check_model, checked_discount

State = Hashable

Scenarios = tuple[npt.ArrayLike, npt.ArrayLike, Sequence[Sequence[State]]]
"""Probabilities [K], rewards [K, A] and next states [K][A] of one state."""


_MOST_ACTIONS = 1_000_000


class LazyJMDP:
    """A joint MDP given by a function of the state, for models too large to enumerate.

    The function is called once per state. States are discovered as they are reached and numbered in that order.

    Parameters
    ----------
    scenarios
        ``scenarios(state)`` returns ``(prob [K], reward [K, A], next_state [K][A])``, or None for a terminal state.
        States must be hashable. The number of scenarios may differ between states, the number of actions may not.
        Rewards must be finite, also those of scenarios with probability 0, which are set to 0.
    discount
        γ, 0 ≤ γ < 1.
    reward_bound
        Largest possible |reward|, used to bound the returns from states that are not explored.
    action_names
        Unique strings. Default: actions are named by index.
    """

    def __init__(
        self,
        scenarios: Callable[[Any], Scenarios | None],
        discount: float,
        reward_bound: float,
        action_names: Sequence[str] | None = None,
    ) -> None:
        if not callable(scenarios):
            raise ModelError(f"scenarios is a {type(scenarios).__name__}. Give a function of the state.")
        self.scenarios = scenarios
        self.discount = checked_discount(discount)
        bound = real_number(reward_bound)
        if not 0 <= bound <= LARGEST_RETURN * (1 - self.discount):
            raise ModelError(
                f"reward_bound is {short(reward_bound)}. Give the largest possible |reward|, at most "
                f"{LARGEST_RETURN * (1 - self.discount):g} at this discount."
            )
        self.reward_bound: float = bound
        self.prob_error = 0.0  # as of a `TabularJMDP`
        self.actions: Labels | None = None  # without names, set by the first table of a non-terminal state
        if action_names is not None:
            names = plain_names("action", _MOST_ACTIONS, action_names)
            self.actions = Labels.of("action", len(names), names)
        self.states: list[State] = []
        self._index: dict[State, int] = {}
        self.known: Booleans = np.zeros(0, bool)  # [found], whether the table was computed
        self.terminal: Booleans = np.zeros(0, bool)
        self.prob: Floats = np.zeros((0, 1))  # [found, K]
        self.reward: Floats = np.zeros((0, 1, 1))  # [found, K, A]
        self.next_state: Integers = np.zeros((0, 1, 1), np.int64)  # [found, K, A]

    @classmethod
    def of(cls, model: TabularJMDP) -> LazyJMDP:
        """Lazy version of a table; states are indices."""
        check_model(model)

        def scenarios(s: int) -> Scenarios | None:
            if model.terminal[s]:
                return None
            return model.prob[s], model.reward[s], model.next_state[s].tolist()

        lazy = cls(scenarios, model.discount, model.reward_bound)
        lazy.actions, lazy.prob_error = model.actions, model.prob_error
        return lazy

    def index(self, state: State) -> int:
        """Number of a state; a new state is added."""
        try:
            found = self._index.get(state)
        except TypeError:
            raise ModelError(f"State {short(state)} is not hashable. Use a tuple, a string or a number.") from None
        if found is None:
            found = self._index[state] = len(self.states)
            self.states.append(state)
        return found

    def expand(self, i: int) -> None:
        """Compute the table of the state with this number, unless it is known."""
        if i < len(self.known) and self.known[i]:
            return
        state = self.states[i]
        try:
            table = self.scenarios(state)
        except Exception as error:
            error.add_note(f"Raised by scenarios for state {short(state)}.")
            raise
        if table is None:
            self._reserve(i, 1, 1 if self.actions is None else self.actions.size)
            self.terminal[i] = self.known[i] = True
            return
        prob, reward, following = self._checked(state, table)
        K, A = reward.shape
        # Not by NumPy, which would take tuples as states for another axis.
        numbers = [[self.index(n) for n in row] for row in following]
        self._reserve(max(i, len(self.states) - 1), K, A)
        self.prob[i, :K], self.reward[i, :K], self.next_state[i, :K] = prob, reward, numbers
        self.known[i] = True

    def _checked(self, state: State, table: Scenarios) -> tuple[Floats, Floats, Sequence[Sequence[State]]]:
        where = f"the table of state {short(state)}"
        if not (isinstance(table, tuple) and len(table) == 3):
            raise ModelError(f"{where} is {short(table, 200)}. Return (prob, reward, next_state), or None if terminal.")
        prob = arrays.floats(f"prob in {where}", table[0], "[K]", ModelError)
        reward = arrays.floats(f"reward in {where}", table[1], "[K, A]", ModelError)
        K, A = reward.shape
        following = table[2]
        arrays.refuse_masked(f"next_state in {where}", following, ModelError)
        nested = _has_length(following, K) and all(_has_length(row, A) for row in following)
        if K * A == 0 or prob.shape != (K,) or not nested:
            raise ModelError(
                f"{where}: the shapes of prob, reward {reward.shape} = [K, A] and next_state [K][A] do not match."
            )
        if self.actions is None:
            self.actions = Labels.of("action", A, None)
        if self.actions.size != A:
            raise ModelError(f"{where} has {A} actions, but {self.actions.size} are expected. Use the same number.")
        if not np.isfinite(reward).all():
            worst = reward[~np.isfinite(reward)][0]
            raise ModelError(f"{where} has the reward {worst}. Give finite rewards, also where the probability is 0.")
        if not (prob >= 0).all():
            raise ModelError(f"{where} has the probability {prob.min()}. Give probabilities ≥ 0.")
        prob = arrays.normalised_rows(prob[None], lambda s: f"prob in {where}", ModelError)[0]
        reward[prob == 0] = 0.0
        size = arrays.largest(reward)
        if size > self.reward_bound:
            raise ModelError(f"{where} has a |reward| of {size}, more than reward_bound {self.reward_bound:g}.")
        return prob, reward, following

    def _reserve(self, last: int, K: int, A: int) -> None:
        """Enlarge the arrays for states up to this number, and for K scenarios and A actions."""
        rows, columns, _ = self.reward.shape
        if last < rows and columns >= K and self.reward.shape[2] == A:
            return
        shape = (rows if last < rows else max(64, 2 * (last + 1)), max(K, columns), A)
        arrays.refuse_large(f"The table of {shape[0]} states", 8.0 * shape[0] * shape[1] * (1 + 2 * shape[2]))
        larger = {}
        for name in ("known", "terminal", "prob", "reward", "next_state"):
            old = getattr(self, name)
            larger[name] = np.zeros(shape[: old.ndim], old.dtype)
            if old.ndim < 3 or old.shape[2] == A:  # tables of another width belong to terminal states and are empty
                larger[name][tuple(slice(n) for n in old.shape)] = old
        vars(self).update(larger)

    def __repr__(self) -> str:
        return (
            f"LazyJMDP({int(self.known.sum())} states known, discount={self.discount:g}, "
            f"reward_bound={self.reward_bound:g})"
        )


def _has_length(value: object, length: int) -> bool:
    """Whether this is a list of so many states, and no text."""
    if isinstance(value, np.ndarray):
        return bool(value.shape[:1] == (length,))
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and len(value) == length
