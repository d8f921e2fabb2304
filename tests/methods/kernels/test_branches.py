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
from jmdp.base.luck import Shock
from jmdp.methods.kernels.branches import advance
from jmdp.methods.kernels.tables import Branches, BranchTables
from jmdp.methods.monte_carlo.samples import CompiledTable, _TableRollouts
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
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
    moved = Branches(
        np.empty(2, np.int64), np.empty(2, np.int64), np.empty(2), np.empty(2, np.int64), np.empty(2, bool)
    )
    many_steps(rng, tables, np.array([x[0], y[0]]), np.array([x[1], y[1]]), moved, out)
    sizes = out.max(axis=0) + 1
    codes, counts = np.unique(np.ravel_multi_index(tuple(out.T), sizes), return_counts=True)
    seen = Counter()
    for k, n, a, other, m, b, count in zip(*np.unravel_index(codes, sizes), counts.tolist(), strict=True):
        rewards = float(model.reward[x[0], k, x[1]]), float(model.reward[y[0], other, y[1]])
        seen[rewards[0], int(n), int(a), rewards[1], int(m), int(b)] += count
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


PLAIN_STEPS = "jmdp.methods.monte_carlo.samples._TableRollouts.plain_steps"


@pytest.fixture(params=[0, 10**9], ids=["kernel", "plain Python"])
def way(request, monkeypatch):
    """Rollouts of tables by the kernel, and those of the first calls of a process."""
    monkeypatch.setattr(PLAIN_STEPS, request.param)


def rolled_out(model, policy, coupling, state, actions, samples, horizon, first=0):
    actor, settings = as_policy(policy, model.actions), {"discount": model.discount, "horizon": horizon, "seed": 3}
    plan = BranchPlan.of_actions(actor, state=state, actions=actions, coupling=coupling, **settings)
    return paired_draws(CompiledTable(model), plan, first, samples)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_returns_equal_those_of_the_slow_twin(coupling):
    rng = np.random.default_rng(8)
    for _ in range(8):
        model, policy = random_problem(rng, discounts=(0.5, 0.9))
        actions = range(model.shape[2])
        stream = Shock.of_sample(3, 0).derived(b"table").derived(b"block", 0).generator()
        slow = twin.returns(stream, model, policy, coupling, 0, actions, 40, 12)
        fast = rolled_out(model, policy, coupling, 0, actions, 40, 12).returns
        np.testing.assert_allclose(fast, slow, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_the_first_rollouts_of_a_process_are_those_of_the_kernel(coupling, monkeypatch):
    """Bit for bit, so that it does not matter which simulates them."""
    rng, world = np.random.default_rng(9), jmdp.worlds.windy_gridworld(2, 3)
    problems = [(*random_problem(rng, discounts=(0.5, 0.9)), 0) for _ in range(6)]
    problems += [(world.model, world.policies["uniform"], s) for s in range(6)]  # one of them is the goal
    for model, policy, state in problems:
        found = []
        for steps in (0, 10**9):
            monkeypatch.setattr(PLAIN_STEPS, steps)
            found.append(rolled_out(model, policy, coupling, state, [*range(model.shape[2]), 0], 100, 12))
        kernel, plain = found
        for name in ("returns", "ends", "gains"):
            assert getattr(kernel, name).tobytes() == getattr(plain, name).tobytes()
        for name in ("steps", "shared_steps", "largest_reward"):
            assert getattr(kernel, name) == getattr(plain, name)


def test_a_process_simulates_so_many_steps_without_the_kernel(monkeypatch):
    world = jmdp.worlds.windy_gridworld(2, 2, discount=0.7)
    given = world.model, world.policies["uniform"], jmdp.Local(), 0, range(4)
    monkeypatch.setattr(PLAIN_STEPS, 64 * 4 * 9)
    drawn = rolled_out(*given, 64, 9)
    assert _TableRollouts.plain_steps == 64 * 4 * 9 - drawn.steps - drawn.shared_steps > 0
    rolled_out(*given, 128, 9)
    assert _TableRollouts.plain_steps == 0


@pytest.mark.parametrize("coupling", COUPLINGS[::2], ids=repr)
def test_draws_are_those_of_the_python_rollouts_in_distribution(coupling):
    """Compiled, and step by step as for any simulator: means and covariances within 5 standard errors, 16 in all.

    A false alarm has probability below 1e-4. The counts of steps agree as sums do.
    """
    world = jmdp.worlds.windy_gridworld(2, 3, discount=0.7)
    model, policy, n = world.model, world.policies["uniform"], 2048
    actor, simulator = as_policy(policy, model.actions), TabularSimulator(model)
    fast = rolled_out(model, policy, coupling, 0, range(4), n, 20)
    settings = {"discount": model.discount, "horizon": 20, "seed": 4}
    plan = BranchPlan.of_actions(actor, state=0, actions=range(4), coupling=coupling, **settings)
    slow = paired_draws(simulator, plan, 0, n)
    error = np.hypot(fast.returns.std(axis=0), slow.returns.std(axis=0)) / np.sqrt(n)
    assert (np.abs(fast.returns.mean(axis=0) - slow.returns.mean(axis=0)) <= 5 * error).all()
    products = [(one.returns - one.returns.mean(axis=0))[:, :1] * one.returns for one in (fast, slow)]
    error = np.hypot(products[0].std(axis=0), products[1].std(axis=0)) / np.sqrt(n)
    assert (np.abs(products[0].mean(axis=0) - products[1].mean(axis=0)) <= 5 * error).all()
    for name in ("steps", "shared_steps"):
        assert getattr(fast, name) == pytest.approx(getattr(slow, name), rel=0.05, abs=20)
    assert fast.largest_reward == slow.largest_reward


@pytest.mark.usefixtures("way")
def test_a_sample_depends_on_the_seed_and_its_number_alone():
    world = jmdp.worlds.windy_gridworld(2, 2, discount=0.7)
    whole = rolled_out(world.model, world.policies["uniform"], jmdp.Local(), 0, range(4), 200, 9)
    for first, count in ((0, 1), (63, 2), (64, 64), (100, 100), (199, 1)):
        part = rolled_out(world.model, world.policies["uniform"], jmdp.Local(), 0, range(4), count, 9, first)
        for name in ("returns", "ends", "gains"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[first : first + count])


@pytest.mark.usefixtures("way")
def test_coalesced_branches_stay_equal_for_ever():
    world = jmdp.worlds.windy_gridworld(3, 3)
    model, policy = world.model, world.policies["uniform"]
    together = rolled_out(model, policy, jmdp.Local(), 6, [2, 2], 200, 300).returns
    assert (together[:, 0] == together[:, 1]).all()
    separate = rolled_out(model, policy, jmdp.Independent(), 6, [2, 2], 200, 300).returns
    assert (separate[:, 0] != separate[:, 1]).any()
    for coupling in COUPLINGS:  # as a question, though, one coordinate has one return
        assert (jmdp.methods.gap_samples(model, policy, 6, 2, 2, seed=0, samples=50, coupling=coupling) == 0).all()
