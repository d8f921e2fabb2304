"""JIPE-n: moments of higher order, compared with another method and with a solution in exact fractions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb, prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import jmdp
from jmdp.show.plots.style import COLOURS, DASHES, GREY, SMALL, WIDTH, clear_spines, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Measured
from reproduction.paper.residuals import CLEAR, rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Moments = dict[tuple[int, ...], Fraction]
"""Moments E[Π Z(a)] of a one-state model, by the sorted actions of the product."""


@dataclass(frozen=True, kw_only=True)
class JIPEn(Experiment):
    """Joint moments up to order n (Eq. (31)), computed by the paper's iteration (Eq. (33))."""

    name = "jipe_n"
    title = "Moments of higher order (JIPE-n)"
    where = "Section 5.3"
    ours = (
        "The paper has no experiment of higher order. Ours: a 2 × 2 windy gridworld (γ = 0.9, reward −1 if the wind "
        "moves the agent, a random action with probability 0.2), and a state with three actions, of which a randomly "
        "drawn one has reward 1 (policy ½, ¼, ¼). A repeated coordinate stands for a power of the same return; taken "
        "literally, the paper's T_n draws its next actions independently (errata)."
    )

    order: int = 4
    discount: float = 0.9
    tolerance: float = 1e-10
    """Tolerance as a fraction of the largest return."""

    @classmethod
    def quick(cls) -> Self:
        """Return settings with order 3, the lowest with products of three actions."""
        return cls(order=3)

    def run(self, work: Work) -> Numbers:
        """Evaluate both models for all orders up to n."""
        grid = jmdp.worlds.windy_gridworld(2, 2, blown_reward=-1.0, discount=self.discount)
        policy = grid.policies["careless"]
        arms, chances = three_arms(self.discount), jmdp.TabularPolicy([[0.5, 0.25, 0.25]])
        residuals: dict[str, list[float]] = {}
        for order in range(2, self.order + 1):
            method = jmdp.JIPE(order=order, tolerance=self.tolerance)
            walked = jmdp.evaluate(grid.model, policy, jmdp.Local(), method=method, progress=work.progress)
            played = jmdp.evaluate(arms, chances, jmdp.Local(), method=method, progress=work.progress)
            residuals[str(order)] = played.residuals.tolist()
        second = jmdp.evaluate(
            grid.model, policy, jmdp.Local(), method=jmdp.ExactPairs(order=self.order), progress=work.progress
        )
        shares, gaps = (
            self._gap_moments(walked, second),
            self._products(played, exact_moments(arms, chances, self.order)),
        )
        data = {"discount": self.discount, "residuals": residuals, "gap_shares": shares, "product_shares": gaps}
        return Numbers(self._judged(data), data)

    def _gap_moments(self, one: jmdp.results.Evaluation, other: jmdp.results.Evaluation) -> list[float]:
        """Differences of central moments of gaps, over the sums of their certified errors."""
        found = []
        for s in range(one.states.size):
            for a in range(one.actions.size):
                for b in range(a):
                    for order in range(2, self.order + 1):
                        x, y = (result.gap(s, a, b).moment(order) for result in (one, other))
                        off = abs(float(x) - float(y))
                        if off:
                            found.append(off / ((x.high - x.low + y.high - y.low) / 2))
        return found

    def _products(self, result: jmdp.results.Evaluation, truth: Moments) -> list[float]:
        """Errors of moments of the three actions, relative to exact fractions, over their certified errors."""
        found = []
        for actions, exact in truth.items():
            moment = result.moment(*((0, a) for a in actions))
            found.append(float(abs(Fraction(float(moment)) - exact) / (Fraction(moment.high - moment.low) / 2)))
        return found

    def _judged(self, data: dict[str, Any]) -> list[Finding]:
        n = self.order
        residuals = np.array(data["residuals"][str(n)])
        clear = residuals[residuals >= CLEAR * residuals[0]]
        return [
            Claim(
                f"T_n is a γ-contraction in ‖·‖_λ (n = {n}).", self.where,
                f"factor per sweep of JIPE-{n} on three actions, down to {CLEAR:g} of the first residual (fit; "
                "interval: least and greatest single sweep)",
            ).at_most(self.discount, rate(clear)),
            Claim(
                f"Its fixed point is the true collection of moments up to order n = {n}.", self.where,
                "largest error of the moments of three actions, relative to exact fractions, over its certified bound",
            ).at_most(1.0, _largest(data["product_shares"], "products of up to three actions")),
            Claim(
                f"Mixed moments determine those of the gap (n = {n}).", self.where,
                "largest difference of central moments of gaps in the gridworld between JIPE-n and ExactPairs, over "
                "the sum of their certified errors",
            ).at_most(1.0, _largest(data["gap_shares"], "moments of gaps")),
        ]  # fmt: skip

    def figure(self, data: dict[str, Any]) -> Figure:
        """Plot residuals of each order, and errors of moments relative to their certificates."""
        figure, [[residual_axes], [share_axes]] = new_figure(2, 1, size=(WIDTH, 6.6))
        for i, (order, residuals) in enumerate(data["residuals"].items()):
            seen = np.array([r for r in residuals if r > 0])
            residual_axes.semilogy(
                np.arange(1, seen.size + 1),
                seen / seen[0],
                color=COLOURS[i],
                linestyle=DASHES[i],
                linewidth=(3.5, 2.5, 1.5)[i % 3],
                label=f"JIPE-{order}",
            )
        sweeps = np.arange(1, max(map(len, data["residuals"].values())) + 1)
        residual_axes.semilogy(
            sweeps, data["discount"] ** (sweeps - 1.0), color=GREY, linewidth=8, alpha=0.35, zorder=0,
            label=f"γ = {data['discount']:g} per sweep",
        )  # fmt: skip
        residual_axes.set_xlabel("sweep")
        residual_axes.set_ylabel("residual / first residual")
        residual_axes.set_title("all orders converge at the same rate", fontsize=10)
        residual_axes.legend(frameon=False, handlelength=4)
        for i, (key, label) in enumerate((("product_shares", "products of three actions, exact: rational arithmetic"),
                                          ("gap_shares", "moments of gaps, reference: ExactPairs"))):  # fmt: skip
            shares = np.sort(np.maximum(data[key], 1e-12))
            share_axes.step(
                shares, (np.arange(shares.size) + 1) / shares.size, where="post", color=COLOURS[i], linestyle=DASHES[i],
                label=label,
            )  # fmt: skip
        share_axes.axvline(1.0, color=GREY, linewidth=2, alpha=0.6, label="certified error")
        share_axes.set_xscale("log")
        share_axes.set_xlabel("difference from the reference / certified error")
        share_axes.set_ylabel("fraction of the moments")
        share_axes.set_title("no moment is outside its certificate", fontsize=10)
        figure.legend(*share_axes.get_legend_handles_labels(), loc="outside lower left", frameon=False, fontsize=SMALL)
        for panel in (residual_axes, share_axes):
            panel.grid(alpha=0.3)
            clear_spines(panel)
        return figure


