"""Arrays of pymdptoolbox: a transition matrix for each action, and rewards in several layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.base.settings import listed, short
from jmdp.errors import ModelError
from jmdp.models.marginals.listed import BYTES, Listed, first_outcomes
from jmdp.models.marginals.sparse_rows import Rows, csr, is_sparse, rows

_MOST_ACTIONS = 100_000


def read(P: Any, R: Any) -> Listed:
    """Lists of outcomes, by next state."""
    matrices = _matrices("P", P)
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


def _matrices(name: str, value: Any) -> list[Any]:
    """One matrix for each action."""
    if is_sparse(value):
        raise ModelError(f"{name} is a single sparse matrix. Give a list with one matrix [S, S] for each action.")
    arrays.refuse_masked(name, value, ModelError)
    arrays.refuse_large_copies(name, [value], 8.0)
    found = listed(value, _MOST_ACTIONS)
    if not found or len(found) > _MOST_ACTIONS:
        raise ModelError(f"{name} is {short(value)}. Give an array [A, S, S], or a list of A matrices [S, S].")
    return found


def _rewards(R: Any, S: int, A: int) -> list[Any]:
    """For each action a vector [S], a dense matrix [S, S] or a sparse one."""
    if is_sparse(R):
        R = _filled("R", R, "[S, A]", (S, A))
    many = listed(R, max(S, A))
    if many and len(many) == A and all(is_sparse(matrix) or arrays.dimensions(matrix) == 2 for matrix in many):
        return [_matrix(f"R[{a}]", matrix, S) for a, matrix in enumerate(many)]
    axes = "[S]" if arrays.dimensions(R) == 1 else "[S, A]"
    array = arrays.floats("R", R, axes, ModelError)
    if array.shape not in ((S,), (S, A)):
        raise ModelError(f"R has shape {array.shape}. Give [S] = {(S,)}, [S, A] = {(S, A)} or [A, S, S] = {(A, S, S)}.")
    return [array] * A if array.ndim == 1 else list(array.T)


def _filled(name: str, value: Any, axes: str, shape: tuple[int, int]) -> Floats:
    found = csr(name, value, axes)
    if found.shape != shape:
        raise ModelError(f"{name} has shape {found.shape}. Its axes are {axes} = {shape}.")
    arrays.refuse_large(f"{name} of shape {shape}", 8.0 * shape[0] * shape[1])
    filled: Floats = found.toarray().astype(np.float64)
    return filled


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
