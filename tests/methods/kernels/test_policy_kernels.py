"""The kernel of whole episodes against its slow twin, number by number."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

import jmdp
from jmdp import Independent, Local, Synchronous
from jmdp.methods.kernels import branches as kernel
from jmdp.methods.monte_carlo.samples import BLOCK, TableEpisodes
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.starts import Starts
from reference.episodes import episode_return, uniform

COUPLINGS = [kind(luck) for kind in (Local, Synchronous, Independent) for luck in ("independent", "shared")]


def example(coupling, fresh=frozenset()):
    rng = np.random.default_rng(2)
    S, K, A = 6, 3, 3
    prob = np.tile(rng.dirichlet(np.ones(K)), (S, 1))
    reward = np.where(rng.random((S, K, A)) < 0.3, 0.0, rng.normal(size=(S, K, A)))
    model = jmdp.TabularJMDP(prob, reward, rng.integers(S, size=(S, K, A)), 0.9, terminal=np.arange(S) == 0)
    probs = [rng.dirichlet(np.ones(A), size=S) for _ in range(3)]
    plan = BranchPlan(
        starts=Starts.of({1: 0.2, 3: 0.5, 5: 0.3}, TabularSimulator(model)),
        actors=[jmdp.as_policy(p, model.actions) for p in probs],
        coupling=coupling,
        discount=model.discount,
        horizon=30,
        seed=7,
        fresh=fresh,
    )
    return model, probs, plan, TableEpisodes(model, probs, plan)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_the_kernel_is_its_slow_twin(coupling):
    model, probs, plan, table = example(coupling)
    drawn, keys = table.draw(10, 90), table.keys(10, 90)
    starts = (np.array(plan.starts.states), plan.starts.cumulative)
    steps = 0
    for row in range(90):
        for i, p in enumerate(probs):
            total, begun, taken = episode_return(model, p, coupling, keys[row], starts, 0.9, plan.horizon, i)
            assert drawn.returns[row, i] == pytest.approx(total, abs=1e-12)
            assert plan.starts.states[drawn.starts[row, i]] == begun
            steps += taken
    assert drawn.steps == steps


def test_samples_do_not_depend_on_how_they_are_asked_for():
    *_, table = example(Local())
    whole = table.draw(0, 3 * BLOCK)
    for first, count in ((0, 1), (63, 2), (100, 64)):
        assert (table.draw(first, count).returns == whole.returns[first : first + count]).all()


def test_fresh_luck_keeps_the_rest():
    *_, table = example(Synchronous("shared"))
    *_, steps = example(Synchronous("shared"), frozenset({"steps"}))
    assert (table.draw(0, 50).starts == steps.draw(0, 50).starts).all()
    keys = [one.keys(0, 50) for one in (table, steps)]
    assert (keys[0][:, [0, 2]] == keys[1][:, [0, 2]]).all()
    assert (keys[0][:, 1] != keys[1][:, 1]).all()


def test_numbers_are_uniform_and_do_not_depend_on_one_another():
    """Kolmogorov–Smirnov at 1e-6, and correlations at five standard errors, along each of key, step and place."""
    key, n = 0x1234567890ABCDEF, 20_000
    by_step = np.array([kernel.uniform(np.uint64(key), t, 0) for t in range(n)])
    by_place = np.array([kernel.uniform(np.uint64(key), 3, place) for place in range(n)])
    by_key = np.array([kernel.uniform(np.uint64(key + i), 3, 0) for i in range(n)])
    for numbers in (by_step, by_place, by_key):
        assert kstest(numbers, "uniform").pvalue > 1e-6
        assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 5 / np.sqrt(n)
    for one, other in ((by_step, by_place), (by_step, by_key), (by_place, by_key)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(n)
    assert by_step[5] == uniform(key, 5, 0)
