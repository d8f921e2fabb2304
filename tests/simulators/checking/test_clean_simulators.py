"""No check finds anything wrong with simulators that are as they should be. In full: pytest -m long."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.simulators.checking.quick_check import quick_check
from jmdp.testing import check_simulator

gymnasium = pytest.importorskip("gymnasium")


def gym(name, package=None, **settings):
    def made(seed):
        if package is not None:
            pytest.importorskip(package)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = gymnasium.make(name, **settings)
        env.reset(seed=seed)
        return jmdp.simulators.GymnasiumSimulator(env)

    return made


def lander(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Box2D's import crashes if a warning is an error
        pytest.importorskip("Box2D")
    env = gymnasium.make("LunarLander-v3", enable_wind=True)
    return jmdp.simulators.GymnasiumSimulator(env, snapshot="replay")


def atari(game):
    def made(seed):
        pytest.importorskip("ale_py")
        return jmdp.simulators.ALESimulator(game, sticky=0.25)

    return made


def functional(name):
    def made(seed):
        pytest.importorskip("gymnax")
        return jmdp.simulators.GymnaxSimulator(name)

    return made


def shop(seed):
    return jmdp.simulators.FunctionSimulator(
        reward=lambda stock, order, demand: 3.0 * min(stock + order, demand) - 2.0 * order,
        next_state=lambda stock, order, demand: max(0, min(20, stock + order) - demand),
        actions=5,
        luck=lambda rng: int(rng.poisson(3)),
        start=4,
    )


def table(seed):
    return jmdp.simulators.TabularSimulator(jmdp.worlds.inventory(capacity=8).model)


QUICK = {"vehicles_count": 3, "duration": 20, "simulation_frequency": 5}
CLEAN = {
    "FrozenLake": gym("FrozenLake-v1"),
    "Taxi": gym("Taxi-v4", is_rainy=True, fickle_passenger=True),
    "Blackjack": gym("Blackjack-v1"),
    "CartPole": gym("CartPole-v1"),
    "LunarLander": lander,
    "highway": gym("highway-fast-v0", "highway_env", config=QUICK),
    "MiniGrid": gym("MiniGrid-Dynamic-Obstacles-5x5-v0", "minigrid"),
    "HalfCheetah": gym("HalfCheetah-v5", "mujoco"),
    "Pong": atari("pong"),
    "Boxing": atari("boxing"),
    "gymnax CartPole": functional("CartPole-v1"),
    "gymnax Breakout": functional("Breakout-MinAtar"),
    "shop": shop,
    "table": table,
}


def faults(name, seed, steps):
    simulator = CLEAN[name](seed)
    actions = None
    if simulator.actions is None:
        actions = list(np.random.default_rng(seed).uniform(-1, 1, (3, 6)).astype(np.float32))
    elif simulator.actions.size > 6:
        actions = [0, 1, 2]
    state = simulator.start(Shock.of_sample(seed, 0))
    tried = range(simulator.actions.size) if actions is None else actions
    quick_check(simulator, state, tried, shared_between_states=True)  # raises
    found = check_simulator(simulator, state, actions=actions, seed=seed, steps=steps)
    return [str(finding) for finding in found if finding.fault]


@pytest.mark.parametrize("name", CLEAN)
def test_no_fault_is_found(name):
    assert faults(name, 0, 5) == []


@pytest.mark.long
@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("seed", range(20))
def test_no_fault_is_found_in_twenty_seeds(name, seed):
    assert faults(name, seed, 30) == []
