"""Interface of policies in rollouts, and interpretation of the values that policies return.

Policies with memory. Each episode uses its own copy, after a reset; only whole episodes can use them.
"""

from __future__ import annotations

import copy
import inspect
import operator
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import ROW_SUM_TOLERANCE, Floats, Indices, are_indices, cumulative_rows, refuse_masked
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock, StepShocks
from jmdp.base.settings import cut, short
from jmdp.errors import LabelError, PolicyError
from jmdp.models.policy import table_choice
from jmdp.models.tabular import TabularJMDP


class Actor(ABC):
    """Policy as used by rollouts: one action for each of many observations, each with its own shock."""

    needs_luck: bool = True  # False if the action is a function of the observation, so that shocks are not used
    notes_steps: bool = False  # True if `seen` is to be called after each step of an episode
    batched: bool = True  # False if `act` on many observations takes as long as `act_one` on each

    @abstractmethod
    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Return one action per observation. Equal observations with equal shocks must give equal actions."""

    def act_one(self, observation: Any, shocks: Sequence[Shock]) -> Any:
        """Action for one observation, with the only one of the shocks."""
        (action,) = self.act([observation], shocks)
        return action

    def chooser(self, shocks: Sequence[Shock], note: Callable[[Exception], None]) -> Callable[[Any], Any]:
        """Function that returns `act_one` for one observation after another; `note` receives what it raises."""

        def choose(observation: Any) -> Any:
            try:
                return self.act_one(observation, shocks)
            except Exception as error:
                note(error)
                raise

        return choose

    def seen(self, action: Any, reward: float, scenario: int | None) -> None:  # noqa: B027 (most have no memory)
        """Tell a policy with memory what followed its action; the scenario is None unless the simulator reports it."""

    def for_episode(self) -> Actor:
        """Actor for one episode: this one, or for a policy with memory a copy of it."""
        return self

    def table(self, states: int, actions: int) -> Floats | None:
        """Probabilities ``[states, actions]`` if observations are state indices and the table is known, else None."""
        return None

    def rule(self) -> tuple[Callable[[Any], Any], Reading] | None:
        """Function of one observation without randomness, and how its values are read, if the policy is one."""
        return None

    def traceable(self, example_observation: Any) -> Callable[[Any], Any] | None:
        """Function from an observation to an action or probabilities ``[A]`` that JAX can trace, or None."""
        return None


@dataclass(frozen=True)
class Reading:
    """Interpretation of the values that a policy returns."""

    name: str
    actions: Labels | None
    logits: bool
    greedy: bool
    table: TabularJMDP | None = None  # a function then receives the label of a state, and returns that of an action

    def seen(self, observation: Any) -> Any:
        """What a function receives: the label of a state of a table, otherwise the observation."""
        return observation if self.table is None else self.table.states.label(operator.index(observation))

    def chosen(self, value: Any, observation: Any) -> Any:
        """What a function chose: of a table the index of an action or probabilities, otherwise the value itself."""
        return value if self.table is None else table_choice(value, self.table, operator.index(observation))

    def among(self, count: int) -> Reading:
        """Copy with the number of actions of the policy, which must match the simulator's."""
        if self.actions is not None and self.actions.size != count:
            raise self.error(
                f"chooses among {count} actions, but the simulator has {self.actions.size}. Use equal numbers."
            )
        return replace(self, actions=self.actions or Labels("action", count))

    def choose(self, values: Any, shocks: Sequence[Any], observations: Sequence[Any] = ()) -> list[Any]:
        """Actions for the returned values, which are rows of an array or a list. Observations are for messages."""
        if self.actions is not None and isinstance(values, list) and are_indices(values, self.actions.size):
            return Indices(values, self.actions.size)
        for i, value in enumerate(values):
            if value is None:
                seen = f" for the observation {short(observations[i])}" if i < len(observations) else ""
                raise self.error(f"returned None{seen}. Is a return statement missing? {self.wanted}")
        refuse_masked(f"The output of the policy, {self.name}", values, PolicyError)
        if self.actions is None:
            return [np.array(value) if isinstance(value, np.ndarray) else value for value in values]
        shape = (self.actions.size,)
        if isinstance(values, list) and all(getattr(value, "shape", None) == shape for value in values):
            values = np.stack([numpy_of(value) for value in values])
        if isinstance(values, np.ndarray) and values.ndim == 2 and (values.shape[1] > 1 or values.dtype.kind == "f"):
            return self.drawn(self.probabilities(values, self.actions.size), shocks)
        return [self._one(value, shock, self.actions) for value, shock in zip(values, shocks, strict=True)]

    def _one(self, value: Any, shock: Any, actions: Labels) -> int:
        if isinstance(value, (tuple, dict)):
            first = " Of model.predict(obs) of stable-baselines3, return only the first entry." * (len(value) == 2)
            raise self.error(f"returned a {type(value).__name__}, {short(value)}. {self.wanted}{first}")
        array = np.asarray(value) if isinstance(value, str) else numpy_of(value)
        if array.ndim == 1 and array.dtype.kind in "fiub" and (array.size > 1 or array.dtype.kind == "f"):
            return int(self.choose(array[None], [shock])[0])
        if array.size != 1 or array.dtype.kind == "f":
            what = f"shape {array.shape}" if array.size != 1 else f"{array}"
            raise self.error(f"returned {what}, not an action. {self.wanted}")
        try:
            return actions.position(array.item())
        except LabelError as error:
            raise LabelError(f"The policy, {self.name}, returned an invalid action. {error}") from None

    @property
    def wanted(self) -> str:
        """What a policy must return, for messages."""
        if self.actions is None:
            return "Return an action, in the form that the simulator's step takes."
        name = f"its name ({self.actions.shown}), " if self.actions.names else ""
        last = self.actions.size - 1
        return (
            f"Return the index of an action (0 to {last}), {name}or a probability for each of the {last + 1} actions."
        )

    def probabilities(self, values: np.ndarray[Any, Any], A: int) -> Floats:
        """Probabilities ``[n, A]``. Sums are sequential, so that the result for a row does not depend on n."""
        if values.shape[1] != A:
            raise self.error(f"returned {values.shape[1]} numbers for {A} actions. Return a probability for each.")
        if values.dtype.kind not in "fiub":
            raise self.error(f"returned an array of dtype {values.dtype}. Return a probability for each action.")
        table = values.astype(np.float64, order="C")
        bad = ~np.isfinite(table.max(axis=1))  # includes NaN; a logit of −∞ is allowed and gives probability 0
        if bad.any():
            raise self.error(f"returned {table[bad][0]}, which are not probabilities. Did its training diverge?")
        if self.logits:
            table = np.exp(table - table.max(axis=1, keepdims=True))
        total = np.cumsum(table, axis=1)[:, -1:]
        bad = (table.min(axis=1) < 0) | ((np.abs(total[:, 0] - 1) > ROW_SUM_TOLERANCE) & (not self.logits))
        if bad.any():
            least = f" and are as low as {table[bad].min():.3g}" if table[bad].min() < 0 else ""
            what = f"{A} numbers that sum to {total[bad][0, 0]:.6g}{least}"
            raise self.error(
                f"returned {what}. Return probabilities that sum to 1. If they are "
                "logits: jmdp.as_policy(policy, simulator.actions, logits=True)."
            )
        return table / total

    def drawn(self, probs: Floats, shocks: Sequence[Any]) -> list[Any]:
        """First action of each row whose cumulative probability exceeds the shock's uniform number."""
        if self.greedy:
            return list(probs.argmax(axis=1).tolist())
        if isinstance(shocks, StepShocks):
            uniforms = np.array(shocks.uniform())
        else:
            uniforms = np.array([shock.uniform() for shock in shocks])
        return list((cumulative_rows(probs) <= uniforms[:, None]).sum(axis=1).tolist())

    def add_note(self, error: Exception, observation: Any) -> None:
        """Add to an exception that the policy raised which policy it is and what it observed."""
        error.add_note(f"Raised by the policy, {self.name}, for the observation {short(self.seen(observation))}.")

    def error(self, what: str) -> PolicyError:
        """Error that names this policy."""
        return PolicyError(f"The policy, {self.name}, {what}")


