"""Some simulated steps before the network is asked: their distribution, and the moments of what they end in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import jmdp
from jmdp.methods.neural_gram import Lookahead
from jmdp.methods.neural_gram.encoders import OneHot
from jmdp.methods.neural_gram.lookahead_rollouts import LookaheadRollouts, LookaheadSimulation
from jmdp.methods.neural_gram.losses import means_of, moments_of, still_to_come
from jmdp.methods.neural_gram.network import GramNetwork
from jmdp.simulators import TabularSimulator
from methods.neural_gram.gram_cases import WORLD, walks

MODEL, POLICY = WORLD.model, WORLD.policies["uniform"]
DISCOUNT, STEPS = MODEL.discount, 4


@pytest.fixture(scope="module")
def network() -> GramNetwork:
    import jax

    return GramNetwork(OneHot(4), np.arange(4), 4, "sum", 3, (0.3, 1.2, 0.7), jax.random.key(3))


@pytest.mark.parametrize("prior", [0.5, 4.0])
def test_two_actions_have_the_moments_of_their_gap(network, prior):
    """With G = Σ γ^t (R − R̃)_t + γ^k (q(x_k) − q(y_k)), pair by pair as losses have them, in single precision."""
    found = walks(20, 8, 6)
    assert found.ended[:, STEPS].any()
    end, action, ended = found.observation[:, STEPS], found.action[:, STEPS], found.ended[:, STEPS]
    q = np.where(ended, 0.0, np.asarray(means_of(network, end, action)))
    weights = DISCOUNT ** np.arange(STEPS)
    y = (found.reward[:, :STEPS] * weights[None, :, None]).sum(axis=1) + DISCOUNT**STEPS * q
    gap = (y[:, 0] - y[:, 1]).reshape(20, 8)
    left = still_to_come(moments_of(network, end, action, found.same[:, STEPS]), ended).gap
    later = np.asarray(left).reshape(20, 8).mean(axis=1)
    rows = slice(None, None, 8)
    learned = moments_of(network, found.observation[rows, 0], found.action[rows, 0], found.same[rows, 0]).gap
    seen = gap.var(axis=1, ddof=1) + DISCOUNT ** (2 * STEPS) * later
    expected = (prior * np.asarray(learned) + 7 * seen) / (prior + 7)
    mean, covariance = LookaheadRollouts.of_walks(found, STEPS, DISCOUNT).moments(network, prior)
    assert mean[:, 0] - mean[:, 1] == pytest.approx(gap.mean(axis=1), abs=1e-5)
    variance = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
    assert variance == pytest.approx(expected, rel=1e-4)
    assert (np.linalg.eigvalsh(covariance) >= -1e-12).all()


@pytest.mark.parametrize(
    "coupling", [jmdp.Local(), jmdp.Synchronous(), jmdp.Local(policy_luck="shared")], ids=lambda c: repr(c)
)
def test_long_ones_have_the_distribution_of_returns(coupling):
    """600 rollouts of 14 steps, γ^14 < 0.01: means and covariances of all actions within five standard errors.

    Of 42 numbers one is off by so much with probability 2·10⁻⁵; the seed is fixed.
    """
    simulator = TabularSimulator(MODEL)
    actor = jmdp.as_policy(POLICY, simulator.actions)
    simulation = LookaheadSimulation(simulator, actor, coupling, simulator.actions)
    lookahead = Lookahead(steps=14, repeats=600, seed=1)
    returns = simulation.run(0, lookahead, DISCOUNT).returns[0]
    exact = jmdp.evaluate(MODEL, POLICY, coupling, progress=False)
    off = returns - returns.mean(axis=0)
    assert (np.abs(returns.mean(axis=0) - exact.mean[0]) <= 5 * off.std(axis=0) / 600**0.5 + 0.01).all()
    products = off[:, :, None] * off[:, None, :]
    error = 5 * products.std(axis=0) / 600**0.5 + 0.02
    assert (np.abs(products.mean(axis=0) - exact.covariance[0]) <= error).all()
    again = simulation.run(0, replace(lookahead, repeats=5), DISCOUNT)
    assert np.array_equal(again.returns[0], returns[:5])


def test_branches_that_meet_stand_on_one_state():
    """With luck that all share, in a world of one state: all branches stand on it, and take one action."""
    bandit = jmdp.worlds.anti_correlated_bandit()
    simulator = TabularSimulator(bandit.model)
    actor = jmdp.as_policy(bandit.policies["uniform"], simulator.actions)
    shared = jmdp.Synchronous(policy_luck="shared")
    found = LookaheadSimulation(simulator, actor, shared, simulator.actions).run(0, Lookahead(steps=2), 0.9)
    assert found.same_state.all()
    assert (found.end_action == found.end_action[..., :1]).all()
    assert found.discount == pytest.approx(0.81)
