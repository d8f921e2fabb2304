"""TD targets and losses of every block: means, variances, covariances within a state and between states, and the gap.

With Y = Σ_{k<n} γ^k R_k + γ^n q(x_n) and δ = Y − q(x), along a pair of branches under shared randomness,

    μ(x) ← Y(x),    Cov(x, y) ← δ(x) δ(y) + γ^{2n} Cov(x_n, y_n),    Var G ← (δ(x) − δ(y))² + γ^{2n} Var G_n

(for n = 1 the centred forms of Eq. (25), Eq. (27) and of the gap's Eq. (89)). For two independent rollouts with equal
starts, ½(Y − Ỹ)(Y′ − Ỹ′) replaces δδ′: it does not use the mean, so errors of the mean do not inflate the variance.
Targets carry no gradient.

Variances are fitted by the quasi-likelihood log k + target/k. Its minimum is the target's mean, and it gives every
state the same weight, however small its variance. Covariances can have any sign and use squared errors in units of the
scale.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from jmdp.methods.neural_gram.network import Blocks, Dropout, Features, GramNetwork, blocks

NAMES = ("mean", "diagonal", "same state", "cross", "gap mean", "gap")
"""Blocks with a separate TD error; the first four are the paper's."""


class Batch(NamedTuple):
    """Segments of paired rollouts. If `doubled`, rows 2i and 2i + 1 have the same start and independent randomness."""

    observation: Any  # [B, 2, ...], at the start of the segment
    action: Any  # [B, 2]
    same: Any  # [B], whether both branches are in the same state
    reward: Any  # [B, 2], discounted sum over n steps
    discount: Any  # [B], γ^n
    end_observation: Any  # [B, 2, ...]
    end_action: Any  # [B, 2]
    end_same: Any  # [B]
    ended: Any  # [B, 2], whether the episode is over at the end of the segment
    doubled: Any  # [B]
    live: Any  # [B, 2], whether the episode is still running at the start of the segment


class Targets(NamedTuple):
    """Regression targets of the network."""

    mean: jax.Array  # [B, 2]
    moments: Blocks  # [B]


def targets(network: GramNetwork, batch: Batch) -> Targets:
    """Return the targets of a batch, computed with the target network; no gradient flows through them."""
    end = means_of(network, batch.end_observation, batch.end_action)
    returns = batch.reward + batch.discount[:, None] * jnp.where(batch.ended, 0.0, end)
    delta = returns - means_of(network, batch.observation, batch.action)
    swapped = returns.reshape(-1, 2, 2)[:, ::-1].reshape(returns.shape)  # returns of the other rollout of two
    delta = jnp.where(batch.doubled[:, None], (returns - swapped) / jnp.sqrt(2.0), delta)
    later = moments_of(network, batch.end_observation, batch.end_action, batch.end_same)
    left = still_to_come(later, batch.ended)
    a, b = delta[:, 0], delta[:, 1]
    now = Blocks(a * a, b * b, a * b, (a - b) ** 2)
    moments = Blocks(*(x + batch.discount**2 * y for x, y in zip(now, left, strict=True)))
    return jax.lax.stop_gradient(Targets(returns, moments))


def means_of(network: GramNetwork, observation: Any, action: Any, dropout: Dropout | None = None) -> jax.Array:
    """Means E[Z] of both coordinates of each pair, [B, 2]."""
    if dropout is None:
        q = jax.vmap(jax.vmap(network.means))(observation)
    else:
        keys = jax.random.split(dropout.key, observation.shape[:2])
        q = jax.vmap(jax.vmap(lambda o, key: network.means(o, Dropout(key, dropout.remaining))))(observation, keys)
    return jnp.take_along_axis(q, action[..., None], axis=-1)[..., 0]


