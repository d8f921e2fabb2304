"""No check finds anything wrong with simulators that are as they should be. In full: pytest -m long."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.simulators.checking.visits import quick_check
from jmdp.testing import check_simulator
from registry.adapters import ADAPTERS, gym

QUICK = {"vehicles_count": 3, "duration": 20, "simulation_frequency": 5}


def boxing():
    pytest.importorskip("ale_py")
    return jmdp.simulators.ALESimulator("boxing")


def breakout():
    pytest.importorskip("gymnax")
    return jmdp.simulators.GymnaxSimulator("Breakout-MinAtar")


OTHERS = {
    "Taxi": lambda: gym("Taxi-v4", settings={"is_rainy": True, "fickle_passenger": True}),
    "Blackjack": lambda: gym("Blackjack-v1"),
    "CartPole": lambda: gym("CartPole-v1"),
    "LunarLander": lambda: gym("LunarLander-v3", "Box2D", {"enable_wind": True}, snapshot="replay"),
    "highway": lambda: gym("highway-fast-v0", "highway_env", {"config": QUICK}),
    "MiniGrid": lambda: gym("MiniGrid-Dynamic-Obstacles-5x5-v0", "minigrid"),
    "Boxing": boxing,
    "gymnax Breakout": breakout,
}
CLEAN = {name: adapter.make for name, adapter in ADAPTERS.items()} | OTHERS


def faults(name, seed, steps):
    simulator = CLEAN[name]()
    if isinstance(simulator, jmdp.simulators.GymnasiumSimulator):
        simulator._env.reset(seed=seed)  # the state from which the check starts
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


@pytest.mark.parametrize("name", [name for name in CLEAN if name not in ("highway", "Taxi")])  # which take seconds
def test_no_fault_is_found(name):
    assert faults(name, 0, 5) == []


@pytest.mark.long
@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("seed", range(20))
def test_no_fault_is_found_in_twenty_seeds(name, seed):
    assert faults(name, seed, 30) == []
