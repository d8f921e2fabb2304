"""Correlation of the two actions' returns in the first state of the coupled-reward chain."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import jmdp
from jmdp.show.plots.style import COLOURS, GREY, WIDTH, clear_spines, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Measured
from reproduction.paper.correlations import correlation, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class ChainCorrelation(Experiment):
    """Correlation matrix in the first state of a coupled-reward chain."""

    name = "chain_correlation"
    title = "The chain's correlation matrix"
    where = "Figure 5"
    ours = (
        "The paper gives 25 states and prints no number. Discount, rewards and policy are ours: γ = 0.95, rewards of "
        "±1 with equal probability in every state, the uniform policy. The rewards of one step have correlation −1. "
        "The returns are positively correlated, because both branches visit the same states and often take the same "
        "action later."
    )

    length: int = 25
    """States of the chain."""
    discount: float = 0.95
    tolerance: float = 1e-10
    """Tolerance of JIPE-2, as a fraction of the largest return."""

    def run(self, work: Work) -> Numbers:
        """Evaluate, and solve the recursion of this chain in exact fractions."""
        world = jmdp.worlds.coupled_reward_chain(self.length, discount=self.discount)
        method = jmdp.JIPE(tolerance=self.tolerance)
        result = jmdp.evaluate(
            world.model, world.policies["uniform"], jmdp.Local(), method=method, progress=work.progress
        )
        rho = correlation(result, 0, 0, 1)
        exact = float(exact_correlation(self.length, Fraction(self.discount)))
        slip = 2.0**-53  # the rounding error of the float nearest to the fraction is smaller
        off = [abs(end - exact) for end in (rho.low, rho.high)]
        inside = rho.low - slip <= exact <= rho.high + slip
        difference = jmdp.results.Estimate(
            abs(rho - exact), 0.0 if inside else max(min(off) - slip, 0.0), max(off) + slip
        )
        findings = [
            Claim(
                "The returns of the two actions depend on each other.", self.where,
                "correlation of the returns of a1 and a2 in the first state",
            ).above(0.0, Measured.certified(size(rho), 1, "pair of actions")),
            Claim(
                "(Not in the paper) JIPE-2 agrees with the solution in exact fractions.", self.where,
                "distance of the correlation from the solution in exact fractions",
            ).no_contradiction(0.0, Measured.certified(difference, 1, "pair of actions")),
        ]  # fmt: skip
        return Numbers(
            findings, {"actions": ["a1", "a2"], "correlation": result.correlation[0].tolist(), "exact": exact}
        )

    def figure(self, data: dict[str, Any]) -> Figure:
        """Correlation against the number of steps left, from the recursion, and the value found by JIPE-2."""
        figure, [[axes]] = new_figure(size=(WIDTH, 3.0))
        steps = range(1, self.length)
        exact = [float(exact_correlation(n + 1, Fraction(self.discount))) for n in steps]
        axes.plot(steps, exact, ".-", color=COLOURS[0], label="exact recursion")
        found = data["correlation"][0][1]
        axes.plot(self.length - 1, found, "s", color=COLOURS[1], markersize=9, markerfacecolor="none",
                  markeredgewidth=1.8, label=f"JIPE-2, first state of the chain: {found:.2f}")  # fmt: skip
        axes.axhline(0, color=GREY, linewidth=1)
        axes.set_xlabel("steps to the end of the chain")
        axes.set_ylabel("correlation of the returns\nof the two actions")
        axes.set_ylim(-1.1, 1)
        axes.legend(frameon=False, loc="lower right")
        clear_spines(axes)
        return figure


def exact_correlation(length: int, discount: Fraction) -> Fraction:
    """Return the correlation of the returns of a1 and a2 in the first state, under the uniform policy.

    From the last state backwards, with rewards ±1: V ← 1 + γ² V is the variance of a return, and
    C ← −1 + γ² (V + C)/2 the covariance of the two, because the next actions are equal with probability ½.
    """
    variance = covariance = Fraction(0)
    for _ in range(length - 1):
        variance, covariance = 1 + discount**2 * variance, -1 + discount**2 * (variance + covariance) / 2
    return covariance / variance
