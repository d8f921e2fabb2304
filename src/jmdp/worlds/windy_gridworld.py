"""The paper's windy gridworld: a gust to the left that would hit whichever way one walks."""

from __future__ import annotations

import numpy as np

from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy
from jmdp.worlds.world import World, check_range, check_whole

_MOVES = {"U": (-1, 0), "R": (0, 1), "D": (1, 0), "L": (0, -1)}


def windy_gridworld(
    rows: int = 5,
    columns: int = 5,
    *,
    gust: float = 0.3,
    goal_reward: float = 1.0,
    step_reward: float = 0.0,
    discount: float = 0.95,
) -> World:
    """A grid with a goal in its top right corner and gusts of wind to the left.

    In each step one of two scenarios holds for all actions: calm, or with probability `gust` a push one cell to
    the left after the move. Walls stop both. Ending a step on the goal ends the walk and earns `goal_reward`;
    every other step earns `step_reward`. Scenario probabilities are the same in every cell, so `Synchronous`
    applies.

    Paper: section 6, "Windy gridworld", Figure 1. It gives no gust probability, rewards or discount; these
    defaults are ours.

    States are named "row,column" from the top left, actions U, R, D, L. Policies: "goal_directed" (the paper's: right,
    then up), "careless" (the same with one step in five at random), "uniform".
    """
    check_whole("rows", rows, 1, 10_000)
    check_whole("columns", columns, 1, 10_000)
    check_range("gust", gust, 0, 1)
    S, A = rows * columns, len(_MOVES)
    row, column = np.divmod(np.arange(S), columns)
    next_state = np.empty((S, 2, A), np.int64)
    for a, (down, right) in enumerate(_MOVES.values()):
        to_row = np.clip(row + down, 0, rows - 1)
        to_column = np.clip(column + right, 0, columns - 1)
        for k, push in enumerate((0, 1)):
            next_state[:, k, a] = to_row * columns + np.maximum(to_column - push, 0)
    goal = columns - 1
    model = TabularJMDP(
        np.tile([1 - gust, gust], (S, 1)),
        np.where(next_state == goal, goal_reward, step_reward),
        next_state,
        discount,
        np.arange(S) == goal,
        [f"{r},{c}" for r, c in zip(row, column, strict=True)],
        list(_MOVES),
    )
    names = list(_MOVES)
    directed = TabularPolicy.deterministic(model, np.where(column < columns - 1, names.index("R"), names.index("U")))
    uniform = TabularPolicy.uniform(model)
    policies = {"goal_directed": directed, "careless": directed.mixed(uniform, 0.2), "uniform": uniform}
    return World(model, policies, (rows, columns))
