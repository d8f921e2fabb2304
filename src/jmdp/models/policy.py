"""Policies of tables: the probability of each action in each state.

Several policies in one table: one copy of the model for each policy, as blocks of states.

State i · block + s is state s of the model under policy i. A branch never leaves its block, so the policy of the whole
table from there is policy i from s. The copies of one state in all blocks form one *place*: branches there receive the
same scenario if the coupling shares scenarios within a state. They are nevertheless different states, so branches of
different policies never merge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Label, Labels
from jmdp.base.settings import UNCONVERTIBLE, cut, instance, listed, real_number, short
from jmdp.errors import LabelError, PolicyError
from jmdp.models.tabular import TabularJMDP, changed, check_model

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
        return cls.of("uniform", model)

    @classmethod
    def deterministic(
        cls, model: TabularJMDP, actions: Sequence[Label] | Mapping[Label, Label] | npt.NDArray[np.integer]
    ) -> TabularPolicy:
        """Policy with one action per state: {state: action}, or a list in the order of states, as in `of`."""
        check_model(model)
        if isinstance(actions, Mapping):
            return cls.of({state: model.actions[model.actions.index(a)] for state, a in actions.items()}, model)
        S = model.shape[0]
        refuse_order(actions, model)
        arrays.refuse_masked("actions", actions, PolicyError)
        entries = listed(actions, S)
        if entries is None:
            raise PolicyError(f"actions is {short(actions)}. Give a list with one action for each state.")
        if len(entries) != S:
            count = f"more than {S}" if len(entries) > S else len(entries)
            raise PolicyError(f"actions has {count} entries for {S} states. Give one action for each state.")
        return _choosing([model.actions.index(a) for a in entries], model.actions.size)

    @classmethod
    def of(cls, given: Any, model: TabularJMDP) -> TabularPolicy:
        """Policy of a table, from any of these.

        - ``{state: action}`` or ``{state: {action: probability}}``, by label. Terminal states may be left out;
        - a function of the label of a state that returns an action, {action: probability}, or probabilities ``[A]``;
        - one action for each state ``[S]``, or probabilities ``[S, A]``, in the order of the states. They are refused
          if the table was read with labels from a file or frame, because the order is then not the caller's;
        - a `TabularPolicy`, or "uniform".
        """
        check_model(model)
        S, _, A = model.shape
        if isinstance(given, str) and given == "uniform":
            return cls(np.full((S, A), 1 / A))
        if isinstance(given, Mapping):
            return cls._by_state(given, model)
        if callable(given) and not isinstance(given, type):
            return cls._by_state(_called(given, model), model)
        if not isinstance(given, cls):
            refuse_order(given, model)
        table = array_policy(given, model.actions)
        if len(table.probs) != S and table is not given and np.ndim(given) == 1:
            raise PolicyError(f"The policy has {len(given)} actions for {S} states. Give one action for each state.")
        if table.probs.shape != (S, A):
            raise PolicyError(
                f"The policy's table has shape {table.probs.shape}, but there are {S} states and {A} actions. "
                f"Give probs of shape {(S, A)} = [S, A]."
            )
        return table

    @classmethod
    def _by_state(cls, given: Mapping[Any, Any], model: TabularJMDP) -> TabularPolicy:
        S, _, A = model.shape
        arrays.refuse_large(f"A policy of {S:,} states and {A:,} actions", 100.0 * S * A)
        probs, known = np.zeros((S, A)), np.zeros(S, bool)
        for label, value in given.items():
            s = model.states.index(label)
            if known[s]:
                raise PolicyError(f"The policy has state {model.states.name(s)} twice. Give each state once.")
            known[s], choice = True, table_choice(value, model, s)
            if isinstance(choice, int):
                probs[s, choice] = 1.0
            else:
                probs[s] = choice
        missing = np.flatnonzero(~(known | model.terminal)).tolist()
        if missing:
            some = ", ".join(short(model.states.label(s)) for s in missing[:5]) + ", …" * (len(missing) > 5)
            raise PolicyError(
                f"The policy has no action for {len(missing)} of {S} states: {some}. Add them; only terminal states "
                "need none."
            )
        probs[~known, 0] = 1.0  # no action is taken in a terminal state
        return cls(probs)

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
        self.of(self, model)

    def __repr__(self) -> str:
        S, A = self.probs.shape
        kind = "deterministic" if self.certain.all() else "stochastic"
        return f"TabularPolicy({S} states, {A} actions, {kind})"


_WANTED = (
    "Give one action for each state (integers or names [S]) or probabilities [S, A]. For the same in all states of a "
    "simulator, use lambda obs: probs."
)


def array_policy(given: Any, actions: Labels | None) -> TabularPolicy:
    """Policy from one action ``[S]`` for each state, by index or name, from probabilities ``[S, A]``, or itself."""
    if isinstance(given, TabularPolicy):
        return given
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
        return _choosing(chosen, labels.size)
    if array.ndim != 2:
        raise PolicyError(f"The policy is an array of shape {array.shape} and dtype {array.dtype}. {_WANTED}")
    return TabularPolicy(array)


def _choosing(chosen: Sequence[int], A: int) -> TabularPolicy:
    S = len(chosen)
    arrays.refuse_large(f"A policy of {S:,} states and {A:,} actions", 100.0 * S * A)
    probs = np.zeros((S, A))
    probs[np.arange(S), chosen] = 1.0
    return TabularPolicy(probs)


def table_choice(value: Any, model: TabularJMDP, s: int) -> int | Floats:
    """What a policy of a table does in state s: the index of an action, or the probabilities [A] of all.

    It is given as the label of an action, as {action: probability}, or as probabilities [A].
    """
    actions, where = model.actions, f"in state {short(model.states.label(s))}"
    if isinstance(value, Mapping):
        chances = {actions.index(label): real_number(p) for label, p in value.items()}
        row = np.zeros(actions.size)
        row[list(chances)] = list(chances.values())
        if len(chances) < len(value) or not (row.min() >= 0 and abs(row.sum() - 1) <= arrays.ROW_SUM_TOLERANCE):
            raise PolicyError(f"The policy has {short(value)} {where}. Give {{action: probability}}, with a sum of 1.")
        return row
    if np.ndim(value) == 1 and not (isinstance(value, tuple) and actions.has(value)):
        if actions.read:
            raise PolicyError(
                f"The policy has {short(value)} {where}, but the actions were read with labels. Give "
                f"{{action: probability}} by label: {{{short(actions.label(0))}: 1.0}}."
            )
        arrays.refuse_masked("The policy", value, PolicyError)
        array = np.asarray(value)
        if array.shape != (actions.size,) or array.dtype.kind not in "fiu":
            raise PolicyError(f"The policy has {short(value)} {where}. Give a probability for each of {actions.size}.")
        return array.astype(np.float64)
    try:
        return actions.index(value)
    except LabelError as error:
        raise LabelError(f"The policy has the action {short(value)} {where}. {error}") from None


def _called(function: Callable[[Any], Any], model: TabularJMDP) -> dict[Label, Any]:
    """What a function of the label does in each state that is not terminal."""

    def called(s: int) -> Any:
        try:
            return function(model.states.label(s))
        except Exception as error:
            error.add_note(f"Raised by the policy for the state {short(model.states.label(s))}.")
            raise

    found = {s: called(s) for s in np.flatnonzero(~model.terminal).tolist()}
    for s in list(found)[:10][::-1] * 3:  # again, in another order: random numbers and memory give other values
        again = called(s)
        if not np.array_equal(table_choice(again, model, s), table_choice(found[s], model, s)):
            raise PolicyError(
                f"The policy returned {short(found[s])} and then {short(again)} for the state "
                f"{short(model.states.label(s))}. A function of the state may not use random numbers or memory: return "
                "{action: probability}."
            )
    return {model.states[s]: value for s, value in found.items()}


def refuse_order(given: Any, model: TabularJMDP) -> None:
    """Raise if the states or actions of the table have labels from a file or frame: a list may have another order."""
    states, actions = model.states, model.actions
    if not (states.read or actions.read):
        return
    places = np.flatnonzero(~model.terminal).tolist()
    some, action = [short(states.label(s)) for s in places[:3]], short(actions.label(0))
    entries = ", ".join(f"{state}: {action}" for state in some) + ", …" * (len(places) > 3)
    raise PolicyError(
        f"The policy is a {type(given).__name__}, but this table was read with labels, in an order of its own. Give "
        f"the action of each state by label, {{{entries}}}, or {{state: {{action: probability}}}}. For the order of "
        "model.states and model.actions, give TabularPolicy(probs)."
    )


def policy_steps(policy: Any, model: TabularJMDP, steps: int) -> list[TabularPolicy]:
    """Policy of each step, from one for all steps or from a list or array [H, S, A] of one per step."""
    found: list[TabularPolicy] = []
    if isinstance(policy, np.ndarray) and policy.ndim == 3:
        refuse_order(policy, model)
        arrays.refuse_masked("policy", policy, PolicyError)
        found = [TabularPolicy(table) for table in policy[: steps + 1]]
    elif isinstance(policy, (list, tuple)) and policy and all(map(_is_whole, policy)):
        found = [TabularPolicy.of(step, model) for step in policy[: steps + 1]]
    elif isinstance(policy, (list, tuple, np.ndarray)) or _is_whole(policy) or policy == "uniform":
        return [TabularPolicy.of(policy, model)] * steps
    else:
        raise PolicyError(
            f"policy is a {type(policy).__name__}. With a horizon give a policy for all steps ({{state: action}}, a "
            'function of the state, a TabularPolicy, one action for each state, probabilities [S, A], or "uniform"), a '
            "list of one policy for each step, or an array [H, S, A]."
        )
    if len(found) != steps:
        raise PolicyError(f"The policy has {len(policy)} steps, but the horizon is {steps}. Give one table per step.")
    for table in found:
        table.check_fits(model)
    return found


def _is_whole(policy: Any) -> bool:
    """Whether this is a policy of all states, and no list of actions or steps."""
    return isinstance(policy, (TabularPolicy, Mapping)) or callable(policy)


def is_one_policy(given: Mapping[Any, Any], model: TabularJMDP) -> bool:
    """Whether a dictionary is one policy, {state: …}, and not several policies by name; raise if it can be both."""
    one = all(model.states.has(key) and _is_choice(value, model) for key, value in given.items())
    several = all(isinstance(key, str) and _is_policy(value, model) for key, value in given.items())
    if one and several and given:
        raise PolicyError(
            f"The policy {short(given)} can be one policy, {{state: action}}, or several policies by name. Convert it: "
            "TabularPolicy.of({…}, model) for one policy, and for each of several."
        )
    if not one and not several:  # read it as what it resembles more, for the message
        return any(map(model.states.has, given)) and not any(_is_policy(value, model) for value in given.values())
    return one and bool(given)


def _is_choice(value: Any, model: TabularJMDP) -> bool:
    """Whether this can be what a policy does in one state."""
    if isinstance(value, Mapping):
        return all(model.actions.has(key) and not math.isnan(real_number(p)) for key, p in value.items())
    return model.actions.has(value)


def _is_policy(value: Any, model: TabularJMDP) -> bool:
    """Whether this can be a policy of all states."""
    if isinstance(value, Mapping):
        return all(model.states.has(key) and _is_choice(row, model) for key, row in value.items())
    listed = isinstance(value, (TabularPolicy, list, tuple)) or hasattr(value, "__array__")
    return listed or callable(value) or (isinstance(value, str) and value == "uniform")


Policies = Mapping[str, TabularPolicy]
"""Several policies by name."""


Number = TypeVar("Number", np.float64, np.int64, np.bool_)

_ALIGNED = 8
"""Block sizes are multiples of this, as compiled sweeps require; the added states are terminal."""


@dataclass(frozen=True, eq=False)
class StackedTable:
    """Table that combines several models of one shape as blocks of states."""

    model: TabularJMDP
    states: int  # number of states S of each model
    block: int  # distance between copies of a state in consecutive blocks

    @classmethod
    def of(cls, models: Sequence[TabularJMDP]) -> StackedTable:
        """Combine one model for each policy; they may differ in rewards only."""
        S = models[0].shape[0]
        block = -(-S // _ALIGNED) * _ALIGNED
        more = block - S
        following = [
            np.concatenate([model.next_state, np.zeros((more, *model.next_state.shape[1:]), np.int64)]) + i * block
            for i, model in enumerate(models)
        ]
        table = TabularJMDP(
            _stacked([model.prob for model in models], more),
            _stacked([model.reward for model in models], more),
            np.concatenate(following),
            0.0,
            np.concatenate([np.append(model.terminal, np.ones(more, bool)) for model in models]),
        )
        table = changed(table, discount=models[0].discount, prob_error=models[0].prob_error)
        return cls(table, S, block)

    def policy(self, policies: Sequence[TabularPolicy]) -> TabularPolicy:
        """Policy of the whole table that follows each policy in its block."""
        return TabularPolicy(_stacked([policy.probs for policy in policies], self.block - self.states))

    @property
    def count(self) -> int:
        """Number of policies."""
        return self.model.shape[0] // self.block

    def at(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Rearrange values of all states of the table to [S, P]."""
        return np.asarray(values.reshape(self.count, self.block)[:, : self.states].T)

    def within_states(self, own: Floats, between: Floats) -> Floats:
        """Array [S, P, P]: `own` [states of the table] on the diagonal, otherwise entries of a table of pairs."""
        found = np.empty((self.states, self.count, self.count))
        for i, j in np.ndindex(self.count, self.count):
            x, y = (np.arange(self.states) + self.place(0, policy) for policy in (i, j))
            found[:, i, j] = own[x] if i == j else between[x, y]
        return found

    def place(self, s: int, i: int) -> int:
        """State of the table that is state s under policy i."""
        return i * self.block + s

    def keep_between(self, table: Floats) -> None:
        """Set a table of pairs to 0 where both states are in the same block."""
        for first in range(0, len(table), self.block):
            table[first : first + self.block, first : first + self.block] = 0.0

    def pairs(self) -> tuple[Integers, Integers]:
        """All pairs of non-terminal states at one place; the first state is that of the later policy."""
        goes_on = np.flatnonzero(~self.model.terminal[: self.block])
        later, earlier = np.tril_indices(self.count, -1)
        one, other = (goes_on + self.block * of[:, None] for of in (later, earlier))
        return one.ravel(), other.ravel()


def _stacked(parts: Sequence[Floats], more: int) -> Floats:
    """Concatenate arrays, each padded with this number of rows."""
    return np.concatenate([np.concatenate([part, np.repeat(part[:1], more, axis=0)]) for part in parts])
