"""What comes after a rollout's horizon: bounded by the table's own rewards, or said to be an assumption."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError
from jmdp.simulators import FunctionSimulator, TabularSimulator

LATE = 71
"""Step in which the late reward is paid. Rollouts of a simulator at discount 0.9 have 66 steps."""


def late_reward(size: float = 10.0, discount: float = 0.9) -> jmdp.TabularJMDP:
    """In state 0, "now" pays 0.001 on average and ends; "wait" pays 0 on average, and `size` after `LATE` steps."""
    S = LATE + 2
    reward, next_state = np.zeros((S, 2, 2)), np.full((S, 2, 2), LATE + 1)
    reward[0, :, 0], reward[0, :, 1] = (0.0011, 0.0009), (-0.0001, 0.0001)
    next_state[0, :, 1] = 1
    next_state[np.arange(1, LATE)] = np.arange(2, LATE + 1)[:, None, None]
    reward[LATE] = size
    ends = np.arange(S) == LATE + 1
    return jmdp.TabularJMDP(np.full((S, 2), 0.5), reward, next_state, discount, ends, action_names=["now", "wait"])


def exact_gap(model: jmdp.TabularJMDP) -> float:
    """E[Z(0, wait) − Z(0, now)], from `ExactPairs`."""
    policy = jmdp.TabularPolicy.uniform(model)
    truth = jmdp.evaluate(model, policy, jmdp.Synchronous(), jmdp.ExactPairs(), throw=False)  # variances may underflow
    return float(truth.mean[0, 1] - truth.mean[0, 0])


@pytest.mark.parametrize("horizon", [None, 5, 66, 71, 72])
def test_a_reward_after_the_horizon_of_a_table_is_in_the_interval(horizon):
    model = late_reward()
    found = jmdp.compare(model, jmdp.TabularPolicy.uniform(model), state=0, seed=0, horizon=horizon, max_samples=256)
    interval = found.gap("wait", "now").mean_interval
    assert interval is not None
    assert exact_gap(model) in interval
    assert found.best == ("wait" if horizon in (None, 72) else None)
    assert found.summary.limits.bound == 10
    assert found.summary.limits.assumption is None


@pytest.mark.parametrize("horizon", [None, 5, 66])
def test_monte_carlo_on_a_table_as_a_simulator_has_the_bound_and_horizon_of_the_table(horizon):
    model = late_reward()
    uniform = jmdp.TabularPolicy.uniform(model)
    method = jmdp.MonteCarlo(seed=0, samples=200, states=[0], horizon=horizon)
    found = jmdp.evaluate(TabularSimulator(model), uniform, jmdp.Synchronous(), method)
    interval = found.gap(0, "wait", "now").mean_interval
    assert interval is not None
    assert exact_gap(model) in interval
    assert found.certificate is not None
    assert found.certificate.reward_bound == 10
    assert "rewards after step" not in repr(found)


def test_a_smaller_bound_than_the_table_has_is_refused():
    model = late_reward()
    with pytest.raises(SettingsError, match=r"reward_bound is 1\.0, but rewards of size 10\.0 are possible"):
        jmdp.compare(
            model, jmdp.TabularPolicy.uniform(model), state=0, seed=0, assume=jmdp.Assumptions(reward_bound=1.0)
        )


def test_rewards_that_cannot_be_reached_do_not_count():
    """Two separate parts, of rewards 1e8 and 1."""
    reward = np.array([[[1e8, -1e8]] * 2, [[1.0, 0.0], [0.5, 0.25]]])
    model = jmdp.TabularJMDP(np.full((2, 2), 0.5), reward, [[[0, 0]] * 2, [[1, 1]] * 2], 0.9)
    simulator = TabularSimulator(model)
    assert [simulator.largest_reward_from(s) for s in (0, 1)] == [1e8, 1.0]
    found = jmdp.compare(model, [0, 0], state=1, seed=0, max_samples=64)
    assert found.summary.limits.cut <= 1e-5
    assert found.best == "0"


def test_scenarios_that_cannot_happen_lead_nowhere():
    model = jmdp.TabularJMDP([[1.0, 0.0]] * 2, np.array([[[1.0]] * 2, [[5.0]] * 2]), [[[0], [1]], [[1], [1]]], 0.5)
    assert TabularSimulator(model).largest_reward_from(0) == 1.0


@pytest.mark.parametrize("size", [1e-300, 1e100])
def test_a_bound_far_from_the_rewards_met(size):
    """The scale of what was met and of what may come differ by a factor that float64 cannot square."""
    model = late_reward(size)
    policy, lost = jmdp.TabularPolicy.uniform(model), jmdp.Assumptions(largest_loss=1e-3)  # the gap does not vary
    found = jmdp.compare(model, policy, state=0, seed=0, horizon=5, max_samples=64, assume=lost)
    interval = found.gap("wait", "now").mean_interval
    assert interval is not None
    assert exact_gap(model) in interval


def endless(reward) -> FunctionSimulator:
    return FunctionSimulator(reward, lambda s, a, u: s + 1, 2, start=0)


def test_without_a_known_bound_the_result_says_what_it_assumes():
    noisy = endless(lambda s, a, u: float(u) + a)
    found = jmdp.compare(noisy, policy=lambda s: 0, seed=0, discount=0.9, max_samples=64, horizon=20)
    says = "rewards after step 20 are at most "
    assert says in " ".join(repr(found).split())
    method = jmdp.MonteCarlo(seed=0, samples=64, horizon=20)
    assert says in repr(jmdp.evaluate(noisy, lambda s: 0, jmdp.Synchronous(), method, discount=0.9))
    known = jmdp.compare(
        noisy,
        policy=lambda s: 0,
        seed=0,
        discount=0.9,
        max_samples=64,
        horizon=20,
        assume=jmdp.Assumptions(reward_bound=2.0),
    )
    assert "rewards after step" not in " ".join(repr(known).split())
    over = FunctionSimulator(lambda s, a, u: u + a, lambda s, a, u: 1, 2, start=0, terminal=lambda s: s == 1)
    assert "rewards after step" not in repr(
        jmdp.compare(over, policy=lambda s: 0, seed=0, discount=0.9, max_samples=64)
    )


def test_a_bound_that_a_reward_exceeds_is_refused():
    with pytest.raises(SettingsError, match=r"reward_bound is 1\.0, but a reward of size 2\.0 was observed"):
        jmdp.compare(
            endless(lambda s, a, u: 2.0 * a),
            policy=lambda s: 0,
            seed=0,
            discount=0.9,
            max_samples=64,
            assume=jmdp.Assumptions(reward_bound=1.0),
        )
