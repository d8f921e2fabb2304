"""Rows of transition matrices, dense or SciPy sparse, as lists of outcomes sorted by next state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.base.settings import short
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
