"""Chance that another action does better than the policy's, in each cell of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.base.labels import Label
from jmdp.base.settings import instance
from jmdp.errors import PolicyError, SettingsError
from jmdp.models.policy import TabularPolicy
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import GapDistribution
from jmdp.show.plots.style import (
    EMPTY,
    NOTABLE,
    SMALL,
    check_drawn,
    checked_grid,
    confidence_of_pairs,
    hatch,
    ink,
    largest_error,
    marked,
    new_figure,
    short_chance,
    short_interval,
    uneven,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ARROWS = {"U": "↑", "R": "→", "D": "↓", "L": "←"}

_MOST_COLUMNS_WITH_WORDS = 12
"""Columns up to which a cell shows actions and intervals; with more, it shows the chance alone."""
_WHAT = """\
number: largest chance that one other action does strictly better
(pairwise, not the chance that any of them does)"""
_MORE = "\nabove: the policy's action; below: the action that beats it most often"

_EQUAL = 1e-9
"""Chances that differ by less are equal, and one that is less is none."""


def beaten_grid(
    evaluation: Evaluation,
    policy: TabularPolicy,
    grid: tuple[int, int] | None,
    *,
    terminal: Sequence[Label] = (),
    title: str | None = None,
) -> Figure:
    """Chance that the policy's action is beaten, in each cell of a gridworld.

    For the policy's likeliest action a in state s, max over b of P(Z(s, b) > Z(s, a)): the chance that one fixed other
    action does strictly better. The chance that any other action does is larger. Above the number is the policy's
    action, below it the action that beats it most often (all of them in case of a tie).

    Parameters
    ----------
    evaluation
        With distributions: by `ExactDistribution`, or by `MonteCarlo`. Its states are the cells, row by row from the
        top.
    policy
        Its action is compared with the others; usually the policy that was evaluated. Of several likeliest actions
        the first is taken.
    grid
        (rows, columns); `World.grid` has it.
    terminal
        States to mark as such.
    title
        Shown above.
    """
    check_drawn("evaluation", evaluation, Evaluation, title)
    instance("policy", policy, TabularPolicy, PolicyError)
    rows, columns = checked_grid(evaluation, grid)
    cells = _cells(evaluation, policy, marked(evaluation, terminal))
    values = np.full(rows * columns, np.nan)
    for s, cell in cells.items():
        values[s] = cell.chance
    words = _CellTexts(
        _names(evaluation),
        everything=columns <= _MOST_COLUMNS_WITH_WORDS,
        intervals=uneven(cell.chance for cell in cells.values()),
    )
    wide, high = words.cell_size()
    figure, [[axes]] = new_figure(size=(max(wide * columns + 1.2, 5.0), max(high * rows + 1.6, 2.8)))
    axes.set_facecolor(EMPTY)
    hatch(axes.patch)  # visible where there is no number
    image = axes.imshow(values.reshape(rows, columns), cmap="Oranges", vmin=0, vmax=1, aspect="auto")
    for s, value in enumerate(values):
        colour = ink(image, value) if s in cells else "black"
        words.write(axes, divmod(s, columns), evaluation.states.name(s), cells.get(s), colour)
    _frame(axes, rows, columns)
    figure.supxlabel(_WHAT + (_MORE if words.everything else ""), fontsize=SMALL)
    bar = figure.colorbar(image, ax=axes, shrink=0.9, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.set_label("chance to be beaten")
    bar.outline.set_visible(False)
    distributions = [distribution for cell in cells.values() for distribution in cell.distributions]
    error = largest_error(cell.chance for cell in cells.values())
    known = f"{confidence_of_pairs(distributions)}, error at most {error}"
    coupling = type(evaluation.coupling).__name__
    figure.suptitle(title or f"Chance that the policy's action is beaten\n{coupling} coupling, {known}", fontsize=10)
    return figure


@dataclass(frozen=True)
class _Cell:
    """Content of one cell."""

    action: int  # the policy's
    chance: Estimate  # that it is beaten
    beaten_by: list[int]  # these actions, equally often
    distributions: list[GapDistribution]  # of the gaps of all others over it


def _cells(evaluation: Evaluation, policy: TabularPolicy, ends: set[int]) -> dict[int, _Cell]:
    """Content of the cells of all states that are not terminal."""
    S, A = evaluation.mean.shape
    if A < 2:
        raise SettingsError("There is one action, so there is no other to beat it.")
    if policy.probs.shape != (S, A):
        raise PolicyError(
            f"The policy's table has shape {policy.probs.shape}, the evaluation has {S} states and {A} actions. "
            "Give the policy that was evaluated, or another of the same model."
        )
    cells = {s: _cell(evaluation, s, int(policy.probs[s].argmax())) for s in range(S) if s not in ends}
    if not cells:
        raise SettingsError("All states are terminal, so there is no choice to show.")
    return cells


def _cell(evaluation: Evaluation, s: int, a: int) -> _Cell:
    others = [b for b in range(evaluation.actions.size) if b != a]
    state, actions = evaluation.states[s], evaluation.actions
    distributions = [evaluation.gap(state, actions[b], actions[a]).distribution() for b in others]
    chances = [distribution.superiority() for distribution in distributions]
    most = Estimate(max(chances), max(chance.low for chance in chances), max(chance.high for chance in chances))
    by = [b for b, chance in zip(others, chances, strict=True) if chance > max(_EQUAL, most - _EQUAL)]
    return _Cell(a, most, by, distributions)


def _names(evaluation: Evaluation) -> list[str]:
    """Arrows where all actions are steps on the grid."""
    names = [evaluation.actions.name(a) for a in range(evaluation.actions.size)]
    return [_ARROWS[name] for name in names] if set(names) <= set(_ARROWS) else names


@dataclass(frozen=True)
class _CellTexts:
    """Texts of the cells."""

    names: Sequence[str]  # of actions
    everything: bool  # else the chance alone
    intervals: bool  # write intervals of chances with a notable error

    def cell_size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return (max(0.8, 0.09 * (4 + max(map(len, self.names)))), 0.95) if self.everything else (0.4, 0.4)

    def write(self, axes: Axes, at: tuple[int, int], state: str, cell: _Cell | None, colour: str) -> None:
        y, x = at

        def text(down: float, what: str, size: float, weight: str = "normal") -> None:
            axes.text(x, y + down, what, ha="center", va="center", fontsize=size, fontweight=weight, color=colour)

        if self.everything:
            axes.text(x - 0.46, y - 0.45, state, ha="left", va="top", fontsize=7.5, color=colour)
        if cell is None:
            text(0, "end", SMALL if self.everything else 8)
            return
        if not self.everything:
            text(0, short_chance(cell.chance), 8)
            return
        text(0.04, short_chance(cell.chance), 10)
        if self.intervals and cell.chance.error >= NOTABLE:
            text(0.2, short_interval(cell.chance), 8)
        arrows = self.names[cell.action] in _ARROWS.values()
        text(-0.24, self.names[cell.action], 13 if arrows else SMALL, "bold")
        if cell.beaten_by:
            # All arrows fit; of several names only the first.
            which = [self.names[b] for b in cell.beaten_by]
            text(0.37, "by " + (" ".join(which) if arrows else which[0] + ", …" * (len(which) > 1)), SMALL)


def _frame(axes: Axes, rows: int, columns: int) -> None:
    """White lines between the cells, and nothing around them."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.hlines(np.arange(rows - 1) + 0.5, -0.5, columns - 0.5, color="white", linewidth=1.5)
    axes.vlines(np.arange(columns - 1) + 0.5, -0.5, rows - 0.5, color="white", linewidth=1.5)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
