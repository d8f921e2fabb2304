"""Policies of tables: the probability of each action in each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.labels import Label, Labels
from jmdp.base.settings import short
from jmdp.errors import LabelError, PolicyError
from jmdp.models.tabular import TabularJMDP


@dataclass(frozen=True, init=False, eq=False)
class TabularPolicy(arrays.FrozenArrays):
    """A stationary policy π(a | s).

    The policy is defined by its stored table, with each row divided by its exact sum, as in `TabularJMDP`.

    Parameters
    ----------
    probs
        ``[S, A]``, probability of action a in state s.
    """

    probs: Floats  # [S, A]

    def __init__(self, probs: npt.ArrayLike) -> None:
        table = arrays.floats("probs", probs, "[S, A]", PolicyError)
        if table.size == 0:
            raise PolicyError(f"probs has shape {table.shape}. Give at least one state and action.")

        def where(at: Sequence[int]) -> str:
            return f"state {at[0]}, action {at[1]}"

        bad = ~((table >= 0) & (table <= 1 + arrays.ROW_SUM_TOLERANCE))
        arrays.refuse_where(bad, table, "probs", "a probability must be in [0, 1]", where, PolicyError)
        table = arrays.normalised_rows(table, lambda s: f"probs of state {s}", PolicyError)
        arrays.frozen(table)
        object.__setattr__(self, "probs", table)

    @classmethod
    def uniform(cls, model: TabularJMDP) -> TabularPolicy:
        """Policy with equally likely actions in every state."""
        return cls.of("uniform", model.actions, model.states)

    @classmethod
    def deterministic(
        cls, model: TabularJMDP, actions: Sequence[Label] | Mapping[Label, Label] | npt.NDArray[np.integer]
    ) -> TabularPolicy:
        """Policy with one action per state: a list in the order of states, or a dictionary from state to action."""
        S, _, A = model.shape
        if isinstance(actions, Mapping):
            chosen = {model.states.index(s): a for s, a in actions.items()}
            missing = sorted(set(range(S)) - set(chosen))
            if missing:
                raise PolicyError(f"actions has no entry for state {model.states.name(missing[0])}. Add one.")
            actions = [chosen[s] for s in range(S)]
        if isinstance(actions, str) or not hasattr(actions, "__len__") or len(actions) != S:
            count = len(actions) if hasattr(actions, "__len__") and not isinstance(actions, str) else 1
            raise PolicyError(f"actions has {count} entries for {S} states. Give one action for each state.")
        return cls(np.eye(A)[[model.actions.index(a) for a in actions]])

    @classmethod
    def of(cls, given: Any, actions: Labels | None, states: Labels | None) -> TabularPolicy:
        """Policy from one action ``[S]`` for each state, by index or name, from probabilities ``[S, A]``, or itself.

        With both `states` and `actions`, its size is checked, and it may also be "uniform".
        """
        if isinstance(given, str) and given == "uniform" and states is not None and actions is not None:
            return cls(np.full((states.size, actions.size), 1 / actions.size))
        table = given if isinstance(given, cls) else cls._read(given, actions)
        if states is None or actions is None:
            return table
        S, A = states.size, actions.size
        if len(table.probs) != S and table is not given and np.ndim(given) == 1:
            raise PolicyError(f"The policy has {len(given)} actions for {S} states. Give one action for each state.")
        if table.probs.shape != (S, A):
            raise PolicyError(
                f"The policy's table has shape {table.probs.shape}, but there are {S} states and {A} actions. "
                f"Give probs of shape {(S, A)} = [S, A]."
            )
        return table

    @classmethod
    def _read(cls, given: Any, actions: Labels | None) -> TabularPolicy:
        try:
            array = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
        except ValueError:
            raise PolicyError(f"The policy is {short(given)}, whose rows have different lengths. {_WANTED}") from None
        if array.ndim == 1 and array.size and array.dtype.kind in ("iu" if actions is None else "iuU"):
            labels = actions or Labels("action", int(array.max()) + 1)
            chosen = []
            for s, a in enumerate(array.tolist()):
                try:
                    chosen.append(labels.index(a))
                except LabelError as error:
                    raise LabelError(f"The policy has the action {a!r} in state {s}. {error}") from None
            return cls(np.eye(labels.size)[chosen])
        if array.ndim != 2:
            raise PolicyError(f"The policy is an array of shape {array.shape} and dtype {array.dtype}. {_WANTED}")
        return cls(array)

    def mixed(self, other: TabularPolicy, weight: float) -> TabularPolicy:
        """Policy that follows `other` with probability `weight` in each step, otherwise this one (e.g. ε-greedy)."""
        if not (isinstance(weight, Real) and 0 <= float(weight) <= 1):
            raise PolicyError(f"weight is {weight!r}. Give a probability.")
        if not isinstance(other, TabularPolicy):
            raise PolicyError(f"other is a {type(other).__name__}. Wrap a table: TabularPolicy(probs).")
        if other.probs.shape != self.probs.shape:
            raise PolicyError(f"Policies of shape {self.probs.shape} and {other.probs.shape} cannot be mixed.")
        return TabularPolicy((1 - weight) * self.probs + weight * other.probs)

    def check_fits(self, model: TabularJMDP) -> None:
        """Raise unless the policy has the model's states and actions."""
        self.of(self, model.actions, model.states)

    def __repr__(self) -> str:
        S, A = self.probs.shape
        kind = "deterministic" if (self.probs.max(axis=1) == 1).all() else "stochastic"
        return f"TabularPolicy({S} states, {A} actions, {kind})"


_WANTED = (
    "Give one action for each state (integers or names [S]) or probabilities [S, A]. For the same in all states of a "
    "simulator, use lambda obs: probs."
)

Policies = Mapping[str, TabularPolicy]
"""Several policies by name."""
