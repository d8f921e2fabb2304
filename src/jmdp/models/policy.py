"""Policies of tables: the probability of each action in each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats
from jmdp.base.labels import Label, Labels
from jmdp.base.settings import UNCONVERTIBLE, cut, instance, listed, real_number, short
from jmdp.errors import LabelError, PolicyError
from jmdp.models.tabular import TabularJMDP, check_model

_BYTES = 16.0
"""Memory for each number of a policy while it is checked: the number, two masks, and parts of the sums of rows."""


@dataclass(frozen=True, init=False, eq=False)
class TabularPolicy(arrays.FrozenArrays):
    """A stationary policy π(a | s).

    The policy is defined by its stored table, with each row divided by its exact sum, as in `TabularJMDP`. The
    probability of an action is stored as exactly 1 if no other is possible, and only then does it determine the action.

    Parameters
    ----------
    probs
        ``[S, A]``, probability of action a in state s.
    """

    probs: Floats  # [S, A]

    def __init__(self, probs: npt.ArrayLike) -> None:
        arrays.refuse_large_copies("probs", [probs], _BYTES)
        table = arrays.floats("probs", probs, "[S, A]", PolicyError)
        if table.size == 0:
            raise PolicyError(f"probs has shape {table.shape}. Give at least one state and action.")

        def where(at: Sequence[int]) -> str:
            return f"state {at[0]}, action {at[1]}"

        bad = ~((table >= 0) & (table <= 1 + arrays.ROW_SUM_TOLERANCE))
        arrays.refuse_where(bad, table, "probs", "a probability must be in [0, 1]", where, PolicyError)
        table = arrays.normalised_rows(table, lambda s: f"probs of state {s}", PolicyError)
        alone = arrays.certain(table)
        table[alone] = table[alone] > 0
        arrays.frozen(table)
        object.__setattr__(self, "probs", table)

    @property
    def certain(self) -> Booleans:
        """Whether each state [S] has only one possible action. A probability of 1.0 does not say so: [1, 1e-17]."""
        return arrays.certain(self.probs)

    @classmethod
    def uniform(cls, model: TabularJMDP) -> TabularPolicy:
        """Policy with equally likely actions in every state."""
        check_model(model)
        return cls.of("uniform", model.actions, model.states)

    @classmethod
    def deterministic(
        cls, model: TabularJMDP, actions: Sequence[Label] | Mapping[Label, Label] | npt.NDArray[np.integer]
    ) -> TabularPolicy:
        """Policy with one action per state: a list in the order of states, or a dictionary from state to action."""
        check_model(model)
        S, _, A = model.shape
        if isinstance(actions, Mapping):
            chosen = {model.states.index(s): a for s, a in actions.items()}
            if len(chosen) < len(actions):
                raise PolicyError("actions has a state twice, by name and by index. Give each state once.")
            missing = sorted(set(range(S)) - set(chosen))
            if missing:
                raise PolicyError(f"actions has no entry for state {model.states.name(missing[0])}. Add one.")
            actions = [chosen[s] for s in range(S)]
        arrays.refuse_masked("actions", actions, PolicyError)
        entries = listed(actions, S)
        if entries is None:
            raise PolicyError(f"actions is {short(actions)}. Give a list with one action for each state.")
        if len(entries) != S:
            count = f"more than {S}" if len(entries) > S else len(entries)
            raise PolicyError(f"actions has {count} entries for {S} states. Give one action for each state.")
        return cls._choosing([model.actions.index(a) for a in entries], A)

    @classmethod
    def _choosing(cls, chosen: Sequence[int], A: int) -> TabularPolicy:
        S = len(chosen)
        arrays.refuse_large(f"A policy of {S:,} states and {A:,} actions", 100.0 * S * A)
        probs = np.zeros((S, A))
        probs[np.arange(S), chosen] = 1.0
        return cls(probs)

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
        arrays.refuse_masked("The policy", given, PolicyError)
        try:
            array = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
        except ValueError:
            raise PolicyError(f"The policy is {short(given)}, whose rows have different lengths. {_WANTED}") from None
        except UNCONVERTIBLE as reason:
            raise PolicyError(f"The policy is {short(given)} ({cut(str(reason))}). {_WANTED}") from None
        arrays.refuse_large(f"A policy of shape {array.shape}", 100.0 * array.size)
        if array.ndim == 1 and array.size and array.dtype.kind in ("iu" if actions is None else "iuUO"):
            labels = actions or Labels("action", int(array.max()) + 1)
            chosen = []
            for s, a in enumerate(given if isinstance(given, (list, tuple)) else array.tolist()):
                try:
                    chosen.append(labels.index(a))
                except LabelError as error:
                    raise LabelError(f"The policy has the action {short(a)} in state {s}. {error}") from None
            return cls._choosing(chosen, labels.size)
        if array.ndim != 2:
            raise PolicyError(f"The policy is an array of shape {array.shape} and dtype {array.dtype}. {_WANTED}")
        return cls(array)

    def mixed(self, other: TabularPolicy, weight: float) -> TabularPolicy:
        """Policy that follows `other` with probability `weight` in each step, otherwise this one (e.g. ε-greedy)."""
        share = real_number(weight)
        if not 0 <= share <= 1:
            raise PolicyError(f"weight is {short(weight)}. Give a probability.")
        instance("other", other, TabularPolicy, PolicyError, hint=" Wrap a table: TabularPolicy(probs).")
        if other.probs.shape != self.probs.shape:
            raise PolicyError(f"Policies of shape {self.probs.shape} and {other.probs.shape} cannot be mixed.")
        return TabularPolicy((1 - share) * self.probs + share * other.probs)

    def check_fits(self, model: TabularJMDP) -> None:
        """Raise unless the policy has the model's states and actions."""
        check_model(model)
        self.of(self, model.actions, model.states)

    def __repr__(self) -> str:
        S, A = self.probs.shape
        kind = "deterministic" if self.certain.all() else "stochastic"
        return f"TabularPolicy({S} states, {A} actions, {kind})"


_WANTED = (
    "Give one action for each state (integers or names [S]) or probabilities [S, A]. For the same in all states of a "
    "simulator, use lambda obs: probs."
)


Policies = Mapping[str, TabularPolicy]
"""Several policies by name."""
