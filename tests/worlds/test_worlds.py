"""Worlds: their tables by hand, and what is known of their answers."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.errors import ModelError


def test_windy_gridworld_moves_by_hand():
    world = jmdp.worlds.windy_gridworld(3, 4, gust=0.3, goal_reward=2.0, step_reward=-1.0)
    model = world.model

    def goes(state, action):
        s, a = model.states.index(state), model.actions.index(action)
        return [model.states.name(int(n)) for n in model.next_state[s, :, a]], model.reward[s, :, a].tolist()

    assert goes("2,1", "R") == (["2,2", "2,1"], [-1.0, -1.0])
    assert goes("2,1", "U") == (["1,1", "1,0"], [-1.0, -1.0])
    assert goes("2,0", "L") == (["2,0", "2,0"], [-1.0, -1.0])
    assert goes("1,3", "U") == (["0,3", "0,2"], [2.0, -1.0])
    assert goes("0,2", "R") == (["0,3", "0,2"], [2.0, -1.0])
    assert model.terminal[model.states.index("0,3")]
    np.testing.assert_allclose(model.prob[0], [0.7, 0.3])
    directed = world.policies["goal_directed"].probs
    assert directed[model.states.index("2,1")].tolist() == [0, 1, 0, 0]
    assert directed[model.states.index("2,3")].tolist() == [1, 0, 0, 0]


def test_a_calm_grid_is_walked_in_a_straight_line():
    world = jmdp.worlds.windy_gridworld(4, 6, gust=0.0, discount=0.9)
    result = jmdp.evaluate(world.model, world.policies["goal_directed"], jmdp.Local())
    steps = 3 + 5
    start = world.model.states.index("3,0")
    assert result.mean[start].max() == pytest.approx(0.9 ** (steps - 1), rel=1e-14)
    assert (np.abs(result.covariance) <= result.certificate.covariance_error).all()


def test_coupled_reward_chain_has_opposite_rewards_on_one_road():
    """Under "first" both actions differ by one step only: G = 2R, and nothing else."""
    world = jmdp.worlds.coupled_reward_chain(10, reward=3.0, up=0.25)
    result = jmdp.evaluate(world.model, world.policies["first"], jmdp.Local())
    gap = result.gap("s0", "a1", "a2")
    assert gap.mean == pytest.approx(2 * 3 * (0.25 - 0.75))
    assert gap.variance == pytest.approx(4 * (4 * 9 * 0.25 * 0.75), rel=1e-12)


def test_the_last_step_of_the_chain_is_anti_correlated():
    world = jmdp.worlds.coupled_reward_chain(25)
    result = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local())
    assert result.correlation[23, 0, 1] == pytest.approx(-1.0)
    assert result.correlation[0, 0, 1] > -1


def test_inventory_table_by_hand():
    world = jmdp.worlds.inventory(
        4, most_ordered=3, mean_demand=2.0, price=5, unit_cost=2, order_cost=1, holding_cost=0.5, shortage_cost=3
    )
    model = world.model
    # Stock 2, order 1, demand 5: 3 sold, 2 lost, none left.
    s, k, a = model.states.index("2"), 5, model.actions.index("order 1")
    assert model.next_state[s, k, a] == 0
    assert model.reward[s, k, a] == pytest.approx(5 * 3 - 2 - 1 - 3 * 2)
    # Stock 3, order 3: only one fits; demand 1: 1 sold, 3 left.
    s, k, a = model.states.index("3"), 1, model.actions.index("order 3")
    assert model.next_state[s, k, a] == 3
    assert model.reward[s, k, a] == pytest.approx(5 * 1 - 2 - 1 - 0.5 * 3)
    assert model.prob[0] @ np.arange(model.shape[1]) == pytest.approx(2.0, abs=1e-3)


def test_inventory_orders_are_compared_under_the_same_demand():
    world = jmdp.worlds.inventory()
    shared = jmdp.evaluate(world.model, world.policies["base_stock"], jmdp.Synchronous())
    apart = jmdp.evaluate(world.model, world.policies["base_stock"], jmdp.Independent())
    one, other = (r.gap("3", "order 3", "order 4") for r in (shared, apart))
    assert one.mean == other.mean
    assert other.variance / one.variance > 100
    assert shared.gap("3", "order 3", "order 0").is_better() is jmdp.results.Verdict.YES


def test_starts():
    grid = jmdp.worlds.windy_gridworld(3, 4)
    assert grid.model.states.name(int(grid.start.argmax())) == "2,0"
    assert jmdp.worlds.coupled_reward_chain(5).start.tolist() == [1, 0, 0, 0, 0]
    assert jmdp.worlds.anti_correlated_bandit().start.tolist() == [1]
    np.testing.assert_allclose(jmdp.worlds.inventory(4).start, [0.2] * 5)
    with pytest.raises(ValueError, match="read-only"):
        grid.start[0] = 1


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ([1.0], r"start has shape \(1,\), the model has 2 states. Give a probability for each."),
        ([1.5, -0.5], "start has an entry -0.5. Give probabilities in"),
        ([0.5, 0.4], "start sums to 0.9"),
    ],
)
def test_a_start_is_a_distribution(start, says):
    model = jmdp.TabularJMDP([[1.0]] * 2, [[[0.0]]] * 2, [[[0]]] * 2, 0.5)
    with pytest.raises(ModelError, match=says):
        jmdp.worlds.World(model, {}, start=start)


@pytest.mark.parametrize(
    "world",
    [
        jmdp.worlds.windy_gridworld(1, 1),
        jmdp.worlds.windy_gridworld(1, 5),
        jmdp.worlds.windy_gridworld(7, 2, gust=1.0),
        jmdp.worlds.coupled_reward_chain(2),
        jmdp.worlds.coupled_reward_chain(100, reward=-2.0, up=1.0),
        jmdp.worlds.anti_correlated_bandit(discount=0.0),
        jmdp.worlds.inventory(1, most_ordered=1, mean_demand=0.0),
        jmdp.worlds.inventory_with_lead_time(1, lead_time=3),
        jmdp.worlds.inventory_with_lead_time(5, lead_time=1, price=0.0, holding_cost=0.0, shortage_cost=0.0),
        jmdp.worlds.queue_admission(1, servers=1),
        jmdp.worlds.queue_admission(12, arrivals=[0.9], service=0.05, fees=[-1.0]),
        jmdp.worlds.inventory(30, most_ordered=30, mean_demand=20.0, price=0.0),
    ],
)
def test_every_size_has_its_policies(world):
    for name, policy in world.policies.items():
        for coupling in (jmdp.Local, jmdp.Synchronous, jmdp.Independent):
            result = jmdp.evaluate(world.model, policy, coupling())
            assert result.outcome.successful, name
