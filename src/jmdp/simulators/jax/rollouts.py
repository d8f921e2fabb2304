"""Paired rollouts of JAX simulators, compiled: branches × samples in lockstep, luck mixed from a few words.

The sharing of luck is that of `Coupling.environment_shock` and `Coupling.policy_shock`, with cheaper keys:

- w(t), two 32-bit words, is ``fold_in(fold_in(key(seed), sample), t)``, computed once for all branches of a sample;
- d(s), two words, is a digest of the state, and c(s, a) = d(s) + a · (two odd numbers) that of a coordinate;
- the environment's key is w ⊕ d (`Local`), w (`Synchronous`) or w ⊕ e (`Independent`; e, two words, of the branch);
- the policy's uniform after (s, a) is the top of M(M(w₀ ⊕ p₀ ⊕ const) ⊕ (w₁ + p₁)) with M a mixer of 32 bits and p the
  coordinate's words c, the branch's e (`Independent`), or 0 with shared policy luck. It is inverted through π(· | s').

Two states that differ are taken for one with a chance of about 2⁻⁶⁴.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jmdp.base.arrays import Floats
from jmdp.errors import PolicyError, SimulatorError
from jmdp.models.coupling import Coupling
from jmdp.simulators.jax.words import Words, digest_words, inverted, mixed, mixed_constants, words_of
from jmdp.simulators.simulator import ENDED, Draws, exact_gains, is_exact_sum

CHUNK = 32
"""Steps per compiled call; between two calls it is seen whether all branches have ended."""

MOST_STATE_BYTES = {"cpu": 2**19}
"""Of all branches under way at once, per device: on a CPU what stays in its cache while it is copied; else 2²⁷."""

_ACTION = (0x9E3779B1, 0x85EBCA77)
_POLICY = 0x27D4EB2F
_BRANCH = (0x165667B1, 0xC2B2AE3D)
_GAIN = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35)


class Lanes(NamedTuple):
    """All branches under way."""

    state: Any  # pytree of [B, N, …]
    place: Words  # [B, N], digest of the state; zeros where it does not matter
    action: jax.Array  # [B, N]
    alive: jax.Array  # [B, N], has not come to an end


class Account(NamedTuple):
    """What a call of CHUNK steps gave."""

    rewards: jax.Array  # [CHUNK, B, N], 0 after the end
    gains: Words  # [B, N], fingerprint of the rewards, to be added to those before
    largest: jax.Array  # [B, N], |reward|
    steps: jax.Array  # [B, N]
    shared: jax.Array  # [B, N], those of them that a branch before it took too
    fault: jax.Array  # [B, N], did the policy give no probabilities, or no action?


@dataclass(frozen=True)
class Recipe:
    """What is compiled. Functions are of one state; `policy` is of parameters and an observation."""

    step: Callable[[Any, Any, Any], tuple[Any, Any, Any]]
    observe: Callable[[Any], Any]
    policy: Callable[[Any, Any], Any]
    counts: tuple[bool, ...]  # by leaf of the state: does it count when states are compared?
    actions: int
    branches: int
    coupling: Coupling

    def begin(self, start: Any, first: jax.Array, seed: jax.Array, samples: jax.Array) -> tuple[jax.Array, Lanes]:
        """Root keys [N], and every branch on the first state with its first action."""
        roots = jax.vmap(lambda sample: jax.random.fold_in(_key(seed), sample))(samples)
        shape = (self.branches, samples.size)
        state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape + leaf.shape), start)
        action = jnp.broadcast_to(first[:, None], shape)
        return roots, Lanes(state, self._places(state), action, jnp.ones(shape, bool))

    def advance(
        self, roots: jax.Array, lanes: Lanes, start: Any, parameters: Any, first: jax.Array, steps: jax.Array
    ) -> tuple[Lanes, Account]:
        """At most CHUNK steps, the first of them numbered `first`."""
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
        return lanes, Account(rewards, gains, jnp.abs(rewards).max(0), tally & 255, (tally >> 8) & 255, fault)

    def _step(
        self, roots: jax.Array, lanes: Lanes, start: Any, parameters: Any, t: jax.Array
    ) -> tuple[Lanes, jax.Array, jax.Array]:
        luck = jax.random.key_data(jax.vmap(jax.random.fold_in, (0, None))(roots, t))  # [N, 2]
        w = luck[:, 0], luck[:, 1]
        reward, state, terminated = self._environment(w, lanes)
        alive = lanes.alive & ~terminated
        # An ended branch goes back to the first state, where its steps count for nothing: beyond an end a step, or a
        # loop in it, may not be defined.
        state = jax.tree.map(lambda new, old: jnp.where(_spread(alive, new), new, old), state, start)
        action, fault = self._choose(w, lanes, state, parameters)
        return Lanes(state, self._places(state), action, alive), jnp.where(lanes.alive, reward, 0), fault

    def _places(self, state: Any) -> Words:
        """Digests of all states, unless nothing hangs on them."""
        if self.coupling.shared_in_a_state:
            places: Words = _of_lanes(lambda s: digest_words(s, self.counts))(state)
            return places
        nothing = jnp.zeros(jax.tree.leaves(state)[0].shape[:2], jnp.uint32)
        return nothing, nothing

    def _environment(self, w: Words, lanes: Lanes) -> tuple[jax.Array, Any, jax.Array]:
        """What every branch meets."""
        if self.coupling.shared_between_states:
            place: Any = (np.uint32(0), np.uint32(0))
        else:
            place = lanes.place if self.coupling.shared_in_a_state else self._branch_words()
        words = (jnp.broadcast_to(w[half] ^ place[half], lanes.alive.shape) for half in range(2))
        found: tuple[jax.Array, Any, jax.Array] = _of_lanes(self.step)(
            _key(jnp.stack(tuple(words), -1)), lanes.state, lanes.action
        )
        return found

    def _choose(self, w: Words, before: Lanes, state: Any, parameters: Any) -> tuple[jax.Array, jax.Array]:
        """The next action of every branch, and where there is none."""
        given = _of_lanes(lambda s: self.policy(parameters, self.observe(s)))(state)
        if jnp.issubdtype(given.dtype, jnp.integer):
            return jnp.clip(given, 0, self.actions - 1).astype(jnp.int32), (given < 0) | (given >= self.actions)
        if self.coupling.policy_luck == "shared":
            p: Any = (np.uint32(0), np.uint32(0))
        else:
            p = _coordinate(before) if self.coupling.shared_in_a_state else self._branch_words()
        word = mixed(mixed(w[0] ^ p[0] ^ np.uint32(_POLICY)) ^ (w[1] + p[1]))
        return inverted(given, jnp.broadcast_to(word, given.shape[:-1]))

    def _branch_words(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        b = np.arange(1, self.branches + 1, dtype=np.uint32)[:, None]
        return mixed_constants(b * np.uint32(_BRANCH[0])), mixed_constants(b * np.uint32(_BRANCH[1]))

    def _follows(self, lanes: Lanes) -> jax.Array:
        """Does a branch before this one stand on the same coordinate?"""
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
    """Fingerprints of rewards [T, B, N], summed over t: 0 adds nothing, so a step after the end does neither."""
    x = words_of(reward)
    if reward.dtype != jnp.float32:
        x = x[..., 0] ^ mixed(x[..., 1])
    one, two, three = (mixed(t.astype(jnp.uint32) * np.uint32(2) + np.uint32(k))[:, None, None] for k in _GAIN)
    h = mixed(x + one)
    terms = h * (two | np.uint32(1)), (h + x) * (three | np.uint32(1))
    none = reward == 0
    first, second = (jnp.sum(jnp.where(none, np.uint32(0), term), 0, dtype=jnp.uint32) for term in terms)
    return first, second


def _of_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one state, of all lanes [B, N]: mapped over one axis, for XLA scatters slowly over two."""

    def mapped(*given: Any) -> Any:
        shape = jax.tree.leaves(given)[0].shape[:2]
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), given)
        return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), jax.vmap(function)(*flat))

    return mapped