class ReadActor(Actor):
    """Actor whose returned values are interpreted by a `Reading`."""

    def __init__(self, reading: Reading, needs_luck: bool = True) -> None:
        self._reading, self.needs_luck = reading, needs_luck

    def __repr__(self) -> str:
        return self._reading.name


def numpy_of(value: Any) -> np.ndarray[Any, Any]:
    """Convert to a NumPy array; torch tensors are copied to the CPU."""
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor without numbers
        raise PolicyError(
            f"{short(value)} cannot be converted to an array ({type(error).__name__}: {cut(str(error))}). Use "
            "numbers, or arrays of numbers, for observations and actions."
        ) from error


class RememberingActor(ReadActor):
    """Policy with memory: an object with ``reset()`` that is called as ``f(obs)`` or ``f(obs, rng)``.

    If it has ``seen(action, reward, scenario)``, that is called after each step of an episode.
    """

    batched = False

    def __init__(self, policy: Any, reading: Reading) -> None:
        super().__init__(reading)
        self._policy, self._takes_luck = policy, takes_luck(policy, reading)
        self.notes_steps = callable(getattr(policy, "seen", None))
        kept = next(_generators(policy), None)
        if kept is not None:
            raise reading.error(
                f"contains a random generator, {kept}, whose copies would draw the same numbers in each episode. Use a "
                "second argument instead: __call__(self, obs, rng)."
            )
        if required_parameters(policy.reset):
            raise reading.error("has a reset() with required arguments. Make them optional: jmdp calls reset() only.")

    def for_episode(self) -> Actor:
        """Copy of the policy after a reset."""
        try:
            own = copy.deepcopy(self._policy)
        except Exception as error:  # copying may raise anything
            raise PolicyError(
                f"The policy, {self!r}, cannot be copied: {error}. A policy with memory is copied for each episode. "
                "Give it __deepcopy__, which may share constant parts."
            ) from error
        own.reset()
        return _InOneEpisode(own, self._reading, self._takes_luck)

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Raises an error: only a copy made by `for_episode` can act."""
        raise PolicyError(f"The policy, {self!r}, has memory. Only jmdp.compare_policies supports this.")


class _InOneEpisode(ReadActor):
    """Copy of a policy with memory, used in one episode."""

    batched = False

    def __init__(self, policy: Callable[..., Any], reading: Reading, takes_luck: bool) -> None:
        super().__init__(reading)
        self._policy, self._takes_luck = policy, takes_luck
        self.notes_steps = callable(getattr(policy, "seen", None))

    def seen(self, action: Any, reward: float, scenario: int | None) -> None:
        """Tell the policy the label of its action, the reward, and the scenario if it is known."""
        labels = self._reading.actions
        known = labels is not None and are_indices([action], labels.size)
        getattr(self._policy, "seen")(labels.label(action) if labels and known else action, reward, scenario)  # noqa: B009

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Actions for observations of one episode, in order of time."""
        values = []
        for observation, shock in zip(observations, shocks, strict=True):
            try:
                value = self._policy(
                    self._reading.seen(observation), *((shock.generator(),) if self._takes_luck else ())
                )
            except Exception as error:
                self._reading.add_note(error, observation)
                raise
            values.append(self._reading.chosen(value, observation))
        return self._reading.choose(values, shocks, observations)


