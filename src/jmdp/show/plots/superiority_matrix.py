"""Chance that one action does better than another, for each pair of actions in a state."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.base.labels import Label
from jmdp.errors import SettingsError
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import GapDistribution
from jmdp.show.plots.style import (
    NOTABLE,
    SMALL,
    check_drawn,
    confidence_of_pairs,
    ink,
    largest_error,
    new_figure,
    short_chance,
    short_interval,
    uneven,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


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
