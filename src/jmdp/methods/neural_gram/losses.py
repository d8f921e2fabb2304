"""TD targets and losses of every block: means, variances, covariances within a state and between states, and the gap.

With Y = Σ_{k<n} γ^k R_k + γ^n q(x_n) and δ = Y − q(x), along a pair of branches under shared luck,

    μ(x) ← Y(x),    Cov(x, y) ← δ(x) δ(y) + γ^{2n} Cov(x_n, y_n),    Var G ← (δ(x) − δ(y))² + γ^{2n} Var G_n

(paper, section 6 and appendix on ALE, for n = 1). Where two walks begin alike and share no luck, ½(Y − Ỹ)(Y′ − Ỹ′)
stands for δδ′: it needs no mean, so an error of the mean is not taken for variance. Targets carry no gradient.

Variances are fitted by their quasi-likelihood log k + target/k, which is least where k is the target's mean, and gives
every state the same say, however small its variance. Covariances can have any sign: squares, in units of the scale.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from jmdp.methods.neural_gram.network import Blocks, Dropout, Features, GramNetwork, blocks

NAMES = ("mean", "diagonal", "same state", "cross", "gap mean", "gap")
"""What has a TD error of its own; the first four are the paper's blocks."""


class Batch(NamedTuple):
    """Parts of walks. Where `doubled`, rows 2i and 2i + 1 begin alike and share no luck."""

    observation: Any  # [B, 2, ...], where the part begins
    action: Any  # [B, 2]
    same: Any  # [B], both branches stand in one state
    reward: Any  # [B, 2], discounted sum over n steps
    discount: Any  # [B], γ^n
    end_observation: Any  # [B, 2, ...]
    end_action: Any  # [B, 2]
    end_same: Any  # [B]
    ended: Any  # [B, 2], nothing is earned after the part
    doubled: Any  # [B]
    live: Any  # [B, 2], the part begins before its branch has ended


class Targets(NamedTuple):
    """What the network should have said."""

    mean: jax.Array  # [B, 2]
    moments: Blocks  # [B]


def targets(network: GramNetwork, batch: Batch) -> Targets:
    """Of a batch, by a network that is not trained; no gradient flows through them."""
    end = means_of(network, batch.end_observation, batch.end_action)
    returns = batch.reward + batch.discount[:, None] * jnp.where(batch.ended, 0.0, end)
    delta = returns - means_of(network, batch.observation, batch.action)
    swapped = returns.reshape(-1, 2, 2)[:, ::-1].reshape(returns.shape)  # of the other walk of two
    delta = jnp.where(batch.doubled[:, None], (returns - swapped) / jnp.sqrt(2.0), delta)
    later = moments_of(network, batch.end_observation, batch.end_action, batch.end_same)
    left = still_to_come(later, batch.ended)
    a, b = delta[:, 0], delta[:, 1]
    now = Blocks(a * a, b * b, a * b, (a - b) ** 2)
    moments = Blocks(*(x + batch.discount**2 * y for x, y in zip(now, left, strict=True)))
    return jax.lax.stop_gradient(Targets(returns, moments))


def means_of(network: GramNetwork, observation: Any, action: Any, dropout: Dropout | None = None) -> jax.Array:
    """[B, 2], E[Z] of both coordinates of each pair."""
    if dropout is None:
        q = jax.vmap(jax.vmap(network.means))(observation)
    else:
        keys = jax.random.split(dropout.key, observation.shape[:2])
        q = jax.vmap(jax.vmap(lambda o, key: network.means(o, Dropout(key, dropout.remaining))))(observation, keys)
    return jnp.take_along_axis(q, action[..., None], axis=-1)[..., 0]


def moments_of(network: GramNetwork, observation: Any, action: Any, same: Any) -> Blocks:
    """[B], second moments of each pair."""
    found = jax.vmap(jax.vmap(network.features))(observation)
    x, y = (Features(*(jax.vmap(lambda z, a: z[a])(part[:, b], action[:, b]) for part in found)) for b in (0, 1))
    return blocks(x, y, same, same & (action[:, 0] == action[:, 1]))


def still_to_come(later: Blocks, ended: Any) -> Blocks:
    """Second moments where walks end, of branches that go on: one that has ended earns nothing more."""
    first, second = ~ended[:, 0], ~ended[:, 1]
    return Blocks(
        first * later.first,
        second * later.second,
        (first & second) * later.covariance,
        jnp.where(first & second, later.gap, first * later.first + second * later.second),
    )


class Scales(NamedTuple):
    """Units of the losses, from the first look at the data."""

    variance: float  # of a return
    gap_variance: float
    mean_gap: float  # variance of a sampled gap around 0


def losses(
    network: GramNetwork, batch: Batch, aim: Targets, scales: Scales, dropout: Dropout | None
) -> tuple[jax.Array, jax.Array]:
    """The sum that is minimised, and TD errors of every block in `NAMES`, nan for one not met.

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
    """log k + target/k, both in units of the scale and a thousandth of it away from 0."""
    k, target = found / scale + 1e-3, aim / scale + 1e-3
    return jnp.log(k) + target / k


def _over(mask: jax.Array, values: jax.Array) -> jax.Array:
    return jnp.where(mask, values, 0.0).sum() / jnp.maximum(mask.sum(), 1)


def _mean_where(mask: jax.Array, values: jax.Array) -> jax.Array:
    return jnp.where(mask.any(), _over(mask, values), jnp.nan)


def averaged(target: GramNetwork, network: GramNetwork, share: float) -> GramNetwork:
    """The network that targets are made with: a running average, which moves by 1 − share."""
    moved: GramNetwork = jax.tree.map(
        lambda x, y: share * x + (1 - share) * y if eqx.is_inexact_array(x) else x, target, network
    )
    return moved


# For those outside of training: compiled once for all of them.
compiled_targets = eqx.filter_jit(targets)
compiled_moments = eqx.filter_jit(moments_of)
