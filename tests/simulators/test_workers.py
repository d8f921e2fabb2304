"""Simulators go to worker processes and do there what they do here."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import GymnasiumSimulator, as_simulator
from jmdp.simulators.pair_walks import PairWalks, WalkPlan
from jmdp.simulators.workers import WorkerPool

PLAN = WalkPlan(visits=3, spacing=5, repeats=2, length=6)


def gymnax_cart_pole() -> Any:
    return pytest.importorskip("gymnax").make("CartPole-v1")[0]


@pytest.mark.parametrize("made", [lambda: gymnasium.make("CartPole-v1"), gymnax_cart_pole], ids=["gymnasium", "gymnax"])
def test_two_workers_walk_as_one_process_does(made):
    simulator = as_simulator(made())
    actor, coupling = as_policy("uniform", simulator.actions), jmdp.Synchronous()
    found = []
    for workers in (1, 2):
        with WorkerPool(simulator, actor, coupling, workers=workers) as pool:
            found.append(pool.collect(PLAN, seed=3, blocks=2, progress=False))
    for name in PairWalks.__dataclass_fields__:
        np.testing.assert_array_equal(*(getattr(walks, name) for walks in found), err_msg=name)


def way(simulator: Any, actions: list[Any]) -> list[tuple[float, bytes, bytes]]:
    """Rewards, what was seen and which state it was, from a start."""
    state, told = simulator.start(Shock.of_sample(0, 0)), []
    for t, action in enumerate(actions):
        reward, state, _ = simulator.step(state, action, Shock.of_sample(1, t))
        told.append((reward, np.asarray(simulator.observe(state)).tobytes(), simulator.digest(state)))
    return told


@pytest.mark.parametrize("snapshot", [None, "replay"])
@pytest.mark.parametrize(("name", "actions"), [("FrozenLake-v1", [1, 2, 1]), ("Reacher-v5", [np.full(2, 0.1)] * 3)])
def test_an_unpickled_environment_goes_the_same_way(name, actions, snapshot):
    """Reacher is MuJoCo's, and its class says to make it anew from its arguments instead of keeping what it is."""
    env = gymnasium.make(name)
    if name == "Reacher-v5":
        env.unwrapped.model.opt.timestep *= 0.5  # which its arguments do not know
    simulator = GymnasiumSimulator(env, snapshot=snapshot)
    truth = way(simulator, actions)
    assert way(pickle.loads(pickle.dumps(simulator)), actions) == truth
    assert way(simulator, actions) == truth


def test_what_was_compiled_is_compiled_again():
    simulator = as_simulator(gymnax_cart_pole())
    truth = way(simulator, [0, 1, 1])
    assert way(pickle.loads(pickle.dumps(simulator)), [0, 1, 1]) == truth
