"""Shared by figures laid out as a gridworld: a check that the grid fits, and the look of empty cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jmdp.base import settings
from jmdp.base.labels import Label
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
    return settings.checked_grid(grid, S)


def marked(evaluation: Evaluation, terminal: Sequence[Label]) -> set[int]:
    """Indices of the states to mark as terminal."""
    given = settings.listed(terminal, evaluation.states.size)
    if given is None:
        raise SettingsError(f"terminal is {settings.short(terminal)}. Give a list of states.")
    return {evaluation.states.index(s) for s in given}


def hatch(patch: Patch) -> None:
    """Hatch a cell that has no number."""
    patch.set_hatch("///")
    patch.set_edgecolor("#bbbbbb")
