"""Correlations of the returns of all actions in every cell of a small gridworld."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

import jmdp
from jmdp.show.plots.style import SMALL, WIDTH, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Measured, Setting
from reproduction.paper import authors
from reproduction.paper.correlations import correlation, draw_matrix, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class GridworldCorrelations(Experiment):
    """Correlation matrix (4 × 4) of each state of a 3 × 3 windy gridworld."""

    name = "gridworld_correlations"
    title = "Correlation matrices of all states"
    where = "Figure 4"
    described = (
        "a grid of 3 × 3 tiles, one for each cell, each a 4 × 4 correlation matrix of the actions as coloured cells. "
        "No number is in the text."
    )
    theirs = (
        "3 × 3 cells and a goal-directed policy (right, then up) as the paper says; γ = 0.99, with probability 0.2 a "
        "gust moves one cell down, the goal is absorbing with reward 1 in each step."
    )
    ours = (
        "3 × 3 cells and the same policy; γ = 0.95, gusts to the left with probability 0.3, reward 1 for reaching the "
        "goal, which ends the episode."
    )

    side: int = 3
    """Rows and columns of the gridworld."""
    discount: float = 0.95
    tolerance: float = 1e-10
    """Tolerance of JIPE-2, as a fraction of the largest return."""

    def run(self, work: Work) -> Numbers:
        """Evaluate under shared and under independent randomness, on both settings."""
        world, theirs = jmdp.worlds.windy_gridworld(self.side, self.side, discount=self.discount), authors.grid(3, 3)
        goal = np.arange(self.side**2) == self.side - 1
        findings: list[Finding] = []
        data: dict[str, Any] = {"side": self.side, "goal": self.side - 1, "correlation": {}}
        for setting, model, policy in (
            (Setting.AUTHORS, theirs, authors.right_then_up(theirs, 3)),
            (Setting.OURS, world.model, world.policies["goal_directed"]),
        ):
            shared, independent = (
                jmdp.evaluate(model, policy, coupling, jmdp.JIPE(tolerance=self.tolerance), progress=work.progress)
                for coupling in (jmdp.Local(), jmdp.Independent())
            )
            findings += self._judged(setting, shared, independent, np.flatnonzero(~goal).tolist())
            data["actions"] = [shared.actions.name(a) for a in range(shared.actions.size)]
            data["correlation"][setting.name] = np.nan_to_num(shared.correlation).tolist()
        return Numbers(findings, data)

    def _judged(
        self, setting: Setting, shared: jmdp.results.Evaluation, independent: jmdp.results.Evaluation, states: list[int]
    ) -> list[Finding]:
        S, A = shared.mean.shape
        pairs = list(combinations(range(A), 2))
        found = {(s, a, b): correlation(shared, s, a, b) for s in states for a, b in pairs}
        differ = [rho for (s, a, b), rho in found.items() if _differ(shared.gap(s, a, b))]
        strongest = max(differ, key=lambda rho: min(abs(rho.low), abs(rho.high)))
        spreads = []
        for a, b in pairs:
            here = [found[s, a, b] for s in states]
            surely = max(rho.low for rho in here) - min(rho.high for rho in here)
            at_most = max(rho.high for rho in here) - min(rho.low for rho in here)
            spreads.append(jmdp.results.Estimate(max(here) - min(here), max(surely, 0.0), at_most))
        spread = max(spreads, key=float)
        assert shared.certificate is not None
        assert independent.certificate is not None
        variances = [np.diagonal(result.covariance, axis1=1, axis2=2) for result in (shared, independent)]
        difference = max(
            float(np.abs(shared.mean - independent.mean).max()), float(np.abs(variances[0] - variances[1]).max())
        )
        errors = [max(float(np.max(r.certificate.mean_error)), float(np.max(r.certificate.covariance_error)))
                  for r in (shared, independent) if r.certificate is not None]  # fmt: skip
        marginals = jmdp.results.Estimate(difference, max(difference - sum(errors), 0.0), difference + sum(errors))
        count = len(found)
        return [
            Claim(
                "Under shared randomness, the returns of different actions are correlated.", self.where,
                "strongest correlation of two actions whose returns differ", setting=setting,
            ).above(0.0, Measured.certified(size(strongest), len(differ), "pairs of actions in states")),
            Claim(
                "The joint distribution differs from state to state.", self.where,
                "range of the correlation of two actions over the states, for the pair with the largest range",
                setting=setting,
            ).above(0.0, Measured.certified(spread, count, "pairs of actions in states")),
            Claim(
                "Marginal distributions do not show the correlations.", self.where,
                "largest change of a mean or variance under independent randomness, where all correlations are 0",
                setting=setting,
            ).no_contradiction(0.0, Measured.certified(marginals, 2 * S * A, "means and variances")),
        ]  # fmt: skip

    def figure(self, data: dict[str, Any]) -> Figure:
        """Plot one matrix per cell, at its place in the grid, on the authors' settings."""
        side, actions = data["side"], data["actions"]
        figure, axes = new_figure(side, side, size=(WIDTH, 6.8))
        tiles = [axes[row][column] for row in range(side) for column in range(side)]
        image = None
        for s, (tile, rho) in enumerate(zip(tiles, data["correlation"][Setting.AUTHORS.name], strict=True)):
            tile.set_xticks(range(len(actions)), actions if s // side == side - 1 else [""] * len(actions))
            tile.set_yticks(range(len(actions)), actions if s % side == 0 else [""] * len(actions))
            if s == data["goal"]:
                tile.text(0.5, 0.5, "goal", ha="center", va="center", transform=tile.transAxes, fontsize=12)
                tile.set_xticks([])
                tile.set_yticks([])
                tile.set_aspect("equal")
                continue
            image = draw_matrix(tile, rho)
            tile.set_title(f"row {s // side}, column {s % side}", fontsize=SMALL)
        assert image is not None
        figure.suptitle("The authors' settings", fontsize=10)
        figure.colorbar(image, ax=tiles, location="bottom", aspect=40,
                        label="correlation of the two actions' returns")  # fmt: skip
        return figure


def _differ(gap: jmdp.results.Gap) -> bool:
    """False if two actions have the same effect, as up and left in the top left corner."""
    return gap.variance_interval is not None and gap.variance_interval.low > 0
