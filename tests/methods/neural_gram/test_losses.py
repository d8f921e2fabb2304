"""TD targets against a plain twin; P18: gradients are right, and none flows through a target."""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax
import numpy as np
import pytest

from jmdp.methods.neural_gram.losses import NAMES, Targets, averaged, losses, means_of, targets
from jmdp.methods.neural_gram.network import Blocks, Dropout
from methods.neural_gram.gram_cases import SCALES, batch, network
from reference import gram

compiled_targets, compiled_losses = eqx.filter_jit(targets), eqx.filter_jit(losses)


def in_double(tree):
    """The same numbers as float64; asks for ``enable_x64``."""
    return jax.tree.map(
        lambda x: jax.numpy.asarray(x, np.float64) if getattr(x, "dtype", None) in (np.float32, np.float64) else x, tree
    )


@pytest.mark.parametrize("kernel", ["sum", "gram"])
def test_targets_equal_the_slow_twin(kernel):
    """Ended branches, one state, one coordinate and doubled rows are in every batch."""
    for seed in range(20):
        net, rows = network(seed, kernel), batch(seed)
        found = compiled_targets(net, rows)
        mean, moments = gram.targets(net, rows)
        assert np.allclose(found.mean, mean, rtol=1e-5, atol=1e-5)
        assert np.allclose(np.stack(found.moments, axis=1), moments, rtol=2e-5, atol=1e-4)


def test_batches_have_rows_of_every_kind():
    """So that the test above is not empty."""
    rows = [batch(seed) for seed in range(20)]
    kinds = [
        (r.end_same & (r.end_action[:, 0] == r.end_action[:, 1]) & ~r.ended.any(axis=1) & ~r.doubled).sum()
        + 1000 * (r.end_same & (r.end_action[:, 0] != r.end_action[:, 1]) & ~r.ended.any(axis=1)).sum()
        for r in rows
    ]
    assert sum(kinds) % 1000 > 5
    assert sum(kinds) > 5_000
    for one, other in ((True, True), (True, False), (False, True), (False, False)):
        assert sum(((r.ended == [one, other]).all(axis=1) & r.doubled).sum() for r in rows) > 5


def test_a_hand_computed_target():
    """Two walks of a visit earn (3, 1) and (1, 1) and end: ½(2)² of variance for the first, none for the second."""
    rows = jax.tree.map(lambda x: np.array(x[:2]), batch(0))
    rows = rows._replace(
        reward=np.array([[3.0, 1.0], [1.0, 1.0]], np.float32), ended=np.ones((2, 2), bool), doubled=np.ones(2, bool)
    )
    found = compiled_targets(network(0), rows)
    assert np.allclose(found.mean, [[3, 1], [1, 1]])
    assert np.allclose(np.stack(found.moments, axis=1), [[2, 0, 0, 2]] * 2, atol=1e-6)


@pytest.mark.parametrize("kernel", ["sum", "gram"])
def test_losses_equal_the_slow_twin(kernel):
    for seed in range(10):
        net, rows = network(seed, kernel), batch(seed)
        mean, moments = gram.targets(network(seed + 100, kernel), rows)
        found, errors = compiled_losses(net, rows, Targets(mean, Blocks(*moments.T)), SCALES, None)
        assert float(found) == pytest.approx(gram.loss(net, rows, mean, moments, SCALES), rel=1e-4)
        assert errors.shape == (2, len(NAMES))


@cache
def compiled_gradient(function):
    """One for all seeds."""

    def loss(params, rest, rows, aim):
        return function(eqx.combine(params, rest), rows, aim, SCALES, None)[0]

    return eqx.filter_jit(eqx.filter_value_and_grad(loss))


def checked_gradient(kernel, seed, function=losses):
    """The gradient along random directions, and central differences of the loss along them; in float64."""
    with jax.enable_x64(True):
        net, rows = in_double((network(seed, kernel), batch(seed)))
        aim = compiled_targets(in_double(network(seed + 100, kernel)), rows)
        params, rest = eqx.partition(net, eqx.is_inexact_array)

        def value_and_slope(p):
            return compiled_gradient(function)(p, rest, rows, aim)

        _, slope = value_and_slope(params)
        rng, pairs, h = np.random.default_rng(seed), [], 1e-5
        for _ in range(8):
            along = jax.tree.map(lambda x: jax.numpy.asarray(rng.normal(size=x.shape)), params)
            moved = (jax.tree.map(lambda x, d, s=s: x + s * h * d, params, along) for s in (1, -1))
            up, down = (float(value_and_slope(p)[0]) for p in moved)
            inner = sum(jax.tree.leaves(jax.tree.map(lambda x, y: float((x * y).sum()), slope, along)))
            pairs.append((inner, (up - down) / (2 * h)))
        assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(slope))
    return np.array(pairs)