class RecurrentModel(ReadActor):
    """Recurrent model of sb3-contrib, by ``predict(obs, state, episode_start, deterministic=True)``."""

    batched = False

    def __init__(self, model: Any, reading: Reading) -> None:
        super().__init__(reading, needs_luck=False)
        self._model, self._state, self._begins = model, None, True

    def for_episode(self) -> Actor:
        """The same model with a new hidden state."""
        return RecurrentModel(self._model, self._reading)

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Actions for observations of one episode, in order of time."""
        actions = []
        for observation in observations:
            action, self._state = self._model.predict(
                observation, state=self._state, episode_start=np.array([self._begins]), deterministic=True
            )
            self._begins = False
            actions.append(action)
        return self._reading.choose(actions, shocks)


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _generators(value: Any, name: str = "", depth: int = 4) -> Iterator[str]:
    """Names of random generators among the attributes of an object, searched recursively."""
    if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
        yield name
    elif depth:
        parts: Any = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        if isinstance(value, (list, tuple)):
            parts = {str(i): part for i, part in enumerate(value)}
        for key, part in parts.items():
            if not isinstance(part, (str, bytes, np.ndarray, type)):
                yield from _generators(part, f"{name}.{key}" if name else str(key), depth - 1)


def takes_luck(function: Callable[..., Any], reading: Reading) -> bool:
    """Whether a function is called as f(obs, rng) instead of f(obs)."""
    required = len(required_parameters(function))
    if required > 2 or not takes_argument(function):
        raise reading.error(f"takes {required} arguments. Give f(obs) or f(obs, rng).")
    second = [p for p in _parameters(function) or () if p.kind in _BY_PLACE][1:2]
    return required == 2 or any(p.name == "rng" for p in second)


def takes_argument(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with a positional argument, as far as is known."""
    plain = _parameters(function)
    return plain is None or any(p.kind in _BY_PLACE or p.kind is p.VAR_POSITIONAL for p in plain)


def required_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Positional parameters without defaults; none if they are unknown."""
    return [p for p in _parameters(function) or () if p.kind in _BY_PLACE and p.default is p.empty]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """All parameters; None if they are unknown, as of some C functions."""
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        return None
