"""Bellman residuals of JIPE-2 per sweep, in the gridworld and in the chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import jmdp
from jmdp.show.plots.style import COLOURS, DASHES, GREY, SMALL, WIDTH, clear_spines, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Floats, Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


CLEAR = 1e-5
"""Fraction of the first residual below which rounding may affect the ratio of two residuals."""


class Setting(NamedTuple):
    """Model with a policy; `paper` is True if it is consistent with the paper's text."""

    name: str
    panel: str
    model: jmdp.TabularJMDP
    policy: jmdp.TabularPolicy
    paper: bool


@dataclass(frozen=True, kw_only=True)
class Residuals(Experiment):
    """Residual convergence of JIPE-2 (Theorem 5.3) in a windy gridworld and a coupled-reward chain."""

    name = "residuals"
    title = "Bellman residuals decrease geometrically"
    where = "Figure 2"
    ours = (
        "The paper gives the sizes, but not the discount, gusts, rewards or policies. Ours are the defaults of the "
        "built-in worlds: γ = 0.95, gusts with probability 0.3, reward 1 for reaching the goal, rewards of ±1 with "
        "equal probability in the chain. The policy goes right, then up in the gridworld; it is uniform in the chain, "
        "because with a fixed action there is no average over actions. The paper's MDPs have no terminal states "
        "(Definition 3.1), and it does not define what follows the goal. We judge two interpretations: the goal is "
        "absorbing with reward 1 per step, or it has reward 0 and leads back to the lower left cell. In the built-in "
        "world the goal ends the episode; this case is shown without a verdict, also for the careless policy (a random "
        "action with probability 0.2)."
    )

    side: int = 5
    """Rows and columns of the gridworld."""
    length: int = 25
    """States of the chain."""
    discount: float = 0.95
    tolerance: float = 1e-10
    """Tolerance of both methods, as a fraction of the largest return."""
    straight: float = 0.99
    """R² above which a curve counts as a straight line."""

    def settings(self) -> list[Setting]:
        """Return the models that are consistent with the paper's text, and the built-in gridworld."""
        grid = jmdp.worlds.windy_gridworld(self.side, self.side, discount=self.discount)
        chain = jmdp.worlds.coupled_reward_chain(self.length, discount=self.discount)
        directed, careless = grid.policies["goal_directed"], grid.policies["careless"]
        goal = int(np.flatnonzero(grid.model.terminal)[0])
        lower_left = self.side * (self.side - 1)
        name = f"{self.side}×{self.side} windy gridworld"
        endless, ends = f"{name}, no terminal state", f"{name}, ours: the goal ends the episode"
        line = f"coupled-reward chain of {self.length}"
        return [
            Setting(f"{name}, goal absorbing", endless, _going_on(grid.model, goal, 1.0), directed, True),
            Setting(f"{name}, goal leading back", endless, _going_on(grid.model, lower_left, 0.0), directed, True),
            Setting(f"{name}, goal ending the episode", ends, grid.model, directed, False),
            Setting(f"{name}, goal ending the episode, careless policy", ends, grid.model, careless, False),
            Setting(line, line, chain.model, chain.policies["uniform"], True),
        ]

    def run(self, work: Work) -> Numbers:
        """Evaluate each model by the paper's iteration and by ours."""
        findings: list[Finding] = []
        data: dict[str, Any] = {"discount": self.discount, "curves": {}}
        for setting in self.settings():
            paper, ours = (
                jmdp.evaluate(setting.model, setting.policy, jmdp.Local(), method=method, progress=work.progress)
                for method in (jmdp.JIPE(tolerance=self.tolerance), jmdp.ExactPairs(tolerance=self.tolerance))
            )
            data["curves"][setting.name] = {
                "panel": setting.panel, "JIPE": paper.residuals.tolist(), "ExactPairs": ours.residuals.tolist()
            }  # fmt: skip
            findings += self._judged(setting.name, paper, ours) if setting.paper else [self._beside(setting, paper)]
        return Numbers(findings, data)

    def _judged(self, name: str, paper: jmdp.results.Evaluation, ours: jmdp.results.Evaluation) -> list[Finding]:
        decay = Claim(
            f"In the {name}, every sweep reduces the residual at least by the factor γ, as for a contraction.",
            self.where,
            f"factor per sweep of JIPE-2, down to {CLEAR:g} of the first residual (fit; interval: smallest and largest "
            "single sweep)",
        )
        faster = Claim(
            f"In the {name}: (not in the paper) ExactPairs, on pairs of states with accelerated sweeps, reduces the "
            "residual faster than γ² per sweep.",
            self.where,
            "factor per sweep of ExactPairs (fit; interval: smallest and largest single sweep)",
        )
        accuracy = Claim(
            f"In the {name}, the residual bounds the error of the moments.",
            self.where,
            "largest difference of the two methods' covariances over the sum of their certified errors",
        )
        assert paper.certificate is not None
        assert ours.certificate is not None
        allowed = np.asarray(paper.certificate.covariance_error) + np.asarray(ours.certificate.covariance_error)
        share = np.abs(paper.covariance - ours.covariance) / allowed
        most = float(share.max())
        clear = paper.residuals[paper.residuals >= CLEAR * paper.residuals[0]]
        return [
            decay.at_most(self.discount, rate(clear)),
            self._line(name).above(self.straight, _linearity(paper.residuals)),
            accuracy.at_most(1.0, Measured(most, float(share.min()), most, "computed", share.size, "covariances")),
            faster.at_most(self.discount**2, rate(ours.residuals), better=True),
        ]

    def _line(self, name: str) -> Claim:
        return Claim(
            f"In the {name}, the residual is a straight line on a log scale.",
            self.where,
            "R² of a straight line through the logarithms",
            remark="If the goal ends the episode, the curve bends downwards: late sweeps contract faster than γ, "
            "because fewer and fewer episodes are still running.",
        )

    def _beside(self, setting: Setting, paper: jmdp.results.Evaluation) -> Finding:
        return self._line(setting.name).unjudged(
            "not the paper's setting, which has no terminal state", _linearity(paper.residuals)
        )

    def figure(self, data: dict[str, Any]) -> Figure:
        """Plot residuals of the paper's models and of ours, with the slope γ."""
        names = list(dict.fromkeys(curves["panel"] for curves in data["curves"].values()))
        figure, grid = new_figure(len(names), 1, size=(WIDTH, 3.4 * len(names)))
        axes = [row[0] for row in grid]
        for panel, title in zip(axes, names, strict=True):
            here = {name: curves for name, curves in data["curves"].items() if curves["panel"] == title}
            for i, (name, curves) in enumerate(here.items()):
                what = name.rpartition(", ")[2]
                what = "" if what == name else ("goal-directed policy" if "ending" in what else what)
                for method, label in (("JIPE", "JIPE-2"), ("ExactPairs", "ExactPairs (ours)")):
                    colour, dashes = COLOURS[i], DASHES[i] if method == "JIPE" else DASHES[2 + i]
                    _draw(panel, curves[method], colour, dashes, ", ".join(filter(None, (label, what))))
            _slope(panel, data["discount"], max(len(curves["JIPE"]) for curves in here.values()))
            _mark_end(panel, here)
            panel.set_title(title.replace("the goal ends the walk", "the goal is terminal"), fontsize=10)
            panel.set_xlabel("sweep")
            panel.set_ylabel("residual / first residual")
            panel.set_ylim(1e-13, 3)
            panel.grid(alpha=0.3)
            panel.legend(fontsize=SMALL, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=1)
            clear_spines(panel)
        return figure


