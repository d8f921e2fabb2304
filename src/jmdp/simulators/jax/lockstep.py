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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jmdp.models.coupling import Coupling
from jmdp.simulators.draws import ENDED
from jmdp.simulators.jax.words import Words, digest_words, inverted, mixed, words_of

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
    gains: Words  # [L], fingerprint of the rewards, to be added to that of earlier calls
    largest: jax.Array  # [L], |reward|
    steps: jax.Array  # [L]
    shared: jax.Array  # [L], steps that another branch has taken too
    fault: jax.Array  # [L], whether the policy returned invalid probabilities or actions
    ends: jax.Array  # [L], ENDED, or the smallest number of a branch in the same state with the same action


class _Sums(NamedTuple):
    """Totals within a call."""

    rewards: jax.Array
    gains: Words
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
        self, w: Words, lanes: Lanes, seats: Seats, start: Any, parameters: Any
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

    def _numbers(self, lanes: Lanes, seats: Seats) -> Words:
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

    def _environment(self, w: Words, lanes: Lanes, numbers: jax.Array) -> tuple[jax.Array, Any, jax.Array]:
        """Rewards, next states and terminations of all lanes."""
        if not self.coupling.shared_between_states:
            e = branch_words(numbers)
            w = w[0] ^ e[0], w[1] ^ e[1]
        found: tuple[jax.Array, Any, jax.Array] = jax.vmap(self.step)(
            key_of(jnp.stack(w, -1)), lanes.state, lanes.action
        )
        return found

    def _choose(self, w: Words, numbers: jax.Array, state: Any, parameters: Any) -> tuple[jax.Array, jax.Array]:
        """Next actions of all lanes, and a mask of invalid ones."""
        given = jax.vmap(lambda s: self.policy(parameters, self.observe(s)))(state)
        return self._chosen(given, w, numbers)

    def _chosen(self, given: jax.Array, w: Words, numbers: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Actions, and a mask of invalid ones, from the policy's actions [L] or probabilities [L, A]."""
        if jnp.issubdtype(given.dtype, jnp.integer):
            return jnp.clip(given, 0, self.actions - 1).astype(jnp.int32), (given < 0) | (given >= self.actions)
        if self.coupling.policy_luck == "independent":
            e = branch_words(numbers)
            w = w[0] ^ e[0], w[1] + e[1]
        return inverted(given, mixed(mixed(w[0] ^ np.uint32(POLICY_WORD)) ^ w[1]))

    def _roots(self, seats: Seats, seed: jax.Array, sample: jax.Array) -> jax.Array:
        return jax.vmap(lambda number: jax.random.fold_in(key_of(seed), number))(sample + seats.sample)

    def _words(self, roots: jax.Array, t: Any) -> Words:
        luck = jax.random.key_data(jax.vmap(jax.random.fold_in, (0, None))(roots, t))
        return luck[:, 0], luck[:, 1]

    def _reward_type(self, start: Any) -> Any:
        reward, _, _ = jax.eval_shape(self.step, jax.random.key(0), start, jnp.int32(0))
        return reward.dtype


def branch_words(numbers: jax.Array) -> Words:
    """Two words of each branch, from its number."""
    b = numbers + np.uint32(1)
    return mixed(b * np.uint32(_BRANCH[0])), mixed(b * np.uint32(_BRANCH[1]))


def key_of(words: jax.Array) -> jax.Array:
    """The key with these two words."""
    key: jax.Array = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key


def _gains(t: jax.Array, reward: jax.Array) -> Words:
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
