"""Checks of user-defined functions while JAX traces them: return values, and dtypes of states."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jmdp.errors import PolicyError, SimulatorError

StepFunction = Callable[[Any, Any, Any], tuple[Any, Any, Any]]
"""step(key, state, action) -> (reward, state, terminated)."""


def checked_step(function: StepFunction, key: Any, state: Any, action: Any) -> tuple[Any, Any, Any]:
    """Call the user's step function; raise during tracing if its return value is invalid."""
    given = function(key, state, action)
    if not isinstance(given, tuple) or len(given) != 3:
        raise SimulatorError(f"step returned {_described(given)}. Return (reward, state, terminated).")
    reward, after, terminated = given[0], jax.tree.map(_strongly_typed, given[1]), given[2]
    for name, value in (("reward", reward), ("terminated", terminated)):
        if not isinstance(value, (bool, int, float, np.generic, np.ndarray, jax.Array)) or jnp.shape(value) != ():
            raise SimulatorError(f"step returned {_described(value)} as {name}. Return a scalar for one state.")
    old: Any = jax.tree.structure(state)
    new: Any = jax.tree.structure(after)
    if old != new:
        raise SimulatorError(f"step received a state {old} and returned {new}. Return a state with the same fields.")
    for (path, before), leaf in zip(
        jax.tree_util.tree_flatten_with_path(state)[0], jax.tree.leaves(after), strict=True
    ):
        if jnp.shape(before) != jnp.shape(leaf):
            raise SimulatorError(
                f"step changes the state's {jax.tree_util.keystr(path)} from shape {jnp.shape(before)} to "
                f"{jnp.shape(leaf)}. Return it with the same shape."
            )
    number = jnp.asarray(reward)
    number = number.astype(jnp.promote_types(number.dtype, jnp.float32))
    return number, after, jnp.asarray(terminated).astype(bool)


def checked_policy_output(given: Any, A: int) -> jax.Array:
    """Check the return value of the user's policy during tracing: an action, or probabilities [A]."""
    shape = jnp.shape(given) if hasattr(given, "dtype") or isinstance(given, int) else None
    action = shape == () and jnp.issubdtype(jnp.asarray(given).dtype, jnp.integer)
    probabilities = shape == (A,) and jnp.issubdtype(given.dtype, jnp.floating)
    if not (action or probabilities):
        raise PolicyError(
            f"The policy returned {_described(given)} for one observation. Return the probabilities of all {A} "
            f"actions, floats of shape ({A},), or one action, an integer of shape ()."
        )
    return jnp.asarray(given)


def stable_dtypes(step: StepFunction, state: Any) -> tuple[Any, ...]:
    """Dtypes of the leaves of a state that a step preserves."""
    try:
        leaves, tree = jax.tree.flatten(jax.tree.map(jnp.asarray, state))
    except TypeError as error:
        raise SimulatorError(f"A leaf of the state is not an array: {error}. Give a pytree of arrays.") from None
    for _ in range(2):
        given = jax.tree.unflatten(tree, leaves)
        after = jax.eval_shape(step, jax.random.key(0), given, jnp.int32(0))[1]
        new = jax.tree.leaves(after)
        if [leaf.dtype for leaf in new] == [leaf.dtype for leaf in leaves]:
            return tuple(leaf.dtype for leaf in leaves)
        leaves = [as_dtype(leaf, target.dtype) for leaf, target in zip(leaves, new, strict=True)]
    i = next(i for i, leaf in enumerate(leaves) if leaf.dtype != new[i].dtype)
    name = jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(state)[0][i][0])
    raise SimulatorError(
        f"step changes the state's {name} from {leaves[i].dtype} to {new[i].dtype}. Return it with its dtype, using "
        ".astype(…)."
    )


def same_function(one: Any, other: Any) -> bool:
    """True if these are one function, or two with the same code and the same enclosed objects."""
    if one is other or not (isinstance(one, FunctionType) and isinstance(other, FunctionType)):
        return one is other
    parts = [
        (f.__code__, f.__globals__, *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values(),
         *(cell.cell_contents for cell in f.__closure__ or ()))
        for f in (one, other)
    ]  # fmt: skip
    return len(parts[0]) == len(parts[1]) and all(map(operator.is_, *parts))


def as_dtype(leaf: Any, dtype: Any) -> jax.Array:
    """Convert to an array of this dtype that is not weakly typed, because JAX recompiles for weak types."""
    if isinstance(leaf, jax.Array) and leaf.dtype == dtype and not getattr(leaf, "weak_type", False):
        return leaf
    return jnp.asarray(leaf, dtype)


def _strongly_typed(leaf: Any) -> jax.Array:
    array = jnp.asarray(leaf)
    return as_dtype(array, array.dtype)


def numpy_leaf(leaf: jax.Array) -> npt.NDArray[Any]:
    """Convert a leaf to an array with a NumPy dtype."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _described(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"{value.dtype} of shape {jnp.shape(value)}"
    return f"{len(value)} values" if isinstance(value, tuple) else f"a {type(value).__name__}"