def _largest(shares: Sequence[float], of: str) -> Measured:
    return Measured(max(shares), min(shares), max(shares), "computed", len(shares), of)


def three_arms(discount: float) -> jmdp.TabularJMDP:
    """One state; one of three actions, drawn uniformly, has reward 1."""
    third = Fraction(1, 3)
    return jmdp.TabularJMDP([[float(third)] * 2 + [1 - 2 * float(third)]], [np.eye(3)], [[[0] * 3] * 3], discount)


def exact_moments(model: jmdp.TabularJMDP, policy: jmdp.TabularPolicy, order: int) -> Moments:
    """Return all moments of a one-state model up to this order, in exact fractions.

    E[Π Z(a)^m_a] = Σ_{j ≤ m} Π C(m_a, j_a) γ^|j| E[Π R_a^(m_a − j_a)] E[Π Z(f(a))^j_a], with f(a) drawn from the
    policy, independently for different actions. At the largest order this is a linear system.
    """
    prob, pi = ([Fraction(p) for p in row] for row in (model.prob[0].tolist(), policy.probs[0].tolist()))
    prob, pi = ([p / sum(row) for p in row] for row in (prob, pi))
    reward = [[Fraction(r) for r in row] for row in model.reward[0].tolist()]
    g = Fraction(model.discount)
    known: Moments = {(): Fraction(1)}
    for n in range(1, order + 1):
        wanted = list(combinations_with_replacement(range(len(pi)), n))
        matrix = [[Fraction(int(i == j)) for j in range(len(wanted))] for i in range(len(wanted))]
        right = [Fraction(0)] * len(wanted)
        for i, actions in enumerate(wanted):
            powers = Counter(actions)
            for later in product(*(range(m + 1) for m in powers.values())):
                earned = [(a, m - j) for (a, m), j in zip(powers.items(), later, strict=True)]
                gains = sum(
                    (p * prod(r[a] ** e for a, e in earned) for p, r in zip(prob, reward, strict=True)), Fraction(0)
                )
                ways = prod(comb(m, j) for m, j in zip(powers.values(), later, strict=True))
                weight = ways * g ** sum(later) * gains
                for drawn in product(range(len(pi)), repeat=len(powers)):
                    chance = prod((pi[b] for b in drawn), start=Fraction(1))
                    ahead = tuple(sorted(b for b, j in zip(drawn, later, strict=True) for _ in range(j)))
                    if len(ahead) == n:
                        matrix[i][wanted.index(ahead)] -= weight * chance
                    else:
                        right[i] += weight * chance * known[ahead]
        known |= dict(zip(wanted, _solved(matrix, right), strict=True))
    del known[()]
    return known


def _solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Solve by Gauss-Jordan elimination; pivots are nonzero because the matrix is diagonally dominant."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for i, pivot in enumerate(rows):
        rows[i] = [value / pivot[i] for value in pivot]
        for j, row in enumerate(rows):
            if j != i and row[i]:
                rows[j] = [value - row[i] * own for value, own in zip(row, rows[i], strict=True)]
    return [row[-1] for row in rows]
