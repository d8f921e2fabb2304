"""Bellman residuals of JIPE-2 against sweeps, in the gridworld and in the chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import jmdp
from jmdp.arrays import Floats
from jmdp.experiments.paper.experiment import Experiment, Numbers, Work
from jmdp.experiments.paper.findings import Claim, Finding, Measured
from jmdp.plots.style import COLOURS, DASHES, GREY, clear_spines, new_figure
from jmdp.worlds import World

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Residuals(Experiment):
    """Residual convergence of JIPE-2 in a windy gridworld and a coupled-reward chain."""

    name = "residuals"
    title = "Bellman residuals fall geometrically"
    where = "Figure 2"
    ours = (
        "The paper gives the sizes, and neither the discount, the gust, the rewards nor the policies. Ours are the "
        "defaults of the built-in worlds: γ = 0.95, a gust in 3 steps of 10, 1 for reaching the goal, a fair sign "
        "of ±1 in the chain; right, then up in the gridworld; each action half of the time in the chain, where a "
        "fixed action would leave nothing to average."
    )

    side: int = 5
    """Rows and columns of the gridworld."""
    length: int = 25
    """States of the chain."""
    discount: float = 0.95
    tolerance: float = 1e-10
    """Of both methods, as a fraction of the largest return."""
    straight: float = 0.99
    """What a line must explain for a curve to count as one."""

    def run(self, work: Work) -> Numbers:
        """Evaluate both worlds by the paper's iteration and by ours."""
        grid = jmdp.worlds.windy_gridworld(self.side, self.side, discount=self.discount)
        chain = jmdp.worlds.coupled_reward_chain(self.length, discount=self.discount)
        findings: list[Finding] = []
        data: dict[str, Any] = {"discount": self.discount, "curves": {}}
        for name, world, policy in (
            (f"{self.side}×{self.side} windy gridworld", grid, "goal_directed"),
            (f"coupled-reward chain of {self.length}", chain, "uniform"),
        ):
            paper, ours = (
                jmdp.evaluate(world.model, world.policies[policy], method=method, progress=work.progress)
                for method in (jmdp.JIPE(tolerance=self.tolerance), jmdp.ExactPairs(tolerance=self.tolerance))
            )
            data["curves"][name] = {"JIPE": paper.residuals.tolist(), "ExactPairs": ours.residuals.tolist()}
            findings += self._judged(name, world, paper, ours)
        return Numbers(findings, data)

    def _judged(self, name: str, world: World, paper: jmdp.Evaluation, ours: jmdp.Evaluation) -> list[Finding]:
        decay = Claim(
            f"In the {name} the residual falls at least by γ in every sweep, as a contraction's does.",
            self.where,
            "factor per sweep of JIPE-2 (fit; interval: least and greatest single sweep)",
        )
        line = Claim(
            f"In the {name} the residual is a straight line on a log scale.",
            self.where,
            "share of the logarithm's variance that a line explains",
            remark="Where a curve bends, it bends downwards: in the gridworld walks end at the goal, so that late "
            "sweeps contract by more than γ. The paper's own curve may have ended before.",
        )
        faster = Claim(
            f"In the {name}: (not in the paper) ExactPairs, on pairs of states and combining past sweeps, falls faster "
            "than γ² a sweep.",
            self.where,
            "factor per sweep of ExactPairs (fit; interval: least and greatest single sweep)",
        )
        accuracy = Claim(
            f"In the {name} the residual certifies how accurate the moments are.",
            self.where,
            "differences of the two methods' covariances over the sum of their certified errors: the largest",
        )
        assert paper.certificate is not None
        assert ours.certificate is not None
        allowed = np.asarray(paper.certificate.covariance_error) + np.asarray(ours.certificate.covariance_error)
        share = np.abs(paper.covariance - ours.covariance) / allowed
        most = float(share.max())
        explained = _linearity(paper.residuals)
        sweeps = paper.residuals.size
        return [
            decay.at_most(self.discount, _rate(paper.residuals)),
            line.above(self.straight, Measured(explained, explained, explained, "computed", sweeps, "sweeps")),
            accuracy.at_most(1.0, Measured(most, float(share.min()), most, "computed", share.size, "covariances")),
            faster.at_most(self.discount**2, _rate(ours.residuals), better=True),
        ]

    def figure(self, data: dict[str, Any]) -> Figure:
        """A panel for each world, with the slope γ."""
        figure, [axes] = new_figure(1, 2, size=(9.6, 4.0))
        for panel, (name, curves) in zip(axes, data["curves"].items(), strict=True):
            for i, (method, residuals) in enumerate(curves.items()):
                seen = np.array([r for r in residuals if r > 0])
                label = {"JIPE": "JIPE-2, the paper's", "ExactPairs": "ExactPairs, ours"}[method]
                sweeps = np.arange(1, seen.size + 1)
                panel.semilogy(
                    sweeps, seen / seen[0], color=COLOURS[i], linestyle=DASHES[i], marker="o", markersize=3, label=label
                )
            ended = next((sweep for sweep, r in enumerate(curves["JIPE"], start=1) if r == 0), None)
            if ended is not None:
                note = f"0 from sweep {ended} on:\nthe chain has an end"
                panel.annotate(note, (ended - 1, curves["JIPE"][ended - 2] / curves["JIPE"][0]), (0, -30),
                               textcoords="offset points", ha="right", color=COLOURS[0], fontsize=9)  # fmt: skip
            longest = max(len(residuals) for residuals in curves.values())
            sweeps = np.arange(1, longest + 1)
            slope = data["discount"] ** (sweeps - 1.0)
            panel.semilogy(sweeps, slope, color=GREY, linewidth=1, label=f"γ = {data['discount']:g} per sweep")
            panel.set_title(name, fontsize=11)
            panel.set_xlabel("sweep")
            panel.grid(alpha=0.3)
            clear_spines(panel)
        axes[0].set_ylabel("residual, first sweep = 1")
        axes[0].legend(frameon=False)
        return figure


def _rate(residuals: Floats) -> Measured:
    """The factor per sweep of a fitted line, and the least and greatest of single sweeps."""
    seen = residuals[residuals > 0]
    single = seen[1:] / seen[:-1]
    slope = np.polyfit(np.arange(seen.size), np.log(seen), 1)[0]
    low, high = float(single.min()), float(single.max())
    return Measured(min(max(float(np.exp(slope)), low), high), low, high, "computed", single.size, "sweeps")


def _linearity(residuals: Floats) -> float:
    """R² of a line through the logarithms."""
    logs = np.log(residuals[residuals > 0])
    sweeps = np.arange(logs.size)
    off = logs - np.polyval(np.polyfit(sweeps, logs, 1), sweeps)
    return float(1 - off.var() / logs.var())
