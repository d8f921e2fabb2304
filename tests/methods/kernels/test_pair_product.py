"""The compiled sweep and its changes against dense NumPy, bit for bit the same for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import jmdp
from jmdp.base import machine as threads_room
from jmdp.methods.exact_pairs import pair_sweep
from jmdp.methods.kernels.changes import add_combination, inner_products, largest_combination
from jmdp.methods.kernels.pair_product import pair_product
from jmdp.methods.kernels.tables import PairLayout, PairOutput, PairStep
from reference.tables import full_table, lower_triangle

SIZES = [1, 2, 7, 8, 9, 16, 17, 61, 530]
NOTHING, NO_CHANGE = np.zeros(0), np.zeros(0, np.float32)


def random_table(rng, size, kind="float64"):
    H = rng.normal(size=(size, size))
    return (H + H.T).astype(kind)


def pair_step(Q, td, mirror):
    return PairStep(Q.indptr.astype(np.uint64), Q.indices.astype(np.uint64), Q.data, td, 0.5, 0.8, mirror)


def product(Q, H, calls, td=None, diagonal=NOTHING, out=None, change=NO_CHANGE, layout=None):
    """Several calls make one product; `out` is what to add to."""
    layout = PairLayout.lower_triangle(len(H), len(H)) if layout is None else layout
    new = np.full_like(H, np.nan) if out is None else out.copy()
    step = pair_step(Q, np.zeros(len(H)) if td is None else td, 1.0)
    output = PairOutput(new, change, add=out is not None, measure=True)
    parts = [pair_product(step, H, diagonal, layout, first, calls, output) for first in range(calls)]
    assert max(entry for _, entry in parts) == np.abs(np.tril(H)).max()
    return new, max(most for most, _ in parts)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("density", [0.0, 0.1, 0.6])
def test_equal_to_the_dense_product(size, density):
    rng = np.random.default_rng(size)
    Q = random_array((size, size), density=density, format="csr", rng=rng)
    H, td = random_table(rng, size), rng.normal(size=size)
    dense = Q.toarray()
    expected = 0.5 * (np.multiply.outer(td, td) + 0.8 * dense @ H @ dense.T)
    result, most = product(Q, H, 1, td)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-10)
    np.testing.assert_array_equal(result, result.T)
    assert most == np.abs(result - H).max()
    for calls in (2, 3, 5):
        np.testing.assert_array_equal(product(Q, H, calls, td)[0], result)
    before, diagonal = random_table(rng, size), rng.normal(size=size)
    added, most = product(Q, H, 2, td, diagonal, before)
    np.fill_diagonal(expected, diagonal)
    np.fill_diagonal(before, 0.0)
    np.testing.assert_allclose(added, expected + before, rtol=1e-12, atol=1e-10)
    assert most == np.abs(added - H).max()


@pytest.mark.parametrize("size", SIZES)
def test_single_precision_rounds_only_what_it_stores(size):
    rng = np.random.default_rng(size)
    Q = random_array((size, size), density=0.3, format="csr", rng=rng)
    H = random_table(rng, size, "float32")
    exact = 0.4 * Q.toarray() @ H.astype(float) @ Q.toarray().T
    result, _ = product(Q, H, 2)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact, rtol=2**-24 * 1.001, atol=1e-13)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_changes_are_those_of_the_lower_triangle(size, kind):
    """Recorded, multiplied and added as the full tables would be; entries of a group's own corner count twice."""
    rng = np.random.default_rng(size)
    groups = -(-size // 8)
    changes = np.zeros((3, 32 * groups * (groups + 1)), np.float32)
    tables = []
    for change in changes:
        Q = random_array((size, size), density=0.3, format="csr", rng=rng)
        H = random_table(rng, size, kind)
        new, _ = product(Q, H, 2, change=change)
        tables.append((new - H).astype(np.float32))
        np.testing.assert_array_equal(full_table(change, size), tables[-1])
        np.testing.assert_array_equal(change, lower_triangle(tables[-1]))
    chunk = 1000
    parts = np.zeros((-(-changes.shape[1] // chunk), 3, 3))
    for first in range(2):
        inner_products(changes, chunk, first, 2, parts)
    doubles = changes.astype(float)
    differ = np.concatenate([np.diff(doubles, axis=0), doubles[-1:]])
    np.testing.assert_allclose(parts.sum(axis=0), differ @ differ.T, rtol=1e-12, atol=1e-9)
    weights = rng.normal(size=3)
    most = max(largest_combination(weights, changes, first, 2) for first in range(2))
    assert most == pytest.approx(np.abs(weights @ doubles).max(), rel=1e-12)
    H = random_table(rng, size, kind)
    expected = H + sum(w * table.astype(float) for w, table in zip(weights, tables, strict=True))
    for first in range(3):
        add_combination(weights, changes, PairLayout.lower_triangle(size, size), first, 3, H, 1.0)
    np.testing.assert_array_equal(H, H.T)
    np.testing.assert_allclose(H, expected, rtol=1e-6 if kind == "float32" else 1e-12, atol=1e-6)


@pytest.mark.parametrize("calls", [1, 3])
@pytest.mark.parametrize("size", [9, 61, 530])
def test_only_entries_that_are_read_are_stored_above_the_diagonal(size, calls):
    """With steps of at most three down and one up: those within 3 + 1 + 7 of the diagonal. Others are no numbers."""
    rng = np.random.default_rng(size)
    dense = rng.random((size, size)) * np.tri(size, k=1) * (1 - np.tri(size, k=-4))
    Q, H = csr_array(dense), random_table(rng, size)
    layout = pair_sweep.layout_of(size, [Q])
    distance = np.arange(size) - np.arange(size)[:, None]
    above = distance > 3 + 1 + 7
    new, _ = product(Q, np.where(above, np.nan, H), calls, layout=layout)
    np.testing.assert_allclose(np.where(above, 0, new), np.where(above, 0, 0.4 * dense @ H @ dense.T), atol=1e-12)
    moved, change = np.where(above, np.nan, H), lower_triangle((new - H).astype(np.float32))
    for first in range(calls):
        add_combination(np.ones(1), change[None, :], layout, first, calls, moved, 1.0)
    np.testing.assert_allclose(np.where(above, 0, moved), np.where(above, 0, new), atol=1e-5)
    distance[:, size // 8 * 8 :] = 0  # a last group of fewer rows is stored whole
    assert np.isnan(new[distance >= 3 + 1 + 7 + 8]).all()


@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Synchronous(), jmdp.Local("shared")], ids=repr)
def test_evaluations_agree_with_those_of_the_sparse_product(coupling, monkeypatch):
    monkeypatch.setattr(pair_sweep, "_COMPILED_FROM", 300)
    world = jmdp.worlds.windy_gridworld(18, 18)
    policy = world.policies["careless"]
    compiled = jmdp.evaluate(world.model, policy, coupling)
    monkeypatch.setattr(pair_sweep, "_COMPILED_FROM", 10**9)
    monkeypatch.setattr(pair_sweep, "_COMPILED_FROM_TERMS", 10**12)
    sparse = jmdp.evaluate(world.model, policy, coupling)
    a, b = compiled.certificate, sparse.certificate
    assert (np.abs(compiled.covariance - sparse.covariance) <= a.covariance_error + b.covariance_error).all()


@pytest.mark.parametrize("size", SIZES)
def test_antisymmetric_tables_stay_so(size):
    rng = np.random.default_rng(size)
    Q = random_array((size, size), density=min(1.0, 4 / size), rng=rng).tocsr()
    H = rng.normal(size=(size, size))
    H = H - H.T
    source = rng.normal(size=(size, size))
    source = source - source.T
    new, change = source.copy(), np.zeros(32 * (-(-size // 8)) * (-(-size // 8) + 1), np.float32)
    output = PairOutput(new, change, add=True, measure=True)
    layout = PairLayout.lower_triangle(size, size)
    pair_product(pair_step(Q, np.zeros(size), -1.0), H, np.zeros(size), layout, 0, 1, output)
    right = source + 0.4 * (Q @ H @ Q.T)
    np.testing.assert_allclose(new, right, atol=1e-12 * max(1, np.abs(right).max()))
    np.testing.assert_array_equal(new, -new.T)
    moved = H.copy()
    add_combination(np.ones(1), change[None, :], layout, 0, 1, moved, -1.0)
    np.testing.assert_allclose(moved, new, atol=1e-5 * max(1, np.abs(right).max()))
    np.testing.assert_array_equal(moved, -moved.T)


@pytest.mark.parametrize("block", [8, 24, 264])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("mirror", [1.0, -1.0])
def test_between_blocks_the_product_is_the_same_and_within_them_nothing_is_done(block, count, mirror):
    """Block-diagonal steps, entries of one place replaced, changes recorded and added again."""
    rng = np.random.default_rng(block + count)
    size = block * count
    block_of = np.arange(size) // block
    between = block_of[:, None] != block_of
    dense = np.where(between, 0.0, random_array((size, size), density=0.05, rng=rng).toarray())
    Q = csr_array(dense)
    H = rng.normal(size=(size, size)) * between
    H = np.ascontiguousarray(H + mirror * H.T)
    same = rng.normal(size=(count - 1, size))
    layout = PairLayout.between_blocks(size, block)._replace(same=same)
    expected = 0.4 * dense @ H @ dense.T * between
    for lag in range(1, count):
        s = np.arange(lag * block, size)
        expected[s, s - lag * block], expected[s - lag * block, s] = same[lag - 1, s], mirror * same[lag - 1, s]
    for calls in (1, 3):
        new, change = np.zeros((size, size)), np.zeros(layout.recorded, np.float32)
        output = PairOutput(new, change, add=False, measure=True)
        step = pair_step(Q, np.zeros(size), mirror)
        parts = [pair_product(step, H, NOTHING, layout, first, calls, output) for first in range(calls)]
        worst, entry = (max(part) for part in zip(*parts, strict=True))
        np.testing.assert_allclose(new, np.tril(expected), atol=1e-12)
        assert worst == np.abs(new - np.tril(H)).max()
        assert entry == np.abs(H).max()
        moved = np.tril(H)
        for first in range(calls):
            add_combination(np.ones(1), change[None, :], layout, first, calls, moved, mirror)
        np.testing.assert_allclose(moved, new, atol=1e-5)
        more = new.copy()
        output = PairOutput(more, change, add=True, measure=True)
        for first in range(calls):
            empty = PairLayout.between_blocks(size, block)
            pair_product(step, H, NOTHING, empty, first, calls, output)
        np.testing.assert_allclose(more, new + np.tril(0.4 * dense @ H @ dense.T * between), atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Synchronous()], ids=repr)
def test_the_number_of_threads_does_not_change_a_bit(threads, coupling, monkeypatch):
    monkeypatch.setattr(pair_sweep, "_COMPILED_FROM", 300)
    world = jmdp.worlds.windy_gridworld(18, 18)
    here = jmdp.evaluate(world.model, world.policies["uniform"], coupling)
    monkeypatch.setattr(threads_room.os, "sched_getaffinity", lambda process: range(threads))
    there = jmdp.evaluate(world.model, world.policies["uniform"], coupling)
    np.testing.assert_array_equal(here.covariance, there.covariance)
    np.testing.assert_array_equal(here.residuals, there.residuals)
