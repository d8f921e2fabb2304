"""Bellman residuals of JIPE-2 per sweep, in a windy gridworld and in a coupled-reward chain."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import jmdp
from jmdp.show.plots.style import COLOURS, DASHES, GREY, SMALL, WIDTH, clear_spines, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Floats, Measured, Setting
from reproduction.paper import authors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


CLEAR = 1e-5
"""Fraction of the first residual below which rounding may affect the ratio of two residuals."""


@dataclass(frozen=True, kw_only=True)
class Residuals(Experiment):
    """Residual convergence of JIPE-2 (Theorem 5.3) in a windy gridworld and a coupled-reward chain."""

    name = "residuals"
    title = "Bellman residuals decrease geometrically"
    where = "Figure 2"
    described = (
        "two panels, the residual after each sweep on a logarithmic scale: a 5 × 5 windy gridworld and a chain of 25 "
        "states. Both curves are described as linear decay."
    )
    theirs = (
        "The uniform policy, γ = 0.99, moments that begin at N(0, 0.1²), 250 sweeps. Grid of 10 × 7 cells (the paper's "
        "caption says 5 × 5); with probability 0.2 a gust moves one cell down (left in the paper's text). The goal, in "
        "the top right corner, is absorbing with reward 1 in each step. Chain of 25 states with rewards U and 1 − U of "
        "a fair bit U; the last state is absorbing with reward 1."
    )
    ours = (
        "The built-in worlds: 5 × 5 cells, γ = 0.95, gusts to the left with probability 0.3, the goal made absorbing "
        "with reward 1 in each step, the goal-directed policy; chain of 25 with rewards of ±1 and the uniform policy. "
        "Moments begin at 0, and sweeps end at the tolerance."
    )

    side: int = 5
    """Rows and columns of our gridworld."""
    length: int = 25
    """States of our chain."""
    discount: float = 0.95
    tolerance: float = 1e-10
    """Tolerance of both methods on our settings, as a fraction of the largest return."""
    seed: int = 2026
    """Seed of the moments before the first sweep, on the authors' settings."""
    straight: float = 0.99
    """R² above which a curve counts as a straight line."""

    def run(self, work: Work) -> Numbers:
        """Iterate on the authors' settings; evaluate by the paper's method and ours on ours."""
        data: dict[str, Any] = {"curves": {}}
        findings: list[Finding] = []
        for name, model in (("gridworld", authors.grid()), ("chain", authors.chain())):
            found = self._on_theirs(model)
            data["curves"][f"{name}, {Setting.AUTHORS}"] = {"discount": authors.DISCOUNT, "JIPE-2": found["residuals"]}
            findings += self._judged_theirs(name, found)
        grid = jmdp.worlds.windy_gridworld(self.side, self.side, discount=self.discount)
        chain = jmdp.worlds.coupled_reward_chain(self.length, discount=self.discount)
        for name, model, policy in (
            ("gridworld", absorbing(grid.model), grid.policies["goal_directed"]),
            ("chain", chain.model, chain.policies["uniform"]),
        ):
            paper, ours = (
                jmdp.evaluate(model, policy, jmdp.Local(), method=method, progress=work.progress)
                for method in (jmdp.JIPE(tolerance=self.tolerance), jmdp.ExactPairs(tolerance=self.tolerance))
            )
            data["curves"][f"{name}, {Setting.OURS}"] = {
                "discount": self.discount, "JIPE-2": paper.residuals.tolist(), "ExactPairs": ours.residuals.tolist()
            }  # fmt: skip
            findings += self._judged_ours(name, paper, ours)
        return Numbers(findings, data)

    def _on_theirs(self, model: jmdp.TabularJMDP) -> dict[str, Any]:
        """Residuals of all sweeps, errors over their bounds, and the last errors of means and of gaps of means.

        Errors are those of means and of second moments of actions in one state.
        """
        policy = jmdp.TabularPolicy.uniform(model)
        operator = authors.PaperOperator(model, policy)
        exact = jmdp.evaluate(model, policy, jmdp.Local(), progress=False)
        mean, square = exact.mean.ravel(), exact.mean[:, :, None] * exact.mean[:, None, :]
        found = operator.iterates(self.seed)
        steps = [operator.norm(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(found)]
        errors = [
            operator.norm(m - mean, operator.in_states(second) - exact.covariance - square) for m, second in found[:-1]
        ]
        off = (found[-1][0] - mean).reshape(model.shape[0], -1)
        return {
            "residuals": steps,
            "shares": ((1 - authors.DISCOUNT) * np.array(errors) / np.array(steps)).tolist(),
            "mean_error": float(np.abs(off).max()),
            "gap_error": float(np.ptp(off, axis=1).max()),
            "mean": float(np.abs(mean).max()),
        }

    def _judged_theirs(self, name: str, found: dict[str, Any]) -> list[Finding]:
        residuals, shares = np.array(found["residuals"]), np.array(found["shares"])
        remark = (
            f"After the authors' {authors.SWEEPS} sweeps with γ = {authors.DISCOUNT:g} a residual is still 8% of the "
            f"first one: on the {name} a mean, of up to {found['mean']:.4g}, is off by {found['mean_error']:.2g}, and "
            f"the difference of two means in one state by {found['gap_error']:.2g}."
        )
        bound = float(shares.max())
        return [
            _decay(name, Setting.AUTHORS, "factor per sweep").at_most(authors.DISCOUNT, rate(residuals)),
            _line(name, Setting.AUTHORS).above(self.straight, _linearity(residuals)),
            _bound(
                name, Setting.AUTHORS,
                "largest error of an iterate (means, second moments in one state) over its residual divided by 1 − γ",
                remark,
            ).at_most(1.0, Measured(bound, float(shares.min()), bound, "computed", shares.size, "iterates")),
        ]  # fmt: skip

    def _judged_ours(self, name: str, paper: jmdp.results.Evaluation, ours: jmdp.results.Evaluation) -> list[Finding]:
        assert paper.certificate is not None
        assert ours.certificate is not None
        allowed = np.asarray(paper.certificate.covariance_error) + np.asarray(ours.certificate.covariance_error)
        share = np.abs(paper.covariance - ours.covariance) / allowed
        most = float(share.max())
        clear = paper.residuals[paper.residuals >= CLEAR * paper.residuals[0]]
        faster = Claim(
            f"ExactPairs, on pairs of states with accelerated sweeps, reduces the residual faster than γ² per sweep "
            f"({name}).", self.where,
            "factor per sweep of ExactPairs (fit; interval: smallest and largest single sweep)", addition=True,
        )  # fmt: skip
        return [
            _decay(name, Setting.OURS, f"factor per sweep, down to {CLEAR:g} of the first residual").at_most(
                self.discount, rate(clear)
            ),
            _line(name, Setting.OURS).above(self.straight, _linearity(paper.residuals)),
            _bound(
                name, Setting.OURS,
                "largest difference of covariances by JIPE and ExactPairs, over the sum of their certified errors",
            ).at_most(1.0, Measured(most, float(share.min()), most, "computed", share.size, "covariances")),
            faster.at_most(self.discount**2, rate(ours.residuals), better=True),
        ]  # fmt: skip

    def figure(self, data: dict[str, Any]) -> Figure:
        """Plot residuals on the authors' settings and on ours, with the slope γ."""
        figure, [upper, lower] = new_figure(2, 2, size=(WIDTH, 6.2))
        for i, (panel, (title, curves)) in enumerate(zip([*upper, *lower], data["curves"].items(), strict=True)):
            methods = [method for method in curves if method != "discount"]
            for j, method in enumerate(methods):
                seen = np.array([r for r in curves[method] if r > 0])
                panel.semilogy(np.arange(1, seen.size + 1), seen / seen[0], color=COLOURS[j], linestyle=DASHES[j],
                               label=method)  # fmt: skip
            at = np.arange(1, max(len(curves[method]) for method in methods) + 1)
            panel.semilogy(at, curves["discount"] ** (at - 1.0), color=GREY, linewidth=4, alpha=0.35, zorder=0,
                           label=f"γ = {curves['discount']:g} per sweep")  # fmt: skip
            _mark_end(panel, curves["JIPE-2"])
            panel.set_title(title, fontsize=SMALL)
            panel.set_ylim(*((0.05, 2) if i < 2 else (1e-13, 3)))
            panel.grid(alpha=0.3)
            panel.legend(fontsize=SMALL, frameon=False, loc="upper right" if i < 3 else "lower left")
            clear_spines(panel)
        for panel in lower:
            panel.set_xlabel("sweep")
        for row in (upper, lower):
            row[0].set_ylabel("residual / first residual")
        return figure


def _decay(name: str, setting: Setting, quantity: str) -> Claim:
    claim = f"Every sweep reduces the residual at least by the factor γ, as for a contraction ({name})."
    return Claim(claim, "Figure 2", f"{quantity} (fit; interval: smallest and largest single sweep)", setting=setting)


def _line(name: str, setting: Setting) -> Claim:
    claim = f"The residual is a straight line on a log scale ({name})."
    return Claim(claim, "Figure 2", "R² of a straight line through the logarithms", setting=setting)


def _bound(name: str, setting: Setting, quantity: str, remark: str = "") -> Claim:
    claim = f"The residual bounds the error of the moments ({name})."
    return Claim(claim, "Figure 2", quantity, remark=remark, setting=setting)


def absorbing(model: jmdp.TabularJMDP) -> jmdp.TabularJMDP:
    """Return the model with terminal states that are absorbing with reward 1 in each step."""
    reward, next_state = model.reward.copy(), model.next_state.copy()
    reward[model.terminal], next_state[model.terminal] = 1.0, np.flatnonzero(model.terminal)[:, None, None]
    return jmdp.TabularJMDP(
        model.prob, reward, next_state, model.discount, state_names=model.states.names, action_names=model.actions.names
    )


def _mark_end(panel: Axes, residuals: list[float]) -> None:
    """Mark the sweep from which on a residual is 0, which a log scale cannot show."""
    ended = next((sweep for sweep, r in enumerate(residuals, start=1) if r == 0), None)
    if ended is not None:
        at = (ended - 1, residuals[ended - 2] / residuals[0])
        panel.annotate(f"0 from sweep {ended} on", at, (0.98, 0.74), ha="right", fontsize=SMALL, color=COLOURS[0],
                       textcoords="axes fraction", arrowprops={"arrowstyle": "-", "color": COLOURS[0]})  # fmt: skip


def rate(residuals: Floats) -> Measured:
    """Return the factor per sweep of a fitted line, with the smallest and largest of single sweeps as interval."""
    seen = residuals[residuals > 0]
    single = seen[1:] / seen[:-1]
    slope = np.polyfit(np.arange(seen.size), np.log(seen), 1)[0]
    low, high = float(single.min()), float(single.max())
    return Measured(min(max(float(np.exp(slope)), low), high), low, high, "computed", single.size, "sweeps")


def _linearity(residuals: Floats) -> Measured:
    """Return R² of a straight line through the logarithms."""
    logs = np.log(residuals[residuals > 0])
    sweeps = np.arange(logs.size)
    off = logs - np.polyval(np.polyfit(sweeps, logs, 1), sweeps)
    explained = float(1 - off.var() / logs.var())
    return Measured(explained, explained, explained, "computed", residuals.size, "sweeps")
