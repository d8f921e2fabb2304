"""Compiled training updates of a network, on one device or several, and the state of a training run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jmdp.methods.neural_gram.losses import Batch, Scales, averaged, losses, targets
from jmdp.methods.neural_gram.network import Dropout, GramNetwork


@dataclass(frozen=True)
class TrainingPlan:
    """Settings of the optimiser and the losses."""

    updates: int
    learning_rate: float
    weight_decay: float
    dropout: float
    target_averaging: float
    mean_rate: float  # factor on the learning rate of the means' network
    scales: Scales

    def optimiser(self) -> optax.GradientTransformation:
        """Return AdamW with a learning rate that decays to 0 along a cosine."""
        schedule = optax.cosine_decay_schedule(self.learning_rate, self.updates)
        return optax.chain(optax.clip_by_global_norm(10.0), optax.adamw(schedule, weight_decay=self.weight_decay))


class TrainingState(NamedTuple):
    """State that changes in an update."""

    network: GramNetwork
    target: GramNetwork
    optimiser: Any


class TrainingProgress(NamedTuple):
    """Full state of a training run, from which it can be resumed exactly."""

    state: TrainingState
    best: GramNetwork
    best_score: Any
    scores: Any  # [evaluations]
    errors: Any  # [chunks, 2, blocks]
    chunk: Any


def initial_state(network: GramNetwork, plan: TrainingPlan) -> TrainingState:
    """Return the state before the first update."""
    return TrainingState(network, network, plan.optimiser().init(eqx.filter(network, eqx.is_inexact_array)))


class Trainer:
    """Compiled updates, many per call. Batches are split across all devices; parameters are replicated."""

    def __init__(self, plan: TrainingPlan, devices: list[jax.Device] | None = None) -> None:
        self._plan = plan
        mesh = Mesh(np.array(devices or jax.devices()), ("batch",))
        self._spread = NamedSharding(mesh, PartitionSpec(None, "batch"))  # type: ignore[no-untyped-call]
        self._everywhere = NamedSharding(mesh, PartitionSpec())  # type: ignore[no-untyped-call]

    def update(self, state: TrainingState, batches: Batch, key: jax.Array) -> tuple[TrainingState, jax.Array]:
        """Perform one update per batch; return the new state and the TD errors ``[updates, 2, blocks]``."""
        state, key = eqx.filter_shard((state, key), self._everywhere)
        return _updates(state, jax.device_put(batches, self._spread), key, self._plan)


@eqx.filter_jit
def _updates(
    state: TrainingState, batches: Batch, key: jax.Array, plan: TrainingPlan
) -> tuple[TrainingState, jax.Array]:
    optimiser = plan.optimiser()
    changing, fixed = eqx.partition(state, eqx.is_array)

    def update(changing: Any, of: tuple[Batch, jax.Array]) -> tuple[Any, jax.Array]:
        batch, key = of
        network, target, moments = eqx.combine(changing, fixed)
        aim = targets(target, batch)
        loss = partial(losses, batch=batch, aim=aim, scales=plan.scales, dropout=Dropout(key, 1 - plan.dropout))
        gradient, errors = eqx.filter_grad(loss, has_aux=True)(network)
        change, moments = optimiser.update(gradient, moments, eqx.filter(network, eqx.is_inexact_array))
        slower = eqx.tree_at(_mean_parts, change, jax.tree.map(lambda x: plan.mean_rate * x, _mean_parts(change)))
        network = eqx.apply_updates(network, slower)
        state = TrainingState(network, averaged(target, network, plan.target_averaging), moments)
        return eqx.partition(state, eqx.is_array)[0], errors

    changing, errors = jax.lax.scan(update, changing, (batches, jax.random.split(key, len(batches.doubled))))
    return eqx.combine(changing, fixed), errors


def _mean_parts(network: GramNetwork) -> Any:
    return network.mean_encoder, network.value, network.advantage
