"""Ordinary MDPs in the arrays and lists of other packages, as lists of outcomes of every state and action.

Rows of transition matrices, dense or SciPy sparse; the arrays of pymdptoolbox and of QuantEcon's DiscreteDP; the tables
of Gymnasium's toy-text environments, P[state][action] = [(prob, next_state, reward, done), …]; and their validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Labels, plain_names
from jmdp.base.settings import integer, listed, real_number, short
from jmdp.errors import ModelError


class Rows(NamedTuple):
    """Entries of a matrix [L, S] that are not 0, row by row."""

    counts: Integers  # [L]
    value: Floats  # [N]
    column: Integers  # [N]
    columns: int  # S


def is_sparse(value: object) -> bool:
    """Whether this is a SciPy sparse array or matrix; SciPy is imported only if it may be."""
    if not hasattr(value, "tocsr"):
        return False
    from scipy.sparse import issparse

    return bool(issparse(value))


def rows(name: str, value: Any, axes: str) -> Rows:
    """Rows of a dense array, whose last axis is the column, or of a sparse one [L, S]."""
    return _sparse_rows(name, value, axes) if is_sparse(value) else _dense_rows(name, value, axes)


def _dense_rows(name: str, value: Any, axes: str) -> Rows:
    array = arrays.floats(name, value, axes, ModelError)
    flat = array.reshape(-1, array.shape[-1])
    row, column = np.nonzero(flat)
    return Rows(np.bincount(row, minlength=len(flat)), flat[row, column], column, flat.shape[1])


def _sparse_rows(name: str, value: Any, axes: str) -> Rows:
    matrix = csr(name, value, axes)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    some = matrix.data != 0
    if some.all():
        count = np.diff(matrix.indptr).astype(np.int64)
        return Rows(count, matrix.data.astype(np.float64), matrix.indices.astype(np.int64), matrix.shape[1])
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[some]
    values, column = matrix.data[some].astype(np.float64), matrix.indices[some].astype(np.int64)
    return Rows(np.bincount(row, minlength=matrix.shape[0]), values, column, matrix.shape[1])


def csr(name: str, value: Any, axes: str) -> Any:
    """A sparse array by rows; its indices are checked because SciPy would read outside of its arrays."""
    from scipy.sparse import csr_array

    if value.ndim != 2:
        raise ModelError(f"{name} is a sparse array with {value.ndim} axes. Its axes are {axes}.")
    if value.dtype.kind not in "fiub":
        raise ModelError(f"{name} has dtype {value.dtype}. Give real numbers.")
    arrays.refuse_large(f"{name} of {value.nnz} entries", 16.0 * value.nnz)
    try:
        if hasattr(value, "check_format"):
            value.check_format(full_check=True)
        found = csr_array(value)
        found.check_format(full_check=True)
    except (TypeError, ValueError, IndexError) as reason:  # if its arrays were changed
        raise ModelError(f"{name} is a damaged sparse array: {short(str(reason), 200)}. Build it anew.") from None
    return found


_MOST_ACTIONS = 100_000


def read_mdptoolbox(P: Any, R: Any) -> Listed:
    """Lists of outcomes, by next state."""
    matrices = _matrices(P)
    found = [rows(f"P[{a}]", matrix, "[S, S]") for a, matrix in enumerate(matrices)]
    S, A = found[0].columns, len(found)
    for a, matrix in enumerate(found):
        if matrix.columns != S or len(matrix.counts) != S:
            raise ModelError(
                f"P[{a}] has shape ({len(matrix.counts)}, {matrix.columns}). Give {S} × {S} for each action."
            )
    total = sum(matrix.value.size for matrix in found)
    arrays.refuse_large(f"Lists of {total} outcomes", BYTES * total)
    count = np.stack([matrix.counts for matrix in found], axis=1)
    first = first_outcomes(count)[:-1].reshape(S, A)
    p, r, n = np.empty(total), np.empty(total), np.empty(total, np.int64)
    rewards = _rewards(R, S, A)
    for a, matrix in enumerate(found):
        row = np.repeat(np.arange(S), matrix.counts)
        at = np.arange(row.size) + np.repeat(first[:, a] - first_outcomes(matrix.counts)[:-1], matrix.counts)
        p[at], n[at], r[at] = matrix.value, matrix.column, _of_transitions(rewards[a], row, matrix)
    return Listed(count, p, r, n, np.zeros(S, bool))


def _matrices(P: Any) -> list[Any]:
    """One matrix for each action."""
    if is_sparse(P):
        raise ModelError("P is a single sparse matrix. Give a list with one matrix [S, S] for each action.")
    arrays.refuse_masked("P", P, ModelError)
    arrays.refuse_large_copies("P", [P], 8.0)
    found = listed(P, _MOST_ACTIONS)
    if not found or len(found) > _MOST_ACTIONS:
        raise ModelError(f"P is {short(P)}. Give an array [A, S, S], or a list of A matrices [S, S].")
    return found


def _rewards(R: Any, S: int, A: int) -> list[Any]:
    """For each action a vector [S], a dense matrix [S, S] or a sparse one."""
    if is_sparse(R):
        found = csr("R", R, "[S, A]")
        if found.shape != (S, A):
            raise ModelError(f"R has shape {found.shape}. Its axes are [S, A] = {(S, A)}.")
        arrays.refuse_large(f"R of shape {(S, A)}", 8.0 * S * A)
        R = found.toarray().astype(np.float64)
    many = listed(R, max(S, A))
    if many and len(many) == A and all(is_sparse(matrix) or arrays.dimensions(matrix) == 2 for matrix in many):
        return [_matrix(f"R[{a}]", matrix, S) for a, matrix in enumerate(many)]
    axes = "[S]" if arrays.dimensions(R) == 1 else "[S, A]"
    array = arrays.floats("R", R, axes, ModelError)
    if array.shape not in ((S,), (S, A)):
        raise ModelError(f"R has shape {array.shape}. Give [S] = {(S,)}, [S, A] = {(S, A)} or [A, S, S] = {(A, S, S)}.")
    return [array] * A if array.ndim == 1 else list(array.T)


def _matrix(name: str, value: Any, S: int) -> Any:
    found = csr(name, value, "[S, S]") if is_sparse(value) else arrays.floats(name, value, "[S, S]", ModelError)
    if found.shape != (S, S):
        raise ModelError(f"{name} has shape {found.shape}. Give {S} × {S} for each action.")
    return found


def _of_transitions(rewards: Any, row: Integers, matrix: Rows) -> Floats:
    """Reward of each outcome of an action."""
    if rewards.ndim == 1:
        found: Floats = rewards[row]
    elif isinstance(rewards, np.ndarray):
        found = rewards[row, matrix.column]
    else:
        found = np.asarray(rewards[row, matrix.column], float).ravel()
    return found


def read_quantecon(R: Any, Q: Any, discount: Any, s_indices: Any, a_indices: Any) -> tuple[Listed, Any]:
    """Lists of outcomes of QuantEcon's arrays or of a DiscreteDP, and the discount."""
    if Q is None:
        Q, s_indices, a_indices = (getattr(R, name, None) for name in ("Q", "s_indices", "a_indices"))
        discount = getattr(R, "beta", None) if discount is None else discount
        if Q is None:
            raise ModelError(
                "Q is missing. Give R, Q and the discount, or a quantecon.markov.DiscreteDP in place of R."
            )
        R = getattr(R, "R", None)
    if discount is None:
        raise ModelError("discount is missing. Give a number γ with 0 ≤ γ < 1.")
    if (s_indices is None) != (a_indices is None):
        raise ModelError("Only one of s_indices and a_indices is given. Give both, or none for R [S, A], Q [S, A, S].")
    arrays.refuse_large_copies("Q", [] if is_sparse(Q) else [Q], 8.0)
    return _dense(R, Q) if s_indices is None else _pairs(R, Q, s_indices, a_indices), discount


