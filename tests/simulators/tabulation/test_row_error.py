"""The bound on the error of sampled probabilities: its parts, and how often it fails."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import jmdp
from jmdp.simulators.tabulation.joint_rows import chance_of, mean_distance, return_error, row_error
from sample_models import random_problem


@pytest.mark.parametrize("steps", range(9))
def test_mean_distance_of_a_random_walk(steps):
    walks = [abs(sum(signs)) for signs in product((-1, 1), repeat=steps)]
    assert mean_distance(steps) == pytest.approx(np.mean(walks))


def test_the_sum_of_mean_distances_is_self_bounding():
    """Removing a sample lowers W by 0 to 1, and all these changes together are at most W."""
    walk = np.array([mean_distance(n) for n in range(3000)])
    lower = np.diff(walk)
    assert lower.min() >= -1e-9
    assert lower.max() <= 1 + 1e-9
    assert (np.arange(1, 3000) * lower <= walk[1:] * (1 + 1e-6)).all()


def test_all_chances_sum_to_the_whole():
    assert sum(chance_of(0.9, j) for j in range(1, 10_000)) == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("outcomes", [1, 2, 30, 2000])
def test_the_bound_holds(outcomes):
    """In all of 300 samples at error probability 1/2: the bound is not tight, so a violation would show a mistake."""
    rng = np.random.default_rng(outcomes)
    truth = rng.dirichlet(np.ones(outcomes))
    for n in (1, 10, 1000):
        for _ in range(100):
            counts = rng.multinomial(n, truth)
            distance = np.abs(counts / n - truth).sum() / 2
            assert distance <= row_error(counts[counts > 0].tolist(), 0.5) + 1e-12


def test_the_bound_is_useful_and_falls_with_the_root_of_n():
    coarse, fine = (row_error([n // 2, n // 2], 0.05) for n in (1000, 100_000))
    assert fine < 0.01
    assert 8 < coarse / fine < 12
    assert row_error([1] * 500, 0.05) == 1.0  # nothing was seen twice: anything is possible


@pytest.mark.parametrize("seed", range(10))
def test_returns_of_a_wrong_table_are_within_the_bound(seed):
    """Means of two tables whose rows differ by their total variation distances, under a random policy."""
    rng = np.random.default_rng(seed)
    model, policy = random_problem(rng, common_prob=False)
    K = model.shape[1]
    other = jmdp.TabularJMDP(
        0.9 * model.prob + 0.1 * rng.dirichlet(np.ones(K), size=model.shape[0]),
        model.reward,
        model.next_state,
        model.discount,
        model.terminal,
    )
    distance = np.abs(model.prob - other.prob).sum(axis=1) / 2
    means = [jmdp.evaluate(one, policy, jmdp.Local(), progress=False).mean for one in (model, other)]
    bound = return_error(model, distance)
    assert (np.abs(means[0] - means[1]).max(axis=1) <= bound + 1e-9).all()
    assert (bound[model.terminal] == 0).all()
