"""Discounts near 1 on small tables: solved directly, refined in double-double arithmetic, and certified.

``pytest -m long`` holds 600 models of one policy and 300 of several against exact rationals.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import jmdp
from jmdp.methods.exact_pairs.direct_solve import PairSystem
from jmdp.methods.exact_pairs.moment_operator import MomentSources
from jmdp.methods.exact_pairs.pair_sweep import PairSweep
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import shape_rewards
from jmdp.methods.shared.state_units import StateUnits
from jmdp.models.policy import StackedTable
from jmdp.models.tabular import changed
from jmdp.testing import check_certificate
from reference.policies import PolicyTruth
from reference.policies import violations as violations_of_policies
from reference.rationals import Truth, contains, exact, violations
from sample_models import COUPLINGS, random_problem

NEAR_ONE = (0.999, 1 - 1e-6, 1 - 1e-9, 1 - 1e-14, 1 - 2.0**-53)


def ring(states, discount, actions=2):
    """Deterministic: every action leads to the next state with the same reward."""
    reward = np.repeat(np.random.default_rng(0).normal(size=(states, 1, 1)), actions, axis=2)
    onward = np.broadcast_to(((np.arange(states) + 1) % states)[:, None, None], reward.shape)
    return jmdp.TabularJMDP(np.ones((states, 1)), reward, onward, discount)


def two_states(discount):
    """Two states that alternate, three policies, and rewards of very different sizes."""
    reward = [[[-4.6e-116, -2.8e-168], [8.7e-75, -8.4e-57]], [[-1.3e-283, -3.5e-165], [3.4e-8, -1.5e-207]]]
    onward = np.broadcast_to([[[1]], [[0]]], (2, 2, 2))
    model = jmdp.TabularJMDP(np.full((2, 2), 0.5), reward, onward, discount)
    tables = [
        [[0.5, 0.5], [0.9930028987711818, 0.006997177092558962]],
        [[0.552367852610459, 0.44763214738954105], [0.9999505580023016, 4.9441997698332035e-05]],
        [[0.5, 0.5], [0.0, 1.0]],
    ]
    return model, {f"p{i}": jmdp.TabularPolicy(table) for i, table in enumerate(tables)}


def few_sweeps(result):
    """Converged, and solved directly: sweeps that contract with γ² would be many thousands."""
    return result.outcome is jmdp.results.Outcome.CONVERGED and result.residuals.size <= 20


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_two_states_and_three_policies_converge_at_one_minus_1e_9(coupling):
    model, policies = two_states(1 - 1e-9)
    assert few_sweeps(jmdp.evaluate(model, policies, coupling, throw=False))


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_random_models_converge_at_one_minus_1e_9(coupling):
    rng = np.random.default_rng(6)
    row = rng.dirichlet(np.ones(3))
    model = jmdp.TabularJMDP(
        np.broadcast_to(row, (3, 3)), rng.normal(size=(3, 3, 2)), rng.integers(0, 3, (3, 3, 2)), 1 - 1e-9
    )
    policies = {f"p{i}": jmdp.TabularPolicy(rng.dirichlet(np.ones(2), 3)) for i in range(3)}
    assert few_sweeps(jmdp.evaluate(model, policies, coupling, throw=False))
    assert few_sweeps(jmdp.evaluate(model, policies["p0"], coupling, throw=False))


@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Synchronous(policy_luck="shared")], ids=repr)
def test_the_inventory_of_eleven_states_converges_at_99999(coupling):
    model = changed(jmdp.worlds.inventory(capacity=10).model, discount=0.99999)
    S, _, A = model.shape
    uniform, order_up_to_8 = jmdp.TabularPolicy.uniform(model), np.eye(A)[np.clip(8 - np.arange(S), 0, A - 1)]
    assert few_sweeps(jmdp.evaluate(model, uniform, coupling, throw=False))
    policies = {"uniform": uniform, "up to 8": jmdp.TabularPolicy(order_up_to_8)}
    assert few_sweeps(jmdp.evaluate(model, policies, coupling, throw=False))


@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Synchronous(policy_luck="shared")], ids=repr)
def test_deterministic_tables_converge(coupling):
    """All returns are constant: the errors of values must not be amplified by 1/(1 − γ) twice."""
    for states, discount in product((1, 3, 10), (1 - 1e-6, 1 - 1e-9)):
        model = ring(states, discount)
        assert few_sweeps(jmdp.evaluate(model, "uniform", coupling, throw=False)), (states, discount)


def test_values_are_relative_to_the_gain_of_a_part_that_never_ends():
    """Two separate parts and one that ends: v = g/(1 − γ) + u, and u stays small."""
    onward = np.array([[[1]], [[0]], [[2]], [[4]], [[4]]])
    reward = np.array([1.0, 2.0, -7.0, 5.0, 0.0]).reshape(5, 1, 1)
    model = jmdp.TabularJMDP(np.ones((5, 1)), reward, onward, 1 - 1e-12, [False] * 4 + [True])
    policy = jmdp.TabularPolicy(np.ones((5, 1)))
    shaped = shape_rewards(model, policy)
    gain = shaped.scale.restore(shaped.gain)
    np.testing.assert_allclose(gain, [1.5, 1.5, -7.0, 0.0, 0.0], rtol=1e-10)
    assert np.abs(shaped.relative.high).max() <= 1
    truth = Truth(model, policy, jmdp.Local())
    for s in range(5):
        off = abs(exact(shaped.value.high[s]) + exact(shaped.value.low[s]) - truth.value[s] / 8)
        assert off <= exact(shaped.value_errors[s])
        assert shaped.value_errors[s] <= 1e-15
    ended = shape_rewards(changed(model, discount=0.3), policy)
    assert not ended.gain.any()  # 1 − 0.3 is rounded


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("several", [False, True])
def test_the_direct_solution_solves_the_equation_of_a_sweep(coupling, several):
    """h = change + γ^o L h, for all parts of the tables of orders 2 and 3, with L from the sweeps themselves."""
    rng = np.random.default_rng(3)
    prob = np.broadcast_to(rng.dirichlet(np.ones(3)), (4, 3))
    terminal = [False, False, False, True]
    model = jmdp.TabularJMDP(prob, rng.normal(size=(4, 3, 2)), rng.integers(0, 4, (4, 3, 2)), 0.9, terminal)
    policy = jmdp.TabularPolicy(rng.dirichlet(np.ones(2), 4))
    blocks = None
    if several:
        blocks = StackedTable.of([model] * 2)
        other = jmdp.TabularPolicy(rng.dirichlet(np.ones(model.shape[2]), model.shape[0]))
        model, policy = blocks.model, blocks.policy([policy, other])
    shaped = shape_rewards(model, policy)
    units = StateUnits.of(model, policy, shaped)
    parts = [(PairOperator(model, policy, coupling, shaped, units=units, blocks=blocks), 2)]
    plain = PairOperator(model, policy, coupling, shaped, blocks=blocks)
    S = model.shape[0]
    single = [np.ones(S), np.zeros(S), plain.V, np.ones(S)]
    parts += [(part, 3) for part in MomentSources(plain, 3).parts(2, 1, single, {(1, 1): np.zeros((S, S))})]
    solved = 0
    for operator, order in parts:
        system = PairSystem(operator)
        if not system.is_small:  # no shared randomness
            continue
        change = np.where(system.unknown, rng.normal(size=(S, S)), 0.0)
        change = change + operator.mirror * np.where(np.eye(S, dtype=bool), 0.0, change.T)
        h = system.solver(1 - model.discount**order)(change)
        swept, constant = np.zeros(S * S), np.zeros(S * S)
        with PairSweep(operator) as sweep:
            sweep(h.ravel(), swept)
            sweep(np.zeros(S * S), constant)
        np.testing.assert_allclose(h, change + (swept - constant).reshape(S, S), atol=1e-12)
        solved += 1
    assert solved == (len(parts) if plain.joint_steps else len(parts) - 1)


def hold_one_policy(models, seed):
    rng = np.random.default_rng(seed)
    for i in range(models):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = random_problem(
            rng,
            states=3,
            scenarios=3,
            actions=3,
            discounts=NEAR_ONE,
            bounds=(2.0**-20, 1.0, 1e6),
            common_prob=coupling.shared_between_states or rng.random() < 0.5,
        )
        result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(order=2 + i % 2), throw=False)
        assert violations(result, Truth(model, policy, coupling)) == [], f"seed {seed}, model {i}, {coupling}"
        check_certificate(model, policy, result)


def hold_several_policies(models, seed):
    rng = np.random.default_rng(seed)
    for i in range(models):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = random_problem(
            rng, states=2, scenarios=2, actions=2, discounts=NEAR_ONE, bounds=(2.0**-20, 1.0, 1e6), common_prob=True
        )
        S, _, A = model.shape
        others = rng.dirichlet(np.full(A, 0.5), size=(1 + i % 2, S))
        policies = [policy, *(jmdp.TabularPolicy(table) for table in others)]
        order = 2 + i % 2
        named = {f"p{j}": policy for j, policy in enumerate(policies)}
        result = jmdp.evaluate(model, named, coupling, jmdp.ExactPairs(order=order), throw=False)
        truth = PolicyTruth(model, policies, coupling)
        assert violations_of_policies(result, truth, order) == [], f"seed {seed}, model {i}, {coupling}"


def test_intervals_of_one_policy_contain_the_truth():
    hold_one_policy(30, 1)


def test_intervals_of_several_policies_contain_the_truth():
    hold_several_policies(18, 2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_intervals_of_one_policy_contain_the_truth_on_600_models(seed):
    hold_one_policy(200, 10 + seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_intervals_of_several_policies_contain_the_truth_on_300_models(seed):
    hold_several_policies(100, 20 + seed)


def small_gaps(discount):
    """Action 1 earns 0.001 more than action 0 in state 0, and leads to the same states."""
    reward = [[[1.0, 1.001], [0.0, 0.001]], [[0.3, 0.4], [0.2, 0.1]]]
    onward = np.broadcast_to(np.array([0, 1])[None, :, None], (2, 2, 2))
    return jmdp.TabularJMDP(np.full((2, 2), 0.5), reward, onward, discount)


def test_means_of_gaps_are_subtracted_before_they_are_rounded():
    """At 1 − 1e-14 returns are about 4e13, whose spacing is 0.008: the gap of 0.001 was stated as 0.00 ± 0.60."""
    model = small_gaps(1 - 1e-14)
    gap = jmdp.evaluate(model, "uniform", jmdp.Local(), throw=False).gap(0, 1, 0)
    right = (exact(1.001) - exact(1.0) + exact(0.001)) / 2
    assert contains(gap.mean_interval, right)
    assert gap.mean_interval.width <= 1e-13
    policies = {"first": [0, 0], "second": [1, 0]}
    start = np.array([0.5, 0.5])
    several = jmdp.evaluate(model, policies, jmdp.Local(), starts=start, throw=False)
    truth = PolicyTruth(
        model, [jmdp.TabularPolicy.deterministic(model, table) for table in policies.values()], jmdp.Local()
    )
    for label, weights in ((0, (1, 0)), (1, (0, 1)), ("start", (0.5, 0.5))):
        gap = several.gap(label, 1, 0)
        right = sum(exact(float(w)) * (truth.mean(s, 1) - truth.mean(s, 0)) for s, w in enumerate(weights))
        assert contains(gap.mean_interval, right)
        assert gap.mean_interval.width <= 1e-13 * abs(gap.mean)


def test_gaps_from_a_random_start_do_not_depend_on_an_offset_of_all_rewards():
    """With 1e12 added to every reward, the standard deviation was 0.197 ± 0.041 and the mean 0.158 ± 0.081."""
    rng = np.random.default_rng(1)
    noise, onward = rng.integers(-1, 2, (2, 2, 2)) / 8, rng.integers(0, 2, (2, 2, 2))
    policies, start = {"first": [0, 0], "second": [1, 1]}, np.array([0.5, 0.5])
    plain, moved = (
        jmdp.evaluate(
            jmdp.TabularJMDP(np.full((2, 2), 0.5), offset + noise, onward, 0.9), policies, jmdp.Local(), starts=start
        )
        for offset in (0.0, 1e12)
    )
    for label in (0, 1, "start"):
        one, other = plain.gap(label, 1, 0), moved.gap(label, 1, 0)
        assert other.mean_interval.width <= 1e-13
        assert other.mean == pytest.approx(one.mean, abs=1e-12)
        assert other.variance_interval.width <= 1e-12
        assert other.variance == pytest.approx(one.variance, abs=1e-12)
    split = moved.variance_split(1, 0)
    assert moved.gap("start", 1, 0).variance == pytest.approx(float(split.within) + float(split.between), rel=1e-12)


def test_a_start_of_the_smallest_probability_counts_with_all_its_digits():
    """Var = μ (1 − μ) r²: the product of μ and r alone is subnormal."""
    model = jmdp.TabularJMDP(
        np.ones((2, 1)), [[[1e12 + 0.7559, 1e12 + 0.3]], [[0.0, 0.0]]], [[[1, 1]], [[1, 1]]], 0.5, [False, True]
    )
    policies, start = {"first": [0, 0], "second": [1, 1]}, np.array([5e-324, 1.0])
    result = jmdp.evaluate(model, policies, jmdp.Local(), starts=start)
    chance = exact(5e-324) / (1 + exact(5e-324))
    for i, j in product(range(2), repeat=2):
        right = chance * (1 - chance) * exact(model.reward[0, 0, i]) * exact(model.reward[0, 0, j])
        assert contains(result.covariance_interval("start", i, j), right)
