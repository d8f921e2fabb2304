"""Compiled episodes of several policies on a JAX simulator: `lockstep` with random starts and one policy per branch.

Keys are those of `lockstep`, with two more words of a sample: w(2³² − 2) for its start and w(2³² − 1) for the first
action. A policy's uniform number uses the words of its branch, not of a coordinate, unless policy_luck="shared".
Random numbers that are redrawn (`fresh`) have their words XORed with constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jmdp.simulators.episodes import EpisodeDraws, EpisodePlan
from jmdp.simulators.jax.lockstep import POLICY_WORD, Lanes, Lockstep, key_of, of_lanes
from jmdp.simulators.jax.rollouts import CompiledRollouts, Request
from jmdp.simulators.jax.words import Words, inverted, mixed
from jmdp.simulators.simulator import ENDED

_START, _FIRST_CHOICE = np.uint32(2**32 - 2), np.uint32(2**32 - 1)
_FRESH = np.uint32(0xA3C59AC3), np.uint32(0x6C8E9CF5)


@dataclass(frozen=True)
class EpisodeLockstep(Lockstep):
    """Lockstep simulation in which branch i follows policy i, from a random start of each sample."""

    policies: Sequence[Callable[[Any], Any]] = ()  # functions of an observation
    draw_start: Callable[[Any], Any] = field(default=lambda key: key)  # function of a key
    fresh: frozenset[str] = frozenset()

    def begin(self, start: Any, first: jax.Array, seed: jax.Array, samples: jax.Array) -> tuple[jax.Array, Lanes]:
        """Root keys [N], and all branches at the start of their sample with their first actions."""
        roots = jax.vmap(lambda sample: jax.random.fold_in(key_of(seed), sample))(samples)
        shape = (self.branches, samples.size)
        keys = self.start_keys(roots)
        like = jax.tree.map(lambda leaf: leaf.dtype, start)
        drawn = jax.tree.map(lambda leaf, kind: leaf.astype(kind) if leaf.dtype != kind else leaf,
                             of_lanes(self.draw_start)(keys), like)  # fmt: skip
        alive = jnp.ones(shape, bool)
        lanes = Lanes(drawn, self._places(drawn), jnp.zeros(shape, jnp.int32), alive)
        action, _ = self._choose(self._words(roots, _FIRST_CHOICE), lanes, drawn, None)
        return roots, lanes._replace(action=action)

    def start_keys(self, roots: jax.Array) -> jax.Array:
        """Keys [B, N] of the starts, equal for all branches of a sample unless the coupling is independent."""
        w = self._words(roots, _START)
        place: Any = (np.uint32(0), np.uint32(0)) if self.coupling.shared_in_a_state else self._branch_words()
        shape = (self.branches, roots.shape[0])
        return key_of(jnp.stack([jnp.broadcast_to(w[half] ^ place[half], shape) for half in range(2)], -1))

    def _words(self, roots: jax.Array, t: Any) -> Words:
        luck = jax.random.key_data(jax.vmap(jax.random.fold_in, (0, None))(roots, t))
        return luck[:, 0], luck[:, 1]

    def _environment(self, w: Words, lanes: Lanes) -> tuple[jax.Array, Any, jax.Array]:
        return super()._environment(self._anew(w, "steps"), lanes)

    def _choose(self, w: Words, before: Lanes, state: Any, parameters: Any) -> tuple[jax.Array, jax.Array]:
        """Next action of each branch by its own policy, and a mask of invalid ones."""
        w = self._anew(w, "policies")
        shared = self.coupling.policy_luck == "shared"
        p: Any = (np.zeros((self.branches, 1), np.uint32),) * 2 if shared else self._branch_words()
        actions, faults = [], []
        for i, policy in enumerate(self.policies):
            here = jax.tree.map(lambda leaf, i=i: leaf[i], state)
            given = jax.vmap(lambda s, policy=policy: policy(self.observe(s)))(here)
            if jnp.issubdtype(given.dtype, jnp.integer):
                action = jnp.clip(given, 0, self.actions - 1).astype(jnp.int32)
                fault = (given < 0) | (given >= self.actions)
            else:
                word = mixed(mixed(w[0] ^ p[0][i] ^ np.uint32(POLICY_WORD)) ^ (w[1] + p[1][i]))
                action, fault = inverted(given, word)
            actions.append(action)
            faults.append(fault)
        return jnp.stack(actions), jnp.stack(faults)

    def _anew(self, w: Words, luck: str) -> Words:
        return (w[0] ^ _FRESH[0], w[1] ^ _FRESH[1]) if luck in self.fresh else w

    def _follows(self, lanes: Lanes) -> jax.Array:
        """All False: branches of different policies never merge."""
        return jnp.zeros(lanes.alive.shape, bool)


class CompiledEpisodes:
    """Compiled episodes of one plan."""

    def __init__(self, lockstep: EpisodeLockstep, plan: EpisodePlan, example: Any, samples: int) -> None:
        self._plan, self._example, self._lockstep = plan, example, lockstep
        self._program = CompiledRollouts(lockstep, samples)
        self._numbers = jax.jit(self._start_numbers)

    def draw(self, first: int, count: int) -> EpisodeDraws:
        """Draw samples first … first + count − 1."""
        plan, branches = self._plan, np.arange(len(self._plan.actors), dtype=np.int32)
        request = Request(plan.discount, plan.horizon, plan.seed, first, count)
        drawn = self._program.draws(self._example, None, branches, request)
        ends = np.where(drawn.ends == ENDED, ENDED, branches)
        starts = np.full(ends.shape, -1)
        if plan.starts.given:
            words = np.array([plan.seed >> 32, plan.seed & 0xFFFFFFFF], np.uint32)
            starts = np.asarray(self._numbers(words, np.arange(first, first + count, dtype=np.uint32))).T
        return EpisodeDraws(
            drawn.returns, ends, drawn.gains, drawn.largest_reward, drawn.steps, 0, True, starts.astype(np.int64), count
        )

    def _start_numbers(self, seed: jax.Array, samples: jax.Array) -> jax.Array:
        roots = jax.vmap(lambda sample: jax.random.fold_in(key_of(seed), sample))(samples)
        choose = start_number(self._plan.starts.cumulative)
        numbers: jax.Array = of_lanes(choose)(self._lockstep.start_keys(roots))
        return numbers


def start_number(cumulative: Any) -> Callable[[Any], Any]:
    """Function that draws the index of a start state from a key."""
    inner = np.asarray(cumulative[:-1], np.float32)

    def number(key: Any) -> Any:
        return (jax.random.uniform(key) >= inner).sum()

    return number
