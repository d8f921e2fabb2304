"""Correlation of the two actions' returns in the first state of the coupled-reward chain."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import jmdp
from jmdp.show.plots.style import COLOURS, DASHES, GREY, WIDTH, clear_spines, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Measured, Setting
from reproduction.paper import authors
from reproduction.paper.correlations import correlation, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class ChainCorrelation(Experiment):
    """Correlation matrix in the first state of a coupled-reward chain."""

    name = "chain_correlation"
    title = "The chain's correlation matrix"
    where = "Figure 5"
    described = "the 2 × 2 correlation matrix of the first of 25 states, as coloured cells. No number is in the text."
    theirs = (
        "γ = 0.99, rewards U and 1 − U of a fair bit U, the last state absorbing with reward 1, the uniform policy."
    )
    ours = "γ = 0.95, rewards of ±1 with equal probability, the end of the chain terminal, the uniform policy."

    length: int = 25
    """States of the chain."""
    discount: float = 0.95
    """Discount on our settings."""
    tolerance: float = 1e-10
    """Tolerance of JIPE-2, as a fraction of the largest return."""

    def run(self, work: Work) -> Numbers:
        """Evaluate, and solve the recursion of this chain in exact fractions."""
        world = jmdp.worlds.coupled_reward_chain(self.length, discount=self.discount)
        method = jmdp.JIPE(tolerance=self.tolerance)
        findings: list[Finding] = []
        data: dict[str, Any] = {}
        for setting, model in ((Setting.AUTHORS, authors.chain(self.length)), (Setting.OURS, world.model)):
            uniform = jmdp.TabularPolicy.uniform(model)
            result = jmdp.evaluate(model, uniform, jmdp.Local(), method=method, progress=work.progress)
            rho = correlation(result, 0, 0, 1)
            exact = float(exact_correlation(self.length, Fraction(model.discount)))
            findings += self._judged(setting, rho, exact)
            data[setting.name] = {"discount": model.discount, "correlation": float(rho), "exact": exact}
        return Numbers(findings, data)

    def _judged(self, setting: Setting, rho: jmdp.results.Estimate, exact: float) -> list[Finding]:
        slip = 2.0**-53  # the rounding error of the float nearest to the fraction is smaller
        off = [abs(end - exact) for end in (rho.low, rho.high)]
        inside = rho.low - slip <= exact <= rho.high + slip
        difference = jmdp.results.Estimate(
            abs(rho - exact), 0.0 if inside else max(min(off) - slip, 0.0), max(off) + slip
        )
        return [
            Claim(
                "The returns of the two actions depend on each other.", self.where,
                "size of the correlation of the returns of both actions in the first state",
                remark="The rewards of one step have correlation −1. The returns are positively correlated, because "
                "both branches visit the same states and often take the same action later.",
                setting=setting,
            ).above(0.0, Measured.certified(size(rho), 1, "pair of actions")),
            Claim(
                "JIPE-2 agrees with the solution in exact fractions.", self.where,
                "distance of the correlation from the solution in exact fractions", setting=setting, addition=True,
            ).no_contradiction(0.0, Measured.certified(difference, 1, "pair of actions")),
        ]  # fmt: skip

    def figure(self, data: dict[str, Any]) -> Figure:
        """Correlation against the number of steps left, from the recursion, and the value found by JIPE-2."""
        figure, [[axes]] = new_figure(size=(WIDTH, 3.4))
        steps = range(1, self.length)
        for i, setting in enumerate(Setting):
            found = data[setting.name]
            exact = [float(exact_correlation(n + 1, Fraction(found["discount"]))) for n in steps]
            label = f"{setting}, γ = {found['discount']:g}: {found['correlation']:.2f}"
            axes.plot(steps, exact, color=COLOURS[i], linestyle=DASHES[i], marker="os"[i], markersize=3, label=label)
            axes.plot(self.length - 1, found["correlation"], "os"[i], color=COLOURS[i], markersize=10,
                      markerfacecolor="none", markeredgewidth=1.8)  # fmt: skip
        axes.axhline(0, color=GREY, linewidth=1)
        axes.set_xlabel("steps to the end of the chain")
        axes.set_ylabel("correlation of the returns\nof the two actions")
        axes.set_ylim(-1.1, 1)
        axes.legend(frameon=False, loc="lower right", title="lines: exact recursion; rings: JIPE-2, first state")
        clear_spines(axes)
        return figure


def exact_correlation(length: int, discount: Fraction) -> Fraction:
    """Return the correlation of the returns of both actions in the first state, under the uniform policy.

    From the last state backwards, with rewards ±1 (or any two with correlation −1 and equal variances):
    V ← 1 + γ² V is the variance of a return, and C ← −1 + γ² (V + C)/2 the covariance of the two, because the next
    actions are equal with probability ½.
    """
    variance = covariance = Fraction(0)
    for _ in range(length - 1):
        variance, covariance = 1 + discount**2 * variance, -1 + discount**2 * (variance + covariance) / 2
    return covariance / variance
