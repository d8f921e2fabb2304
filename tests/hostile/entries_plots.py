"""Entries of figures, checks for users and built-in problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import jmdp
from hostile import tiny
from hostile.entries import Arguments, Entry
from hostile.entries_answers import explained
from hostile.entries_results import calibration
from jmdp import plots, testing, worlds
from jmdp.base.luck import Shock

Valid = Callable[[np.random.Generator], Arguments]


def plot(name: str, valid: Valid, **more: Any) -> Entry:
    """Entry of a figure, which is also drawn."""
    return Entry(
        f"plots.{name}",
        getattr(plots, name),
        lambda rng: {**valid(rng), "title": "title"},
        then={"draw": lambda figure: figure.canvas.draw()},
        **more,
    )


def grid(rng: np.random.Generator) -> Arguments:
    """A grid of one row."""
    return {"grid": (1, 3), "terminal": ["end"] if rng.random() < 0.5 else [2]}


def finite_model(world: worlds.World, given: Mapping[str, Any]) -> str | None:
    """Check of an accepted world: its table is finite, and its policies fit."""
    if not np.isfinite(world.model.reward).all():
        return f"rewards {world.model.reward!r:.60}"
    for policy in world.policies.values():
        policy.check_fits(world.model)
    return None


def table(world: worlds.World) -> tuple[bytes, ...]:
    """All numbers of a world."""
    model = world.model
    return model.prob.tobytes(), model.reward.tobytes(), model.next_state.tobytes()


def world(name: str, sizes: frozenset[str], valid: Valid) -> Entry:
    """Entry of a built-in table."""
    return Entry(
        f"worlds.{name}",
        getattr(worlds, name),
        valid,
        amounts=sizes,
        check=finite_model,
        answer=table,
        then={"repr": repr},
    )


def _simulated(simulator: Any) -> None:
    state = simulator.start(Shock.of_sample(0, 0))
    reward = simulator.step(state, 0, Shock.of_sample(0, 1)).reward
    assert np.isfinite(reward), f"reward {reward}"
    repr(simulator)


_COSTS = dict.fromkeys(("price", "unit_cost", "order_cost", "holding_cost", "shortage_cost"), 1.0)


def stock(rng: np.random.Generator) -> Arguments:
    """Arguments of the worlds of an inventory."""
    return {"capacity": 4, "most_ordered": 2, "mean_demand": 1.0, **_COSTS, "discount": 0.5}


def queue(rng: np.random.Generator) -> Arguments:
    """Arguments of the worlds of a queue."""
    return {
        "room": 4,
        "servers": 2,
        "arrivals": (0.25, 0.25),
        "service": 0.25,
        "fees": (4.0, 1.0),
        "holding_cost": 0.5,
        "discount": 0.5,
    }


def cells(rng: np.random.Generator) -> Arguments:
    """Arguments of the worlds of a grid."""
    return {
        "rows": 2,
        "columns": 3,
        "gust": 0.5,
        "goal_reward": 1.0,
        "step_reward": 0.5,
        "blown_reward": -1.0,
        "discount": 0.5,
    }


def _lazily(world: worlds.LazyWorld, given: Mapping[str, Any]) -> str | None:
    found = jmdp.evaluate(
        world.model,
        world.policies["careless"],
        tiny.COUPLING,
        jmdp.ReachablePairs((0, 0), max_states=10),
        throw=False,
        progress=False,
    )
    return None if np.isfinite(found.mean).all() else f"mean {found.mean!r:.60}"


ENTRIES = [
    plot("beaten_grid", lambda rng: {"evaluation": tiny.distributed(), "policy": tiny.policy(), **grid(rng)}),
    plot("calibration_scatter", lambda rng: {"calibration": calibration()}),
    plot("comparison_chart", lambda rng: {"comparison": tiny.compared()}),
    plot("correlation_grid", lambda rng: {"evaluation": tiny.certified(), **grid(rng)}),
    plot(
        "gap_chart", lambda rng: {"evaluation": tiny.certified(), "state": tiny.state(rng), "action": tiny.action(rng)}
    ),
    plot("explanation_chart", lambda rng: {"explanation": explained()}),
    plot("gap_distribution", lambda rng: {"gap": tiny.distributed().gap(0, 0, 1), "p": 0.05}),
    plot("residual_curve", lambda rng: {"evaluations": tiny.certified()}),
    plot("study_gaps", lambda rng: {"study": tiny.studied()}),
    plot("study_map", lambda rng: {"study": tiny.studied()}),
    plot("superiority_matrix", lambda rng: {"evaluation": tiny.distributed(), "state": tiny.state(rng)}),
    plot("td_errors", lambda rng: {"evaluations": [tiny.learned()] if rng.random() < 0.5 else tiny.learned()}),
    Entry(
        "plots.residual_curve: several",
        lambda name, one: plots.residual_curve(tiny.dictionary((name, one), ("JIPE", tiny.certified()))),
        lambda rng: {"name": "ExactPairs", "one": tiny.certified()},
        then={"draw": lambda figure: figure.canvas.draw()},
    ),
    Entry("testing.check_model", testing.check_model, lambda rng: {"model": tiny.model()}),
    Entry(
        "testing.check_certificate",
        testing.check_certificate,
        lambda rng: {"model": tiny.model(), "policy": tiny.policy(), "evaluation": tiny.certified()},
    ),
    world("anti_correlated_bandit", frozenset(), lambda rng: {"discount": 0.5}),
    world(
        "coupled_reward_chain",
        frozenset({"length"}),
        lambda rng: {"length": 4, "reward": 1.0, "up": 0.25, "discount": 0.5},
    ),
    world("inventory", frozenset({"capacity", "mean_demand"}), stock),
    world(
        "inventory_with_lead_time",
        frozenset({"capacity", "mean_demand"}),
        lambda rng: {**stock(rng), "lead_time": 1},
    ),
    world("queue_admission", frozenset({"room"}), queue),
    world("windy_gridworld", frozenset({"rows", "columns"}), cells),
    Entry("worlds.lazy_windy_gridworld", worlds.lazy_windy_gridworld, cells, check=_lazily, then={"repr": repr}),
    Entry(
        "worlds.InventorySimulator",
        worlds.InventorySimulator,
        lambda rng: {**stock(rng), "lead_time": 1},
        amounts=frozenset({"mean_demand"}),
        then={"step": _simulated},
    ),
    Entry("worlds.QueueSimulator", worlds.QueueSimulator, queue, then={"step": _simulated}),
    Entry(
        "worlds.World",
        worlds.World,
        lambda rng: {
            "model": tiny.model(),
            "policies": {"old": tiny.policy()},
            "grid": (1, 3),
            "start": np.array([0.5, 0.5, 0.0]),
            "simulator": None,
        },
    ),
    Entry(
        "worlds.LazyWorld",
        worlds.LazyWorld,
        lambda rng: {"model": jmdp.LazyJMDP.of(tiny.model()), "policies": {"old": lambda s: [0.5, 0.5]}},
    ),
]