@pytest.mark.parametrize("kernel", ["sum", "gram"])
def test_p18_gradients_equal_central_differences(kernel):
    """In float64 along 8 random directions each, which every parameter takes part in."""
    for seed in range(2):
        found, expected = checked_gradient(kernel, seed).T
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_p18_a_gradient_that_is_cut_would_be_seen():
    """Negative control: without the part that goes through covariances."""

    def cut(net, *others):
        return losses(eqx.tree_at(lambda z: z.common, net, jax.lax.stop_gradient(net.common)), *others)

    found, expected = checked_gradient("sum", 0, cut).T
    assert not np.allclose(found, expected, rtol=1e-2, atol=1e-2)


def slope_of(net, target, rows, made=targets):
    """Gradients by the network and by the one that targets are made with."""

    def loss(both):
        return losses(both[0], rows, made(both[1], rows), SCALES, None)[0]

    return eqx.filter_jit(eqx.filter_grad(loss))((net, target))


def test_p18_targets_carry_no_gradient():
    """None by the network of targets; and, where both are one, the very gradient of targets that are given numbers."""
    rows, net = batch(1), network(1)
    _, through = slope_of(net, network(2), rows)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(through))

    def loss(one):
        return losses(one, rows, targets(one, rows), SCALES, None)[0]

    given = jax.tree.map(np.asarray, compiled_targets(net, rows))
    alone = eqx.filter_jit(eqx.filter_grad(lambda one: losses(one, rows, given, SCALES, None)[0]))(net)
    whole = eqx.filter_jit(eqx.filter_grad(loss))(net)
    for x, y in zip(jax.tree.leaves(alone), jax.tree.leaves(whole), strict=True):
        assert np.allclose(x, y, rtol=1e-5, atol=1e-6)


def test_p18_a_path_through_targets_would_be_seen(monkeypatch):
    """Negative control: the same without stop_gradient."""
    monkeypatch.setattr(jax.lax, "stop_gradient", lambda x: x)
    _, through = slope_of(network(1), network(2), batch(1))
    leaves = [np.abs(leaf).max() for leaf in jax.tree.leaves(through)]
    assert min(leaves) > 1e-6


def test_td_errors_are_those_of_their_blocks():
    net, rows = network(3), batch(3)
    mean, moments = gram.targets(net, rows)
    _, errors = compiled_losses(net, rows, Targets(mean, Blocks(*moments.T)), SCALES, None)
    off = mean - np.asarray(means_of(net, rows.observation, rows.action))
    assert float(errors[0, 0]) == pytest.approx((off[rows.live] ** 2).mean(), rel=1e-4)
    assert float(errors[1, 0]) == pytest.approx(off[rows.live].mean(), rel=1e-3, abs=1e-4)
    one = rows.same & (rows.action[:, 0] == rows.action[:, 1])
    cross = rows.live.all(axis=1) & ~rows.same
    every = [
        [gram.Coordinate(net, o[b], a[b]) for b in (0, 1)] for o, a in zip(rows.observation, rows.action, strict=True)
    ]
    found = np.array([gram.block(*pair, *how) for pair, *how in zip(every, rows.same, one, strict=True)])
    assert float(errors[0, 3]) == pytest.approx(((moments - found)[cross, 2] ** 2).mean(), rel=1e-3)
    unmet = rows._replace(same=np.ones_like(rows.same))
    assert np.isnan(compiled_losses(net, unmet, Targets(mean, Blocks(*moments.T)), SCALES, None)[1][:, 3]).all()


def test_dropout_keeps_the_mean_and_touches_no_covariance():
    """12,000 draws of a mean within 5 standard errors of it: a false alarm in 10⁶ for each of 6 numbers."""
    net, keys = network(1), jax.random.split(jax.random.key(0), 12_000)
    drawn = jax.jit(jax.vmap(lambda key: net.means(2, Dropout(key, 0.7))))(keys)
    room = 5 * np.asarray(drawn).std(axis=0) / np.sqrt(len(keys))
    assert (np.abs(np.asarray(drawn).mean(axis=0) - np.asarray(net.means(2))) <= room).all()
    assert np.asarray(drawn).std(axis=0).min() > 0.01


def test_the_running_average_moves_by_its_share():
    target, net = network(1), network(2)
    moved = averaged(target, net, 0.9)
    assert np.allclose(moved.own.weight, 0.9 * target.own.weight + 0.1 * net.own.weight, atol=1e-6)
    assert moved.gap_scale == target.gap_scale
