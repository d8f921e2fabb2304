"""Shared by figures laid out as a gridworld: a check that the grid fits, and the look of empty cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.errors import SettingsError
from jmdp.results.evaluation import Evaluation

if TYPE_CHECKING:
    from matplotlib.patches import Patch

EMPTY = "#eeeeee"
"""Colour of cells without a number."""


def checked_grid(evaluation: Evaluation, grid: tuple[int, int] | None) -> tuple[int, int]:
    """Return (rows, columns) if their product is the number of states; raise SettingsError otherwise."""
    S = evaluation.states.size
    if grid is None:
        raise SettingsError(f"These {S} states are not the cells of a grid. Give (rows, columns) to lay them out.")
    rows, columns = grid
    if rows * columns != S:
        raise SettingsError(f"grid is {grid}, that is {rows * columns} cells, for {S} states.")
    return rows, columns


def hatch(patch: Patch) -> None:
    """Hatch a cell that has no number."""
    patch.set_hatch("///")
    patch.set_edgecolor("#bbbbbb")