def _going_on(model: jmdp.TabularJMDP, to: int, pays: float) -> jmdp.TabularJMDP:
    """Return the model without terminal state: all its actions lead to the state `to` with the reward `pays`."""
    reward, next_state = model.reward.copy(), model.next_state.copy()
    reward[model.terminal], next_state[model.terminal] = pays, to
    return jmdp.TabularJMDP(
        model.prob, reward, next_state, model.discount, state_names=model.states.names, action_names=model.actions.names
    )


def _draw(panel: Axes, residuals: list[float], colour: str, dashes: Any, label: str) -> None:
    seen = np.array([r for r in residuals if r > 0])
    panel.semilogy(np.arange(1, seen.size + 1), seen / seen[0], color=colour, linestyle=dashes, label=label)


def _slope(panel: Axes, discount: float, sweeps: int) -> None:
    at = np.arange(1, sweeps + 1)
    panel.semilogy(
        at, discount ** (at - 1.0), color=GREY, linewidth=4, alpha=0.35, zorder=0, label=f"γ = {discount:g} per sweep"
    )


def _mark_end(panel: Axes, shown: dict[str, Any]) -> None:
    """Mark the sweep from which on a residual is 0, which a log scale cannot show."""
    for curves in shown.values():
        ended = next((sweep for sweep, r in enumerate(curves["JIPE"], start=1) if r == 0), None)
        if ended is not None:
            at = (ended - 1, curves["JIPE"][ended - 2] / curves["JIPE"][0])
            panel.annotate(f"0 from sweep {ended} on:\nthe chain has an end", at, (0, -30), ha="right", fontsize=9,
                           textcoords="offset points", color=COLOURS[0])  # fmt: skip


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
