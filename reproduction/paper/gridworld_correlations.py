"""Correlations of the returns of all actions in every cell of a small gridworld."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

import jmdp
from jmdp.show.plots.style import SMALL, WIDTH, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Measured
from reproduction.paper.correlations import correlation, draw_matrix, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class GridworldCorrelations(Experiment):
    """Correlation matrix (4 × 4) of each state of a 3 × 3 windy gridworld."""

    name = "gridworld_correlations"
    title = "Correlation matrices of all states"
    where = "Figure 4"
    ours = (
        "The paper states 3 × 3 cells and a goal-directed policy. Discount, gusts and rewards are the defaults of the "
        "built-in world: γ = 0.95, gusts with probability 0.3, reward 1 for reaching the goal."
    )

    side: int = 3
    """Rows and columns of the gridworld."""
    discount: float = 0.95
    tolerance: float = 1e-10
    """Tolerance of JIPE-2, as a fraction of the largest return."""

    def run(self, work: Work) -> Numbers:
        """Evaluate under shared and under independent randomness."""
        world = jmdp.worlds.windy_gridworld(self.side, self.side, discount=self.discount)
        policy, method = world.policies["goal_directed"], jmdp.JIPE(tolerance=self.tolerance)
        shared, independent = (
            jmdp.evaluate(world.model, policy, coupling, method, progress=work.progress)
            for coupling in (jmdp.Local(), jmdp.Independent())
        )
        S, A = shared.mean.shape
        states = [s for s in range(S) if not world.model.terminal[s]]
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
        findings = [
            Claim(
                "Under shared randomness, the returns of different actions are correlated.", self.where,
                "strongest correlation of two actions whose returns differ",
            ).above(0.0, Measured.certified(size(strongest), len(differ), "pairs of actions in states")),
            Claim(
                "The joint distribution differs from state to state.", self.where,
                "range of the correlation of two actions over the states, for the pair with the largest range",
            ).above(0.0, Measured.certified(spread, count, "pairs of actions in states")),
            Claim(
                "Marginal distributions do not show the correlations.", self.where,
                "largest change of a mean or variance under independent randomness, where all correlations are 0",
            ).no_contradiction(0.0, Measured.certified(marginals, 2 * S * A, "means and variances")),
        ]  # fmt: skip
        return Numbers(
            findings,
            {
                "side": self.side,
                "actions": [shared.actions.name(a) for a in range(A)],
                "states": [shared.states.name(s) for s in range(S)],
                "terminal": np.flatnonzero(world.model.terminal).tolist(),
                "correlation": np.nan_to_num(shared.correlation).tolist(),
            },
        )

    def figure(self, data: dict[str, Any]) -> Figure:
        """Plot one matrix per cell, at its place in the grid."""
        side, actions = data["side"], data["actions"]
        figure, axes = new_figure(side, side, size=(WIDTH, 6.6))
        tiles = [axes[row][column] for row in range(side) for column in range(side)]
        image = None
        for s, (tile, rho) in enumerate(zip(tiles, data["correlation"], strict=True)):
            tile.set_xticks(range(len(actions)), actions if s // side == side - 1 else [""] * len(actions))
            tile.set_yticks(range(len(actions)), actions if s % side == 0 else [""] * len(actions))
            if s in data["terminal"]:
                tile.text(0.5, 0.5, "goal", ha="center", va="center", transform=tile.transAxes, fontsize=12)
                tile.set_xticks([])
                tile.set_yticks([])
                tile.set_aspect("equal")
                continue
            image = draw_matrix(tile, rho)
            tile.set_title(f"row {s // side}, column {s % side}", fontsize=SMALL)
        assert image is not None
        figure.colorbar(image, ax=tiles, location="bottom", aspect=40,
                        label="correlation of the two actions' returns")  # fmt: skip
        return figure


def _differ(gap: jmdp.results.Gap) -> bool:
    """False if two actions have the same effect, as up and left in the top left corner."""
    return gap.variance_interval is not None and gap.variance_interval.low > 0
