"""The authors' network read plainly, and its training on pair queries.

One encoder, three convolutions and 256 units, gives means M_μ(s, a) and features v(s, a) of 128 numbers, and
M_Σ(x, y) = M_μ(x) M_μ(y) + ⟨v(x), v(y)⟩ (Eq. (88)). The last layer of the features begins at N(0, 0.001²). An update
minimises squared TD errors of one-sample backups, with weight 1 each for means, two actions in one state, two in
different states and single coordinates, and 0.1 for the second moment of the gap (Eq. (89)). Backups use a copy of the
network that is renewed every 2,000 updates, one sampled next action for each branch, and rewards times 1 − γ. Adam with
learning rate 0.0001, batches of 32 queries of the replay; update number i may use the first 5,000 + i queries.

With a copied target, k copies are at most k + 1 sweeps of the operator from 0: a mean is then at most the share
1 − γ^(k+1) of the truth, a variance at most 1 − γ^(2k+2). After 45,000 updates that is 0.21 and 0.37.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
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
from reproduction.atari.authors.queries import DISCOUNT, Floats, Frames, Queries, Walk

BLOCKS = ("mean", "diagonal", "same state", "cross", "gap")
WEIGHTS = (1.0, 1.0, 1.0, 1.0, 0.1)
STEPS = 50_000
"""Steps of the walk."""
LEARNING_STARTS, COPIED_EVERY = 5_000, 2_000
UPDATES = STEPS - LEARNING_STARTS
BATCH, RANK, UNITS = 32, 128, 256
LEARNING_RATE, SMALL = 1e-4, 1e-3
WINDOW = 100
"""Updates of one compiled call, whose squared TD errors are averaged."""
LOOK = 500
"""Updates between two looks at the judged states, and between two checkpoints."""


class Network(eqx.Module):
    """Means and features of all actions."""

    convolutions: list[tuple[jax.Array, jax.Array]]
    units: eqx.nn.Linear
    mean: eqx.nn.Linear
    features: eqx.nn.Linear

    def __init__(self, actions: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 7)
        self.convolutions = [
            _convolution(size, a, b, k)
            for (size, _), (a, b), k in zip(_LAYERS, ((1, 32), (32, 64), (64, 64)), keys[:3], strict=True)
        ]
        self.units = eqx.nn.Linear(64 * 7 * 7, UNITS, key=keys[3])
        self.mean = eqx.nn.Linear(UNITS, actions, key=keys[4])
        last = eqx.nn.Linear(UNITS, actions * RANK, key=keys[5])
        begin = SMALL * jax.random.normal(keys[6], last.weight.shape), jnp.zeros(actions * RANK)
        self.features = eqx.tree_at(lambda layer: (layer.weight, layer.bias), last, begin)

    def __call__(self, frame: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Means [B, A] and features [B, A, RANK] of frames [B, 84, 84]."""
        x = frame.astype(jnp.float32)[..., None] / 255
        for (weight, bias), (_, stride) in zip(self.convolutions, _LAYERS, strict=True):
            x = jax.lax.conv_general_dilated(
                x, weight, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x + bias)
        x = jax.nn.relu(jax.vmap(self.units)(x.reshape(len(x), -1)))
        return jax.vmap(self.mean)(x), jax.vmap(self.features)(x).reshape(len(x), -1, RANK)


_LAYERS = ((8, 4), (4, 2), (3, 1))
"""Size and stride of each convolution."""


