"""Tables of Gymnasium's environments: exact gaps are those of the environments themselves under a shared generator."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.errors import ModelError
from jmdp.models.couple import CommonUniform, couple
from jmdp.models.marginals import Marginals

gymnasium = pytest.importorskip("gymnasium")

TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
"""Gymnasium 1.3 replaced version 3, whose rain was wrong."""


def greedy(model: jmdp.TabularJMDP) -> np.ndarray:
    """Best action of each state, by value iteration."""
    mdp = model.marginal_mdp()
    value = np.zeros(model.shape[0])
    for _ in range(300):
        q = mdp.reward + mdp.discount * (mdp.transition @ value).reshape(mdp.reward.shape)
        value = q.max(axis=1)
    return q.argmax(axis=1)


def assert_exact_gaps_are_those_of_the_environment(env, discount, states, samples) -> None:
    """Mean and variance of the gap within 5 standard errors, a false alarm of about 1e-6 each."""
    model = couple(Marginals.from_toy_text(env, discount), CommonUniform(across_states=True))
    follow = greedy(model)
    policy = jmdp.TabularPolicy.deterministic(model, follow)
    exact = jmdp.evaluate(model, policy, jmdp.Synchronous(), jmdp.ExactPairs(tolerance=1e-6))
    for state, actions in states.items():
        env.reset(seed=0)
        env.unwrapped.s = state
        found = jmdp.compare(
            env, policy=lambda s: int(follow[s]), actions=actions, seed=1, discount=discount, precision=1e-9,
            max_samples=samples, horizon=int(np.log(1e-5) / np.log(discount)), progress=False,
        )  # fmt: skip
        gaps = found.summary.samples.returns[:, 0] - found.summary.samples.returns[:, 1]
        expected = exact.gap(state, *actions)
        squares = (gaps - gaps.mean()) ** 2
        assert len(gaps) == samples
        assert squares.std() > 0
        assert abs(gaps.mean() - expected.mean) < 5 * gaps.std() / np.sqrt(samples) + 1e-4
        assert abs(squares.mean() - expected.std**2) < 5 * squares.std() / np.sqrt(samples) + 1e-4


def test_frozen_lake():
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    assert_exact_gaps_are_those_of_the_environment(env, 0.9, {14: [1, 2], 13: [0, 3]}, 1000)


def test_rainy_taxi():
    env = gymnasium.make(TAXI, is_rainy=True)
    assert_exact_gaps_are_those_of_the_environment(env, 0.6, {147: [0, 1], 328: [2, 3]}, 1000)


def test_holes_and_the_goal_of_the_lake_are_terminal():
    marginals = Marginals.from_toy_text(gymnasium.make("FrozenLake-v1"), 0.9)
    assert np.flatnonzero(marginals.terminal).tolist() == [5, 7, 11, 12, 15]
    assert marginals.shape == (16, 4)
    assert marginals.outcomes(0, 0).next_state.tolist() == [0, 0, 4]  # as listed by Gymnasium: up, left, down
    assert couple(marginals, CommonUniform(across_states=True)).shape == (16, 3, 4)


@pytest.mark.parametrize("name", [TAXI, "CliffWalking-v1"])
def test_episodes_that_end_in_ordinary_states_end_in_an_added_one(name):
    env = gymnasium.make(name)
    marginals = Marginals.from_toy_text(env, 0.9)
    assert marginals.shape[0] == env.observation_space.n + 1
    assert marginals.states.names[-1] == "ended"
    assert np.flatnonzero(marginals.terminal).tolist() == [env.observation_space.n]


def test_what_p_does_not_contain_is_refused():
    lake = gymnasium.make("FrozenLake-v1")
    wrapped = gymnasium.wrappers.TransformReward(lake, lambda r: 2 * r)
    with pytest.raises(ModelError, match=r"wrapper TransformReward may change rewards .* Give env\.unwrapped"):
        Marginals.from_toy_text(wrapped, 0.9)
    assert Marginals.from_toy_text(wrapped.unwrapped, 0.9).shape == (16, 4)
    with pytest.raises(ModelError, match=r"fickle_passenger=False"):
        Marginals.from_toy_text(gymnasium.make(TAXI, fickle_passenger=True), 0.9)
    with pytest.raises(ModelError, match=r"no environment with a table P"):
        Marginals.from_toy_text(gymnasium.make("CartPole-v1"), 0.9)
