"""Incremental JIPE-2 with networks as in the paper: default initialisation, Gram kernel, squared TD errors.

M_μ(x) and v(x) are networks, M_Σ(x, y) = M_μ(x) M_μ(y) + ⟨v(x), v(y)⟩ (Eq. (88)). Layers have the library's default
initialisation, whatever the scale of the returns. Each update is a step of Adam on the squares of

    R + γ M_μ(x') − M_μ(x)    and    R R̃ + γ R M_μ(y') + γ R̃ M_μ(x') + γ² M_Σ(x', y') − M_Σ(x, y)

for one coordinate, two in one state, two in different states, and for the second moment of the gap; targets carry no
gradient. The differences to `NeuralGram` are in docs/neural.md.
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
from jmdp.base.labels import identity
from jmdp.base.whole_files import whole_file
from jmdp.methods.neural_gram import Batch, PairReplay, encoders
from jmdp.simulators import ALESimulator, PairWalks
from reproduction.atari.collect import load
from reproduction.atari.settings import DISCOUNT, Walks
from reproduction.findings import Floats

BLOCKS = ("mean", "diagonal", "same state", "cross", "gap")
"""Blocks with a separate TD error; the first four are the paper's."""

RANK = 16
WINDOW = 100
"""Updates whose squared TD errors are averaged."""


@dataclass(frozen=True)
class PlainRun:
    """Settings of one network."""

    walks: Walks
    """Training data; several networks may share them."""
    seed: int
    """Random seed of the network and its batches."""
    points: float | None
    """Weight of the game's clipped points; the shock is added to them. None: the points alone, without the shock."""
    updates: int
    batch: int = 64
    learning_rate: float = 1e-3

    def path(self, folder: Path) -> Path:
        """Return the path of the file of its learning curve."""
        made_by = identity(self, self.walks.name, RANK, WINDOW, [version(package) for package in ("jmdp", "jax")])
        return folder / "plain" / f"{self.walks.game}-{self.seed}-{made_by.hex()[:8]}.npz"


class PlainNetwork(eqx.Module):
    """Network for means and features of covariances, with separate encoders."""

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
        """Return M_μ [] and v [RANK] of one coordinate."""
        v = self.features(self.encoder(observation)).reshape(-1, RANK)
        return self.mean(self.mean_encoder(observation))[action], v[action]


class Moments(NamedTuple):
    """Moments of pairs of coordinates."""

    mean: jax.Array  # [B, 2]
    square: jax.Array  # [B, 2], M_Σ(x, x)
    product: jax.Array  # [B], M_Σ(x, y)

    @property
    def gap(self) -> jax.Array:
        """Second moment of the gap, E[(Z(x) − Z(y))²] (Eq. (89)), [B]."""
        return self.square.sum(axis=1) - 2 * self.product


def moments(network: PlainNetwork, observation: Any, action: Any) -> Moments:
    """Return the network's moments of each pair (Eq. (88))."""
    mean, v = jax.vmap(jax.vmap(network))(observation, action)
    return Moments(mean, mean**2 + (v**2).sum(-1), mean[:, 0] * mean[:, 1] + (v[:, 0] * v[:, 1]).sum(-1))


def targets(network: PlainNetwork, batch: Batch) -> Moments:
    """Return one-sample backups of all blocks: Eq. (25), Eq. (26), Eq. (27). Ended branches have no further reward."""
    later = moments(network, batch.end_observation, batch.end_action)
    on, g = ~batch.ended, DISCOUNT
    mean, square = g * on * later.mean, g**2 * on * later.square
    r = batch.reward
    product = r[:, 0] * r[:, 1] + r[:, 0] * mean[:, 1] + r[:, 1] * mean[:, 0] + g**2 * on.all(axis=1) * later.product
    return jax.lax.stop_gradient(Moments(r + mean, r**2 + 2 * r * mean + square, product))


def errors(network: PlainNetwork, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """Return the total loss and the mean square TD errors of all blocks, [5]; nan for a block that the batch lacks."""
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
    """Perform one update per batch; also return mean square TD errors [updates, blocks] before each update."""
    changing, fixed = eqx.partition((network, state), eqx.is_array)

    def update(changing: Any, batch: Batch) -> tuple[Any, jax.Array]:
        network, state = eqx.combine(changing, fixed)
        gradient, squares = eqx.filter_grad(partial(errors, batch=batch), has_aux=True)(network)
        change, state = optax.adam(rate).update(gradient, state)
        return eqx.partition((eqx.apply_updates(network, change), state), eqx.is_array)[0], squares

    changing, squares = jax.lax.scan(update, changing, batches)
    return *eqx.combine(changing, fixed), squares


def plain_curve(walks: PairWalks, actions: int, run: PlainRun) -> tuple[Floats, Floats]:
    """Return updates [T + 1] and mean square TD errors [T + 1, blocks]: before training, then per window."""
    root = Shock.of_sample(run.seed, 0)
    replay = PairReplay(walks, DISCOUNT, 1, root)
    observations = walks.observation.reshape(-1, *walks.observation.shape[3:])
    network = PlainNetwork(observations[:: max(1, len(observations) // 20_000)], actions, root.derived(b"plain").key())
    state = optax.adam(run.learning_rate).init(eqx.filter(network, eqx.is_inexact_array))
    windows = -(-run.updates // WINDOW)
    untrained = replay.batches(windows, WINDOW, run.batch)  # batches that training does not use
    curve = [_updates(network, state, untrained, 0.0)[2]]
    for window in range(windows):
        batches = replay.batches(window, WINDOW, run.batch)
        network, state, squares = _updates(network, state, batches, run.learning_rate)
        curve.append(squares)
    return WINDOW * np.arange(windows + 1.0), np.array([np.nanmean(np.asarray(part, np.float64), 0) for part in curve])


def make_curve(run: PlainRun, folder: Path) -> None:
    """Train the network and save its learning curve, unless its file exists."""
    if run.path(folder).exists():
        return
    walks = load(run.walks, folder, run.points or 1.0, shock=run.points is not None)
    if run.points is not None:
        walks = replace(walks, reward=run.points * walks.reward)  # the shock has a standard deviation of 1
    updates, squares = plain_curve(walks, ALESimulator(run.walks.game).actions.size, run)
    with whole_file(run.path(folder)) as file:
        np.savez(file, updates=updates, squares=squares)


def curve_of(run: PlainRun, folder: Path) -> tuple[Floats, Floats]:
    """Load a saved learning curve: updates, and mean square TD errors."""
    with np.load(run.path(folder)) as file:
        return file["updates"], file["squares"]
