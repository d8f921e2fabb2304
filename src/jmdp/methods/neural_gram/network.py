"""Networks for means and covariances. Any parameters give a valid covariance (a positive semidefinite kernel).

For coordinates x = (s, a), y = (t, b)

    k(x, y) = ⟨v(x), v(y)⟩ + 1{s = t} ⟨w(x), w(y)⟩ + 1{x = y} n(x),   n ≥ 0,

a sum of three kernels. The paper (Eq. (88)) uses only the first. A smooth v cannot give two similar states high
variances and no covariance; the other two terms can. The variance of a gap is a squared distance in the same
features, so training involves no subtraction: Var(Z(x) − Z(y)) = ‖v(x) − v(y)‖² + … (Eq. (89),
centred).
"""

from __future__ import annotations

import copy
import math
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats
from jmdp.methods.neural_gram.encoders import built

Kernel = Literal["sum", "gram"]


class Features(NamedTuple):
    """Features that define covariances, of one coordinate, or of all actions of a state (one more leading axis)."""

    v: Any  # [D], shared by all states
    w: Any  # [E], shared by the actions of a state
    n: Any  # [], specific to this coordinate


class Blocks(NamedTuple):
    """Second moments of one pair of coordinates."""

    first: jax.Array  # Var Z(x)
    second: jax.Array  # Var Z(y)
    covariance: jax.Array  # Cov(Z(x), Z(y))
    gap: jax.Array  # Var(Z(x) − Z(y))


class GramNetwork(eqx.Module):
    """Two networks: means q(s, a) = value(s) + advantage(s, a), and the features of covariances."""

    mean_encoder: Any
    value: eqx.nn.Linear
    advantage: eqx.nn.Linear
    encoder: Any
    common: eqx.nn.Linear  # the part of v that all actions share
    own: eqx.nn.Linear  # the part of v that is specific to each action
    same_state: eqx.nn.Linear
    alone: eqx.nn.Linear
    mean: float = eqx.field(static=True)  # of returns
    std: float = eqx.field(static=True)
    gap_std: float = eqx.field(static=True)
    gap_scale: float = eqx.field(static=True)  # factor on the standard deviations of all gaps
    actions: int = eqx.field(static=True)
    kernel: Kernel = eqx.field(static=True)

    def __init__(
        self,
        encoder: Any,
        observations: npt.NDArray[Any],
        actions: int,
        kernel: Kernel,
        rank: int,
        scales: tuple[float, float, float],
        key: jax.Array,
    ) -> None:
        keys = jax.random.split(key, 8)
        self.mean_encoder = built(encoder, observations, keys[0])
        self.encoder = built(encoder, observations, keys[1])
        width = jax.eval_shape(self.encoder, jnp.asarray(observations[0])).size
        self.value, self.advantage = _small(width, 1, keys[2]), _small(width, actions, keys[3])
        self.common = eqx.nn.Linear(width, rank, key=keys[4])
        self.own = eqx.nn.Linear(width, actions * rank, key=keys[5])
        self.same_state = eqx.nn.Linear(width, actions * rank, key=keys[6])
        self.alone = eqx.nn.Linear(width, actions, key=keys[7])
        self.mean, self.std, self.gap_std = scales
        self.gap_scale = 1.0
        self.actions, self.kernel = actions, kernel

    def means(self, observation: jax.Array, dropout: Dropout | None = None) -> jax.Array:
        """Means E[Z(s, ·)] of all actions, [A]."""
        h = dropped(self.mean_encoder(observation), dropout)
        advantage = self.advantage(h)
        return self.mean + self.std * self.value(h)[0] + self.gap_std * (advantage - advantage.mean())

    def features(self, observation: jax.Array) -> Features:
        """Features of all actions, [A, ...]. There is no dropout: squaring would turn its noise into variance."""
        h = self.encoder(observation)
        common, own = self.common(h), self.own(h).reshape(self.actions, -1)
        unit, gap_std = 1 / math.sqrt(common.size), self.gap_scale * self.gap_std
        v = unit * (self.std * common + gap_std * own)
        if self.kernel == "gram":
            return Features(v, jnp.zeros((self.actions, 0)), jnp.zeros(self.actions))
        w = unit * gap_std * self.same_state(h).reshape(self.actions, -1)
        return Features(v, w, gap_std**2 * jax.nn.softplus(self.alone(h) - 2))

    def with_gap_variances_scaled(self, factor: float) -> GramNetwork:
        """Return a copy whose gap variances are multiplied by this factor."""
        changed = copy.copy(self)
        object.__setattr__(changed, "gap_scale", self.gap_scale * math.sqrt(factor))
        return changed


class Dropout(NamedTuple):
    """Random key and keep probability of dropout."""

    key: jax.Array
    remaining: float  # fraction of features that are not set to 0


def dropped(features: jax.Array, dropout: Dropout | None) -> jax.Array:
    """Apply dropout: set some features to 0 and scale up the others."""
    if dropout is None or dropout.remaining == 1:
        return features
    return features * jax.random.bernoulli(dropout.key, dropout.remaining, features.shape) / dropout.remaining


def blocks(x: Features, y: Features, same_state: Any, same_coordinate: Any) -> Blocks:
    """Second moments of two coordinates. Equal coordinates have the same return, so their gap is 0."""
    first = (x.v**2).sum(-1) + (x.w**2).sum(-1) + x.n
    second = (y.v**2).sum(-1) + (y.w**2).sum(-1) + y.n
    covariance = (x.v * y.v).sum(-1) + jnp.where(same_state, (x.w * y.w).sum(-1), 0.0)
    not_shared = jnp.where(same_state, ((x.w - y.w) ** 2).sum(-1), (x.w**2).sum(-1) + (y.w**2).sum(-1)) + x.n + y.n
    gap = ((x.v - y.v) ** 2).sum(-1) + not_shared
    return Blocks(
        first, second, covariance + jnp.where(same_coordinate, x.n, 0.0), jnp.where(same_coordinate, 0.0, gap)
    )


def covariances(x: Features, same_state: Any, same_coordinate: Any) -> Any:
    """Covariances […, B, B] of coordinates […, B]; the flags mark pairs with equal states or equal coordinates."""
    v, w = (part @ part.swapaxes(-1, -2) for part in (x.v, x.w))
    return v + same_state * w + same_coordinate * x.n[..., None]


def outputs(network: GramNetwork, observations: npt.NDArray[Any]) -> tuple[Floats, Features]:
    """Means ``[n, A]`` and features of all actions for observations ``[n, ...]``, in double precision.

    Double precision keeps a gap variance accurate when large covariances are subtracted.
    """
    mean, features = _outputs(network, observations)
    return np.asarray(mean, np.float64), Features(*(np.asarray(part, np.float64) for part in features))


@eqx.filter_jit
def _outputs(network: GramNetwork, observations: Any) -> Any:
    return jax.vmap(network.means)(observations), jax.vmap(network.features)(observations)


def _small(width: int, out: int, key: jax.Array) -> eqx.nn.Linear:
    """Linear layer with small initial weights, so that initial outputs are near 0."""
    layer = eqx.nn.Linear(width, out, key=key)
    small: eqx.nn.Linear = eqx.tree_at(lambda z: (z.weight, z.bias), layer, (0.1 * layer.weight, jnp.zeros(out)))
    return small
