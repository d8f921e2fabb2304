"""The compiled pair product against dense NumPy, bit for bit the same for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import random_array

import jmdp
from jmdp.kernels.pair_product import pair_product
from jmdp.methods import pair_operator


def product(Q, H, calls):
    out = np.full_like(H, np.nan)
    for first in range(calls):
        pair_product(Q.indptr.astype(np.int64), Q.indices.astype(np.int64), Q.data, H, 0.9, first, calls, out)
    return out


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 17, 61])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.6])
def test_equal_to_the_dense_product(size, density):
    rng = np.random.default_rng(size)
    Q = random_array((size, size), density=density, format="csr", rng=rng)
    H = rng.normal(size=(size, size))
    H = H + H.T
    result = product(Q, H, 1)
    dense = Q.toarray()
    np.testing.assert_allclose(result, 0.9 * dense @ H @ dense.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(result, result.T)
    for calls in (2, 3, 5):
        np.testing.assert_array_equal(product(Q, H, calls), result)


@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Synchronous(), jmdp.Local("shared")], ids=repr)
def test_evaluations_agree_with_those_of_the_sparse_product(coupling, monkeypatch):
    world = jmdp.worlds.windy_gridworld(18, 18)
    assert world.model.shape[0] >= pair_operator._COMPILED_FROM
    policy = world.policies["careless"]
    compiled = jmdp.evaluate(world.model, policy, coupling)
    monkeypatch.setattr(pair_operator, "_COMPILED_FROM", 10**9)
    sparse = jmdp.evaluate(world.model, policy, coupling)
    a, b = compiled.certificate, sparse.certificate
    assert np.abs(compiled.covariance - sparse.covariance).max() <= a.covariance_error + b.covariance_error


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_cores_does_not_change_a_bit(threads, monkeypatch):
    world = jmdp.worlds.windy_gridworld(18, 18)
    here = jmdp.evaluate(world.model, world.policies["goal_directed"])
    monkeypatch.setattr(pair_operator.os, "cpu_count", lambda: threads)
    there = jmdp.evaluate(world.model, world.policies["goal_directed"])
    np.testing.assert_array_equal(here.covariance, there.covariance)
