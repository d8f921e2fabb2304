"""Blocks of paired rollouts on several workers: simulators go to worker processes and do there what they do here."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import SettingsError
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import FunctionSimulator, GymnasiumSimulator, PairedRollouts, TabularSimulator
from jmdp.simulators.rollouts.pair_walks import PairWalks, WalkPlan
from jmdp.simulators.simulator import Step
from registry.adapters import ADAPTERS

PLAN = WalkPlan(visits=3, spacing=5, repeats=2, length=6)
GRID = jmdp.worlds.windy_gridworld(3, 3, gust=0.4, blown_reward=-0.5, step_reward=-0.1, discount=0.7)
TABLE, UNIFORM = TabularSimulator(GRID.model), as_policy(GRID.policies["uniform"], GRID.model.actions)


def digest(found: PairWalks) -> str:
    told = hashlib.sha256()
    for name in PairWalks.__dataclass_fields__:
        array = getattr(found, name)
        told.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return told.hexdigest()


@pytest.mark.parametrize("name", ["table", "ALE", "gymnasium, copied", "JAX"])
def test_p17_the_same_for_any_pool(name, two_workers):
    simulator = ADAPTERS[name].make()
    rollouts = PairedRollouts(simulator, as_policy("uniform", simulator.actions), jmdp.Synchronous())
    pools = (None, two_workers)
    found = [digest(rollouts.collect(PLAN, seed=7, blocks=2, pool=pool, progress=False)) for pool in pools]
    assert found[0] == found[1]


def test_p17_the_same_for_any_number_of_workers(two_workers):
    rollouts = PairedRollouts(TABLE, UNIFORM, jmdp.Local())
    found = {digest(rollouts.collect(PLAN, seed=7, blocks=6, first=3, pool=pool)) for pool in (None, 1, two_workers)}
    parts = [rollouts.collect(PLAN, seed=7, blocks=n, first=first, pool=two_workers) for first, n in ((3, 4), (7, 2))]
    found.add(digest(PairWalks.joined(parts)))
    assert len(found) == 1
    assert digest(rollouts.collect(PLAN, seed=8, blocks=6, first=3)) not in found


class Fragile(TabularSimulator):
    """Kills its process after some steps, unless a file says that it has done so."""

    def __init__(self, marker: Path, steps: int) -> None:
        super().__init__(GRID.model)
        self.marker, self.left, self.home = marker, steps, os.getpid()

    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        self.left -= 1
        if self.left == 0 and not self.marker.exists():
            assert os.getpid() != self.home
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(state, action, shock)


def test_p9_a_worker_that_is_killed_costs_nothing(two_workers, tmp_path):
    expected = PairedRollouts(TABLE, UNIFORM, jmdp.Local()).collect(PLAN, seed=4, blocks=12)
    one_block = len(expected) // 12 * PLAN.length * 2
    fragile = Fragile(tmp_path / "killed", one_block * 5 // 2)  # at the latest in the third block
    found = PairedRollouts(fragile, UNIFORM, jmdp.Local()).collect(PLAN, seed=4, blocks=12, pool=two_workers)
    assert digest(found) == digest(expected)
    assert (tmp_path / "killed").exists()


class Failing(TabularSimulator):
    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        raise FileNotFoundError("the tank is dry")


def test_errors_come_to_the_caller():
    rollouts = PairedRollouts(Failing(GRID.model), UNIFORM, jmdp.Local())
    before = multiprocessing.active_children()
    with pytest.raises(FileNotFoundError, match="the tank is dry"):
        rollouts.collect(PLAN, seed=0, blocks=3, pool=2)
    assert set(multiprocessing.active_children()) <= set(before)


def away(s: Any, a: int, u: float) -> int:
    return (s + a) % 3


def drawn_from(observation: Any, rng: np.random.Generator) -> int:
    return int(rng.integers(2))


def test_what_cannot_be_sent_is_said(two_workers):
    policy = as_policy(lambda s: 0, TABLE.actions)
    with pytest.raises(
        SettingsError,
        match=r"A lambda \(test_paired.*, line \d+\), part of the policy, cannot be sent.*top of a module.*None",
    ):
        PairedRollouts(TABLE, policy, jmdp.Local()).collect(PLAN, seed=0, blocks=1, pool=two_workers)
    local = FunctionSimulator(lambda s, a, u: 0.0, away, 2, start=0)
    with pytest.raises(SettingsError, match=r"A lambda \(.*\), part of the simulator, cannot be sent.*None"):
        PairedRollouts(local, as_policy(drawn_from, None), jmdp.Local()).collect(
            PLAN, seed=0, blocks=1, pool=two_workers
        )
    assert len(PairedRollouts(TABLE, policy, jmdp.Local()).collect(PLAN, seed=0, blocks=1)) == 6


def test_functions_of_a_module_can_be_sent(two_workers):
    rollouts = PairedRollouts(FunctionSimulator(away, away, 2, start=0), as_policy(drawn_from, None), jmdp.Local())
    found = [digest(rollouts.collect(PLAN, seed=0, blocks=2, pool=pool)) for pool in (None, two_workers)]
    assert found[0] == found[1]


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
