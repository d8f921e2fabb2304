"""Shares of a gap's variance by source, from runs in which sources were drawn again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from jmdp.comparisons.explaining import gap_shares, known_value
from reference.source_shares import SmallTable, pseudo_shares

RUNS, N = 400, 300


def rows(gap, draw, rng, n=N):
    """Returns [n, 2 + k, 2] in the runs A, B and M_i; both alternatives share a large constant, which cancels."""
    a, b = draw(rng, n), draw(rng, n)
    columns = [a, b, *[np.where(np.arange(a.shape[1]) == i, b, a) for i in range(a.shape[1])]]
    gaps = np.stack([gap(x) for x in columns], axis=1)
    return np.stack([gaps + 1.0, np.ones_like(gaps)], axis=2)


def normal(k):
    return lambda rng, n: rng.normal(size=(n, k))


def linear(*weights):
    """Σ w_i x_i of normal x: the share of source i is w_i²/Σ w²."""
    w = np.array(weights)
    return lambda x: x @ w, normal(len(w)), w**2 / (w @ w), w**2 / (w @ w)


def product(mean, other):
    """(mean + x)(other + y): V = mean² + other² + 1, V_x = other², V_y = mean², and 1 for their interaction."""
    whole = mean**2 + other**2 + 1
    alone = np.array([other**2, mean**2])
    return lambda x: (mean + x[:, 0]) * (other + x[:, 1]), normal(2), alone / whole, (alone + 1) / whole


def skewed():
    """x + y + ½ x y of exponential x and y, centred."""
    return (
        lambda x: x[:, 0] + x[:, 1] + 0.5 * x[:, 0] * x[:, 1],
        lambda rng, n: rng.exponential(size=(n, 2)) - 1,
        np.array([1, 1]) / 2.25,
        np.array([1.25, 1.25]) / 2.25,
    )


def rare():
    """Two sources that matter in a tenth of the samples, one twice as much as the other."""
    return (
        lambda x: x @ [2.0, 1.0],
        lambda rng, n: (rng.random((n, 2)) < 0.1).astype(float),
        np.array([0.8, 0.2]),
        np.array([0.8, 0.2]),
    )


CASES = {
    "linear": linear(0.84, 0.45, 0.3),
    "linear, one source": linear(0.99, 0.1),
    "product": product(1.0, 2.0),
    "product without first order": product(0.0, 0.0),
    "skewed": skewed(),
    "rare": rare(),
}


@pytest.mark.parametrize("case", CASES)
def test_shares_are_in_their_intervals(case):
    """In at least 93% of 400 runs of 300 samples, for each share.

    An interval that holds in 95% has a false alarm with 3%, for one seed, which is fixed; one that holds in 90% passes
    with 3%.
    """
    gap, draw, first, total = CASES[case]
    rng, hits, truth = np.random.default_rng(1), 0, np.stack([first, total], axis=1)
    interactions = 0
    for _ in range(RUNS):
        found, rest = gap_shares(rows(gap, draw, rng), 0.05)
        hits = hits + ((found[:, :2, 1] <= truth) & (truth <= found[:, :2, 2]))
        interactions += rest[1] <= 1 - first.sum() + 1e-12 and 1 - first.sum() - 1e-12 <= rest[2]
    assert hits.min() >= 0.93 * RUNS
    assert interactions >= 0.93 * RUNS
    assert stats.binom.cdf(0.93 * RUNS - 1, RUNS, 0.95) < 0.04
    assert stats.binom.sf(0.93 * RUNS - 1, RUNS, 0.90) < 0.03


def test_shares_of_a_table_are_in_their_intervals():
    """Against the enumeration of all that can happen; likewise."""
    table, rng, hits = SmallTable.random(4), np.random.default_rng(2), 0
    whole, own, other = table.variances()
    truth = np.array([[own, whole - other], [other, whole - own]]) / whole
    for _ in range(RUNS):
        (u, v), (w, x) = table.sampled(rng, N, (2, 2))
        runs = [(u, w), (v, x), (v, w), (u, x)]
        returns = np.stack([np.stack([table.returns(*run, a) for a in (0, 1)], axis=-1) for run in runs], axis=1)
        found, _ = gap_shares(returns, 0.05)
        hits = hits + ((found[:, :2, 1] <= truth) & (truth <= found[:, :2, 2]))
    assert np.min(hits) >= 0.93 * RUNS


def test_the_jackknife_is_that_of_the_definition():
    rng = np.random.default_rng(3)
    returns = rng.normal(size=(80, 4, 2))
    gap = returns[..., 0] - returns[..., 1]
    found, rest = gap_shares(returns, 0.05)
    slow = [pseudo_shares(gap[:, 0], gap[:, 1], gap[:, 2 + i]) for i in range(2)]
    for i in range(2):
        np.testing.assert_allclose(found[i, :2, 0], slow[i].mean(axis=0), atol=1e-8)
    assert rest[0] == pytest.approx(1 - sum(one[:, 0].mean() for one in slow))


def test_all_and_nothing_are_exact():
    """A source that changes no gap has the share 0, and the only one that does has the share 1."""
    rng = np.random.default_rng(4)
    found, rest = gap_shares(rows(lambda x: x[:, 1], normal(2), rng), 0.05)
    np.testing.assert_array_equal(found[:, :2, 0], [[0, 0], [1, 1]])
    assert rest[0] == 0


def test_moves_are_standard_deviations_of_what_is_left():
    """x moves both returns by 3 and the gap by nothing; y moves only the first, by 2, and the gap as much."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 4000, 2))
    columns = [a, b, np.stack([b[:, 0], a[:, 1]], 1), np.stack([a[:, 0], b[:, 1]], 1)]
    returns = np.stack([np.stack([3 * x[:, 0] + 2 * x[:, 1], 3 * x[:, 0]], axis=1) for x in columns], axis=1)
    found, _ = gap_shares(returns, 0.05)
    np.testing.assert_allclose(found[:, 2:, 0], [[3, 3, 0], [2, 0, 2]], rtol=0.05, atol=1e-9)
    assert (found[0, 2:4, 1] < 3).all()
    assert (found[0, 2:4, 2] > 3).all()
    assert found[1, 4, 1] < 2 < found[1, 4, 2]