def _dense(R: Any, Q: Any) -> Listed:
    if is_sparse(Q):
        raise ModelError("Q is sparse [L, S]. Give s_indices and a_indices: the state and action of each row.")
    reward = arrays.floats("R", R, "[S, A]", ModelError)
    found = rows("Q", Q, "[S, A, S]")
    S, A = reward.shape
    if np.shape(Q) != (S, A, S):
        raise ModelError(f"Q has shape {np.shape(Q)}, but R {reward.shape} = [S, A] requires {(S, A, S)}.")
    return _listed(reward, found)


def _pairs(R: Any, Q: Any, s_indices: Any, a_indices: Any) -> Listed:
    reward = arrays.floats("R", R, "[L]", ModelError)
    s = arrays.integers("s_indices", s_indices, "[L]", ModelError)
    a = arrays.integers("a_indices", a_indices, "[L]", ModelError)
    found = rows("Q", Q, "[L, S]")
    for name, length in (("Q", len(found.counts)), ("s_indices", s.size), ("a_indices", a.size)):
        if length != reward.size:
            raise ModelError(f"{name} has {length} rows, but R has {reward.size}. Give one for each state-action pair.")
    S, L = found.columns, reward.size
    if L == 0 or s.min() < 0 or s.max() >= S or a.min() < 0 or a.max() >= L:
        raise ModelError(f"States of s_indices must be from 0 to {S - 1}, and actions of a_indices from 0 on.")
    A = int(a.max()) + 1
    arrays.refuse_large(f"A table of {S} states and {A} actions", 16.0 * S * A)
    pair = s * A + a
    place = np.full(S * A, -1)
    place[pair] = np.arange(L)
    if (twice := place[pair] != np.arange(L)).any():
        at = int(twice.argmax())
        raise ModelError(f"s_indices and a_indices have state {s[at]} with action {a[at]} twice. Give each pair once.")
    if (missing := place < 0).any():
        state, action = divmod(int(missing.argmax()), A)
        raise ModelError(f"Action {action} is missing in state {state}{UNAVAILABLE}")
    if L and (np.diff(pair) != 1).any():
        found, reward = _reordered(found, place), reward[place]
    return _listed(reward.reshape(S, A), found)


