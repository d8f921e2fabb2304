"""Policies on arrays of states: one call for the whole array if the function supports it, else per distinct state."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers, cumulative_rows, refuse_masked
from jmdp.base.luck import Shock
from jmdp.base.luck_batch import Shocks
from jmdp.errors import LabelError, PolicyError
from jmdp.models.actors.actor import Actor, Reading, numpy_of
from jmdp.simulators.rollouts.batched_states import States, codes_of, state_maker
from jmdp.simulators.simulator import Simulator

_TRIED = 32
"""Number of observations for which single calls are compared with one call for all, in each of the first calls."""

_FIRST_CALLS, _EVERY = 4, 16
"""Later, one observation is compared in every 16th call."""

Rule = tuple[Callable[[Any], Any], Reading]

_REMEMBERED = 100_000
"""Largest number of states whose actions are stored."""


class BatchPolicy:
    """Actions of a policy for all rows of an array of states; the same as those of single calls."""

    def __init__(self, actor: Actor, simulator: Simulator, example: Any) -> None:
        assert simulator.actions is not None
        self._actor, self._A = actor, simulator.actions.size
        self._observe, self._state = simulator.observe, state_maker(example)
        self._sees_state = type(simulator).observe is Simulator.observe
        self._rule, self._constant = actor.rule(), self._constant_row()
        self._together = self._rule is not None and self._sees_state  # until it fails
        self._calls = 0
        self._known: dict[bytes, Any] = {}  # from codes of states to values of the rule

    def _constant_row(self) -> Floats | None:
        """Cumulative probabilities of a policy that does not depend on the state, as it is a table of any size."""
        tables = [self._actor.table(states, self._A) for states in (1, 2)]
        return None if tables[0] is None or tables[1] is None else cumulative_rows(tables[0])

    def __call__(self, states: States, keys: Callable[[], Shocks]) -> Integers:
        """Actions [n]; `keys` returns the shocks of the policy."""
        if self._constant is not None:
            return _inverted(self._constant, keys)
        if self._rule is None:
            return self._by_actor(states, keys)
        if self._together:
            values = self._values_together(states, self._rule)
            if values is not None:
                return self._read(values, self._rule[1], keys)
        return self._by_state(states, keys, *self._rule)

    def _read(self, values: npt.NDArray[Any], reading: Reading, keys: Callable[[], Shocks]) -> Integers:
        """Actions for integers [n] or for numbers [n, A]."""
        if values.ndim == 1:
            return values.astype(np.int64)
        probs = reading.probabilities(values, self._A)
        return probs.argmax(axis=1) if reading.greedy else _inverted(cumulative_rows(probs), keys)

    # ------------------------------------------------------------------------------------------ one call for all

    def _values_together(self, states: States, rule: Rule) -> npt.NDArray[Any] | None:
        """Values of one call with all states, if they are those of single calls; else None, here and in later calls."""
        function = rule[0]
        seen = states.view()
        seen.flags.writeable = False
        self._calls += 1
        trial = self._calls <= _FIRST_CALLS
        try:
            given = _without_warnings(function, seen) if trial else function(seen)
            values = np.zeros(()) if np.ma.isMaskedArray(given) else np.asarray(given)
        except Exception:  # most functions are written for one observation, and may raise anything for many
            values = np.zeros(())
        n, A = len(states), self._A
        actions = values.shape == (n,) and values.dtype.kind in "iu" and 0 <= values.min() <= values.max() < A
        if not actions and not (values.shape == (n, A) and values.dtype.kind == "f"):
            self._together = False
            return None
        if trial:
            tried = np.unique(np.linspace(0, n - 1, _TRIED).astype(int))
            self._together = all(np.array_equal(function(self._state(states[i])), values[i]) for i in tried)
        elif self._calls % _EVERY == 0:
            self._check_one(states, values, rule)
        return values if self._together else None

    def _check_one(self, states: States, values: npt.NDArray[Any], rule: Rule) -> None:
        """Raise if the value of one state is another if the policy is called for it alone."""
        function, reading = rule
        i = self._calls // _EVERY * 7919 % len(states)
        alone = numpy_of(function(self._state(states[i])))
        if not np.allclose(alone, values[i], rtol=1e-9, atol=0):
            raise reading.error(
                f"returned {values[i]} for the observation {states[i]} in an array of many, but {alone} for it alone. "
                "Actions must depend on their own observation only. If the function is written for single "
                "observations, let it raise an error for arrays with more axes."
            )

    # ------------------------------------------------------------------------------- one call for each distinct state

    def _by_state(
        self, states: States, keys: Callable[[], Shocks], function: Callable[[Any], Any], reading: Reading
    ) -> Integers:
        first, place = _distinct(states)
        codes, kind = codes_of(states[first]), states.dtype.kind.encode()
        actions, rows = np.full(len(first), -1), np.zeros((len(first), self._A))
        for u, code in enumerate(codes):
            name = kind + code.tobytes()
            value = self._known.get(name)
            if value is None:
                observation = self._observe(self._state(states[first[u]]))
                value = self._value(function(observation), reading, observation)
                if len(self._known) < _REMEMBERED:
                    self._known[name] = value
            if isinstance(value, int):
                actions[u] = value
            else:
                rows[u] = value
        taken = actions[place]
        drawn = np.flatnonzero(taken < 0)
        if drawn.size:
            taken[drawn] = _inverted(rows[place[drawn]], lambda: keys().rows(drawn))
        return taken

    def _value(self, value: Any, reading: Reading, observation: Any) -> int | Floats:
        """An action, or cumulative probabilities [A]."""
        refuse_masked(f"The output of the policy, {reading.name}", value, PolicyError)
        array = np.zeros(()) if value is None or isinstance(value, (str, tuple, dict)) else numpy_of(value)
        several = array.ndim == 1 and array.dtype.kind in "fiub" and (array.size > 1 or array.dtype.kind == "f")
        if not several:
            return int(reading.choose([value], [None], [observation])[0])
        probs = reading.probabilities(array[None], self._A)
        return int(probs.argmax()) if reading.greedy else np.asarray(cumulative_rows(probs)[0])

    # --------------------------------------------------------------------------------------------- any other policy

    def _by_actor(self, states: States, keys: Callable[[], Shocks]) -> Integers:
        if self._actor.needs_luck:
            seen = [self._observe(self._state(row)) for row in states]
            shocks = keys()
            return self._indices(self._actor.act(seen, [shocks[i] for i in range(len(seen))]))
        first, place = _distinct(states)
        seen = [self._observe(self._state(row)) for row in states[first]]
        return self._indices(self._actor.act(seen, [Shock(bytes(16))] * len(seen)))[place]

    def _indices(self, actions: list[Any]) -> Integers:
        found = np.asarray(actions)
        if found.dtype.kind not in "iu" or found.ndim != 1 or not 0 <= found.min() <= found.max() < self._A:
            raise LabelError(f"The policy, {self._actor!r}, returned an invalid action. Return 0 to {self._A - 1}.")
        return found.astype(np.int64)


def _without_warnings(function: Callable[[Any], Any], seen: States) -> Any:
    """Value of the function; a warning raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(seen)


def _distinct(states: States) -> tuple[Integers, Integers]:
    """Indices of the first of each distinct state, and for each state the number of the distinct one."""
    from jmdp.simulators.rollouts.batched_kernel import distinct

    first, place = np.empty(len(states), np.int64), np.empty(len(states), np.int64)
    return first[: distinct(codes_of(states), first, place)], place


def _inverted(cumulative: Floats, keys: Callable[[], Shocks]) -> Integers:
    """First action of each row whose cumulative probability exceeds the shock's uniform number."""
    return np.asarray((cumulative <= keys().uniform()[:, None]).sum(axis=1))