def _convolution(size: int, a: int, b: int, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weights and biases, uniform within 1/√inputs."""
    most, one, two = (size * size * a) ** -0.5, *jax.random.split(key)
    weight = jax.random.uniform(one, (size, size, a, b), minval=-most, maxval=most)
    return weight, jax.random.uniform(two, (b,), minval=-most, maxval=most)


class Batch(NamedTuple):
    """Queries, with a next action for each branch."""

    frame: Any  # [B, 84, 84]
    action: Any  # [B, 2]
    reward: Any  # [B, 2], times 1 − γ
    after: Any  # [2, B, 84, 84]
    next_action: Any  # [B, 2]
    ended: Any  # [B, 2]


class Moments(NamedTuple):
    """Moments of the two coordinates of each query, and across a query and the one before it in the batch."""

    mean: jax.Array  # [B, 2]
    square: jax.Array  # [B, 2]
    same: jax.Array  # [B]
    cross: jax.Array  # [B]

    @property
    def gap(self) -> jax.Array:
        """E[(Z(x) − Z(y))²] of the two coordinates of a query (Eq. (89))."""
        return self.square.sum(axis=1) - 2 * self.same


def moments(mean: jax.Array, v: jax.Array) -> Moments:
    """Moments by Eq. (88) of means [B, 2] and features [B, 2, RANK]."""
    first, second = (mean[:, 0], v[:, 0]), (jnp.roll(mean[:, 1], 1), jnp.roll(v[:, 1], 1, axis=0))
    return Moments(
        mean,
        mean**2 + (v**2).sum(-1),
        mean[:, 0] * mean[:, 1] + (v[:, 0] * v[:, 1]).sum(-1),
        first[0] * second[0] + (first[1] * second[1]).sum(-1),
    )


def backups(target: Network, batch: Batch) -> Moments:
    """One-sample backups of all blocks (Eq. (25) to Eq. (27)). Ended branches have no further reward."""
    found = [target(batch.after[b]) for b in (0, 1)]
    on = DISCOUNT * ~batch.ended
    mean = on * jnp.stack([_chosen(found[b][0], batch.next_action[:, b]) for b in (0, 1)], axis=1)
    v = on[..., None] * jnp.stack([_chosen(found[b][1], batch.next_action[:, b]) for b in (0, 1)], axis=1)
    # With Z = R + γ Z', second moments are those of a return with mean R + γ M_μ(x') and covariances γ² ⟨v, v⟩.
    return moments(batch.reward + mean, v)


def _chosen(values: jax.Array, action: jax.Array) -> jax.Array:
    return values[jnp.arange(len(action)), action]


def errors(network: Network, aim: Moments, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """Return the loss and the mean squared TD errors [5] of the blocks."""
    mean, v = network(batch.frame)
    rows = jnp.arange(len(batch.action))[:, None]
    found = moments(mean[rows, batch.action], v[rows, batch.action])
    parts = (aim.mean - found.mean, aim.square - found.square, aim.same - found.same, aim.cross - found.cross,
             aim.gap - found.gap)  # fmt: skip
    squares = jnp.stack([(part**2).mean() for part in parts])
    return squares @ jnp.array(WEIGHTS), squares


@eqx.filter_jit
def _update(network: Network, target: Network, state: Any, batch: Batch) -> tuple[Network, Any, jax.Array]:
    """One update, and the mean squared TD errors [5] before it. (A scan over updates is eight times slower on CPUs.)"""
    aim = jax.lax.stop_gradient(backups(target, batch))
    gradient, squares = jax.grad(partial(errors, aim=aim, batch=batch), has_aux=True)(network)
    change, state = _ADAM.update(gradient, state)
    return eqx.apply_updates(network, change), state, squares


_ADAM = optax.adam(LEARNING_RATE)


@eqx.filter_jit
def _look(network: Network, frame: Any, pair: Any) -> jax.Array:
    """Means [N, 2] and gap variances |v(x) − v(y)|² [N] of pairs of actions."""
    mean, v = network(frame)
    rows = jnp.arange(len(pair))[:, None]
    mean, v = mean[rows, pair], v[rows, pair]
    return jnp.concatenate([mean, (v**2).sum(-1), ((v[:, 0] - v[:, 1]) ** 2).sum(-1)[:, None]], axis=1)


@dataclass
class Training:
    """A network as far as it was trained."""

    network: Network
    target: Network
    state: Any
    squares: list[Floats]  # mean squared TD errors [5] of the untrained network, then of each window
    looked_at: list[int]  # updates before each look at the judged states
    looks: list[Floats]  # predictions [N, 5] there
    seconds: float  # of processor time

    @property
    def updates(self) -> int:
        """Number of updates so far."""
        return WINDOW * max(0, len(self.squares) - 1)

    @classmethod
    def begun(cls, actions: int, seed: int) -> Training:
        """Return an untrained network."""
        network = Network(actions, Shock.of_sample(seed, 0).derived(b"network").key())
        return cls(network, network, _ADAM.init(network), [], [], [], 0.0)

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        leaves = jax.tree.leaves((self.network, self.target, self.state))
        with whole_file(path) as file:
            np.savez(file, *map(np.asarray, leaves), squares=self.squares, looked_at=self.looked_at, looks=self.looks,
                     seconds=self.seconds)  # fmt: skip

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        leaves, form = jax.tree.flatten((self.network, self.target, self.state))
        with np.load(path) as file:
            saved = [jnp.asarray(file[f"arr_{i}"]) for i in range(len(leaves))]
            self.squares, self.looks, self.seconds = list(file["squares"]), list(file["looks"]), float(file["seconds"])
            self.looked_at = file["looked_at"].tolist()
        self.network, self.target, self.state = jax.tree.unflatten(form, saved)

    def begin(self, queries: Replay, seed: int) -> None:
        """Measure the TD errors of the untrained network."""
        rng = Shock.of_sample(seed, 0).derived(b"untrained").generator()
        found = [_update(self.network, self.target, self.state, self._batch(queries, 0, rng))[2] for _ in range(20)]
        self.squares.append(np.mean(found, axis=0, dtype=np.float64))

    def look(self, frames: Frames, pairs: Any) -> None:
        """Predict for pairs of actions: means and variances of both coordinates, and the gap variance."""
        found = [_look(self.network, frames[i : i + 40], pairs[i : i + 40]) for i in range(0, len(frames), 40)]
        self.looked_at.append(self.updates)
        self.looks.append(np.concatenate(found).astype(np.float64))

    def window(self, queries: Replay, seed: int) -> None:
        """Train for `WINDOW` updates; the batches depend on the seed and the number of the window only."""
        done, rng = self.updates, Shock.of_sample(seed, self.updates).derived(b"batches").generator()
        squares = []
        for i in range(done, done + WINDOW):
            if i % COPIED_EVERY == 0:
                self.target = self.network
            batch = self._batch(queries, i, rng)
            self.network, self.state, found = _update(self.network, self.target, self.state, batch)
            squares.append(found)
        self.squares.append(np.mean(squares, axis=0, dtype=np.float64))

    def _batch(self, queries: Replay, update: int, rng: np.random.Generator) -> Batch:
        """Queries that the replay holds at this update, and next actions of the uniform policy."""
        found = queries.some(rng.integers(min(LEARNING_STARTS + update, STEPS), size=BATCH))
        following = rng.integers(queries.actions, size=(BATCH, 2))
        reward = ((1 - DISCOUNT) * found.reward).astype(np.float32)
        return Batch(found.frame, found.action, reward, found.after.swapaxes(0, 1), following, found.ended)


class Replay:
    """The walk as far as it was needed so far."""

    def __init__(self, walk: Walk, folder: Path) -> None:
        self._walk, self._folder, self._segments = walk, folder, [walk.collected(0, folder)]

    @property
    def actions(self) -> int:
        """Number of actions of the game."""
        return 1 + int(self._segments[0].action.max())

    def some(self, rows: np.ndarray) -> Queries:
        """Queries with these numbers."""
        while rows.max() >= self._walk.segment * len(self._segments):
            self._segments.append(self._walk.collected(len(self._segments), self._folder))
        parts = [self._segments[i] for i in (rows // self._walk.segment).tolist()]
        rows = rows % self._walk.segment
        return Queries(*(
            np.stack([getattr(part, name)[row] for part, row in zip(parts, rows, strict=True)])
            for name in Queries._fields
        ))  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """One network of one game. Networks of all seeds share the walk."""

    game: str
    seed: int
    walk: Walk

    def trained(
        self, folder: Path, frames: Frames, pairs: Any, updates: int, seconds: float, tell: Callable[[str], None]
    ) -> Training:
        """Train up to so many updates or so many seconds of processor time in all, and return what was reached.

        `frames` and `pairs` are the judged states. An interrupted training continues from its last checkpoint.
        """
        settings = LEARNING_STARTS, COPIED_EVERY, BATCH, RANK, UNITS, LEARNING_RATE, SMALL, WINDOW, LOOK, WEIGHTS
        name = identity(self, frames, pairs, settings, version("jax")).hex()[:8]
        path = folder / "readings" / f"{self.game}-{self.seed}-{name}.npz"
        queries = Replay(self.walk, folder)
        run = Training.begun(queries.actions, self.seed)
        if path.exists():
            run.load(path)
        before = run.updates
        if not run.squares:
            run.begin(queries, self.seed)
            run.look(frames, pairs)
            run.save(path)
        while run.updates < updates and run.seconds < seconds:
            since = time.process_time()
            run.window(queries, self.seed)
            if run.updates % LOOK == 0:
                run.look(frames, pairs)
            run.seconds += time.process_time() - since
            if run.updates % LOOK == 0:
                run.save(path)
            tell(f"{self.game}, network of seed {self.seed}: {run.updates:,} of {updates:,} updates")
        if run.updates > before:
            if run.updates % LOOK:
                run.look(frames, pairs)
            run.save(path)
        return run
