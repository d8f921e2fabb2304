"""`visited_states`: decision points from any simulator."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import PolicyError, SettingsError, SimulatorError
from jmdp.simulators import ALESimulator, FunctionSimulator, GymnasiumSimulator, visited_states


def walk(length: int, start=0) -> FunctionSimulator:
    """Steps to the right until `length`, which is terminal."""
    return FunctionSimulator(
        reward=lambda s, a, u: 1.0,
        next_state=lambda s, a, u: s + 1,
        actions=2,
        terminal=lambda s: s >= length,
        start=start,
    )


def observed(simulator, states) -> list:
    return [np.asarray(simulator.observe(state)).tolist() for state in states]


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1"])
def test_same_seed_same_states_and_another_seed_others(name):
    simulator = GymnasiumSimulator(gymnasium.make(name))
    first = visited_states(simulator, "uniform", seed=1, count=40, every=3)
    again = visited_states(gymnasium.make(name), "uniform", seed=1, count=40, every=3)
    other = visited_states(simulator, "uniform", seed=2, count=40, every=3)
    assert len(first) == len(again) == len(other) == 40
    assert observed(simulator, first) == observed(simulator, again)
    assert [simulator.digest(s) for s in first] == [simulator.digest(s) for s in again]
    assert observed(simulator, first) != observed(simulator, other)


def test_a_longer_list_begins_with_the_shorter_one():
    simulator = GymnasiumSimulator(gymnasium.make("CartPole-v1"))
    short = visited_states(simulator, "uniform", seed=1, count=5, every=4)
    long = visited_states(simulator, "uniform", seed=1, count=25, every=4)
    assert observed(simulator, short) == observed(simulator, long)[:5]


def test_spacing_and_starts_taken_once():
    assert visited_states(walk(10), "uniform", seed=0, count=3, every=3) == [0, 3, 6]
    assert visited_states(walk(10), "uniform", seed=0, count=6, every=3) == [0, 3, 6, 9, 3, 6]
    assert visited_states(walk(3), "uniform", seed=0, count=5) == [0, 1, 2, 1, 2]
    assert visited_states(walk(3), "uniform", seed=0, count=1, every=50) == [0]
    assert visited_states(walk(3), "uniform", seed=0, count=1) == [0]


def test_starts_that_differ_are_all_taken():
    simulator = walk(10**9, start=lambda rng: int(rng.integers(10**9)))
    states = visited_states(simulator, "uniform", seed=0, count=4, every=2)
    assert states[1:] == [states[0] + 2, states[0] + 4, states[0] + 6]  # one episode, which does not end
    simulator = FunctionSimulator(
        reward=lambda s, a, u: 1.0,
        next_state=lambda s, a, u: -1,
        actions=2,
        terminal=lambda s: s == -1,
        start=lambda rng: int(rng.integers(10**9)),
    )
    states = visited_states(simulator, "uniform", seed=0, count=20)
    assert len(set(states)) == 20
    assert states[0] == simulator.start(Shock.of_sample(0, 0))


def test_states_are_those_of_an_episode_of_the_policy():
    simulator, seed = GymnasiumSimulator(gymnasium.make("CartPole-v1")), 5
    states = visited_states(simulator, lambda observation: int(observation[2] > 0), seed=seed, count=6, every=2)
    root = Shock.of_sample(seed, 0)
    state, expected = simulator.start(root), []
    for t in range(11):
        expected += [state] if t % 2 == 0 else []
        action = int(simulator.observe(state)[2] > 0)
        _, state, _ = simulator.step(state, action, root.derived(b"environment", t))
    assert observed(simulator, states) == observed(simulator, expected)


def test_no_terminal_states_and_states_can_be_used():
    simulator = GymnasiumSimulator(gymnasium.make("FrozenLake-v1"))
    states = visited_states(simulator, "uniform", seed=0, count=200)
    assert {int(simulator.observe(state)) for state in states} <= {0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14}
    for state in states[:20]:
        simulator.step(state, 1, Shock(bytes(16)))
    found = jmdp.compare(simulator, "uniform", state=states[7], seed=0, max_samples=64, discount=0.9, progress=False)
    assert found.samples >= 32


def test_the_environment_is_not_changed_and_its_state_not_used():
    env = gymnasium.make("FrozenLake-v1")
    fresh = observed(GymnasiumSimulator(env), visited_states(env, "uniform", seed=3, count=9))
    env.reset(seed=0)
    env.unwrapped.s = 14
    before = copy.deepcopy(env.unwrapped.np_random.bit_generator.state)
    states = visited_states(env, "uniform", seed=3, count=9)
    assert observed(GymnasiumSimulator(env), states) == fresh
    assert env.unwrapped.s == 14
    assert env.unwrapped.np_random.bit_generator.state == before


def test_time_limit_ends_an_episode():
    simulator = GymnasiumSimulator(gymnasium.make("Pendulum-v1", max_episode_steps=10), check=False)
    states = visited_states(simulator, lambda observation: np.zeros(1, np.float32), seed=0, count=9, every=4)
    assert [state.steps for state in states] == [0, 4, 8] * 3


def test_a_table():
    world = jmdp.worlds.windy_gridworld()
    uniform = jmdp.TabularPolicy.uniform(world.model)
    states = visited_states(world, uniform, seed=4, count=50, every=2)
    assert states == visited_states(world.model, uniform, seed=4, count=50, every=2)
    assert states != visited_states(world, uniform, seed=5, count=50, every=2)
    assert not world.model.terminal[[world.model.states.index(state) for state in states]].any()


def test_terminal_start_is_not_taken():
    with pytest.raises(SimulatorError, match="only 0 states"):
        visited_states(walk(3, start=3), "uniform", seed=0, count=1)


def test_pong():
    def policy(ram):
        return 2 if ram[49] < ram[54] else 3

    simulator = ALESimulator("pong")
    states = visited_states(simulator, policy, seed=0, count=10, every=25)
    again = visited_states(ALESimulator("pong"), policy, seed=0, count=10, every=25)
    assert [simulator.digest(state) for state in states] == [simulator.digest(state) for state in again]
    assert len({simulator.digest(state) for state in states}) == 10
    assert not any(state.over for state in states)
    one = simulator.step(states[3], 0, Shock(bytes(16)))  # none was consumed by the steps after it
    assert np.array_equal(simulator.step(states[3], 0, Shock(bytes(16))).state.ram, one.state.ram)


def test_short_episodes_raise():
    with pytest.raises(SimulatorError, match=r"count is 2 and every is 50, but only 1 states .* a smaller every"):
        visited_states(walk(3), "uniform", seed=0, count=2, every=50)
    with pytest.raises(SimulatorError, match="a smaller count"):
        visited_states(walk(1), "uniform", seed=0, count=2)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"count": 0}, SettingsError),
        ({"every": 0}, SettingsError),
        ({"every": 1.5}, SettingsError),
        ({"seed": -1}, SettingsError),
        ({"seed": "1"}, SettingsError),
        ({"policy": {"a": 1}}, PolicyError),
        ({"simulator": 3}, SimulatorError),
    ],
)
def test_wrong_arguments(change, error):
    given = {"simulator": walk(3), "policy": "uniform", "seed": 0, "count": 2} | change
    with pytest.raises(error):
        visited_states(given.pop("simulator"), given.pop("policy"), **given)


def test_errors_of_the_simulator_name_the_step():
    simulator = FunctionSimulator(
        reward=lambda s, a, u: 1 / (2 - s), next_state=lambda s, a, u: s + 1, actions=2, start=0
    )
    with pytest.raises(ZeroDivisionError):
        visited_states(simulator, "uniform", seed=0, count=9)