def _spread(mask: jax.Array, leaf: jax.Array) -> jax.Array:
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - mask.ndim))


def _key(words: jax.Array) -> jax.Array:
    key: jax.Array = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key


class Program:
    """A recipe, compiled, and the way to run it over many samples on all devices.

    Sample k is always lane ``k % samples`` of a block of this many, so that its numbers are those of one compiled
    program at one place, however many are asked for and on however many devices: they do not depend on either, to the
    last bit. Rewards leave the devices step by step and are summed in double precision.
    """

    def __init__(self, recipe: Recipe, samples: int) -> None:
        self.recipe = recipe
        self.samples = samples  # per device
        mesh = Mesh(np.array(jax.local_devices()), ("samples",))
        everywhere, by_sample, lanes, steps = (
            PartitionSpec(*axes)  # type: ignore[no-untyped-call]
            for axes in ((), ("samples",), (None, "samples"), (None, None, "samples"))
        )
        account: Any = [steps, *[lanes] * (len(Account._fields) - 1)]
        self._everywhere, self._by_sample = NamedSharding(mesh, everywhere), NamedSharding(mesh, by_sample)
        self._begin = _on_all(mesh, recipe.begin, (everywhere,) * 3 + (by_sample,), (by_sample, lanes))
        given = (by_sample, lanes, *(everywhere,) * 4)
        self._advance = _on_all(mesh, recipe.advance, given, (lanes, Account(*account)))
        self._last: tuple[list[Any], _Block] | None = None

    def draws(
        self, start: Any, parameters: Any, actions: npt.NDArray[np.int32], *,
        discount: float, horizon: int, seed: int, first: int, count: int,
    ) -> Draws:  # fmt: skip
        """Samples first … first + count − 1."""
        weights = np.float64(discount) ** np.arange(horizon)
        at_once = self.samples * self._by_sample.num_devices
        asked = [discount, horizon, seed, *actions.tolist()]
        leaves = jax.tree.leaves((start, parameters))
        placed = jax.device_put((start, parameters), self._everywhere)
        parts: list[Draws] = []
        begin = first - first % self.samples
        while begin < first + count:
            block = self._known(asked, leaves, begin)
            if block is None:
                numbers = (begin + np.arange(at_once)).astype(np.uint32)
                block = self._block(placed[0], placed[1], actions, weights, seed, numbers)
                self._last = [*asked, *leaves], block
            parts.append(block.draws(self.recipe, slice(max(first - begin, 0), min(first + count - begin, at_once))))
            begin += at_once
        return Draws.joined(parts)

    def _known(self, asked: list[Any], leaves: list[Any], begin: int) -> _Block | None:
        """The block of before, for callers who ask for few samples at a time."""
        if self._last is None or self._last[1].samples[0] != begin:
            return None
        before = self._last[0]
        same = len(before) == len(asked) + len(leaves) and before[: len(asked)] == asked
        return self._last[1] if same and all(map(operator.is_, before[len(asked) :], leaves)) else None

    def _block(
        self, start: Any, parameters: Any, actions: npt.NDArray[np.int32], weights: Floats, seed: int,
        samples: npt.NDArray[np.uint32],
    ) -> _Block:  # fmt: skip
        words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
        roots, lanes = self._begin(start, actions, words, jax.device_put(samples, self._by_sample))
        block = _Block(actions, samples)
        waiting: tuple[int, Account] | None = None
        for t in range(0, weights.size, CHUNK):
            steps = np.int32(min(CHUNK, weights.size - t))
            lanes, account = self._advance(roots, lanes, start, parameters, np.int32(t), steps)
            if waiting is not None:  # while the devices work
                block.add(weights, *waiting)
            waiting = t, account
            if not np.asarray(lanes.alive).any():
                break
        if waiting is not None:
            block.add(weights, *waiting)
        block.alive, block.action = np.asarray(lanes.alive).T, np.asarray(lanes.action).T
        block.place = _joined(*(np.asarray(half).T for half in lanes.place))
        return block


