"""Incremental JIPE-2 with networks as the paper describes it: plain start, plain Gram kernel, squared TD errors.

M_μ(x) and v(x) are networks, M_Σ(x, y) = M_μ(x) M_μ(y) + ⟨v(x), v(y)⟩ (appendix C). Layers begin as the library draws
them, without a look at the scale of the returns. Each update is a step of Adam on the squares of

    R + γ M_μ(x') − M_μ(x)    and    R R̃ + γ R M_μ(y') + γ R̃ M_μ(x') + γ² M_Σ(x', y') − M_Σ(x, y)

for one coordinate, two in one state, two in different states, and for the second moment of the gap; targets carry no
gradient. What `NeuralGram` does differently is in docs/neural.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from jmdp import Shock
from jmdp.base.identity import identity
from jmdp.base.whole_files import whole_file
from jmdp.experiments.atari.collect import load
from jmdp.experiments.atari.settings import DISCOUNT, Walks
from jmdp.experiments.reproduction.findings import Floats
from jmdp.methods.neural_gram import Batch, PairReplay, encoders
from jmdp.simulators import ALESimulator, PairWalks

BLOCKS = ("mean", "diagonal", "same state", "cross", "gap")
"""What has a TD error of its own; the first four are the paper's blocks."""

RANK = 16
WINDOW = 100
"""Updates whose squared TD errors are averaged."""


@dataclass(frozen=True)
class PlainRun:
    """One network."""

    walks: Walks
    """What it learns from; several networks may share walks."""
    seed: int
    """Of the network and its batches."""
    points: float | None
    """The reward is this times the game's clipped points, plus the shock. None is the points alone, without a shock."""
    updates: int
    batch: int = 64
    learning_rate: float = 1e-3

    def path(self, folder: Path) -> Path:
        """Where its curve is kept."""
        made_by = identity(self, self.walks.name, RANK, WINDOW, [version(package) for package in ("jmdp", "jax")])
        return folder / "plain" / f"{self.walks.game}-{self.seed}-{made_by.hex()[:8]}.npz"


