"""One small simulator for each adapter. Packages of others are imported when a simulator is made."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.simulators import Simulator


@dataclass(frozen=True)
class Adapter:
    """How to make a simulator, and what a comparison with it needs."""

    make: Callable[[], Simulator]
    policy: Any = "uniform"
    actions: Any = None  # the ones to compare; None: all
    packed: int = 2_000  # most bytes of a packed state
    picklable: bool = True  # without a recipe


def gym(name: str, package: str = "gymnasium", settings: Any = None, **simulator: Any) -> Simulator:
    """Simulator of a Gymnasium environment."""
    gymnasium = pytest.importorskip("gymnasium")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Box2D's import crashes if a warning is an error
        pytest.importorskip(package)
        env = gymnasium.make(name, **settings or {})
    return jmdp.simulators.GymnasiumSimulator(env, **simulator)


def functions() -> Simulator:
    return jmdp.simulators.FunctionSimulator(_profit, _stock_left, 3, luck=_demand, start=4)


def _profit(stock: int, order: int, demand: int) -> float:
    return 3.0 * min(stock + order, demand) - 2.0 * order


def _stock_left(stock: int, order: int, demand: int) -> int:
    return max(0, min(20, stock + order) - demand)


def _demand(rng: np.random.Generator) -> int:
    return int(rng.poisson(3))


class Shop:
    """An ordinary object with a generator of its own."""

    def __init__(self) -> None:
        self.rng, self.stock = np.random.default_rng(0), 4

    def step(self, order: int) -> tuple[int, float, bool]:
        demand = int(self.rng.poisson(3))
        profit, self.stock = _profit(self.stock, order, demand), _stock_left(self.stock, order, demand)
        return self.stock, profit, False


def objects() -> Simulator:
    return jmdp.simulators.ObjectSimulator(Shop, 3, observe=_stock_of)


def _stock_of(shop: Shop) -> int:
    return shop.stock


def step_many() -> Simulator:
    return jmdp.worlds.InventorySimulator(capacity=8, lead_time=1)


def table() -> Simulator:
    return jmdp.simulators.TabularSimulator(jmdp.worlds.inventory(capacity=8).model)


def copied() -> Simulator:
    return gym("FrozenLake-v1")


def replayed() -> Simulator:
    return gym("CartPole-v1", snapshot="replay")


def given_functions() -> Simulator:
    return gym("CartPole-v1", save=_saved, restore=_restore)


def _saved(env: Any) -> Any:
    return env.unwrapped.state, env.unwrapped.steps_beyond_terminated


def _restore(env: Any, saved: Any) -> None:
    env.unwrapped.state, env.unwrapped.steps_beyond_terminated = saved


def mujoco() -> Simulator:
    return gym("HalfCheetah-v5", "mujoco")


def _half(observation: Any) -> Any:
    return np.full(6, 0.5, np.float32)


def gymnasium_atari() -> Simulator:
    return gym("ALE/Pong-v5", "ale_py", {"repeat_action_probability": 0.0, "obs_type": "ram"})


def ale() -> Simulator:
    pytest.importorskip("ale_py")
    return jmdp.simulators.ALESimulator("pong")


def jax_function() -> Simulator:
    pytest.importorskip("jax")
    return jmdp.simulators.JaxSimulator(_traced_step, 3, start=_traced_start)


def _traced_step(key: Any, place: Any, action: Any) -> Any:
    import jax

    after = 0.8 * place + action - 1 + jax.random.normal(key)
    return -abs(after), after, after > 4


def _traced_start(key: Any) -> Any:
    import jax

    return jax.random.uniform(key)


def gymnax() -> Simulator:
    pytest.importorskip("gymnax")
    return jmdp.simulators.GymnaxSimulator("CartPole-v1")


ADAPTERS = {
    "functions": Adapter(functions),
    "objects": Adapter(objects),
    "step_many": Adapter(step_many),
    "table": Adapter(table),
    "gymnasium, copied": Adapter(copied),
    "gymnasium, replayed": Adapter(replayed),
    "gymnasium, given functions": Adapter(given_functions),
    "gymnasium, MuJoCo": Adapter(mujoco, _half, [np.zeros(6, np.float32), np.ones(6, np.float32)], packed=60_000),
    "gymnasium, Atari": Adapter(gymnasium_atari, actions=[0, 2, 3], packed=10_000, picklable=False),
    "ALE": Adapter(ale, actions=[0, 2, 3], packed=10_000),
    "JAX": Adapter(jax_function),
    "gymnax": Adapter(gymnax),
}