def moments_of(network: GramNetwork, observation: Any, action: Any, same: Any) -> Blocks:
    """Second moments of each pair, [B]."""
    found = jax.vmap(jax.vmap(network.features))(observation)
    x, y = (Features(*(jax.vmap(lambda z, a: z[a])(part[:, b], action[:, b]) for part in found)) for b in (0, 1))
    return blocks(x, y, same, same & (action[:, 0] == action[:, 1]))


def still_to_come(later: Blocks, ended: Any) -> Blocks:
    """Second moments at the end of the segments; 0 for branches whose episode is over."""
    first, second = ~ended[:, 0], ~ended[:, 1]
    return Blocks(
        first * later.first,
        second * later.second,
        (first & second) * later.covariance,
        jnp.where(first & second, later.gap, first * later.first + second * later.second),
    )


class Scales(NamedTuple):
    """Units of the losses, estimated from the data."""

    variance: float  # of a return
    gap_variance: float
    mean_gap: float  # variance of a sampled gap around 0


def losses(
    network: GramNetwork, batch: Batch, aim: Targets, scales: Scales, dropout: Dropout | None
) -> tuple[jax.Array, jax.Array]:
    """Return the total loss and the TD errors of every block in `NAMES`; nan for a block that the batch lacks.

    The errors are ``[2, blocks]``: the mean square, and the mean.
    """
    q = means_of(network, batch.observation, batch.action, dropout)
    k = moments_of(network, batch.observation, batch.action, batch.same)
    one = batch.same & (batch.action[:, 0] == batch.action[:, 1])
    both = batch.live.all(axis=1)
    distinct = both & ~one
    error = q - aim.mean
    gap_error = error[:, 0] - error[:, 1]
    middle = error.mean(axis=1)
    total = (
        _over(both, middle**2) / scales.variance
        + _over(distinct, gap_error**2) / scales.mean_gap
        + _over(distinct, _quasi(k.gap, aim.moments.gap, scales.gap_variance))
        + 0.5 * _over(batch.live[:, 0], _quasi(k.first, aim.moments.first, scales.variance))
        + 0.5 * _over(batch.live[:, 1], _quasi(k.second, aim.moments.second, scales.variance))
        + 0.5 * _over(distinct, (k.covariance - aim.moments.covariance) ** 2) / scales.variance**2
    )
    delta = [wanted - found for found, wanted in zip(k, aim.moments, strict=True)]
    blocks_seen = [
        (batch.live, -error),
        (batch.live, jnp.stack(delta[:2], axis=1)),
        (distinct & batch.same, delta[2]),
        (distinct & ~batch.same, delta[2]),
        (distinct, -gap_error),
        (distinct, delta[3]),
    ]
    errors = [[_mean_where(mask, value) for mask, value in ((m, d**2), (m, d))] for m, d in blocks_seen]
    return total, jnp.array(errors).T


def _quasi(found: jax.Array, aim: jax.Array, scale: float) -> jax.Array:
    """Quasi-likelihood log k + target/k, both in units of the scale and shifted away from 0 by 0.001."""
    k, target = found / scale + 1e-3, aim / scale + 1e-3
    return jnp.log(k) + target / k


def _over(mask: jax.Array, values: jax.Array) -> jax.Array:
    return jnp.where(mask, values, 0.0).sum() / jnp.maximum(mask.sum(), 1)


def _mean_where(mask: jax.Array, values: jax.Array) -> jax.Array:
    return jnp.where(mask.any(), _over(mask, values), jnp.nan)


def averaged(target: GramNetwork, network: GramNetwork, share: float) -> GramNetwork:
    """Return the updated target network: an exponential moving average with decay `share`."""
    moved: GramNetwork = jax.tree.map(
        lambda x, y: share * x + (1 - share) * y if eqx.is_inexact_array(x) else x, target, network
    )
    return moved


# Used outside the training step, where they are not part of a compiled function.
compiled_targets = eqx.filter_jit(targets)
compiled_moments = eqx.filter_jit(moments_of)
