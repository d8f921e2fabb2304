"""Fast copies equal deep copies, and steps without the standard wrappers equal steps with them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import GymnasiumSimulator
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws

gym = pytest.importorskip("gymnasium")
NAMES = ["CartPole-v1", "FrozenLake-v1", "Acrobot-v1", "Taxi-v4", "Blackjack-v1"]


class Odd(gym.Env):
    """Attributes of many kinds: shared, aliased, nested, and references to itself and to its generator."""

    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.array = np.zeros(3)
        self.same_array, self.plain, self.table = self.array, [1, 2], {"a": 1}
        self.nested, self.own = [[0], self.array], self
        self.part = Part(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.part = Part(self)
        return 0, {}

    def step(self, action):
        self.array[0] += self.part.draw() + action
        self.nested[0][0] += 1
        self.plain.append(action)
        self.table["a"] += 1
        seen = (float(self.array[0]), self.nested[0][0], len(self.plain), self.table["a"], self.nested[1] is self.array)
        return 0, hash(seen) % 1000 / 7, False, False, {"seen": seen}


class Part:
    def __init__(self, env) -> None:
        self.env, self.rng = env, env.np_random

    def draw(self):
        assert self.rng is self.env.np_random
        return self.rng.random()


def test_copies_are_as_deep_copies():
    env = Odd()
    env.reset(seed=1)
    simulator = GymnasiumSimulator(env, check=False)
    state = simulator.start(Shock(bytes(16)))
    made = simulator.step(state, 1, Shock(bytes(16))).state.saved.env
    assert made.own is made
    assert made.part.env is made
    assert made.array is made.same_array
    assert made.array is not env.array
    assert made.plain == [1, 2, 1]
    assert (env.plain, env.nested[0], env.table, env.array.tolist()) == ([1, 2], [0], {"a": 1}, [0.0] * 3)
    assert (state.saved.env.plain, state.saved.env.nested[0]) == ([1, 2], [0])  # the recipe may be used again
    again = simulator.step(state, 1, Shock(bytes(16))).state.saved.env
    assert again.array.tolist() == made.array.tolist()
    assert again.plain == made.plain


@pytest.mark.parametrize("name", NAMES)
def test_rollouts_equal_plain_environments(name):
    """Each branch by `deepcopy` and `env.step`, with all wrappers and a new generator in each step."""
    env = gym.make(name, disable_env_checker=False)
    env.reset(seed=3)
    simulator = GymnasiumSimulator(env)
    actions, horizon = list(range(simulator.actions.size)), 12
    plan = BranchPlan.of_actions(
        as_policy(lambda seen: 0, simulator.actions),
        state=simulator.start(Shock(bytes(16))), actions=actions, coupling=jmdp.Synchronous(), discount=1.0,
        horizon=horizon, seed=4,
    )  # fmt: skip
    drawn = paired_draws(simulator, plan, 0, 3)
    for n in range(3):
        for a in actions:
            twin, total, action, drew = copy.deepcopy(env), 0.0, a, False
            for t in range(horizon):
                shock = Shock.of_sample(4, n).derived(b"environment", t)
                key = int.from_bytes(shock.words, "little")
                twin.unwrapped._np_random = np.random.Generator(np.random.Philox(key=key))
                _, reward, terminated, _, _ = twin.step(action)
                drew |= twin.unwrapped._np_random.random() != np.random.Generator(np.random.Philox(key=key)).random()
                total, action = total + reward, 0
                if terminated:
                    break
            assert drawn.returns[n, a] == total
            assert drawn.drew or not drew
    assert drawn.drew == (name in ("FrozenLake-v1", "Taxi-v4", "Blackjack-v1"))


@pytest.mark.parametrize("ends", [False, True])
def test_time_limits_count_as_with_wrappers(ends):
    env = gym.make("Acrobot-v1", max_episode_steps=5)
    env.reset(seed=0)
    env.step(0)
    simulator = GymnasiumSimulator(env, truncated_ends=ends)
    state = simulator.start(Shock(bytes(16)))
    for t in range(6):
        go = simulator.advance_all if t else simulator.step_all
        (outcome,) = zip(*go([state], [0], [Shock.of_sample(0, t)]), strict=True)
        state = outcome[1]
        assert bool(outcome[2]) == (ends and t >= 3)
        assert state.truncated_at == (4 if t >= 3 else None)
        assert state.saved.env._elapsed_steps == t + 2


class Louder(gym.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


def test_other_wrappers_are_executed():
    env = Louder(gym.make("CartPole-v1"))
    env.reset(seed=0)
    simulator = GymnasiumSimulator(env)
    assert simulator.step(simulator.start(Shock(bytes(16))), 0, Shock(bytes(16))).reward == 2.0


def test_a_step_before_the_reset_is_refused():
    simulator = GymnasiumSimulator(gym.make("CartPole-v1"), check=False)
    with pytest.raises(gym.error.ResetNeeded):
        simulator.step(simulator.current(), 0, Shock(bytes(16)))


@pytest.mark.parametrize("name", NAMES)
def test_states_are_the_same_exactly_if_their_digests_are(name):
    env = gym.make(name)
    env.reset(seed=0)
    simulator = GymnasiumSimulator(env)
    states = [simulator.start(Shock(bytes(16)))]
    for t in range(4):
        states += [
            simulator.step(state, a, Shock.of_sample(k, t)).state
            for state in states[-2:]
            for a in (0, 1)
            for k in (0, 1)
        ]
    equal = 0
    for one in states:
        for other in states:
            same = simulator.digest(one) == simulator.digest(other)
            assert simulator.same_state(one, other) == same
            equal += same
    assert equal > len(states)
    assert equal < len(states) ** 2