class PlainNetwork(eqx.Module):
    """Means, and the features of covariances, each with an encoder of its own."""

    mean_encoder: Any
    mean: eqx.nn.Linear
    encoder: Any
    features: eqx.nn.Linear

    def __init__(self, observations: np.ndarray, actions: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 4)
        self.mean_encoder, self.encoder = (encoders.built(None, observations, k) for k in keys[:2])
        width = jax.eval_shape(self.encoder, jnp.asarray(observations[0])).size
        self.mean = eqx.nn.Linear(width, actions, key=keys[2])
        self.features = eqx.nn.Linear(width, actions * RANK, key=keys[3])

    def __call__(self, observation: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """M_μ [], v [RANK] of one coordinate."""
        v = self.features(self.encoder(observation)).reshape(-1, RANK)
        return self.mean(self.mean_encoder(observation))[action], v[action]


class Moments(NamedTuple):
    """Of pairs of coordinates."""

    mean: jax.Array  # [B, 2]
    square: jax.Array  # [B, 2], M_Σ(x, x)
    product: jax.Array  # [B], M_Σ(x, y)

    @property
    def gap(self) -> jax.Array:
        """[B], E[(Z(x) − Z(y))²]."""
        return self.square.sum(axis=1) - 2 * self.product


def moments(network: PlainNetwork, observation: Any, action: Any) -> Moments:
    """What the network says of each pair."""
    mean, v = jax.vmap(jax.vmap(network))(observation, action)
    return Moments(mean, mean**2 + (v**2).sum(-1), mean[:, 0] * mean[:, 1] + (v[:, 0] * v[:, 1]).sum(-1))


def targets(network: PlainNetwork, batch: Batch) -> Moments:
    """One-sample backups of all blocks. A branch that has ended earns nothing more."""
    later = moments(network, batch.end_observation, batch.end_action)
    on, g = ~batch.ended, DISCOUNT
    mean, square = g * on * later.mean, g**2 * on * later.square
    r = batch.reward
    product = r[:, 0] * r[:, 1] + r[:, 0] * mean[:, 1] + r[:, 1] * mean[:, 0] + g**2 * on.all(axis=1) * later.product
    return jax.lax.stop_gradient(Moments(r + mean, r**2 + 2 * r * mean + square, product))


def errors(network: PlainNetwork, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """The sum that is minimised, and mean squares of the TD errors of all blocks [5], nan for one not met."""
    aim, found = targets(network, batch), moments(network, batch.observation, batch.action)
    distinct = batch.live.all(axis=1) & ~(batch.same & (batch.action[:, 0] == batch.action[:, 1]))
    parts = (
        (batch.live, aim.mean - found.mean),
        (batch.live, aim.square - found.square),
        (distinct & batch.same, aim.product - found.product),
        (distinct & ~batch.same, aim.product - found.product),
        (distinct, aim.gap - found.gap),
    )
    sums = jnp.array([jnp.where(mask, error**2, 0.0).sum() for mask, error in parts])
    counts = jnp.array([mask.sum() for mask, _ in parts])
    squares = sums / jnp.maximum(counts, 1)
    return squares.sum(), jnp.where(counts > 0, squares, jnp.nan)


@eqx.filter_jit
def _updates(network: PlainNetwork, state: Any, batches: Batch, rate: float) -> tuple[PlainNetwork, Any, jax.Array]:
    """One update for each of the batches, and mean squares of TD errors [updates, blocks] before each."""
    changing, fixed = eqx.partition((network, state), eqx.is_array)

    def update(changing: Any, batch: Batch) -> tuple[Any, jax.Array]:
        network, state = eqx.combine(changing, fixed)
        gradient, squares = eqx.filter_grad(partial(errors, batch=batch), has_aux=True)(network)
        change, state = optax.adam(rate).update(gradient, state)
        return eqx.partition((eqx.apply_updates(network, change), state), eqx.is_array)[0], squares

    changing, squares = jax.lax.scan(update, changing, batches)
    return *eqx.combine(changing, fixed), squares


def plain_curve(walks: PairWalks, actions: int, run: PlainRun) -> tuple[Floats, Floats]:
    """Updates [T + 1] and mean squares of TD errors [T + 1, blocks]: before the first update, then by windows."""
    root = Shock.of_sample(run.seed, 0)
    replay = PairReplay(walks, DISCOUNT, 1, root)
    observations = walks.observation.reshape(-1, *walks.observation.shape[3:])
    network = PlainNetwork(observations[:: max(1, len(observations) // 20_000)], actions, root.derived(b"plain").key())
    state = optax.adam(run.learning_rate).init(eqx.filter(network, eqx.is_inexact_array))
    windows = -(-run.updates // WINDOW)
    untrained = replay.batches(windows, WINDOW, run.batch)  # a number that learning does not use
    curve = [_updates(network, state, untrained, 0.0)[2]]
    for window in range(windows):
        batches = replay.batches(window, WINDOW, run.batch)
        network, state, squares = _updates(network, state, batches, run.learning_rate)
        curve.append(squares)
    return WINDOW * np.arange(windows + 1.0), np.array([np.nanmean(np.asarray(part, np.float64), 0) for part in curve])


def make_curve(run: PlainRun, folder: Path) -> None:
    """Train the network and save its curve, unless it is there."""
    if run.path(folder).exists():
        return
    walks = load(run.walks, folder, run.points or 1.0, shock=run.points is not None)
    if run.points is not None:
        walks = replace(walks, reward=run.points * walks.reward)  # the shock has a standard deviation of 1
    updates, squares = plain_curve(walks, ALESimulator(run.walks.game).actions.size, run)
    with whole_file(run.path(folder)) as file:
        np.savez(file, updates=updates, squares=squares)


def curve_of(run: PlainRun, folder: Path) -> tuple[Floats, Floats]:
    """Read it again: updates, and mean squares of TD errors."""
    with np.load(run.path(folder)) as file:
        return file["updates"], file["squares"]
