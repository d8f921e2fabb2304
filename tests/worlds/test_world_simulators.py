"""Worlds with a simulator: step by step the same as their table, and the same answers in the long run."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.base.luck_batch import Shocks
from jmdp.testing import check_simulator

WORLDS = {
    "inventory": jmdp.worlds.inventory(6, most_ordered=4),
    "lead time 1": jmdp.worlds.inventory_with_lead_time(7, lead_time=1, most_ordered=4),
    "lead time 2": jmdp.worlds.inventory_with_lead_time(6, most_ordered=3, mean_demand=2.0, shortage_cost=0.3),
    "lead time 3": jmdp.worlds.inventory_with_lead_time(3, lead_time=3, most_ordered=2, mean_demand=1.0),
    "queue": jmdp.worlds.queue_admission(6),
    "queue, one class, one server": jmdp.worlds.queue_admission(3, servers=1, arrivals=[0.5], service=0.4, fees=[1.0]),
    "queue, three classes": jmdp.worlds.queue_admission(4, servers=2, arrivals=(0.2, 0.3, 0.5), fees=(1.0, 3.0, 2.0)),
}


@pytest.fixture(params=WORLDS)
def world(request):
    return WORLDS[request.param]


def shock_of(uniform):
    """A shock with this uniform number."""
    return Shock(int(uniform * 2.0**64).to_bytes(8, "little") + bytes(8))


def states_of(world):
    """The simulator's states in the order of the table's, from their names."""
    who = {"nobody": 0, **{f"class {c}": c for c in range(1, 10)}}
    for s in range(world.model.states.size):
        first, *rest = world.model.states.name(s).split(" | ")
        numbers = rest[0].split(",") if rest else []
        yield (int(first), *(who[number] if number in who else int(number) for number in numbers))


def test_every_step_is_that_of_the_table(world):
    model, simulator = world.model, world.simulator
    S, K, A = model.shape
    states = list(states_of(world))
    middles = np.cumsum(model.prob[0]) - model.prob[0] / 2
    possible = [k for k in range(K) if model.prob[0, k] > 0]
    assert (model.prob == model.prob[0]).all()
    for s, k, a in itertools.product(range(S), possible, range(A)):
        reward, after, terminated = simulator.step(states[s], a, shock_of(middles[k]))
        assert reward == model.reward[s, k, a]
        assert after == states[model.next_state[s, k, a]]
        assert not terminated


def test_many_steps_at_once_are_those_steps(world):
    states = list(states_of(world))
    rng = np.random.default_rng(0)
    n, A = 500, world.model.actions.size
    at, actions = rng.integers(0, len(states), n), rng.integers(0, A, n)
    shocks = Shocks.of_samples([0], 0, n)
    rewards, after, terminated = world.simulator.step_many(np.array(states)[at], actions, shocks)
    for i in range(n):
        one = world.simulator.step(states[at[i]], actions[i], shocks[i])
        assert one == (rewards[i], tuple(after[i]), terminated[i])


def test_policies_are_those_of_the_table(world):
    states = list(states_of(world))
    for name, policy in world.simulator.policies.items():
        chosen = [int(policy(state)) for state in states]
        np.testing.assert_array_equal(policy(np.array(states)), chosen)
        if name in world.policies:
            np.testing.assert_array_equal(world.policies[name].probs.argmax(axis=1), chosen)
    assert "base_stock" in world.policies or "threshold" in world.policies


def test_starts_have_the_distribution_of_the_world(world):
    """Each frequency within 5 standard errors."""
    index = {state: s for s, state in enumerate(states_of(world))}
    n = 4000
    drawn = [index[world.simulator.start(Shock.of_sample(1, i))] for i in range(n)]
    frequency = np.bincount(drawn, minlength=len(index)) / n
    assert (np.abs(frequency - world.start) <= 5 * np.sqrt(world.start * (1 - world.start) / n)).all()


def test_long_run_means_are_those_of_the_table(world):
    """Discounted returns from the start, drawn by the simulator, within 5 standard errors of the exact mean."""
    simulator, n, gamma = world.simulator, 3000, 0.9
    model = jmdp.TabularJMDP(world.model.prob, world.model.reward, world.model.next_state, gamma)
    rng = np.random.default_rng(2)
    name, policy = next((name, rule) for name, rule in simulator.policies.items() if name in world.policies)
    result = jmdp.evaluate(model, world.policies[name], jmdp.Local())
    exact = world.start @ (result.mean * world.policies[name].probs).sum(axis=1)
    states = np.array([simulator.start(Shock.of_sample(3, i)) for i in range(n)])
    returns, weight = np.zeros(n), 1.0
    for _ in range(150):
        rewards, states = simulator.outcomes(states, policy(states), rng.choice(len(model.prob[0]), n, p=model.prob[0]))
        returns += weight * rewards
        weight *= gamma
    cut = weight * model.reward_bound / (1 - gamma)
    assert abs(returns.mean() - exact) <= 5 * returns.std() / np.sqrt(n) + cut


def test_rewards_stay_within_the_stated_bound(world):
    bound = world.simulator.largest_reward_from(world.simulator.start(Shock.of_sample(0, 0)))
    assert world.model.reward_bound <= bound <= 3 * world.model.reward_bound


def test_the_simulator_passes_its_checks_and_travels(world):
    assert check_simulator(world.simulator, steps=20) == []
    copy = pickle.loads(pickle.dumps(world.simulator))
    state, shock = copy.start(Shock.of_sample(0, 0)), Shock.of_sample(0, 1)
    assert copy.step(state, 1, shock) == world.simulator.step(state, 1, shock)


def test_compare_takes_the_simulator_with_its_own_policy():
    world = WORLDS["queue"]
    found = jmdp.compare(world.simulator, world.simulator.policies["threshold"], state=(3, 2), seed=0, samples=200)
    exact = jmdp.evaluate(world.model, world.policies["threshold"], jmdp.Synchronous())
    gap = exact.gap("3 | class 2", "admit", "reject").mean
    assert abs(found.evaluation.gap("here", "admit", "reject").mean - gap) <= 0.1


@pytest.mark.parametrize(
    ("world", "old", "new"),
    [
        (jmdp.worlds.inventory_with_lead_time(6, most_ordered=3, discount=0.9), "constant", "base_stock"),
        (jmdp.worlds.queue_admission(6, discount=0.9), "half_full", "threshold"),
    ],
    ids=["lead time", "queue"],
)
def test_policies_compare_alike_as_table_and_as_simulator(world, old, new):
    """Each estimate of the mean gap is within 5 standard errors of the exact one, from the world's own start."""
    exact = {}
    for name in (old, new):
        mean = jmdp.evaluate(world.model, world.policies[name], jmdp.Local()).mean
        exact[name] = world.start @ (mean * world.policies[name].probs).sum(axis=1)
    cut = 0.9**80 * 2 * world.model.reward_bound / (1 - 0.9)
    for source, policies in ((world, world.policies), (world.simulator, world.simulator.policies)):
        chosen = {name: policies[name] for name in (old, new)}
        found = jmdp.compare_policies(
            source, chosen, seed=0, max_samples=64, precision=1e-9, horizon=80, progress=False
        )
        gap = found.summary.samples.returns[:, 1] - found.summary.samples.returns[:, 0]
        assert abs(gap.mean() - (exact[new] - exact[old])) <= 5 * gap.std() / 8 + cut
