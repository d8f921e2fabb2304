"""The paper's windy gridworld: a gust to the left that is the same for all moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.settings import integer, number, short, whole_number
from jmdp.errors import LabelError
from jmdp.models.lazy import LazyJMDP, Scenarios
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.adapters.functions import refuse_large_table
from jmdp.worlds.world import LazyWorld, World, amount

_MOVES = {"U": (-1, 0), "R": (0, 1), "D": (1, 0), "L": (0, -1)}


_CARELESS = 0.2
"""Probability of a random move under the policy "careless"."""


def windy_gridworld(
    rows: int = 5,
    columns: int = 5,
    *,
    gust: float = 0.3,
    goal_reward: float = 1.0,
    step_reward: float = 0.0,
    blown_reward: float = 0.0,
    discount: float = 0.95,
) -> World:
    """A grid with a goal in its top right corner and gusts of wind to the left.

    In each step one of two scenarios applies to all actions: calm, or with probability `gust` a push one cell to the
    left after the move. Walls stop both. A step that ends on the goal ends the episode and earns `goal_reward`; every
    other step earns `step_reward`, plus `blown_reward` if the wind moved the agent. Scenario probabilities are the same
    in every cell, so `Synchronous` applies.

    Paper: Section 6, "Windy gridworld", Figure 1. It gives no gust probability, rewards or discount; the
    defaults are our choice.

    States are named "row,column" from the top left, actions U, R, D, L. Policies: "goal_directed" (the paper's: right,
    then up), "careless" (the same with one step in five at random), "uniform". `World.start`: the bottom left corner.
    """
    grid = _Grid(rows, columns, gust, goal_reward, step_reward, blown_reward)
    rows, columns, gust = grid.rows, grid.columns, grid.gust
    S = rows * columns
    refuse_large_table(S, 2, len(_MOVES))
    row, column = np.divmod(np.arange(S), columns)
    to_row, to_column, reward = grid.outcomes(row, column)
    model = TabularJMDP(
        np.tile([1 - gust, gust], (S, 1)),
        reward,
        to_row * columns + to_column,
        discount,
        np.arange(S) == columns - 1,
        [f"{r},{c}" for r, c in zip(row, column, strict=True)],
        list(_MOVES),
    )
    directed = TabularPolicy(grid.directed(column))
    uniform = TabularPolicy.uniform(model)
    policies = {"goal_directed": directed, "careless": directed.mixed(uniform, _CARELESS), "uniform": uniform}
    return World(model, policies, (rows, columns), start=np.arange(S) == (rows - 1) * columns)


def lazy_windy_gridworld(
    rows: int = 1000,
    columns: int = 1000,
    *,
    gust: float = 0.3,
    goal_reward: float = 1.0,
    step_reward: float = 0.0,
    blown_reward: float = -1.0,
    discount: float = 0.95,
) -> LazyWorld:
    """The same grid as a lazy model of any size, with states (row, column) that are never enumerated.

    By default a push by the wind has a cost in every cell, so that actions also differ far from the goal.
    """
    grid = _Grid(rows, columns, gust, goal_reward, step_reward, blown_reward)
    chances, goal = [1 - grid.gust, grid.gust], (0, grid.columns - 1)

    def scenarios(cell: tuple[int, int]) -> Scenarios | None:
        grid.check_cell(cell)
        if cell == goal:
            return None
        to_row, to_column, reward = grid.outcomes(np.array(cell[0]), np.array(cell[1]))
        following = [list(zip(*row, strict=True)) for row in zip(to_row.tolist(), to_column.tolist(), strict=True)]
        return chances, reward, following

    def directed(cell: tuple[int, int]) -> Floats:
        return grid.directed(np.array(cell[1]))

    uniform = np.full(len(_MOVES), 1 / len(_MOVES))
    bound = max(abs(grid.goal_reward), abs(grid.step_reward), abs(grid.step_reward + grid.blown_reward))
    return LazyWorld(
        LazyJMDP(scenarios, discount, bound, list(_MOVES)),
        {
            "goal_directed": directed,
            "careless": lambda cell: (1 - _CARELESS) * directed(cell) + _CARELESS * uniform,
            "uniform": lambda cell: uniform,
        },
    )


@dataclass(frozen=True)
class _Grid:
    """Rules of the gridworld, vectorised over cells."""

    rows: int
    columns: int
    gust: float
    goal_reward: float
    step_reward: float
    blown_reward: float

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1, 2**31))
        object.__setattr__(self, "gust", number("gust", self.gust, 0, 1))
        for name in ("goal_reward", "step_reward", "blown_reward"):
            object.__setattr__(self, name, amount(name, getattr(self, name)))

    def check_cell(self, cell: object) -> None:
        """Raise unless this is a tuple (row, column) on the grid."""
        row, column = map(integer, cell) if isinstance(cell, tuple) and len(cell) == 2 else (None, None)
        if row is None or column is None or not (0 <= row < self.rows and 0 <= column < self.columns):
            raise LabelError(f"There is no cell {short(cell)}. Give (row, column), from (0, 0) at the top left.")

    def outcomes(self, row: Integers, column: Integers) -> tuple[Integers, Integers, Floats]:
        """Return rows, columns and rewards [.., 2, A] after a step from each cell."""
        down, right = np.array(list(_MOVES.values())).T
        calm = np.clip(column[..., None, None] + right, 0, self.columns - 1)
        to_column = np.maximum(calm - np.array([[0], [1]]), 0)
        to_row = np.broadcast_to(np.clip(row[..., None, None] + down, 0, self.rows - 1), to_column.shape)
        reward = np.where(to_column < calm, self.step_reward + self.blown_reward, self.step_reward)
        return to_row, to_column, np.where((to_row == 0) & (to_column == self.columns - 1), self.goal_reward, reward)

    def directed(self, column: Integers) -> Floats:
        """Return action probabilities [.., A] of the policy that moves right, then up."""
        names = list(_MOVES)
        return np.eye(len(names))[np.where(column < self.columns - 1, names.index("R"), names.index("U"))]
