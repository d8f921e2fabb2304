"""A policy determines the action of a state only if no other action is possible."""

from fractions import Fraction

import numpy as np
import pytest

import jmdp
from jmdp.reviews.rollout_values import summary
from jmdp.simulators.rollouts.draws import Draws

RARE = 1e-17


@pytest.fixture
def model():
    return jmdp.TabularJMDP([[1.0]], [[[0.0, 1e10]]], [[[0, 0]]], 0.5)


@pytest.fixture
def policy():
    return jmdp.TabularPolicy([[1.0, RARE]])


@pytest.mark.parametrize("horizon", [None, 40])
def test_returns_of_one_policy_differ_if_an_action_is_rare(model, policy, horizon):
    gap = jmdp.evaluate(model, {"one": policy, "other": policy}, jmdp.Local(), horizon=horizon).gap(0, "one", "other")
    p = Fraction(RARE) / (1 + Fraction(RARE))
    discounted = 1 - Fraction(1, 4) ** horizon if horizon else 1
    truth = 2 * p * (1 - p) * Fraction(1e10) ** 2 / (1 - Fraction(1, 4)) * discounted
    assert gap.variance_interval.low <= truth <= gap.variance_interval.high
    assert gap.std == pytest.approx(51.6, rel=1e-3)
    assert gap.correlation_interval.low <= 0 <= gap.correlation_interval.high < 1e-9


def test_rare_actions_need_random_numbers(policy):
    actor = jmdp.as_policy(policy, None)
    assert actor.needs_luck
    np.testing.assert_array_equal(actor.table(1, 2), policy.probs)


def test_text_of_a_policy_with_a_rare_action(policy):
    assert repr(policy) == "TabularPolicy(1 states, 2 actions, stochastic)"
    assert policy.certain.tolist() == [False]
    assert policy.probs.tolist() == [[1.0, RARE]]


def test_a_single_possible_action_is_certain_although_its_probability_was_rounded():
    policy = jmdp.TabularPolicy([[1 - 2**-53, 0.0], [0.0, 1.0], [0.5, 0.5]])
    assert policy.certain.tolist() == [True, True, False]
    assert policy.probs.tolist() == [[1, 0], [0, 1], [0.5, 0.5]]
    assert not jmdp.as_policy([[1 - 2**-53, 0.0]], None).needs_luck


def test_skill_of_the_usual_action_has_an_error_if_another_is_possible(policy):
    returns, none = np.array([[0.0, 1e10], [0.0, 2e10]]), np.zeros((2, 2), int)
    draws = Draws(returns, none, none, 1e10, steps=4, shared_steps=0, drew=True)
    assert summary(draws, 0, policy.probs[0], 0, 0.95).skill_error > 0
    assert summary(draws, 0, np.array([1.0, 0.0]), 0, 0.95).skill_error == 0
