"""JIPE: the paper's operator, its norm and its certificate."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.methods.jipe import JointBellman
from models import COUPLINGS, random_problem
from reference import pair_chain


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_inside_the_certificate_of_exact_pairs_and_the_other_way_round(coupling):
    rng = np.random.default_rng(3)
    for _ in range(15):
        model, policy = random_problem(rng, states=5, actions=3, discounts=(0.0, 0.5, 0.9))
        one = jmdp.evaluate(model, policy, coupling)
        other = jmdp.evaluate(model, policy, coupling, jmdp.JIPE())
        mean, covariance = pair_chain.covariances(model, policy, coupling)
        a, b = one.certificate, other.certificate
        assert np.abs(one.mean - other.mean).max() <= a.mean_error + b.mean_error
        S, A = mean.shape
        for s in range(S):
            for t in range(S):
                x, y = rng.integers(0, A, 2)
                apart = abs(one.cross_covariance(s, x, t, y) - other.cross_covariance(s, x, t, y))
                assert apart <= a.covariance_error + b.covariance_error
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
    result = jmdp.evaluate(world.model, world.policies["first"], method=two, throw=False)
    np.testing.assert_allclose(result.residuals, [0.5, 0.25, 0.125], rtol=1e-14)
    assert result.certificate.mean_error == pytest.approx(0.125 / (1 - 0.5), rel=1e-11)
    error = 0.25
    size = np.abs(result.mean).max()
    assert result.certificate.covariance_error == pytest.approx(4 * error + 2 * size * error + error**2, rel=1e-11)


def swept(operator, moments):
    out = np.empty_like(moments)
    operator.sweep(moments, out)
    return out


@pytest.mark.parametrize("bound", [1e-3, 1.0, 255.0])
def test_the_operator_contracts_with_gamma_in_the_norm_and_the_weight_is_no_larger_than_needed(bound):
    """‖T M − T M'‖_λ ≤ γ ‖M − M'‖_λ on random moments, attained for constant rewards where both terms pull alike."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        model, policy = random_problem(rng, states=4, actions=3, discounts=(0.3, 0.9, 0.99), bounds=(bound,))
        operator = JointBellman(model, policy, jmdp.Local())
        for _ in range(5):
            one, other = rng.normal(size=(2, operator.size))
            for moments in (one, other):
                _, second, square = operator.split(moments)
                second *= operator.weight
                square *= operator.weight
                np.fill_diagonal(second, square)
            apart = operator.norm(swept(operator, one) - swept(operator, other))
            assert apart <= model.discount * operator.norm(one - other) * (1 + 1e-12)
    constant = jmdp.TabularJMDP([[1.0]], [[[bound]]], [[[0]]], 0.9)
    operator = JointBellman(constant, jmdp.TabularPolicy([[1.0]]), jmdp.Local())
    step = np.array([1.0, operator.weight, operator.weight])
    after = swept(operator, step) - swept(operator, np.zeros(3))
    assert operator.norm(after) == pytest.approx(0.9, rel=1e-12)
    assert after[1] / operator.weight == pytest.approx(0.9, rel=1e-12)


def test_residual_falls_with_gamma_per_sweep():
    world = jmdp.worlds.coupled_reward_chain(25)
    result = jmdp.evaluate(world.model, world.policies["uniform"], method=jmdp.JIPE())
    ratio = result.residuals[1:] / result.residuals[:-1]
    assert (ratio <= 0.95 + 1e-9).all()


def test_no_variance_is_negative():
    rng = np.random.default_rng(4)
    for _ in range(20):
        model, _ = random_problem(rng, scenarios=1, discounts=(0.9,))
        policy = jmdp.TabularPolicy.deterministic(model, rng.integers(0, model.shape[2], model.shape[0]))
        result = jmdp.evaluate(model, policy, method=jmdp.JIPE())
        assert (np.einsum("saa->sa", result.covariance) >= 0).all()


def test_near_one_it_runs_out_of_sweeps_and_says_so():
    world = jmdp.worlds.anti_correlated_bandit(discount=1 - 2**-20)
    result = jmdp.evaluate(world.model, world.policies["first"], method=jmdp.JIPE(max_sweeps=100), throw=False)
    assert result.outcome is jmdp.Outcome.SWEEPS_EXHAUSTED
    assert result.mean_interval(0, 0).low <= 2**19 <= result.mean_interval(0, 0).high