def _reordered(found: Rows, order: Integers) -> Rows:
    """The same rows in another order."""
    count = found.counts[order]
    begin, end = first_outcomes(found.counts)[:-1][order], first_outcomes(count)
    at = np.arange(end[-1]) + np.repeat(begin - end[:-1], count)
    return Rows(count, found.value[at], found.column[at], found.columns)


def _listed(reward: Floats, found: Rows) -> Listed:
    """Lists in which all outcomes of a state and action have its reward."""
    if (infeasible := reward == -np.inf).any():
        s, a = (int(i) for i in np.argwhere(infeasible)[0])
        raise ModelError(f"R[{s}, {a}] is -inf, that is, action {a} is not available in state {s}{UNAVAILABLE}")
    arrays.refuse_large(f"Lists of {found.value.size} outcomes", BYTES * found.value.size)
    count = found.counts.reshape(reward.shape)
    each = np.repeat(reward.ravel(), found.counts)
    return Listed(count, found.value, each, found.column, np.zeros(len(reward), bool))


BYTES = 60.0
"""Memory for each outcome while lists are read and checked: three numbers, a copy of them and masks."""


class Listed(NamedTuple):
    """Outcomes of (s, a) are consecutive; those of row s·A + a begin where the row before ends."""

    counts: Integers  # [S, A], outcomes of each state and action
    prob: Floats  # [N]
    reward: Floats  # [N]
    next_state: Integers  # [N]
    terminal: Booleans  # [S]


def first_outcomes(count: Integers) -> Integers:
    """Index [S·A + 1] of the first outcome of each row; the last entry is the number of outcomes."""
    first = np.zeros(count.size + 1, np.int64)
    np.cumsum(count.ravel(), out=first[1:])
    return first


def row_sums(values: Floats, first: Integers) -> Floats:
    """Sum of each row; every row must have an entry."""
    return np.add.reduceat(values, first[:-1])


