"""Every method of `jmdp.methods`, registered once. Tests that run over all methods take their cases from `METHODS`.

`tests/methods/test_every_method.py` fails if a method or one of its settings is missing here. Nothing here imports JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import jmdp
from jmdp.methods.incremental import BlockSampling, PolynomialSteps
from jmdp.methods.linear_projected import Restart, features
from jmdp.methods.method import Method
from sample_models import COUPLINGS

Call = Callable[[Path], Any]
"""Evaluation, given a folder for files."""


@dataclass(frozen=True)
class Registered:
    """A method, and how tests use it."""

    settings: Mapping[str, Any]
    """Every setting, for the problem of `hostile.tiny`, where most methods take milliseconds."""
    interrupted: Mapping[str, Call]
    """Evaluations that take some tenths of a second, to be interrupted, by row of the table in docs/howto/resume.md."""
    contract: Method[Any] | None
    """Instance that finishes a table of a few states; None if the method takes simulators only."""
    couplings: tuple[jmdp.Coupling, ...] = tuple(COUPLINGS)
    needs_seed: bool = False
    one_state: bool = False
    """Whether the result has one state, which is a setting."""
    memory: tuple[int, str] | None = None
    """Budget that is too small for `windy_gridworld()`, and the message that refuses it; None if nothing is refused."""
    amounts: frozenset[str] = field(default=frozenset())
    """Settings that say how much is computed."""


# ------------------------------------------------------------------------------------------------ what is interrupted


def table(S: int, discount: float = 0.9, K: int = 3, A: int = 3) -> tuple[jmdp.TabularJMDP, jmdp.TabularPolicy]:
    """Random table and the uniform policy."""
    rng = np.random.default_rng(0)
    model = jmdp.TabularJMDP(
        rng.dirichlet(np.ones(K), S), rng.normal(size=(S, K, A)), rng.integers(0, S, (S, K, A)), discount
    )
    return model, jmdp.TabularPolicy.uniform(model)


def _reward(state: int, action: int, shock: float) -> float:
    return action * shock


def _following(state: int, action: int, shock: float) -> int:
    return (state + 1 + action + int(3 * shock)) % 7


def _observe(state: int) -> np.ndarray[Any, Any]:
    return np.array([float(state)])


def zero(observation: Any) -> int:
    """Policy that takes the first action."""
    return 0


def simulator() -> jmdp.simulators.FunctionSimulator:
    """Walk on seven states."""
    return jmdp.simulators.FunctionSimulator(_reward, _following, 2, start=0, observe=_observe)


def _on_table(S: int, discount: float, method: Any) -> Call:
    def call(folder: Path) -> Any:
        made = method if isinstance(method, Method) else method(folder)
        return jmdp.evaluate(*table(S, discount), jmdp.Local(), made, throw=False, progress=False)

    return call


def _reachable(folder: Path) -> Any:
    world = jmdp.worlds.windy_gridworld(14, 14)
    method = jmdp.ReachablePairs("6,6", tolerance=1e-4)
    return jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method, throw=False, progress=False)


def _sampled(folder: Path) -> Any:
    method = jmdp.MonteCarlo(seed=1, samples=1000, horizon=40)
    return jmdp.evaluate(simulator(), zero, jmdp.Local(), method, discount=0.95, throw=False, progress=False)


def _neural(pool: int | None = None, saved: bool = False) -> Call:
    def call(folder: Path) -> Any:
        method = jmdp.NeuralGram(
            seed=1, updates=300, visits=100, length=4, spacing=2, held_out=8, rank=4, batch=32, pool=pool,
            path=folder / "run" if saved else None,
        )  # fmt: skip
        return jmdp.evaluate(simulator(), zero, jmdp.Synchronous(), method, discount=0.5, throw=False, progress=False)

    return call


def _regressed(folder: Path) -> Any:
    method = jmdp.LearnedMoments(seed=1, max_steps=100_000)
    return jmdp.evaluate(simulator(), zero, jmdp.Local(), method, discount=0.95, throw=False, progress=False)


_FEATURES = np.random.default_rng(0).normal(size=(120, 8))

# ------------------------------------------------------------------------------------------------ the methods

_SWEEPS = {"tolerance": 1e-6, "max_sweeps": 200, "memory_budget": 10**9}
_SHARING = tuple(coupling for coupling in COUPLINGS if coupling.shared_in_a_state)

METHODS = {
    "ExactPairs": Registered(
        settings={**_SWEEPS, "order": 3, "precision": "float64"},
        contract=jmdp.ExactPairs(),
        interrupted={
            "ExactPairs": _on_table(420, 0.9999, jmdp.ExactPairs(tolerance=0)),
            "ExactPairs(order=4)": _on_table(60, 0.999, jmdp.ExactPairs(order=4)),
        },
        memory=(9_999, r"ExactPairs on 25 states needs 9\.77 KiB, but only 9\.76 KiB may be used"),
    ),
    "ExactDistribution": Registered(
        settings={**_SWEEPS, "tolerance": 0.1, "cells": 64, "max_cells": 256},
        contract=jmdp.ExactDistribution(),
        interrupted={"ExactDistribution": _on_table(6, 0.8, jmdp.ExactDistribution())},
        memory=(13_600_000, r"ExactDistribution on 25 states needs 13 MiB.*Use MonteCarlo\(seed=…\)"),
    ),
    "ReachablePairs": Registered(
        settings={"state": "left", "tolerance": 0.1, "max_states": 10, "memory_budget": 10**8, "max_seconds": 10.0},
        contract=jmdp.ReachablePairs("2"),
        interrupted={"ReachablePairs": _reachable},
        one_state=True,
    ),
    "JIPE": Registered(
        settings={**_SWEEPS, "order": 2},
        contract=jmdp.JIPE(),
        interrupted={"JIPE": _on_table(20, 0.98, jmdp.JIPE())},
        memory=(550_000, r"JIPE on 100 coordinates needs 547 KiB.*Use ExactPairs\(\)"),
    ),
    "MonteCarlo": Registered(
        settings={"seed": 1, "samples": 16, "confidence": 0.9, "horizon": 5, "states": None, "pool": None},
        contract=jmdp.MonteCarlo(seed=5, samples=500),
        interrupted={
            "MonteCarlo": _on_table(6, 0.9, jmdp.MonteCarlo(seed=1, samples=8000)),
            "MonteCarlo on a simulator": _sampled,
        },
        needs_seed=True,
        amounts=frozenset({"samples", "horizon"}),
    ),
    "Incremental": Registered(
        settings={
            "seed": 1,
            "updates": 320,
            "tolerance": 0.5,
            "confidence": 0.9,
            "steps": PolynomialSteps(),
            "sampling": BlockSampling(),
            "centred": True,
            "averaging": True,
            "path": None,
            "checkpoint_seconds": 10.0,
            "memory_budget": 10**8,
        },
        contract=jmdp.Incremental(seed=5, updates=400_000),
        interrupted={
            "Incremental": _on_table(20, 0.9, jmdp.Incremental(seed=1, updates=4_000_000)),
            "Incremental(path=…)": _on_table(
                20, 0.9,
                lambda folder: jmdp.Incremental(
                    seed=1, updates=4_000_000, path=folder / "run.npz", checkpoint_seconds=0.1
                ),
            ),
        },
        needs_seed=True,
        memory=(1_100_000, r"Incremental on 100 pairs of state and action needs 1\.14 MiB.*Use LinearProjected"),
        amounts=frozenset({"updates"}),
    ),
    "LinearProjected": Registered(
        settings={
            "features": np.eye(6),
            "same_state": None,
            "weights": Restart(),
            "target": "covariance",
            "samples": None,
            "seed": None,
            "tolerance": 1e-6,
            "max_sweeps": 50,
            "memory_budget": 10**9,
        },
        contract=jmdp.LinearProjected(features.OneHot()),
        interrupted={
            "LinearProjected": _on_table(
                40, 0.99, jmdp.LinearProjected(_FEATURES, same_state=True, tolerance=0, max_sweeps=6000)
            ),
            "LinearProjected(samples=…)": _on_table(
                40, 0.99, jmdp.LinearProjected(_FEATURES, samples=10_000, seed=1, max_sweeps=500)
            ),
        },
        couplings=_SHARING,
        amounts=frozenset({"samples"}),
        memory=(3_200_000_000, r"LinearProjected with 96 \+ 0 features needs 3\.05 GiB.*Use fewer features"),
    ),
    "LearnedMoments": Registered(
        settings={"seed": 1, "max_steps": 10, "max_seconds": 10.0, "pool": None},
        contract=None,
        interrupted={"LearnedMoments": _regressed},
        needs_seed=True,
        amounts=frozenset({"max_steps"}),
    ),
    "NeuralGram": Registered(
        settings={
            **dict.fromkeys(("seed", "visits", "spacing", "length", "repeats", "steps", "updates", "batch"), 8),
            **dict.fromkeys(("learning_rate", "weight_decay", "dropout", "target_averaging", "mean_rate"), 0.5),
            **{"kernel": "sum", "rank": 4, "encoder": None, "held_out": 4, "patience": 4, "pool": None, "path": None},
        },
        contract=None,
        interrupted={"NeuralGram": _neural(pool=2), "NeuralGram(path=…)": _neural(saved=True)},
        couplings=_SHARING,
        needs_seed=True,
    ),
}  # fmt: skip
"""Methods by class name."""
