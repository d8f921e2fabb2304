"""The benchmark of policies: its plain loops against exact answers, its gains against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from benchmarks import checkpoints
from benchmarks.policies import Gain
from benchmarks.policy_tasks import _inventory, _plan, _queue


@pytest.mark.parametrize(
    "task",
    [
        _inventory("inventory", jmdp.worlds.inventory()),
        _inventory("inventory with lead time", jmdp.worlds.inventory_with_lead_time(12, most_ordered=4)),
        _queue(),
    ],
    ids=lambda task: task.name,
)
def test_plain_loops_have_the_means_of_the_tables(task):
    """Within 5 standard errors: what is drawn in another order, with another generator, is the same problem."""
    model, start = task.source.model, task.source.start
    for name, policy in task.policies.items():
        returns = task.plain(name, range(600))
        exact = start @ (jmdp.evaluate(model, policy, jmdp.Local()).mean * policy.probs).sum(axis=1)
        cut = model.discount**task.horizon * model.reward_bound / (1 - model.discount)
        assert abs(returns.mean() - exact) <= 5 * returns.std() / np.sqrt(len(returns)) + cut


def test_a_gain_is_one_over_one_minus_the_correlation():
    """Equal variances: (1 + 1)/(2 − 2ρ). The interval of five runs contains it."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(5, 4000, 1))
    returns = np.sqrt(0.8) * common + np.sqrt(0.2) * rng.normal(size=(5, 4000, 2))
    gain = Gain.of(list(returns), rng)
    assert gain.low < 1 / (1 - 0.8) < gain.high
    assert gain.high - gain.low < 0.5
    assert Gain.of([np.array([[0.0, 1.0], [1.0, 2.0]])], rng).median == np.inf


@pytest.mark.parametrize(("task", "observations", "actions"), [("FrozenLake", 16, 4), ("CartPole", 4, 2)])
def test_trained_agents_load_without_torch(task, observations, actions):
    half, end = checkpoints.trained(task).values()
    shown = range(16) if task == "FrozenLake" else np.random.default_rng(0).normal(size=(50, observations))
    chosen = [[agent(observation) for observation in shown] for agent in (half, end)]
    assert chosen[0] != chosen[1]
    assert set(chosen[0] + chosen[1]) <= set(range(actions))
    assert checkpoints.FILE.stat().st_size < 200_000


def test_the_plan_for_a_table_is_the_best_one():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    act, env_steps = _plan(env), 0
    observation, _ = env.reset(seed=0)
    terminated = False
    while not terminated:
        observation, reward, terminated, *_ = env.step(act(observation))
        env_steps += 1
    assert (reward, env_steps) == (1, 6)