class _Block:
    """What has come of all branches of some samples."""

    alive: npt.NDArray[np.bool_]  # [N, B], and the next two alike: where they stand at the horizon
    action: npt.NDArray[np.int32]
    place: npt.NDArray[np.uint64]

    def __init__(self, actions: npt.NDArray[np.int32], samples: npt.NDArray[np.uint32]) -> None:
        self.actions, self.samples = actions, samples
        shape = actions.size, samples.size
        self.returns = np.zeros(shape)
        self.gains = np.zeros((2, *shape), np.uint32)
        self.exact = np.ones(shape, bool)
        self.largest = np.zeros(shape)
        self.steps, self.shared = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.fault = np.zeros(shape, bool)

    def add(self, weights: Floats, first: int, account: Account) -> None:
        """Add a call's; rewards one step after another, in double precision."""
        for weight, reward in zip(weights[first:], np.asarray(account.rewards), strict=False):
            before = self.returns
            self.returns = before + np.multiply(reward, weight, dtype=np.float64)
            self.exact &= (reward == 0) | ((weight == 1) & is_exact_sum(before, np.float64(reward), self.returns))
        for half in range(2):
            self.gains[half] += np.asarray(account.gains[half])
        np.maximum(self.largest, account.largest, out=self.largest)
        self.steps += np.asarray(account.steps)  # as it is, it would turn the sum into an array of JAX
        self.shared += np.asarray(account.shared)
        self.fault |= np.asarray(account.fault)

    def draws(self, recipe: Recipe, keep: slice) -> Draws:
        """Those of some samples, if all went well with them."""
        returns, fault = np.ascontiguousarray(self.returns.T[keep]), self.fault.T[keep]
        if fault.any():
            raise PolicyError(
                f"The policy gave no probabilities, or an action that does not exist, in {self._where(fault, keep)}. "
                f"It returns {recipe.actions} numbers of at least 0 that sum to 1, or one whole number from 0 to "
                f"{recipe.actions - 1}; for logits use jax.nn.softmax."
            )
        bad = ~np.isfinite(returns)
        if bad.any():
            raise SimulatorError(f"A reward is not finite in {self._where(bad, keep)}. Look at what step returns.")
        shared = int(self.shared[:, keep].sum())
        steps = int(self.steps[:, keep].sum()) - shared
        gains = np.ascontiguousarray(_joined(*self.gains).T[keep]).view(np.int64)
        gains = exact_gains(gains, returns, self.exact.T[keep])
        ends = self._ends(recipe.coupling.shared_in_a_state, keep)
        return Draws(returns, ends, gains, float(self.largest[:, keep].max()), steps, shared)

    def _ends(self, meet: bool, keep: slice) -> npt.NDArray[np.int64]:
        """By sample: the number of the first branch that stands where this one does."""
        alive, action, place = self.alive[keep], self.action[keep], self.place[keep]
        ends = np.tile(np.arange(alive.shape[1]), (len(alive), 1))
        for i in reversed(range(alive.shape[1] if meet else 0)):
            ends = np.where((place == place[:, [i]]) & (action == action[:, [i]]) & alive[:, [i]], i, ends)
        return np.where(alive, ends, ENDED)

    def _where(self, bad: npt.NDArray[np.bool_], keep: slice) -> str:
        n, i = np.argwhere(bad)[0]
        return f"sample {self.samples[keep][n]}, in the branch that began with action {self.actions[i]}"


def _on_all(mesh: Mesh, function: Callable[..., Any], given: Any, returned: Any) -> Callable[..., Any]:
    """Compiled; on several devices each runs the program of one, on its own samples."""
    if mesh.size > 1:
        new = hasattr(jax, "shard_map")
        shard_map: Any = jax.shard_map if new else import_module("jax.experimental.shard_map").shard_map
        unchecked = {"check_vma" if new else "check_rep": False}
        function = shard_map(function, mesh=mesh, in_specs=given, out_specs=returned, **unchecked)
    return jax.jit(function)


def samples_at_once(start: Any, branches: int, lanes: int) -> int:
    """How many samples a device takes at once: a matter of the state's size and of nothing that changes."""
    size = 64 + sum(int(leaf.nbytes) for leaf in jax.tree.leaves(start))
    most = max(1, min(lanes, MOST_STATE_BYTES.get(jax.default_backend(), 2**27) // size) // branches)
    return most if most < 16 else most - most % 16


def _joined(high: npt.NDArray[np.uint32], low: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    return (high.astype(np.uint64) << np.uint64(32)) | low
