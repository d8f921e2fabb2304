"""Compiled steps of all lanes of a JAX simulator in lockstep. A lane simulates one branch of one sample.

Randomness is shared as in `Coupling.environment_shock` and `Coupling.policy_shock`, with cheaper keys:

- w(t), two 32-bit words, is ``fold_in(fold_in(key(seed), sample), t)``;
- e(i), two words, is a hash of the number i of a branch;
- the environment's key is w (`Synchronous`) or w ⊕ e(i); i is the smallest number of a branch of the sample that is in
  the same state (`Local`), or the branch's own number (`Independent`);
- the policy's uniform is the top of M(M(w₀ ⊕ e₀(i) ⊕ const) ⊕ (w₁ + e₁(i))) with M a mixer of 32 bits; i is the
  smallest number of a branch of the sample that was in the same state with the same action, or the branch's own number
  (`Independent`). With policy_luck="shared", e is 0. The uniform is inverted through π(· | s').

So branches in equal states with equal actions receive equal randomness for ever, and others independent randomness.
States are compared by digests of two words: two different states have equal ones with a probability of about 2⁻⁶⁴.

Operations on 32-bit words in JAX: digests of states, mixing of random words, and sampling of actions.

Words have 32 bits because JAX disables 64-bit types by default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jmdp.models.coupling import Coupling
from jmdp.simulators.rollouts.draws import ENDED

WordPair = tuple[jax.Array, jax.Array]
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


def digest_words(state: Any, counts: tuple[bool, ...]) -> WordPair:
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


CHUNK = 32
"""Steps per compiled call; after each call the simulation stops if all branches have ended."""

POLICY_WORD = 0x27D4EB2F
_BRANCH = (0x165667B1, 0xC2B2AE3D)
_GAIN = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35)


class Seats(NamedTuple):
    """What each lane simulates. The branches of a sample are in adjacent lanes."""

    sample: Any  # uint32 [L], in `Lockstep.begin` relative to the first sample of the block
    position: Any  # int32 [L], of the branch among those of its sample; −1 if the lane is unused
    branch: Any  # uint32 [L], number of the branch
    first: Any  # int32 [L], its first action


class Lanes(NamedTuple):
    """Current states and actions."""

    state: Any  # pytree of [L, …]
    action: jax.Array  # [L]
    alive: jax.Array  # [L], True until the branch has ended
    compared: tuple[jax.Array, ...]  # of [P + L]: digest of the state, and the action or −1; () if not compared


class ChunkTotals(NamedTuple):
    """Results of one call of at most CHUNK steps."""

    rewards: jax.Array  # [CHUNK, L], 0 after the end
    gains: WordPair  # [L], fingerprint of the rewards, to be added to that of earlier calls
    largest: jax.Array  # [L], |reward|
    steps: jax.Array  # [L]
    shared: jax.Array  # [L], steps that another branch has taken too
    fault: jax.Array  # [L], whether the policy returned invalid probabilities or actions
    ends: jax.Array  # [L], ENDED, or the smallest number of a branch in the same state with the same action


class _Sums(NamedTuple):
    """Totals within a call."""

    rewards: jax.Array
    gains: WordPair
    largest: jax.Array
    tally: jax.Array  # [L], steps + 2⁸ · shared steps + 2¹⁶ · faults


@dataclass(frozen=True)
class Lockstep:
    """Compiled simulation. Functions take a single state; `policy` takes parameters and an observation."""

    step: Callable[[Any, Any, Any], tuple[Any, Any, Any]]
    observe: Callable[[Any], Any]
    policy: Callable[[Any, Any], Any]
    counts: tuple[bool, ...]  # for each leaf of the state, whether it is used to compare states
    actions: int
    branches: int  # largest number of branches of a sample; there may be fewer
    coupling: Coupling

    def begin(self, start: Any, seats: Seats, seed: jax.Array, sample: jax.Array) -> tuple[jax.Array, Lanes]:
        """Root keys [L], and all branches in the first state with their first actions."""
        roots = self._roots(seats, seed, sample)
        state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, roots.shape + leaf.shape), start)
        return roots, self._lanes(state, seats.first, seats.position >= 0)

    def advance(
        self, lanes: Lanes, seats: Seats, roots: jax.Array, start: Any, parameters: Any, first: jax.Array,
        steps: jax.Array,
    ) -> tuple[Lanes, ChunkTotals]:  # fmt: skip
        """Simulate at most CHUNK steps, the first of which has the number `first`."""
        luck = jax.vmap(lambda i: self._words(roots, first + i))(jnp.arange(CHUNK))  # [CHUNK, L]; faster than in turn

        def body(i: jax.Array, at: tuple[Lanes, _Sums]) -> tuple[Lanes, _Sums]:
            lanes, sums = at
            w = luck[0][i], luck[1][i]
            after, reward, flags = self._step(w, lanes, seats, start, parameters)
            gains = [sum_ + term for sum_, term in zip(sums.gains, _gains(first + i, reward), strict=True)]
            rewards = jax.lax.dynamic_update_index_in_dim(sums.rewards, reward, i, 0)
            largest = jnp.maximum(sums.largest, jnp.abs(reward))
            return after, _Sums(rewards, (gains[0], gains[1]), largest, sums.tally + flags)

        none, kind = jnp.zeros_like(lanes.action), self._reward_type(start)
        no_gains = (none.astype(jnp.uint32),) * 2
        sums = _Sums(jnp.zeros((CHUNK, none.size), kind), no_gains, none.astype(kind), none)
        lanes, sums = jax.lax.fori_loop(0, steps, body, (lanes, sums))
        ends = jnp.where(lanes.alive, self._numbers(lanes, seats)[1].astype(jnp.int32), ENDED)
        tally = sums.tally
        counts = tally & 255, (tally >> 8) & 255, (tally >> 16) > 0
        return lanes, ChunkTotals(sums.rewards, sums.gains, sums.largest, *counts, ends)

    def _step(
        self, w: WordPair, lanes: Lanes, seats: Seats, start: Any, parameters: Any
    ) -> tuple[Lanes, jax.Array, jax.Array]:
        """One step: the lanes after it, their rewards, and terms of the tally."""
        in_state, in_pair = self._numbers(lanes, seats)
        reward, state, terminated = self._environment(w, lanes, in_state)
        alive = lanes.alive & ~terminated
        # An ended branch is moved to the first state, and its steps are not counted, because a step from a terminal
        # state may be undefined or may loop forever.
        state = jax.tree.map(lambda new, old: jnp.where(_spread(alive, new), new, old), state, start)
        action, fault = self._choose(w, in_pair, state, parameters)
        flags = 1 + ((in_pair != seats.branch).astype(jnp.int32) << 8) + (fault.astype(jnp.int32) << 16)
        flags, reward = (jnp.where(lanes.alive, value, 0) for value in (flags, reward))
        return self._lanes(state, action, alive), reward, flags

    def _lanes(self, state: Any, action: jax.Array, alive: jax.Array) -> Lanes:
        """Lanes with the arrays by which they are compared, after P = branches − 1 entries of zeros.

        They are carried from step to step because XLA would compute them again for each comparison.
        """
        if not self.coupling.shared_in_a_state or self.branches == 1:
            return Lanes(state, action, alive, ())
        arrays = *jax.vmap(lambda s: digest_words(s, self.counts))(state), jnp.where(alive, action, -1)
        return Lanes(state, action, alive, tuple(jnp.pad(array, (self.branches - 1, 0)) for array in arrays))

    def _numbers(self, lanes: Lanes, seats: Seats) -> WordPair:
        """Smallest numbers of the branches of a sample in the same state, and in the same state with the same action.

        Under `Independent`, a branch's own number.
        """
        in_state = in_pair = seats.branch
        if not lanes.compared:
            return in_state, in_pair
        P, L = self.branches - 1, seats.branch.size
        numbers = jnp.pad(seats.branch, (P, 0))
        for k in range(1, min(self.branches, L)):  # lanes l and l − k
            (c, d, a), (c_, d_, a_) = ([x[P - j : P - j + L] for x in lanes.compared] for j in (0, k))
            same = (seats.position >= k) & (c == c_) & (d == d_) & ((a | a_) >= 0)
            in_state = jnp.where(same, jnp.minimum(in_state, numbers[P - k : P - k + L]), in_state)
            in_pair = jnp.where(same & (a == a_), jnp.minimum(in_pair, numbers[P - k : P - k + L]), in_pair)
        return in_state, in_pair

    def _environment(self, w: WordPair, lanes: Lanes, numbers: jax.Array) -> tuple[jax.Array, Any, jax.Array]:
        """Rewards, next states and terminations of all lanes."""
        if not self.coupling.shared_between_states:
            e = branch_words(numbers)
            w = w[0] ^ e[0], w[1] ^ e[1]
        found: tuple[jax.Array, Any, jax.Array] = jax.vmap(self.step)(
            key_of(jnp.stack(w, -1)), lanes.state, lanes.action
        )
        return found

    def _choose(self, w: WordPair, numbers: jax.Array, state: Any, parameters: Any) -> tuple[jax.Array, jax.Array]:
        """Next actions of all lanes, and a mask of invalid ones."""
        given = jax.vmap(lambda s: self.policy(parameters, self.observe(s)))(state)
        return self._chosen(given, w, numbers)

    def _chosen(self, given: jax.Array, w: WordPair, numbers: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Actions, and a mask of invalid ones, from the policy's actions [L] or probabilities [L, A]."""
        if jnp.issubdtype(given.dtype, jnp.integer):
            return jnp.clip(given, 0, self.actions - 1).astype(jnp.int32), (given < 0) | (given >= self.actions)
        if self.coupling.policy_luck == "independent":
            e = branch_words(numbers)
            w = w[0] ^ e[0], w[1] + e[1]
        return inverted(given, mixed(mixed(w[0] ^ np.uint32(POLICY_WORD)) ^ w[1]))

    def _roots(self, seats: Seats, seed: jax.Array, sample: jax.Array) -> jax.Array:
        return jax.vmap(lambda number: jax.random.fold_in(key_of(seed), number))(sample + seats.sample)

    def _words(self, roots: jax.Array, t: Any) -> WordPair:
        luck = jax.random.key_data(jax.vmap(jax.random.fold_in, (0, None))(roots, t))
        return luck[:, 0], luck[:, 1]

    def _reward_type(self, start: Any) -> Any:
        reward, _, _ = jax.eval_shape(self.step, jax.random.key(0), start, jnp.int32(0))
        return reward.dtype


def branch_words(numbers: jax.Array) -> WordPair:
    """Two words of each branch, from its number."""
    b = numbers + np.uint32(1)
    return mixed(b * np.uint32(_BRANCH[0])), mixed(b * np.uint32(_BRANCH[1]))


def key_of(words: jax.Array) -> jax.Array:
    """The key with these two words."""
    key: jax.Array = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key


def _gains(t: jax.Array, reward: jax.Array) -> WordPair:
    """Terms of the fingerprints of rewards. A reward of 0 adds nothing, nor does a step after the end."""
    x = words_of(reward)
    if reward.dtype != jnp.float32:
        x = x[..., 0] ^ mixed(x[..., 1])
    one, two, three = (mixed(t.astype(jnp.uint32) * np.uint32(2) + np.uint32(k)) for k in _GAIN)
    h = mixed(x + one)
    none = reward == 0
    first, second = h * (two | np.uint32(1)), (h + x) * (three | np.uint32(1))
    return jnp.where(none, np.uint32(0), first), jnp.where(none, np.uint32(0), second)


def _spread(mask: jax.Array, leaf: jax.Array) -> jax.Array:
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - mask.ndim))
