"""P6: the sampler realises the stated coupling.

G-tests of (R, S', A') of two branches against the exact distribution of `jmdp.exact`, for branches in one state and in
two, under every coupling. All tests together raise a false alarm with probability at most 1e-6.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numba import njit
from scipy.stats import chi2, ncx2

import jmdp
from jmdp.methods.kernels.branches import advance
from jmdp.methods.kernels.tables import Branches, BranchTables
from jmdp.methods.monte_carlo.monte_carlo import _Sampler
from reference import branches as twin
from reference.step_distributions import DRAWS, FALSE_ALARM, POWER, cases, expected, g_test
from sample_models import COUPLINGS, random_problem


@njit
def many_steps(rng, tables, state, action, moved, out):
    """out[i] = scenario, next state and next action of each of two branches."""
    for i in range(out.shape[0]):
        advance(rng, tables, state, action, moved)
        for j in range(2):
            out[i, 3 * j], out[i, 3 * j + 1] = moved.scenario[j], moved.state[j]
            out[i, 3 * j + 2] = moved.action[j]


def observed(rng, model, policy, coupling, x, y):
    """Counts of (r, s', a', r̃, t', b') over DRAWS steps of the kernel."""
    out = np.empty((DRAWS, 6), np.int64)
    tables = BranchTables.of(model, policy, coupling, model.reward)
    moved = Branches(np.empty(2, np.int64), np.empty(2, np.int64), np.empty(2), np.empty(2, np.int64))
    many_steps(rng, tables, np.array([x[0], y[0]]), np.array([x[1], y[1]]), moved, out)
    counts = Counter(map(tuple, out.tolist()))
    seen = Counter()
    for (k, n, a, other, m, b), count in counts.items():
        seen[float(model.reward[x[0], k, x[1]]), n, a, float(model.reward[y[0], other, y[1]]), m, b] += count
    return seen


def test_p6_the_kernel_realises_the_coupling():
    everything = list(cases())
    alpha = FALSE_ALARM / len(everything)
    least = []
    for number, (model, policy, coupling, x, y, _) in enumerate(everything):
        rng = np.random.default_rng([62, number])
        distribution = expected(model, policy, coupling, x, y)
        g, freedom = g_test(observed(rng, model, policy, coupling, x, y), distribution)
        if freedom == 0:
            continue
        threshold = chi2.isf(alpha, freedom)
        assert g <= threshold, f"{coupling}, branches on {x} and {y}: G = {g:.1f} over {threshold:.1f}"
        distances = np.geomspace(1e-3, 1, 400)
        power = ncx2.sf(threshold, freedom, DRAWS * distances**2)
        least.append(distances[np.argmax(power >= POWER)])
    print(
        f"P6: {len(everything)} G-tests of {DRAWS} draws, false alarm {FALSE_ALARM:g} in all; a discrepancy of "
        f"χ² distance {np.median(least):.3f} (median; largest {max(least):.3f}) is seen with probability {POWER}"
    )
    assert max(least) < 0.1


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_returns_equal_those_of_the_slow_twin(coupling):
    rng = np.random.default_rng(8)
    for _ in range(8):
        model, policy = random_problem(rng, discounts=(0.5, 0.9))
        actions = np.arange(model.shape[2])
        sampler = _Sampler(model, policy, coupling, jmdp.MonteCarlo(seed=3, samples=40, horizon=12))
        stream = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(3, spawn_key=(0,))))
        slow = twin.returns(stream, model, policy, coupling, 0, actions, 40, 12)
        fast = np.ldexp(sampler.draw(0, actions)[0], sampler.exponent)
        np.testing.assert_allclose(fast, slow, rtol=1e-13, atol=1e-13)


def test_coalesced_branches_stay_equal_for_ever():
    world = jmdp.worlds.windy_gridworld(3, 3)
    policy = world.policies["uniform"]
    settings = jmdp.MonteCarlo(seed=0, samples=200)
    twice = np.array([2, 2])
    together = _Sampler(world.model, policy, jmdp.Local(), settings).draw(6, twice)[0]
    assert (together[:, 0] == together[:, 1]).all()
    apart = _Sampler(world.model, policy, jmdp.Independent(), settings).draw(6, twice)[0]
    assert (apart[:, 0] != apart[:, 1]).any()
    for coupling in COUPLINGS:  # as a question, though, one coordinate has one return
        assert (jmdp.gap_samples(world.model, policy, 6, 2, 2, seed=0, samples=50, coupling=coupling) == 0).all()
