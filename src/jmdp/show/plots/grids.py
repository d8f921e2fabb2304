"""Figures of evaluations laid out as a gridworld or as a matrix: chances to be beaten, and correlations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base import settings
from jmdp.base.interval import Estimate
from jmdp.base.labels import Label
from jmdp.base.rounding import at_most, chance, confidence_percent, ends_to_decimals
from jmdp.base.settings import instance
from jmdp.errors import PolicyError, SettingsError
from jmdp.models.policy import TabularPolicy
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.show.plots.style import EMPTY, SMALL, check_drawn, ink, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.patches import Patch


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


_MOST_CELLS_WITH_NUMBERS = 40
"""Matrix entries in one row of the figure up to which numbers are written."""


def correlation_grid(
    evaluation: Evaluation,
    grid: tuple[int, int] | None,
    *,
    terminal: Sequence[Label] = (),
    title: str | None = None,
) -> Figure:
    """Correlation matrices of all states of a gridworld, laid out as the grid (paper, Figure 4).

    Parameters
    ----------
    evaluation
        Its states are the cells, row by row from the top.
    grid
        (rows, columns); `World.grid` has it.
    terminal
        States to mark as such. Cells without a correlation, for want of variance, are hatched.
    title
        Shown above.
    """
    check_drawn("evaluation", evaluation, Evaluation, title)
    S, A = evaluation.mean.shape
    rows, columns = checked_grid(evaluation, grid)
    ends = marked(evaluation, terminal)
    numbers = columns * A <= _MOST_CELLS_WITH_NUMBERS
    tile = max(0.9, 0.36 * A) if numbers else 0.9
    size = (max(tile * columns + 0.6, 4.0), max((tile + 0.3) * rows + 1.3, 2.8))
    figure, axes = new_figure(rows, columns, size=size)
    images = []
    for s in range(S):
        r, c = divmod(s, columns)
        corner = (r == rows - 1, c == 0)
        images.append(_tile(axes[r][c], evaluation, s, corner, s in ends, numbers))
    bar = figure.colorbar(images[0], ax=np.array(axes), location="bottom", aspect=40, ticks=[-1, -0.5, 0, 0.5, 1])
    bar.set_label("correlation of two actions' returns")
    coupling = type(evaluation.coupling).__name__
    figure.suptitle(title or f"Correlation of actions' returns\nin each state, {coupling} coupling", fontsize=11)
    return figure


def _tile(
    axes: Axes, evaluation: Evaluation, s: int, labelled: tuple[bool, bool], ends: bool, numbers: bool
) -> AxesImage:
    rho = evaluation.correlation[s]
    A = rho.shape[0]
    axes.set_facecolor(EMPTY)
    image = axes.imshow(rho, cmap="PuOr", vmin=-1, vmax=1)
    names = [evaluation.actions.name(a) for a in range(A)]
    long = max(map(len, names)) > 3
    axes.set_xticks(range(A), names if labelled[0] else [""] * A, fontsize=SMALL, rotation=90 if long else 0)
    axes.set_yticks(range(A), names if labelled[1] else [""] * A, fontsize=SMALL)
    axes.tick_params(length=0)
    axes.set_title(evaluation.states.name(s), fontsize=SMALL, pad=2)
    if np.isnan(rho).all():
        hatch(axes.patch)
        axes.text((A - 1) / 2, (A - 1) / 2, "end" if ends else "no\nvariance", ha="center", va="center",
                  fontsize=SMALL)  # fmt: skip
    elif numbers:
        for (a, b), value in np.ndenumerate(rho):
            if a != b and not np.isnan(value):
                axes.text(b, a, _short(value), ha="center", va="center", fontsize=SMALL, color=ink(image, value))
    return image


def _short(value: float) -> str:
    """Two decimals; 1 only if it is 1 to four decimals."""
    if abs(value) >= 0.99995:
        return "1" if value > 0 else "−1"
    if abs(value) >= 0.995:
        return ">.99" if value > 0 else "<−.99"
    return f"{value:.2f}".replace("0.", ".").replace("-", "−")


def superiority_matrix(evaluation: Evaluation, state: Label, *, title: str | None = None) -> Figure:
    """P(Z(state, row) > Z(state, column)) for each two actions: the chance that the row beats the column.

    Beating is strict, so the two numbers of a pair add up to 1 minus the chance of a tie, which is written below them
    if it is positive. Colours run from 0 to 1 because ½ is not the middle if ties are possible: an action that wins
    with chance .4 and ties otherwise never loses.

    Parameters
    ----------
    evaluation
        With distributions: by `ExactDistribution`, or by `MonteCarlo`.
    state
        By index or name.
    title
        Shown above the axes.
    """
    check_drawn("evaluation", evaluation, Evaluation, title)
    s, A, actions = evaluation.states.index(state), evaluation.actions.size, list(evaluation.actions)
    if A < 2:
        raise SettingsError("There is one action, so there is no other to beat.")
    pairs = combinations(range(A), 2)
    distributions = {(a, b): evaluation.gap(state, actions[a], actions[b]).distribution() for a, b in pairs}
    wins, ties = _chances(distributions)
    names = [evaluation.actions.name(a) for a in range(A)]
    longest = max(map(len, names))
    figure, [[axes]] = new_figure(size=(max(0.72 * A + 1.9 + 0.07 * longest, 4.6), max(0.72 * A + 1.7, 3.2)))
    axes.set_facecolor("#d0d0d0")  # the diagonal, where there is no number
    matrix = np.full((A, A), np.nan)
    for pair, win in wins.items():
        matrix[pair] = win
    image = axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    _write(axes, image, wins, ties)
    axes.set_xticks(range(A), names, rotation=90 if longest > 6 else 0)
    axes.set_yticks(range(A), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("this action …")
    axes.set_xlabel("… beats this one")
    bar = figure.colorbar(image, ax=axes, shrink=0.9, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.set_label("chance that row beats column")
    bar.outline.set_visible(False)
    coupling = type(evaluation.coupling).__name__
    error = f"error at most {largest_error(wins.values())}"
    if max(ties.values()) >= NOTABLE:
        error += f" (of ties {largest_error(ties.values())})"
    where = f"Chance that row beats column at state {evaluation.states.name(s)}"
    words = f"{where}\n{coupling} coupling, {confidence_of_pairs(distributions.values())},\n{error}"
    figure.suptitle(title or words, fontsize=10)
    return figure


def _chances(distributions: Mapping[tuple[int, int], GapDistribution]) -> tuple[dict[tuple[int, int], Estimate], ...]:
    """Chances to win and to tie for both orders of each pair, from one distribution so that the three add up to 1."""
    wins, ties = {}, {}
    for (a, b), distribution in distributions.items():
        wins[a, b], wins[b, a] = distribution.superiority(), distribution.inferiority()
        ties[a, b] = ties[b, a] = distribution.ties()
    return wins, ties


def _write(
    axes: Axes,
    image: AxesImage,
    wins: Mapping[tuple[int, int], Estimate],
    ties: Mapping[tuple[int, int], Estimate],
) -> None:
    own = uneven(wins.values())
    for (a, b), win in wins.items():
        small = [short_interval(win)] if own and win.error >= NOTABLE else []
        small += [f"tie {short_chance(ties[a, b])}"] if ties[a, b] >= NOTABLE else []
        colour = ink(image, win)
        axes.text(b, a - 0.13 * len(small), short_chance(win), ha="center", va="center", fontsize=11, color=colour)
        axes.text(b, a + 0.21, "\n".join(small), ha="center", va="center", fontsize=SMALL, color=colour)


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


NOTABLE = 0.005
"""The smallest chance, or error of a chance, that is visible at two decimals."""


def short_chance(value: float) -> str:
    """Two decimals and no zero before them, for the cells of a matrix."""
    return chance(value, 2).replace("0.", ".")


def short_interval(estimate: Estimate) -> str:
    """An interval of a chance for the cells of a matrix."""
    return ends_to_decimals(estimate, 2, chance).replace("0.", ".")


def confidence_of_pairs(distributions: Iterable[Distribution]) -> str:
    """The lowest confidence of the distributions in words; each has its own band."""
    sure = [distribution.confidence for distribution in distributions if distribution.confidence is not None]
    return f"each pair at {confidence_percent(min(sure))} confidence" if sure else "certified"


def largest_error(estimates: Iterable[Estimate]) -> str:
    """The largest error, to two digits and rounded up, because it is a bound."""
    return at_most(max(estimate.error for estimate in estimates), 2)


def uneven(estimates: Iterable[Estimate]) -> bool:
    """True if errors differ so much that the largest one does not describe all."""
    errors = [estimate.error for estimate in estimates]
    return max(errors) - min(errors) >= NOTABLE
