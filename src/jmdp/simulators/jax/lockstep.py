"""Compiled steps of all branches and samples of a JAX simulator in lockstep.

Randomness is shared as in `Coupling.environment_shock` and `Coupling.policy_shock`, with cheaper keys:

- w(t), two 32-bit words, is ``fold_in(fold_in(key(seed), sample), t)``, computed once for all branches of a sample;
- d(s), two words, is a digest of the state, and c(s, a) = d(s) + a · (two odd numbers) that of a coordinate;
- the environment's key is w ⊕ d (`Local`), w (`Synchronous`) or w ⊕ e (`Independent`; e, two words, of the branch);
- the policy's uniform after (s, a) is the top of M(M(w₀ ⊕ p₀ ⊕ const) ⊕ (w₁ + p₁)) with M a mixer of 32 bits and p the
  coordinate's words c, the branch's e (`Independent`), or 0 with policy_luck="shared". It is inverted through
  π(· | s').

Two different states have equal digests with a probability of about 2⁻⁶⁴.
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
from jmdp.simulators.jax.words import Words, digest_words, inverted, mixed, mixed_constants, words_of

CHUNK = 32
"""Steps per compiled call; after each call the simulation stops if all branches have ended."""

_ACTION = (0x9E3779B1, 0x85EBCA77)
POLICY_WORD = 0x27D4EB2F
_BRANCH = (0x165667B1, 0xC2B2AE3D)
_GAIN = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35)


class Lanes(NamedTuple):
    """Current states and actions of all branches."""

    state: Any  # pytree of [B, N, …]
    place: Words  # [B, N], digest of the state; zeros if it is not used
    action: jax.Array  # [B, N]
    alive: jax.Array  # [B, N], True until the branch has ended


class ChunkTotals(NamedTuple):
    """Results of one call of at most CHUNK steps."""

    rewards: jax.Array  # [CHUNK, B, N], 0 after the end
    gains: Words  # [B, N], fingerprint of the rewards, to be added to that of earlier calls
    largest: jax.Array  # [B, N], |reward|
    steps: jax.Array  # [B, N]
    shared: jax.Array  # [B, N], steps that an earlier branch has taken too
    fault: jax.Array  # [B, N], whether the policy returned invalid probabilities or actions


@dataclass(frozen=True)
class Lockstep:
    """Compiled simulation. Functions take a single state; `policy` takes parameters and an observation."""

    step: Callable[[Any, Any, Any], tuple[Any, Any, Any]]
    observe: Callable[[Any], Any]
    policy: Callable[[Any, Any], Any]
    counts: tuple[bool, ...]  # for each leaf of the state, whether it is used to compare states
    actions: int
    branches: int
    coupling: Coupling
    numbers: tuple[int, ...] = ()  # original numbers of the branches; empty: 0, 1, 2, …

    def begin(self, start: Any, first: jax.Array, seed: jax.Array, samples: jax.Array) -> tuple[jax.Array, Lanes]:
        """Root keys [N], and all branches in the first state with their first actions."""
        roots = jax.vmap(lambda sample: jax.random.fold_in(key_of(seed), sample))(samples)
        shape = (self.branches, samples.size)
        state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape + leaf.shape), start)
        action = jnp.broadcast_to(first[:, None], shape)
        return roots, Lanes(state, self._places(state), action, jnp.ones(shape, bool))

    def advance(
        self, roots: jax.Array, lanes: Lanes, start: Any, parameters: Any, first: jax.Array, steps: jax.Array
    ) -> tuple[Lanes, ChunkTotals]:
        """Simulate at most CHUNK steps, the first of which has the number `first`."""
        shape = lanes.alive.shape

        def body(i: jax.Array, at: tuple[Lanes, jax.Array, jax.Array]) -> tuple[Lanes, jax.Array, jax.Array]:
            before, rewards, tally = at
            after, reward, fault = self._step(roots, before, start, parameters, first + i)
            shared = before.alive & self._follows(before)
            now = before.alive + (shared.astype(jnp.int32) << 8) + ((before.alive & fault).astype(jnp.int32) << 16)
            return after, jax.lax.dynamic_update_index_in_dim(rewards, reward, i, 0), tally + now

        rewards = jnp.zeros((CHUNK, *shape), self._reward_type(start))
        lanes, rewards, tally = jax.lax.fori_loop(0, steps, body, (lanes, rewards, jnp.zeros(shape, jnp.int32)))
        fault = (tally >> 16) > 0
        gains = _gains(first + jnp.arange(CHUNK), rewards)
        return lanes, ChunkTotals(rewards, gains, jnp.abs(rewards).max(0), tally & 255, (tally >> 8) & 255, fault)

    def _step(
        self, roots: jax.Array, lanes: Lanes, start: Any, parameters: Any, t: jax.Array
    ) -> tuple[Lanes, jax.Array, jax.Array]:
        luck = jax.random.key_data(jax.vmap(jax.random.fold_in, (0, None))(roots, t))  # [N, 2]
        w = luck[:, 0], luck[:, 1]
        reward, state, terminated = self._environment(w, lanes)
        alive = lanes.alive & ~terminated
        # An ended branch is moved to the first state, and its steps are not counted, because a step from a terminal
        # state may be undefined or may loop forever.
        state = jax.tree.map(lambda new, old: jnp.where(_spread(alive, new), new, old), state, start)
        action, fault = self._choose(w, lanes, state, parameters)
        return Lanes(state, self._places(state), action, alive), jnp.where(lanes.alive, reward, 0), fault

    def _places(self, state: Any) -> Words:
        """Digests of all states, or zeros if the coupling does not use them."""
        if self.coupling.shared_in_a_state:
            places: Words = of_lanes(lambda s: digest_words(s, self.counts))(state)
            return places
        nothing = jnp.zeros(jax.tree.leaves(state)[0].shape[:2], jnp.uint32)
        return nothing, nothing

    def _environment(self, w: Words, lanes: Lanes) -> tuple[jax.Array, Any, jax.Array]:
        """Rewards, next states and terminations of all branches."""
        if self.coupling.shared_between_states:
            place: Any = (np.uint32(0), np.uint32(0))
        else:
            place = lanes.place if self.coupling.shared_in_a_state else self._branch_words()
        words = (jnp.broadcast_to(w[half] ^ place[half], lanes.alive.shape) for half in range(2))
        found: tuple[jax.Array, Any, jax.Array] = of_lanes(self.step)(
            key_of(jnp.stack(tuple(words), -1)), lanes.state, lanes.action
        )
        return found

    def _choose(self, w: Words, before: Lanes, state: Any, parameters: Any) -> tuple[jax.Array, jax.Array]:
        """Next actions of all branches, and a mask of invalid ones."""
        given = of_lanes(lambda s: self.policy(parameters, self.observe(s)))(state)
        if jnp.issubdtype(given.dtype, jnp.integer):
            return jnp.clip(given, 0, self.actions - 1).astype(jnp.int32), (given < 0) | (given >= self.actions)
        if self.coupling.policy_luck == "shared":
            p: Any = (np.uint32(0), np.uint32(0))
        else:
            p = _coordinate(before) if self.coupling.shared_in_a_state else self._branch_words()
        word = mixed(mixed(w[0] ^ p[0] ^ np.uint32(POLICY_WORD)) ^ (w[1] + p[1]))
        return inverted(given, jnp.broadcast_to(word, given.shape[:-1]))

    def _branch_words(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        b = np.array(self.numbers or range(self.branches), np.uint32)[:, None] + np.uint32(1)
        return mixed_constants(b * np.uint32(_BRANCH[0])), mixed_constants(b * np.uint32(_BRANCH[1]))

    def _follows(self, lanes: Lanes) -> jax.Array:
        """Whether an earlier branch has the same state and action."""
        if not self.coupling.shared_in_a_state or self.branches == 1:
            return jnp.zeros(lanes.alive.shape, bool)
        c, d = _coordinate(lanes)
        rows = [jnp.zeros(lanes.alive.shape[1:], bool)]
        rows += [((c[:i] == c[i]) & (d[:i] == d[i]) & lanes.alive[:i]).any(0) for i in range(1, self.branches)]
        return jnp.stack(rows)

    def _reward_type(self, start: Any) -> Any:
        reward, _, _ = jax.eval_shape(self.step, jax.random.key(0), start, jnp.int32(0))
        return reward.dtype


def _coordinate(lanes: Lanes) -> Words:
    a = lanes.action.astype(jnp.uint32)
    return lanes.place[0] + a * np.uint32(_ACTION[0]), lanes.place[1] + a * np.uint32(_ACTION[1])


def _gains(t: jax.Array, reward: jax.Array) -> Words:
    """Fingerprints of rewards [T, B, N], summed over t. A reward of 0 adds nothing, nor does a step after the end."""
    x = words_of(reward)
    if reward.dtype != jnp.float32:
        x = x[..., 0] ^ mixed(x[..., 1])
    one, two, three = (mixed(t.astype(jnp.uint32) * np.uint32(2) + np.uint32(k))[:, None, None] for k in _GAIN)
    h = mixed(x + one)
    terms = h * (two | np.uint32(1)), (h + x) * (three | np.uint32(1))
    none = reward == 0
    first, second = (jnp.sum(jnp.where(none, np.uint32(0), term), 0, dtype=jnp.uint32) for term in terms)
    return first, second


def of_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map a function of one state over all lanes [B, N], flattened because XLA scatters slowly over two axes."""

    def mapped(*given: Any) -> Any:
        shape = jax.tree.leaves(given)[0].shape[:2]
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), given)
        return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), jax.vmap(function)(*flat))

    return mapped


def _spread(mask: jax.Array, leaf: jax.Array) -> jax.Array:
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - mask.ndim))


def key_of(words: jax.Array) -> jax.Array:
    """The key with these two words."""
    key: jax.Array = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key
