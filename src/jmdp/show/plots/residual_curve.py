"""Convergence of a method: the residual of every sweep on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.labels import is_unicode
from jmdp.base.settings import instance, short
from jmdp.errors import SettingsError, UnavailableError
from jmdp.results.evaluation import Evaluation
from jmdp.results.result import Quantity, who_gives
from jmdp.show.plots.style import COLOURS, DASHES, GREY, WIDTH, check_title, clear_spines, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def residual_curve(evaluations: Evaluation | Mapping[str, Evaluation], *, title: str | None = None) -> Figure:
    """Residual against sweep, one line for each evaluation, beside the rate γ per sweep.

    Each method measures its residual in its own norm: `JIPE` in the paper's ‖·‖_λ, `ExactPairs` in the maximum norm of
    covariances. Slopes can be compared, heights cannot.

    Parameters
    ----------
    evaluations
        One evaluation, or several by the name to show.
    title
        Shown above the axes.
    """
    check_title(title)
    if isinstance(evaluations, Evaluation):
        evaluations = {type(evaluations.method).__name__: evaluations}
    instance("evaluations", evaluations, Mapping, hint=" Give one evaluation, or {name: evaluation}.")
    if not evaluations:
        raise SettingsError("There is no evaluation to show.")
    for name, evaluation in evaluations.items():
        if not isinstance(name, str) or not is_unicode(name):
            raise SettingsError(f"The name of an evaluation is {short(name)}. Give a text.")
        instance(f"evaluations[{short(name)}]", evaluation, Evaluation)
    figure, [[axes]] = new_figure(size=(WIDTH, 3.8))
    for i, (name, evaluation) in enumerate(evaluations.items()):
        residuals = evaluation.residuals
        if residuals.size == 0 or evaluation.method.step_name != "sweep":
            raise UnavailableError(
                f"{name} has no residuals: {type(evaluation.method).__name__} does not sweep. "
                f"{who_gives(Quantity.SWEEPS)} do."
            )
        sweeps = np.arange(1, residuals.size + 1)
        shown = residuals > 0
        axes.semilogy(
            sweeps[shown],
            residuals[shown],
            color=COLOURS[i % len(COLOURS)],
            linestyle=DASHES[i % len(DASHES)],
            marker="o" if residuals.size <= 30 else "",
            markersize=4,
            label=f"{name} ({residuals.size} sweeps)",
        )
    _rate_line(axes, evaluations)
    axes.set_xlabel("sweep")
    axes.set_ylabel("residual, in each method's own norm" if len(evaluations) > 1 else "residual")
    axes.locator_params(axis="x", integer=True)
    axes.set_title(title or "Residual of every sweep")
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False)
    clear_spines(axes)
    return figure


def _rate_line(axes: Axes, evaluations: Mapping[str, Evaluation]) -> None:
    """Draw the slope γ per sweep through the first point of the longest run."""
    longest = max(evaluations.values(), key=lambda evaluation: evaluation.residuals.size)
    gamma = 0.0 if longest.certificate is None else longest.certificate.discount
    if gamma == 0 or longest.residuals[0] == 0:
        return
    sweeps = np.arange(longest.residuals.size)
    rate = longest.residuals[0] * gamma**sweeps
    axes.semilogy(sweeps + 1, rate, color=GREY, linewidth=3, alpha=0.4, zorder=0, label=f"γ = {gamma:g} per sweep")
