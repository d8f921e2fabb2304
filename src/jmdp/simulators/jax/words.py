"""Operations on 32-bit words in JAX: digests of states, mixing of random words, and sampling of actions.

Words have 32 bits because JAX disables 64-bit types by default.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

Words = tuple[jax.Array, jax.Array]
"""Two arrays of uint32."""

_TOLERANCE = 1e-5
"""Largest accepted difference from 1 of a sum of probabilities in single precision."""


def inverted(probabilities: jax.Array, word: jax.Array) -> tuple[jax.Array, jax.Array]:
    """First action whose cumulative probability exceeds the uniform number, and a mask of invalid probabilities.

    Probabilities are summed one by one, so that an action of probability 0 is never chosen. The uniform number has 24
    bits in single precision, 32 in double.
    """
    kind = jnp.promote_types(probabilities.dtype, jnp.float32)
    probabilities = probabilities.astype(kind)
    parts = [probabilities[..., a] for a in range(probabilities.shape[-1])]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    bits = 32 if kind == jnp.float64 else 24
    u = (word >> (32 - bits)).astype(kind) * kind.type(2.0**-bits)
    u = jnp.minimum(u * total, total * (1 - np.finfo(kind).eps))  # stays below the total despite rounding
    action = jnp.zeros(word.shape, jnp.int32)
    cumulative = jnp.zeros_like(total)
    for part in parts[:-1]:
        cumulative = cumulative + part
        action = action + (u >= cumulative)
    return action, ~((jnp.abs(total - 1) <= _TOLERANCE) & (probabilities.min(-1) >= 0))


def digest_words(state: Any, counts: tuple[bool, ...]) -> Words:
    """Digest of one state: Σ M(xᵢ + kᵢ) aᵢ and Σ M(xᵢ + kᵢ) bᵢ over its words xᵢ, each mixed once more."""
    sums, at = [jnp.uint32(0), jnp.uint32(0)], 0
    for leaf, counted in zip(jax.tree.leaves(state), counts, strict=True):
        if not counted:
            continue
        words = words_of(leaf).ravel()
        i = np.arange(at, at + 4 * words.size, 4, dtype=np.uint32)
        at += 4 * words.size
        terms = mixed(words + mixed_constants(i + np.uint32(1)))
        weights = [mixed_constants(i + np.uint32(2 + half)) | np.uint32(1 - half) for half in range(2)]
        if words.size == 1:
            parts = [terms[0] * weight[0] for weight in weights]
        else:  # XLA vectorises a matrix product but not a reduction to two numbers; two reductions would mix twice
            parts = list(jnp.dot(terms, np.stack(weights, 1), preferred_element_type=jnp.uint32))
        sums = [total + part for total, part in zip(sums, parts, strict=True)]
    return mixed(sums[0]), mixed(sums[1])


def words_of(leaf: jax.Array) -> jax.Array:
    """Bits of an array, packed into 32-bit words; −0.0 is treated as 0.0."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf)
    if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
        leaf = jnp.stack((leaf.real, leaf.imag))
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        leaf = jnp.where(leaf == 0, jnp.zeros_like(leaf), leaf)
    if leaf.dtype == jnp.bool_:
        bits = 1
        leaf = leaf.astype(jnp.uint32)
    elif leaf.dtype.itemsize >= 4:
        words: jax.Array = jax.lax.bitcast_convert_type(leaf, jnp.uint32)
        return words
    else:
        bits = 8 * leaf.dtype.itemsize
        leaf = jax.lax.bitcast_convert_type(leaf, jnp.dtype(f"uint{bits}")).astype(jnp.uint32)
    per_word = 32 // bits
    flat = jnp.pad(leaf.ravel(), (0, -leaf.size % per_word)).reshape(-1, per_word)
    return jnp.sum(flat << (np.arange(per_word, dtype=np.uint32) * np.uint32(bits)), -1, dtype=jnp.uint32)


def mixed(x: jax.Array) -> jax.Array:
    """Permutation of 32-bit words in which each output bit depends on all input bits ("lowbias32" of C. Wellons)."""
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)


def mixed_constants(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """`mixed` for NumPy arrays, outside of traced code."""
    with np.errstate(over="ignore"):  # NumPy reports overflow of scalars only
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
        x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))
