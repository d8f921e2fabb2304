"""Tables of Gymnasium's toy-text environments: P[state][action] = [(prob, next_state, reward, done), …]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import plain_names
from jmdp.base.settings import integer, listed, real_number, short
from jmdp.errors import ModelError
from jmdp.models.marginals.arrays import Listed

ENDED = "ended"
"""Name of the added terminal state."""

_MOST = 10_000_000
"""Largest number of entries of a list: an iterator may never end."""

_NO_EFFECT = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "Autoreset")
"""Wrappers that change neither rewards nor transitions. A time limit is left to the caller."""

_PASS_P = "Give P itself: P[state][action] = [(prob, next_state, reward, done), …]."


def read(env: Any, state_names: Sequence[str] | None) -> tuple[Listed, Sequence[str] | None]:
    """Lists of outcomes of an environment or of its P, and the names of the states, with the added one."""
    table = env if _is_table(env) else _table_of(env)
    states = [_entries(row, f"P[{s}]", "actions") for s, row in enumerate(_entries(table, "P", "states"))]
    if not states or not states[0]:
        raise ModelError(f"P is {short(table)}. Give at least one state and action.")
    for s, row in enumerate(states):
        if len(row) != len(states[0]):
            raise ModelError(
                f"P[{s}] has {len(row)} actions, but P[0] has {len(states[0])}. A table needs every action in every "
                "state: give it the outcomes of an action that is available there."
            )
    lists = [
        [_entries(found, f"P[{s}][{a}]", "outcomes") for a, found in enumerate(row)] for s, row in enumerate(states)
    ]
    count = np.array([[len(found) for found in row] for row in lists], np.int64)
    values = np.array(list(_outcomes(lists)), float).reshape(-1, 4)
    p, n, r, done = values[:, 0].copy(), values[:, 1].astype(np.int64), values[:, 2].copy(), values[:, 3] == 1.0
    return _ended(count, p, r, n, done, state_names)


def _is_table(env: Any) -> bool:
    return isinstance(env, Mapping) or (isinstance(env, Sequence) and not isinstance(env, (str, bytes)))


def _table_of(env: Any) -> Any:
    """P of an environment, unless something else changes its rewards or transitions."""
    inner = getattr(env, "unwrapped", None)
    table = getattr(inner, "P", None)
    if not _is_table(table):
        raise ModelError(f"{short(env)} is no environment with a table P, such as FrozenLake or Taxi. {_PASS_P}")
    if getattr(inner, "fickle_passenger", False) is True:
        raise ModelError("The table P of Taxi does not contain fickle passengers. Use fickle_passenger=False.")
    layer = env
    while layer is not None and layer is not inner:
        if (name := type(layer).__name__) not in _NO_EFFECT:
            raise ModelError(
                f"The wrapper {name} may change rewards or transitions, and the table P does not contain that. Give "
                "env.unwrapped for the environment without wrappers."
            )
        layer = getattr(layer, "env", None)
    return table


def _entries(value: Any, name: str, what: str) -> list[Any]:
    """The entries of a list, or of a dictionary with keys 0, 1, …, in order."""
    if isinstance(value, Mapping):
        try:
            found = [value[i] for i in range(len(value))]
        except KeyError:
            raise ModelError(f"{name} is {short(value)}. Number its {what} 0, 1, … without gaps.") from None
        return found
    some = listed(value, _MOST)
    if some is None or len(some) > _MOST:
        raise ModelError(f"{name} is {short(value)}. Give a list of {what}, or a dictionary with keys 0, 1, …")
    return some


def _outcomes(lists: list[list[list[Any]]]) -> Iterator[tuple[float, int, float, bool]]:
    """All outcomes in order, as plain numbers."""
    limit = len(lists)
    for s, row in enumerate(lists):
        for a, found in enumerate(row):
            for outcome in found:
                parts = listed(outcome, 4) or []
                if len(parts) != 4:
                    raise ModelError(
                        f"P[{s}][{a}] has the outcome {short(outcome)}. Give (prob, next_state, reward, done)."
                    )
                n = integer(parts[1])
                if n is None or not 0 <= n < limit or not isinstance(parts[3], (bool, np.bool_)):
                    raise ModelError(
                        f"P[{s}][{a}] has the outcome {short(outcome)}. Its next state must be an index from 0 to "
                        f"{limit - 1}, and done must be True or False."
                    )
                yield real_number(parts[0]), n, real_number(parts[2]), bool(parts[3])


def _ended(
    count: Integers, p: Floats, r: Floats, n: Integers, done: Booleans, state_names: Sequence[str] | None
) -> tuple[Listed, Sequence[str] | None]:
    """Mark terminal states, and add one if an episode ends in a state that can also be left."""
    S, A = count.shape
    state = np.repeat(np.arange(S), count.sum(axis=1))
    leaves = np.zeros(S, bool)
    leaves[state[(p != 0) & ~(done & (n == state) & (r == 0))]] = True
    terminal = ~leaves & (count > 0).all(axis=1)
    elsewhere = done & ~terminal[n] & (p != 0)
    if not elsewhere.any():
        return Listed(count, p, r, n, terminal), state_names
    n[elsewhere] = S
    names = [str(s) for s in range(S)] if state_names is None else plain_names("state", S, state_names)
    count = np.concatenate([count, np.zeros((1, A), np.int64)])
    return Listed(count, p, r, n, np.append(terminal, True)), (*names, ENDED)