def checked(listed: Listed, states: Labels, actions: Labels) -> Listed:
    """Valid lists: rows sum to nearly 1, outcomes of probability 0 are left out, terminal states stay.

    Arrays are changed in place.
    """
    listed = _with_terminal_rows(listed)
    _refuse_unavailable(listed.counts, states, actions)
    first = first_outcomes(listed.counts)

    def where(at: Sequence[int]) -> str:
        s, a = divmod(int(np.searchsorted(first, at[0], side="right")) - 1, actions.size)
        return f"state {states.name(s)}, action {actions.name(a)}"

    p, r, n = listed.prob, listed.reward, listed.next_state
    bad_p = ~((p >= 0) & (p <= 1 + arrays.ROW_SUM_TOLERANCE))
    arrays.refuse_where(bad_p, p, "prob", "a probability must be in [0, 1]", where, ModelError)
    arrays.refuse_where(~np.isfinite(r), r, "reward", "a reward must be a finite number", where, ModelError)
    bad_n = (n < 0) | (n >= states.size)
    rule = f"a state must be an index from 0 to {states.size - 1}"
    arrays.refuse_where(bad_n, n, "next_state", rule, where, ModelError)
    _refuse_other_sums(p, first, states, actions)
    return _without_impossible(listed, first)


def _refuse_unavailable(count: Integers, states: Labels, actions: Labels) -> None:
    missing = count == 0
    if not missing.any():
        return
    s, a = (int(i) for i in np.argwhere(missing)[0])
    more = int(missing.sum()) - 1
    others = f" ({more:,} more like it)" if more else ""
    raise ModelError(f"Action {actions.name(a)} has no outcomes in state {states.name(s)}{others}{UNAVAILABLE}")


UNAVAILABLE = (
    ": a table needs every action in every state. Give it the outcomes of an action that is available there, or mark "
    "the state as terminal."
)
"""Why actions that are not available are refused, and the fix."""


def _with_terminal_rows(listed: Listed) -> Listed:
    """The same with one certain outcome for each action of terminal states: they stay, with reward 0."""
    count, p, r, n, ends = listed
    if not ends.any():
        return listed
    kept = np.repeat(np.repeat(~ends, count.shape[1]), count.ravel())
    count = count.copy()
    count[ends] = 0
    at = first_outcomes(count)[:-1].reshape(count.shape)[ends].ravel()
    stay = np.repeat(np.flatnonzero(ends), count.shape[1])
    count[ends] = 1
    return Listed(count, np.insert(p[kept], at, 1.0), np.insert(r[kept], at, 0.0), np.insert(n[kept], at, stay), ends)


def _refuse_other_sums(p: Floats, first: Integers, states: Labels, actions: Labels) -> None:
    sums = row_sums(p, first)
    off = np.abs(sums - 1)
    worst = int(off.argmax())
    if off[worst] > arrays.ROW_SUM_TOLERANCE:
        s, a = divmod(worst, actions.size)
        raise ModelError(
            f"The probabilities of state {states.name(s)}, action {actions.name(a)} sum to {sums[worst]:.9g}, not 1. "
            "Divide them by their sum, or add the missing probability."
        )


def _without_impossible(listed: Listed, first: Integers) -> Listed:
    possible = listed.prob > 0
    if possible.all():
        return listed
    count = np.add.reduceat(possible, first[:-1], dtype=np.int64).reshape(listed.counts.shape)
    p, r, n = listed.prob[possible], listed.reward[possible], listed.next_state[possible]
    return Listed(count, p, r, n, listed.terminal)


ENDED = "ended"
"""Name of the added terminal state."""

_MOST = 10_000_000
"""Largest number of entries of a list: an iterator may never end."""

_NO_EFFECT = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "Autoreset")
"""Wrappers that change neither rewards nor transitions. A time limit is left to the caller."""

_PASS_P = "Give P itself: P[state][action] = [(prob, next_state, reward, done), …]."


def read_toy_text(env: Any, state_names: Sequence[str] | None) -> tuple[Listed, Sequence[str] | None]:
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
