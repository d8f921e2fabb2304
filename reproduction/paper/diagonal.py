"""The diagonal of T_2: a repeated coordinate draws its next action once."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import jmdp
from jmdp.show.plots.style import COLOURS, DASHES, SMALL, WIDTH, clear_spines, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Floats, Measured, Setting
from reproduction.paper import authors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEPS = 700
"""Sweeps from the exact means, at a factor γ² each."""


@dataclass(frozen=True, kw_only=True)
class Diagonal(Experiment):
    """Effect of averaging the next actions of a repeated coordinate as if they were drawn twice."""

    name = "diagonal"
    title = "A repeated coordinate draws its next action once"
    where = "Definition 5.1"
    described = ""
    theirs = (
        "The chain and the grid of Figure 2. In the authors' scripts the operator averages the next actions of a "
        "repeated coordinate as if it drew two independent ones, Σ_ab π π M_Σ. Definition 5.1 draws one, Σ_a π M_Σ(a, "
        "a). The two are equal for deterministic policies, which the scripts use for gaps, and differ for the uniform "
        "policy. Drawn twice, the operator evaluates a policy that divides every step among the actions in proportion "
        "to π instead of drawing one."
    )
    ours = "None: all claims of this section are ours."

    samples: int = 100_000
    """Paired rollouts of the chain."""
    seed: int = 2026

    @classmethod
    def quick(cls) -> Self:
        """Fewer rollouts."""
        return cls(samples=10_000)

    def run(self, work: Work) -> Numbers:
        """Find both fixed points on the chain and on the grid, and simulate the chain."""
        chain, grid = authors.chain(), authors.grid()
        uniform = jmdp.TabularPolicy.uniform(chain)
        method = jmdp.MonteCarlo(seed=self.seed, samples=self.samples)
        end = np.arange(authors.LENGTH) == authors.LENGTH - 1  # where both branches earn the same for ever
        short = jmdp.TabularJMDP(chain.prob, chain.reward, chain.next_state, chain.discount, end)
        gap = jmdp.evaluate(short, uniform, jmdp.Local(), method=method, progress=work.progress).gap(0, 0, 1)
        assert gap.variance_interval is not None
        data: dict[str, Any] = {
            "chain": self._chain(chain, uniform),
            "simulated": [gap.variance, gap.variance_interval.low, gap.variance_interval.high],
        }
        for name, policy in (("uniform", jmdp.TabularPolicy.uniform(grid)), ("directed", authors.right_then_up(grid))):
            once, twice = (_gap_variances(_covariances(grid, policy, drawn_twice=twice)) for twice in (False, True))
            data[name] = {"once": once.tolist(), "twice": twice.tolist()}
        return Numbers(self._judged(data), data)

    def _chain(self, chain: jmdp.TabularJMDP, policy: jmdp.TabularPolicy) -> dict[str, Any]:
        """Variance, covariance and correlation in each state of the chain, and their closed forms in the first one."""
        found = {}
        for name, twice in (("once", False), ("twice", True)):
            covariance = _covariances(chain, policy, drawn_twice=twice)[:-1]
            found[name] = {"variance": covariance[:, 0, 0].tolist(), "covariance": covariance[:, 0, 1].tolist()}
        return found

    def _judged(self, data: dict[str, Any]) -> list[Finding]:
        g, steps = Fraction(authors.DISCOUNT) ** 2, authors.LENGTH - 1
        chain = {name: (np.array(of["variance"]), np.array(of["covariance"])) for name, of in data["chain"].items()}
        variance = (1 - g**steps) / (1 - g) / 4
        half = (1 - (g / 2) ** steps) / (1 - g / 2) / 2  # half the gap's variance, V − C
        closed = {"once": (variance, variance - half), "twice": (Fraction(1, 4), Fraction(-1, 4))}
        off = [abs(chain[name][i][0] - float(closed[name][i])) for name in closed for i in (0, 1)]
        rho = {name: float(of[1][0] / of[0][0]) for name, of in chain.items()}
        true = float(2 * half)
        value, low, high = data["simulated"]
        distance = [abs(low - true), abs(high - true)]
        miss = 0.0 if low <= true <= high else min(distance)
        once, twice = (np.array(data["uniform"][name]) for name in ("once", "twice"))
        share = twice / once
        directed = np.abs(np.array(data["directed"]["twice"]) - np.array(data["directed"]["once"]))
        return [
            self._claim(
                "Chain: with one draw V = ¼ (1 − γ²ⁿ)/(1 − γ²) and V − C = ½ (1 − (γ²/2)ⁿ)/(1 − γ²/2), n = 24 steps; "
                "with two, V = ¼ and C = −¼.",
                "largest difference of variances and covariances in the first state from the closed forms",
            ).at_most(1e-8, Measured(max(off), 0.0, max(off), "computed", 4, "numbers")),
            self._claim(
                f"Chain: drawn twice, the correlation in the first state is −1 instead of {rho['once']:.3f}.",
                "correlation with two draws",
            ).at_most(-1 + 1e-6, Measured(rho["twice"], rho["twice"], rho["twice"], "computed", 1, "pair of actions")),
            self._claim(
                "Chain: simulation agrees with one draw.",
                f"distance of the simulated variance of the gap, {value:.4f}, from {true:.4f}; with two draws it would "
                "be 1",
            ).no_contradiction(
                0.0,
                Measured(abs(value - true), miss, max(distance), "sampled", self.samples, "paired rollouts",
                         (self.seed,), 0.95),
            ),
            self._claim(
                "Grid, uniform policy: drawn twice, variances of gaps are too small.",
                "variance of a gap with two draws over that with one (median of all gaps that vary; interval: smallest "
                "and largest)",
            ).at_most(
                1.0,
                Measured(float(np.median(share)), float(share.min()), float(share.max()), "computed", share.size,
                         "gaps"),
            ),
            self._claim(
                "Grid, right-then-up policy: both are equal.", "largest difference of variances of gaps",
            ).at_most(
                1e-9, Measured(float(directed.max()), 0.0, float(directed.max()), "computed", directed.size, "gaps")
            ),
        ]  # fmt: skip

    def _claim(self, claim: str, quantity: str) -> Claim:
        return Claim(claim, self.where, quantity, setting=Setting.AUTHORS, addition=True)

    def figure(self, data: dict[str, Any]) -> Figure:
        """Correlations along the chain, and gap variances of the grid under the uniform policy."""
        figure, [[left, right]] = new_figure(1, 2, size=(WIDTH, 3.4))
        labels = {"once": "drawn once", "twice": "drawn twice"}
        for i, (name, found) in enumerate(data["chain"].items()):
            rho = np.array(found["covariance"]) / np.array(found["variance"])
            left.plot(np.arange(len(rho), 0, -1), rho, color=COLOURS[i], linestyle=DASHES[i], label=labels[name])
        left.set_xlabel("steps to the end of the chain")
        left.set_ylabel("correlation of the two returns")
        left.set_ylim(-1.1, 1.1)
        left.legend(frameon=False, fontsize=SMALL, loc="center right")
        left.set_title("chain, uniform policy", fontsize=SMALL)
        once, twice = (np.array(data["uniform"][name]) for name in ("once", "twice"))
        seen = twice > 1e-9 * once  # a logarithmic scale cannot show 0
        right.loglog(once[seen], twice[seen], "o", markersize=3, color=COLOURS[1], label="one gap")
        ends = [once.min(), once.max()]
        right.loglog(ends, ends, color="black", linewidth=1, label="equal")
        right.set_xlabel("variance of a gap, drawn once")
        right.set_ylabel("drawn twice")
        right.legend(frameon=False, fontsize=SMALL, loc="lower right")
        right.set_title("10 × 7 grid, uniform policy", fontsize=SMALL)
        for panel in (left, right):
            panel.grid(alpha=0.3)
            clear_spines(panel)
        return figure


def _covariances(model: jmdp.TabularJMDP, policy: jmdp.TabularPolicy, *, drawn_twice: bool) -> Floats:
    """Covariances [S, A, A] at the fixed point, from the exact means on."""
    operator = authors.PaperOperator(model, policy, drawn_twice=drawn_twice)
    mean = jmdp.evaluate(model, policy, jmdp.Local(), progress=False).mean.ravel()
    moments = mean, np.outer(mean, mean)
    for _ in range(SWEEPS):
        moments = operator(*moments)
    return operator.covariances(*moments)


def _gap_variances(covariance: Floats) -> Floats:
    """Variances of the gaps of all pairs of actions, in all states but the goal, in which nothing varies."""
    one, other = np.triu_indices(covariance.shape[1], 1)
    states = np.arange(len(covariance)) != authors.COLUMNS - 1
    own = covariance[:, one, one] + covariance[:, other, other]
    return np.asarray((own - 2 * covariance[:, one, other])[states].ravel())
