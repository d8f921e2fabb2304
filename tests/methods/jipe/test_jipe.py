"""JIPE: the paper's operator, its norm and its certificate."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import pytest

import jmdp
from jmdp.errors import CertificateError, MemoryBudgetError, SettingsError
from jmdp.methods.jipe.jipe import JointBellman, needed_bytes, partitions
from jmdp.testing import check_certificate
from reference import pair_chain
from reference.joint_moments import JointMoments
from sample_models import COUPLINGS, random_problem


@pytest.mark.parametrize("models", [8, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_inside_the_certificate_of_exact_pairs_and_the_other_way_round(coupling, models):
    rng = np.random.default_rng(3)
    for _ in range(models):
        model, policy = random_problem(rng, states=5, actions=3, discounts=(0.0, 0.5, 0.9))
        one = jmdp.evaluate(model, policy, coupling)
        other = jmdp.evaluate(model, policy, coupling, jmdp.JIPE())
        mean, covariance = pair_chain.covariances(model, policy, coupling)
        a, b = one.certificate, other.certificate
        assert (np.abs(one.mean - other.mean) <= a.mean_error + b.mean_error).all()
        S, A = mean.shape
        for s in range(S):
            for t in range(S):
                x, y = rng.integers(0, A, 2)
                apart = abs(one.cross_covariance(s, x, t, y) - other.cross_covariance(s, x, t, y))
                stated = one.cross_covariance_interval(s, x, t, y)
                assert apart <= stated.width + b.covariance_error
                oracle = 1e-13 * (np.abs(mean).max() ** 2 + np.abs(covariance).max())
                assert abs(other.cross_covariance(s, x, t, y) - covariance[s, x, t, y]) <= b.covariance_error + oracle
                moment = other.second_moment(s, x, t, y)
                assert moment == pytest.approx(covariance[s, x, t, y] + mean[s, x] * mean[t, y], abs=1e-7)


def test_residual_and_certificate_of_the_bandit_by_hand():
    """γ = ½, B = 1, λ = 4. From 0 the first sweep gives mean ½, E[Z²] ½, E[Z Z̃] 0: residual max(½, ½/4) = ½.

    The second sweep adds γ·½ = ¼ to the mean, and to E[Z²] 2γ E[R]·½ + γ²·½ = 3/8: residual max(¼, 3/32) = ¼.
    """
    world = jmdp.worlds.anti_correlated_bandit(discount=0.5)
    two = jmdp.JIPE(max_sweeps=3, tolerance=0.0)
    result = jmdp.evaluate(world.model, world.policies["first"], jmdp.Local(), method=two, throw=False)
    np.testing.assert_allclose(result.residuals, [0.5, 0.25, 0.125], rtol=1e-14)
    assert result.certificate.mean_error == pytest.approx(0.125 / (1 - 0.5), rel=1e-11)
    error = 0.25
    size = np.abs(result.mean).max()
    assert result.certificate.covariance_error == pytest.approx(4 * error + 2 * size * error + error**2, rel=1e-11)


def swept(operator, moments):
    out = np.empty_like(moments)
    operator.sweep(moments, out)
    return out


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("bound", [1e-3, 1.0, 255.0])
def test_the_operator_contracts_with_gamma_in_the_norm_and_the_weight_is_no_larger_than_needed(bound, order):
    """‖T M − T M'‖_λ ≤ γ ‖M − M'‖_λ on random moments, attained at order 2 for constant rewards.

    There T of (1, λ_2, λ_3) is (γ, 2Bγ + γ²λ_2, 3B²γ + 3Bγ²λ_2 + γ³λ_3) but for the source: γ times λ_1 and λ_2, and
    ((1 + γ)/2)³ − ((1 − γ)/2)³ times λ_3, which is less.
    """
    rng = np.random.default_rng(0)
    for _ in range(20):
        model, policy = random_problem(rng, states=3, actions=3, discounts=(0.3, 0.9, 0.99), bounds=(bound,))
        operator = JointBellman(model, policy, COUPLINGS[rng.integers(6)], order)
        for _ in range(5):
            one, other = rng.choice([-1.0, 1.0], size=(2, operator.size)) * rng.random(operator.size) ** 0.1
            for moments in (one, other):
                for m, table in operator.tables(moments).items():
                    table *= operator.scale(sum(m))
            apart = operator.norm(swept(operator, one) - swept(operator, other))
            assert apart <= model.discount * operator.norm(one - other) * (1 + 1e-12)
    constant = jmdp.TabularJMDP([[1.0]], [[[bound]]], [[[0]]], 0.9)
    operator = JointBellman(constant, jmdp.TabularPolicy([[1.0]]), jmdp.Local(), order)
    step = np.array([operator.scale(k) for k in range(1, order + 1)])
    after = swept(operator, step) - swept(operator, np.zeros(order))
    assert operator.norm(after) == pytest.approx(0.9, rel=1e-12)
    np.testing.assert_allclose(after[:2] / step[:2], 0.9, rtol=1e-12)
    np.testing.assert_allclose(after[2:] / step[2:], 0.95**3 - 0.05**3, rtol=1e-11)


def test_residual_falls_with_gamma_per_sweep():
    world = jmdp.worlds.coupled_reward_chain(25)
    result = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method=jmdp.JIPE())
    ratio = result.residuals[1:] / result.residuals[:-1]
    assert (ratio <= 0.95 + 1e-9).all()


def test_no_variance_is_negative():
    rng = np.random.default_rng(4)
    for _ in range(20):
        model, _ = random_problem(rng, scenarios=1, discounts=(0.9,))
        policy = jmdp.TabularPolicy.deterministic(model, rng.integers(0, model.shape[2], model.shape[0]))
        result = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.JIPE())
        assert (np.einsum("saa->sa", result.covariance) >= 0).all()


def test_near_one_it_runs_out_of_sweeps_and_says_so():
    world = jmdp.worlds.anti_correlated_bandit(discount=1 - 2**-20)
    result = jmdp.evaluate(
        world.model, world.policies["first"], jmdp.Local(), method=jmdp.JIPE(max_sweeps=100), throw=False
    )
    assert result.outcome is jmdp.results.Outcome.SWEEPS_EXHAUSTED
    assert result.mean_interval(0, 0).low <= 2**19 <= result.mean_interval(0, 0).high


def raw_gap_moment(truth, s, a, b, k):
    ways = ((comb(k, i) * (-1) ** (k - i), [(s, a)] * i + [(s, b)] * (k - i)) for i in range(k + 1))
    return sum(c * truth.moment(xs) for c, xs in ways)


def within(estimate, truth):
    return Fraction(estimate.low) <= truth <= Fraction(estimate.high)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize(
    ("order", "sizes", "models"),
    [
        pytest.param(3, (2, 2, 2), 8, id="order 3"),
        pytest.param(4, (2, 2, 2), 5, id="order 4"),
        pytest.param(3, (2, 2, 3), 6, id="three actions"),
        pytest.param(3, (3, 2, 1), 4, id="three states"),
        pytest.param(3, (2, 2, 2), 20, id="order 3, 20 models", marks=pytest.mark.long),
        pytest.param(4, (2, 2, 2), 20, id="order 4, 20 models", marks=pytest.mark.long),
        pytest.param(3, (2, 2, 3), 12, id="three actions, 12 models", marks=pytest.mark.long),
        pytest.param(3, (3, 2, 1), 6, id="three states, 6 models", marks=pytest.mark.long),
    ],
)
def test_joint_moments_of_any_coordinates_lie_within_their_certificates(coupling, order, sizes, models):
    """Held against exact rationals: all moments up to the order, and the central moments of all gaps."""
    rng = np.random.default_rng(order)
    states, scenarios, actions = sizes
    for i in range(models):
        model, policy = random_problem(
            rng,
            states=states,
            scenarios=scenarios,
            actions=actions,
            discounts=(0.0, 0.5, 0.9),
            bounds=(1e-3, 1.0, 255.0),
            common_prob=coupling.shared_between_states,
        )
        truth = JointMoments(model, policy, coupling, order)
        method = jmdp.JIPE(order) if i % 3 else jmdp.JIPE(order, max_sweeps=3)
        result = jmdp.evaluate(model, policy, coupling, method, throw=False)
        for k in range(1, order + 1):
            for xs in combinations_with_replacement(truth.coordinates, k):
                assert within(result.moment(*xs), truth.moment(xs)), f"model {i}, {xs}"
        for s, b in truth.coordinates:
            if b == 0:
                continue
            gap = result.moments.gap_moments(s, 0, b)
            assert [(g.low, g, g.high) for g in gap[:2]] == [(1, 1, 1), (0, 0, 0)]
            raw = [raw_gap_moment(truth, s, 0, b, k) for k in range(order + 1)]
            for k in range(2, order + 1):
                central = sum(comb(k, i) * (-raw[1]) ** (k - i) * raw[i] for i in range(k + 1))
                assert within(gap[k], central), f"model {i}, gap in {s}, order {k}"
                assert gap[k].low <= gap[k] <= gap[k].high


def test_a_third_moment_of_three_actions_by_hand():
    """One state, always action 0 later: Z(a) = R_a + γ Y with Y = Z'(0) the same for all a and apart from R.

    E Π (R_a + γ Y) = E[R_0 R_1 R_2] + γ E[Y] Σ E[R_a R_b] + γ² E[Y²] Σ E[R_a] + γ³ E[Y³], and Y is a discounted sum of
    independent R_0, a fair coin: cumulants ½/(1 − γ), ¼/(1 − γ²) and 0.
    """
    gamma, reward = 0.5, np.array([[1.0, 0.0, 3.0], [0.0, 2.0, -1.0]])  # by the coin, by the action
    model = jmdp.TabularJMDP([[0.5, 0.5]], [reward], np.zeros((1, 2, 3), int), gamma)
    policy = jmdp.TabularPolicy.deterministic(model, [0])
    result = jmdp.evaluate(model, policy, jmdp.Local(), jmdp.JIPE(3, tolerance=1e-13))
    mean, variance = 0.5 / (1 - gamma), 0.25 / (1 - gamma**2)
    later = [1.0, mean, variance + mean**2, 3 * mean * variance + mean**3]
    x, y, z = reward.T
    sums = [np.mean(x * y * z), np.mean(x * y + x * z + y * z), np.mean(x + y + z), 1.0]
    expected = sum(gamma**k * later[k] * sums[k] for k in range(4))
    found = result.moment((0, 0), (0, 1), (0, 2))
    assert found == pytest.approx(expected, rel=1e-9)
    assert found.low <= expected <= found.high
    # The gap is R_0 − R_1 alone: 1 or −2, central moments of ±3/2.
    assert result.moments.gap_moments(0, 0, 1) == pytest.approx((1, 0, 2.25, 0), abs=1e-7)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_the_second_order_part_is_that_of_order_two_bit_for_bit(coupling):
    rng = np.random.default_rng(9)
    for _ in range(2):
        model, policy = random_problem(rng, states=4, actions=3, discounts=(0.5, 0.9))
        results = [
            jmdp.evaluate(model, policy, coupling, jmdp.JIPE(order, tolerance=0.0, max_sweeps=40), throw=False)
            for order in (2, 3, 4)
        ]
        fewest = min(result.residuals.size for result in results)
        two, three, four = (
            jmdp.evaluate(model, policy, coupling, jmdp.JIPE(order, 0.0, fewest), throw=False) for order in (2, 3, 4)
        )
        for more in (three, four):
            np.testing.assert_array_equal(two.mean, more.mean)
            np.testing.assert_array_equal(two.covariance, more.covariance)
            for m, table in two.moments.tables.items():
                np.testing.assert_array_equal(table, more.moments.tables[m])


def test_order_two_through_moment_is_the_second_moment():
    world = jmdp.worlds.windy_gridworld(3, 3)
    result = jmdp.evaluate(world.model, world.policies["careless"], jmdp.Local(), method=jmdp.JIPE())
    other = jmdp.evaluate(world.model, world.policies["careless"], jmdp.Local())
    for s, a, t, b in ((0, 1, 0, 2), (0, 1, 4, 2), (3, 3, 3, 3)):
        one, two = result.moment((s, a), (t, b)), other.moment((s, a), (t, b))
        assert one == pytest.approx(result.second_moment(s, a, t, b), rel=1e-12)
        assert max(one.low, two.low) <= min(one.high, two.high)
    gap = result.gap(4, 0, 1)
    variance = result.moments.gap_moments(4, 0, 1)[2]
    assert variance == pytest.approx(gap.variance, rel=1e-9, abs=1e-9)


def test_partitions_are_all_there_with_the_fewest_parts_first():
    assert partitions(3, 3) == [(1,), (2,), (3,), (1, 1), (2, 1), (1, 1, 1)]
    assert partitions(4, 2) == [(1,), (2,), (3,), (4,), (1, 1), (2, 1), (2, 2), (3, 1)]
    assert Counter(map(sum, partitions(8, 9))) == dict(enumerate([1, 2, 3, 5, 7, 11, 15, 22], start=1))


def test_one_coordinate_has_moments_of_any_order():
    """Z = Σ γ^t R with R a fair coin: E[Z^k] from E[Z^k] (1 − γ^k) = ½ Σ_{i<k} C(k, i) γ^i E[Z^i], for R = 1."""
    model = jmdp.TabularJMDP([[0.5, 0.5]], [[[0.0], [1.0]]], [[[0], [0]]], 0.5)
    result = jmdp.evaluate(model, jmdp.TabularPolicy([[1.0]]), jmdp.Local(), method=jmdp.JIPE(12))
    moments = [1.0]
    for k in range(1, 13):
        moments.append(sum(comb(k, i) * 0.5**i * moments[i] for i in range(k)) / 2 / (1 - 0.5**k))
        assert result.moment(*[(0, 0)] * k) == pytest.approx(moments[k], rel=1e-8)


def test_orders_that_cannot_be_had_are_refused_with_the_reason():
    world = jmdp.worlds.windy_gridworld()
    policy = world.policies["uniform"]
    with pytest.raises(SettingsError, match=r"order is 1\. Give a whole number from 2 to 40"):
        jmdp.JIPE(1)
    message = r"JIPE on 100 coordinates up to order 4 needs 3\.61 GiB.*may be used\. Use ExactPairs\(order=4\)"
    with pytest.raises(MemoryBudgetError, match=message):
        jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.JIPE(4, memory_budget=10**9))
    with pytest.raises(MemoryBudgetError, match="up to order 40 needs"):
        jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.JIPE(40, memory_budget=10**9))
    near = jmdp.worlds.anti_correlated_bandit(discount=1 - 2**-50)
    with pytest.raises(SettingsError, match="Give at most 18: higher moments can overflow"):
        jmdp.evaluate(near.model, near.policies["first"], jmdp.Local(), method=jmdp.JIPE(19))


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize(
    ("order", "S", "K", "A"),
    [(2, 200, 2, 1), (2, 80, 9, 2), (2, 20, 12, 6), (3, 50, 2, 1), (3, 20, 5, 2), (3, 12, 2, 4), (4, 4, 3, 3)],
)
def test_a_run_stays_within_its_plan(coupling, order, S, K, A):
    rng = np.random.default_rng(0)
    prob, n = rng.dirichlet(np.ones(K), size=1).repeat(S, axis=0), rng.integers(0, S, size=(S, K, A))
    model = jmdp.TabularJMDP(prob, rng.random((S, K, A)), n, 0.9)
    policy = jmdp.TabularPolicy(rng.dirichlet(np.ones(A), size=S))
    run = (model, policy, coupling, jmdp.JIPE(order, max_sweeps=3))
    jmdp.evaluate(*run, throw=False)  # loads what is loaded once
    tracemalloc.start()
    jmdp.evaluate(*run, throw=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    needed = needed_bytes(model, coupling, order)
    print(f"{coupling}, order {order}, {model.shape}: {peak / needed:.2f} of {needed:.3g} bytes")
    assert peak <= needed + 100_000


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_the_checker_checks_moments_of_higher_order(coupling):
    rng = np.random.default_rng(6)
    for order in (3, 3, 4):
        model, policy = random_problem(rng, states=2, scenarios=2, actions=2, discounts=(0.5, 0.9))
        result = jmdp.evaluate(model, policy, coupling, jmdp.JIPE(order))
        check_certificate(model, policy, result)
        moments = result.moments.moments.copy()
        result.moments.operator.tables(moments)[order,][0] += 10 * result.moments._off(order)
        table = type(result.moments)(result.moments.operator, moments, result.moments.error)
        with pytest.raises(CertificateError, match="moments may have an error of"):
            check_certificate(model, policy, dataclasses.replace(result, cross=table, moments=table))
