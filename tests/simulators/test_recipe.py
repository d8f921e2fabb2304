"""What is sent to workers: recipes in place of simulators, packed states in place of snapshots."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

import jmdp
from jmdp import Recipe
from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators import GymnasiumSimulator, Simulator, as_simulator

QUIET = {"seed": 3, "discount": 0.9, "horizon": 5, "max_samples": 16, "progress": False}


def lander() -> GymnasiumSimulator:
    return GymnasiumSimulator(gymnasium.make("LunarLander-v3"), snapshot="replay")


def env(name: str, **settings: Any) -> Simulator:
    made = gymnasium.make(name, **settings)
    made.reset(seed=0)
    return as_simulator(made)


def first(observation: Any) -> int:
    return 0


# ------------------------------------------------------------------------------------------------ recipes


@pytest.mark.filterwarnings("ignore")
def test_a_simulator_that_cannot_be_pickled_is_built_in_each_worker(two_workers):
    pytest.importorskip("Box2D")
    with pytest.raises(TypeError, match="SwigPyObject"):
        pickle.dumps(lander())
    alone = jmdp.compare(lander(), policy=first, **QUIET)
    both = jmdp.compare(Recipe(lander), policy=first, pool=two_workers, **QUIET)
    assert both.summary.samples.returns.tobytes() == alone.summary.samples.returns.tobytes()
    policies = {"first": first, "uniform": "uniform"}
    alone = jmdp.compare_policies(lander(), policies, **QUIET)
    both = jmdp.compare_policies(Recipe(lander), policies, pool=two_workers, **QUIET)
    assert both.summary.samples.returns.tobytes() == alone.summary.samples.returns.tobytes()


def test_a_recipe_of_an_environment():
    made = as_simulator(Recipe(gymnasium.make, "CartPole-v1"))
    assert isinstance(made, GymnasiumSimulator)
    again = pickle.loads(pickle.dumps(made))
    assert made._env is not again._env
    assert len(pickle.dumps(made)) < 1000 < len(pickle.dumps(env("CartPole-v1")))


def test_recipes_that_are_refused():
    with pytest.raises(SimulatorError, match=r"factory is 'CartPole-v1'"):
        Recipe("CartPole-v1")
    with pytest.raises(SimulatorError, match="another recipe"):
        as_simulator(Recipe(as_simulator, Recipe(gymnasium.make, "CartPole-v1")))
    with pytest.raises(SimulatorError, match="int"):
        as_simulator(Recipe(int, "3"))


# ------------------------------------------------------------------------------------------------ packed states


class Warehouse(Simulator):
    """States hold a lock, and are packed without it."""

    actions = jmdp.simulators.action_labels(2)
    discount = 0.9

    def step(self, state: Any, action: int, shock: Shock) -> jmdp.simulators.Step:
        stock = max(0, state["stock"] + action - int(shock.generator().poisson(1)))
        return jmdp.simulators.Step(float(stock), state | {"stock": stock}, False)

    def start(self, shock: Shock) -> Any:
        return {"stock": 4, "report": lambda: "not picklable"}

    def digest(self, state: Any) -> bytes:
        return str(state["stock"]).encode()

    def observe(self, state: Any) -> int:
        return state["stock"]

    def pack(self, state: Any) -> int:
        return state["stock"]

    def unpack(self, packed: int) -> Any:
        return {"stock": packed, "report": None}


def test_states_of_own_simulators_are_packed(two_workers):
    alone = jmdp.compare(Warehouse(), policy=first, **QUIET)
    both = jmdp.compare(Warehouse(), policy=first, pool=two_workers, **QUIET)
    assert both.summary.samples.returns.tobytes() == alone.summary.samples.returns.tobytes()
    start = Warehouse().start(Shock(bytes(16)))
    policies = {"zero": first, "uniform": "uniform"}
    pools = (None, two_workers)
    found = [jmdp.compare_policies(Warehouse(), policies, starts=[start], pool=pool, **QUIET) for pool in pools]
    assert found[0].summary.samples.returns.tobytes() == found[1].summary.samples.returns.tobytes()
    method = {"seed": 1, "samples": 20, "horizon": 5, "states": [start]}
    found = [
        jmdp.evaluate(Warehouse(), first, jmdp.Local(), jmdp.MonteCarlo(**method, pool=pool), progress=False)
        for pool in pools
    ]
    np.testing.assert_array_equal(found[0].mean, found[1].mean)
