"""Networks, batches and walks that the tests of `jmdp.neural` share."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jmdp
from jmdp.methods.neural_gram.encoders import OneHot
from jmdp.methods.neural_gram.losses import Batch, Scales
from jmdp.methods.neural_gram.network import GramNetwork
from jmdp.simulators.rollouts.pair_walks import PairWalks
from reference.table_walks import table_walks

WORLD = jmdp.worlds.windy_gridworld(2, 2, gust=0.4, blown_reward=-0.5, step_reward=-0.1, discount=0.7)
STATES, ACTIONS = 5, 3
SCALES = Scales(1.7, 0.6, 0.9)


def network(seed: int, kernel: Any = "sum", spread: float = 1.0, states: int = STATES, rank: int = 4) -> GramNetwork:
    """Random parameters of any size; a table of features for each state."""
    rng = np.random.default_rng(seed)
    made = GramNetwork(OneHot(states), np.arange(states), ACTIONS, kernel, rank, (0.3, 1.2, 0.7), jax.random.key(seed))
    return jax.tree.map(
        lambda leaf: (
            jnp.asarray(spread * rng.normal(size=leaf.shape), leaf.dtype) if eqx.is_inexact_array(leaf) else leaf
        ),
        made,
    )


def batch(seed: int, size: int = 24) -> Batch:
    """Rows of every kind: branches that have ended, or will have, one state, one coordinate, doubled rows."""
    rng = np.random.default_rng(seed)
    doubled = np.arange(size) < size // 2
    observation, end = rng.integers(STATES, size=(2, size, 2))
    action, end_action = rng.integers(ACTIONS, size=(2, size, 2)).astype(np.int32)
    live = rng.random((size, 2)) < 0.8
    ended = (rng.random((size, 2)) < 0.3) | ~live
    live[doubled] = True
    observation[doubled] = np.repeat(observation[: size // 2 : 2], 2, axis=0)
    action[doubled] = np.repeat(action[: size // 2 : 2], 2, axis=0)
    meets = rng.random(size) < 0.5
    end[meets, 1] = end[meets, 0]
    return Batch(
        observation, action, observation[:, 0] == observation[:, 1], rng.normal(size=(size, 2)).astype(np.float32),
        rng.choice([0.9, 0.81, 0.729], size).astype(np.float32), end, end_action, end[:, 0] == end[:, 1], ended,
        doubled, live,
    )  # fmt: skip


def walks(visits: int = 64, repeats: int = 2, length: int = 6, seed: int = 0) -> PairWalks:
    """Of the small world, under `Local` luck."""
    return table_walks(
        WORLD.model, WORLD.policies["uniform"], jmdp.Local(), np.random.default_rng(seed),
        visits=visits, repeats=repeats, length=length,
    )  # fmt: skip
