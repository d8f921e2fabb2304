"""A policy as rollouts use it, and how what a policy returns is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import ROW_SUM_TOLERANCE, Floats, cumulative_rows, refuse_masked
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.errors import LabelError, PolicyError


class Actor(ABC):
    """A policy as rollouts use it: many observations at once, each with its own luck."""

    needs_luck: bool = True  # False where an observation settles the action: shocks are not looked at

    @abstractmethod
    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """One action for each observation. Equal observations with equal shocks get equal actions."""

    def for_episode(self) -> Actor:
        """Who acts in one episode: this one, or where a policy remembers, one with a memory of its own."""
        return self

    def table(self, states: int, actions: int) -> Floats | None:
        """Probabilities ``[states, actions]``, if observations are indices of that many states and these are known."""
        return None

    def traceable(self, example_observation: Any) -> Callable[[Any], Any] | None:
        """The action or probabilities ``[A]``, as a function of an observation that JAX can compile; else None."""
        return None


@dataclass(frozen=True)
class Reading:
    """How what a policy returns is understood."""

    name: str
    actions: Labels | None
    logits: bool
    greedy: bool

    def among(self, count: int) -> Reading:
        """The same, once it is known among how many actions the policy chooses."""
        if self.actions is not None and self.actions.size != count:
            raise self.error(
                f"chooses among {count} actions, the simulator has {self.actions.size}. Give them the same."
            )
        return replace(self, actions=self.actions or Labels("action", count))

    def choose(self, values: Any, shocks: Sequence[Any]) -> list[Any]:
        """An action for each of the values: rows of an array, or a list of whatever was returned."""
        refuse_masked(f"What the policy, {self.name}, returned", values, PolicyError)
        if self.actions is None:
            return [np.array(value) if isinstance(value, np.ndarray) else value for value in values]
        if isinstance(values, list) and all(getattr(value, "shape", None) == (self.actions.size,) for value in values):
            values = np.stack([numpy_of(value) for value in values])
        if isinstance(values, np.ndarray) and values.ndim == 2 and (values.shape[1] > 1 or values.dtype.kind == "f"):
            return self.drawn(self.probabilities(values, self.actions.size), shocks)
        return [self._one(value, shock, self.actions) for value, shock in zip(values, shocks, strict=True)]

    def _one(self, value: Any, shock: Any, actions: Labels) -> int:
        if value is None or isinstance(value, (tuple, dict)):
            raise self.error(f"returned a {type(value).__name__}. Of model.predict(obs), return the first entry alone.")
        array = np.asarray(value) if isinstance(value, str) else numpy_of(value)
        if array.ndim == 1 and array.dtype.kind in "fiub" and (array.size > 1 or array.dtype.kind == "f"):
            return int(self.choose(array[None], [shock])[0])
        if array.size != 1 or array.dtype.kind == "f":
            what = f"shape {array.shape}" if array.size != 1 else f"{array}"
            raise self.error(f"returned {what}: no action. Return its index, an integer, or [A] probabilities.")
        try:
            return actions.index(array.item())
        except LabelError as error:
            raise LabelError(f"The policy, {self.name}, chose wrongly. {error}") from None

    def probabilities(self, values: np.ndarray[Any, Any], A: int) -> Floats:
        """Rows ``[n, A]`` that sum to 1. Sums run in order, so that a row's is the same for any n."""
        if values.shape[1] != A:
            raise self.error(f"returned {values.shape[1]} numbers for {A} actions. Return a probability for each.")
        table = values.astype(np.float64, order="C")
        bad = ~np.isfinite(table.max(axis=1))  # NaN too; a logit of −∞ is an action never taken
        if bad.any():
            raise self.error(f"returned {table[bad][0]}, which are no probabilities. Did its training fail?")
        if self.logits:
            table = np.exp(table - table.max(axis=1, keepdims=True))
        total = np.cumsum(table, axis=1)[:, -1:]
        bad = (table.min(axis=1) < 0) | ((np.abs(total[:, 0] - 1) > ROW_SUM_TOLERANCE) & (not self.logits))
        if bad.any():
            least = f" and are as low as {table[bad].min():.3g}" if table[bad].min() < 0 else ""
            what = f"{A} numbers that sum to {total[bad][0, 0]:.6g}{least}"
            raise self.error(f"returned {what}: are these logits? Say logits=True. Probabilities sum to 1.")
        return table / total

    def drawn(self, probs: Floats, shocks: Sequence[Any]) -> list[Any]:
        """The first action of each row whose cumulative probability exceeds the shock's number."""
        if self.greedy:
            return list(probs.argmax(axis=1).tolist())
        uniforms = np.array([shock.uniform() for shock in shocks])
        return list((cumulative_rows(probs) <= uniforms[:, None]).sum(axis=1).tolist())

    def error(self, what: str) -> PolicyError:
        """What this policy did wrong."""
        return PolicyError(f"The policy, {self.name}, {what}")


class ReadActor(Actor):
    """A policy whose answers need a reading."""

    def __init__(self, reading: Reading, needs_luck: bool = True) -> None:
        self._reading, self.needs_luck = reading, needs_luck

    def __repr__(self) -> str:
        return self._reading.name


def numpy_of(value: Any) -> np.ndarray[Any, Any]:
    """As a NumPy array; torch's are taken from their device."""
    if isinstance(value, np.ndarray):
        return value
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
