"""Arrays of QuantEcon's DiscreteDP: by states and actions, or by state-action pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.errors import ModelError
from jmdp.models.marginals.listed import BYTES, UNAVAILABLE, Listed, first_outcomes
from jmdp.models.marginals.sparse_rows import Rows, is_sparse, rows


class Problem(NamedTuple):
    """Lists of outcomes, and the discount that belongs to them."""

    listed: Listed
    discount: Any


def read(R: Any, Q: Any, discount: Any, s_indices: Any, a_indices: Any) -> Problem:
    """Lists of outcomes of QuantEcon's arrays or of a DiscreteDP."""
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
    listed = _dense(R, Q) if s_indices is None else _pairs(R, Q, s_indices, a_indices)
    return Problem(listed, discount)


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