def test_few_samples_have_no_intervals():
    found, rest = gap_shares(np.random.default_rng(6).normal(size=(63, 3, 2)), 0.05)
    assert np.isinf(found[..., 1:]).all()
    assert np.isinf(rest[1:]).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_value_of_knowing_is_in_its_interval(seed):
    """Of three tables, by enumeration: in at least 93% of 400 runs, 60 draws of the source, 12 runs with each."""
    table = SmallTable.random(seed, states=3, outcomes=(3, 2), actions=2 + seed)
    truth, rng, hits, values = table.value_of_knowing_u(), np.random.default_rng(7), 0, []
    returns, (p, q) = table.listed()
    leader = int(np.einsum("uwa,u,w->a", returns, p, q).argmax())
    for _ in range(RUNS):
        at = rng.choice(len(p), 100, p=p), rng.choice(len(q), (100, 12), p=q)
        found = known_value(returns[at[0][:, None], at[1]], leader, 0.05)
        hits += found.low <= truth <= found.high
        values.append(float(found))
    assert hits >= 0.93 * RUNS
    assert truth > 0.001
    assert np.mean(values) <= truth + 3 * np.std(values) / np.sqrt(RUNS)  # biased downwards


def test_without_cross_fitting_pure_noise_would_have_a_value():
    rng = np.random.default_rng(8)
    found = known_value(rng.normal(size=(200, 10, 3)), 0, 0.05)
    assert found.low <= 0 <= found.high
    assert float(found) < 0.05 < found.high
