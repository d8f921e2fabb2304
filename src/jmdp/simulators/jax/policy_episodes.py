"""Compiled episodes of several policies on a JAX simulator: `lockstep` with random starts and one policy per branch.

Keys are those of `lockstep`, with two more words of a sample: w(2³² − 2) for its start and w(2³² − 1) for the first
action. Branches of different policies do not merge: a policy's uniform number uses the number of its own branch, unless
policy_luck="shared". Random numbers that are redrawn (`fresh`) have their words XORed with constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jmdp.simulators.episodes import EpisodeDraws, EpisodePlan
from jmdp.simulators.jax.lockstep import Lanes, Lockstep, Seats, branch_words, key_of
from jmdp.simulators.jax.rollouts import CompiledRollouts, Request
from jmdp.simulators.jax.words import Words
from jmdp.simulators.starts import GOLDEN

_START, _FIRST_CHOICE = np.uint32(2**32 - 2), np.uint32(2**32 - 1)
_FRESH = np.uint32(0xA3C59AC3), np.uint32(0x6C8E9CF5)


@dataclass(frozen=True)
class EpisodeLockstep(Lockstep):
    """Lockstep simulation in which branch i follows policy i, from a random start of each sample."""

    policies: Sequence[Callable[[Any], Any]] = ()  # functions of an observation
    draw_start: Callable[[Any, Any], Any] = field(default=lambda key, sample: key)  # of a key and a sample's number
    fresh: frozenset[str] = frozenset()

    def begin(self, start: Any, seats: Seats, seed: jax.Array, sample: jax.Array) -> tuple[jax.Array, Lanes]:
        """Root keys [L], and all branches at the start of their sample with their first actions."""
        roots = self._roots(seats, seed, sample)
        drawn = jax.vmap(self.draw_start)(self.start_keys(roots, seats.branch), sample + seats.sample)
        state = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype) if leaf.dtype != like.dtype else leaf,
                             drawn, start)  # fmt: skip
        action, _ = self._choose(self._words(roots, _FIRST_CHOICE), seats.branch, state, None)
        return roots, self._lanes(state, action, seats.position >= 0)

    def start_keys(self, roots: jax.Array, branches: jax.Array) -> jax.Array:
        """Keys [L] of the starts, equal for all branches of a sample unless the coupling is independent."""
        w = self._words(roots, _START)
        if not self.coupling.shared_in_a_state:
            e = branch_words(branches)
            w = w[0] ^ e[0], w[1] ^ e[1]
        return key_of(jnp.stack(w, -1))

    def _numbers(self, lanes: Lanes, seats: Seats) -> Words:
        return super()._numbers(lanes, seats)[0], seats.branch

    def _environment(self, w: Words, lanes: Lanes, numbers: jax.Array) -> tuple[jax.Array, Any, jax.Array]:
        return super()._environment(self._anew(w, "steps"), lanes, numbers)

    def _choose(self, w: Words, numbers: jax.Array, state: Any, parameters: Any) -> tuple[jax.Array, jax.Array]:
        """Next action of each branch by its own policy, and a mask of invalid ones."""
        w, B = self._anew(w, "policies"), len(self.policies)
        found = []
        for i, policy in enumerate(self.policies):  # lanes i, i + B, i + 2B, …
            mine = jax.tree.map(lambda leaf, i=i: leaf[i::B], (w, numbers, state))
            given = jax.vmap(lambda s, policy=policy: policy(self.observe(s)))(mine[2])
            found.append(self._chosen(given, *mine[:2]))
        action, fault = (jnp.stack(parts, 1).reshape(-1) for parts in zip(*found, strict=True))
        return action, fault

    def _anew(self, w: Words, luck: str) -> Words:
        return (w[0] ^ _FRESH[0], w[1] ^ _FRESH[1]) if luck in self.fresh else w


class CompiledEpisodes:
    """Compiled episodes of one plan."""

    def __init__(self, lockstep: EpisodeLockstep, plan: EpisodePlan, example: Any, lanes: int) -> None:
        self._plan, self._example, self._lockstep = plan, example, lockstep
        self._program = CompiledRollouts(lockstep, lanes - lanes % lockstep.branches)
        self._numbers = jax.jit(self._start_numbers)

    def draw(self, first: int, count: int) -> EpisodeDraws:
        """Draw samples first … first + count − 1."""
        plan, which = self._plan, np.arange(len(self._plan.actors), dtype=np.int32)
        request = Request(plan.discount, plan.horizon, plan.seed, first, count)
        drawn = self._program.draws(self._example, None, which, plan.branches, request)
        starts = np.full(drawn.ends.shape, -1)
        if plan.starts.given:
            words = np.array([plan.seed >> 32, plan.seed & 0xFFFFFFFF], np.uint32)
            samples = np.arange(first, first + count, dtype=np.uint32)
            starts = np.stack([np.asarray(self._numbers(words, samples, branch)) for branch in plan.branches], 1)
        return EpisodeDraws(
            drawn.returns,
            drawn.ends,
            drawn.gains,
            drawn.largest_reward,
            drawn.steps,
            0,
            True,
            starts.astype(np.int64),
            count,
        )

    def _start_numbers(self, seed: jax.Array, samples: jax.Array, branch: jax.Array) -> jax.Array:
        roots = jax.vmap(lambda sample: jax.random.fold_in(key_of(seed), sample))(samples)
        keys = self._lockstep.start_keys(roots, jnp.broadcast_to(branch, samples.shape))
        numbers: jax.Array = jax.vmap(start_number(self._plan))(keys, samples)
        return numbers


def start_number(plan: EpisodePlan) -> Callable[[Any, Any], Any]:
    """Function of a key and the number of a sample: the index of its start state."""
    starts = plan.starts
    inner = np.asarray(starts.cumulative[:-1], np.float32)
    (order, offset), (whole, part) = starts.order(plan.seed), np.divmod(starts.edges, np.uint64(2**32))
    places, wholes, parts = (np.asarray(x, np.uint32) for x in (order, whole, part))

    def drawn(key: Any, sample: Any) -> Any:
        return (jax.random.uniform(key) >= inner).sum()

    def in_shares(key: Any, sample: Any) -> Any:  # as in `Starts.in_shares`, with words of 32 bits
        k = jnp.asarray(places)[sample % np.uint32(order.size)]
        f = np.uint32(offset) + sample // np.uint32(order.size) * np.uint32(GOLDEN)
        return ((wholes < k) | ((wholes == k) & (parts <= f))).sum()

    return in_shares if plan.stratify else drawn
