"""P18: whatever the parameters, the kernel is a covariance; and all ways to ask for it agree with a slow twin."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jmdp.methods.neural_gram.network import Features, blocks, covariances, outputs
from methods.neural_gram.gram_cases import ACTIONS, STATES, network
from reference import gram

EPS = float(np.finfo(np.float32).eps)
KERNELS = ["sum", "gram"]
compiled_blocks, compiled_covariances = jax.jit(blocks), jax.jit(covariances)
features_of = jax.jit(jax.vmap(lambda net, o: net.features(o), (None, 0)))


def all_pairs(found: Features, state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """[n, n], covariances of coordinates as `blocks` gives them."""
    x, y = (Features(*(np.asarray(part)[axis] for part in found)) for axis in (np.s_[:, None], np.s_[None]))
    same = state[:, None] == state
    return np.asarray(compiled_blocks(x, y, same, same & (action[:, None] == action)).covariance, np.float64)


@pytest.mark.parametrize("kernel", KERNELS)
def test_p18_gram_matrices_are_positive_semidefinite(kernel):
    """1,000 batches of coordinates that may repeat, of parameters from 10⁻³ to 10³. Rounding of float32 is allowed.

    c = 4 + rank: an entry is off by at most (rank + 3)ε of √(k(x,x) k(y,y)), so a norm by as much of the trace.
    """
    rng = np.random.default_rng(18)
    every, worst = np.arange(STATES), np.inf
    for seed in range(100):
        rank, spread = 4, 10.0 ** rng.uniform(-3, 3)
        found = [np.asarray(part) for part in features_of(network(seed, kernel, spread, rank=rank), every)]
        for _ in range(10):
            state, action = rng.integers(STATES, size=12), rng.integers(ACTIONS, size=12)
            matrix = all_pairs(Features(*(part[state, action] for part in found)), state, action)
            assert np.array_equal(matrix, matrix.T)
            least = np.linalg.eigvalsh(matrix)[0] / (EPS * np.trace(matrix))
            worst = min(worst, least)
            assert least >= -(4 + rank)
    assert worst < 1  # some are singular: what is asked is not far from failing


def test_p18_without_the_diagonal_it_would_not_be_a_covariance():
    """Negative control: n between the actions of a state and not on the diagonal, say, is noticed at once."""
    found = jax.vmap(network(3).features)(np.arange(STATES))
    state, action = np.repeat(np.arange(STATES), ACTIONS), np.tile(np.arange(ACTIONS), STATES)
    matrix = all_pairs(Features(*(np.asarray(part)[state, action] for part in found)), state, action)
    wrong = matrix - 2 * np.diag(np.asarray(found.n)[state, action])
    wrong += np.where(state[:, None] == state, 5.0, 0.0) * ~np.eye(len(state), dtype=bool)
    assert np.linalg.eigvalsh(wrong)[0] < -100 * EPS * abs(np.trace(wrong))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("spread", [0.01, 1.0, 100.0])
def test_blocks_covariances_and_gaps_agree_with_the_slow_twin(kernel, spread):
    rng = np.random.default_rng(4)
    for seed in range(5):
        net = network(seed, kernel, spread)
        found = Features(*(np.asarray(part) for part in features_of(net, np.arange(STATES))))
        state, action = rng.integers(STATES, size=10), rng.integers(ACTIONS, size=10)
        truth = gram.gram(net, state, state, action)
        rows = Features(*(part[state, action] for part in found))
        scale = np.sqrt(np.diag(truth)[:, None] * np.diag(truth))
        assert (np.abs(all_pairs(rows, state, action) - truth) <= 20 * EPS * scale).all()
        for s in range(STATES):
            one = Features(*(part[s] for part in found))
            every = [gram.Coordinate(net, s, a) for a in range(ACTIONS)]
            expected = np.array([[gram.block(x, y, True, x is y)[2:] for y in every] for x in every])
            std = np.sqrt(np.diag(expected[..., 0]))
            room = 40 * EPS * np.add.outer(std, std) ** 2
            assert (np.abs(compiled_covariances(one, True, np.eye(ACTIONS)) - expected[..., 0]) <= room).all()
            for a in range(ACTIONS):
                for b in range(ACTIONS):
                    x, y = (Features(*(part[c] for part in one)) for c in (a, b))
                    apart = compiled_blocks(x, y, True, a == b)
                    assert abs(float(apart.gap) - expected[a, b, 1]) <= room[a, b]
                    assert abs(float(apart.first) - expected[a, a, 0]) <= room[a, a]
                    assert abs(float(apart.second) - expected[b, b, 0]) <= room[b, b]


@pytest.mark.parametrize("kernel", KERNELS)
def test_equal_coordinates_have_one_return(kernel):
    """Exactly 0, compiled too: fused instructions round v(x) and v(x) apart."""

    @jax.jit
    def asked(net, o):
        x = Features(*(part[1] for part in net.features(o)))
        return blocks(x, x, True, True).gap

    for seed in range(20):
        assert float(asked(network(seed, kernel, 3.0, rank=16), seed % STATES)) == 0


def test_the_papers_kernel_is_the_first_of_the_three():
    """⟨v, v⟩ alone; v is the same for both."""
    both = [network(7, kernel) for kernel in ("gram", "sum")]
    one, more = (net.features(2) for net in both)
    assert np.array_equal(one.v, more.v)
    assert one.w.size == 0
    assert not np.any(one.n)
    assert np.allclose(covariances(one, True, np.eye(ACTIONS)), np.asarray(one.v) @ np.asarray(one.v).T, rtol=1e-5)
    assert (np.asarray(more.n) > 0).all()


def test_scaling_gap_variances_changes_nothing_else():
    """All gaps by the factor; what actions of a state share stays."""
    net = network(5)
    before, after = (
        covariances(outputs(n, np.array([1]))[1], True, np.eye(ACTIONS))[0]
        for n in (net, net.with_gap_variances_scaled(1.5))
    )
    for a in range(ACTIONS):
        for b in range(a):
            gaps = [found[a, a] + found[b, b] - 2 * found[a, b] for found in (before, after)]
            assert gaps[1] == pytest.approx(1.5 * gaps[0], rel=1e-5)
    assert np.array_equal(net.with_gap_variances_scaled(1.5).means(1), net.means(1))
    assert net.gap_scale == 1.0
    assert net.with_gap_variances_scaled(2.0).with_gap_variances_scaled(0.5).gap_scale == pytest.approx(1.0)
