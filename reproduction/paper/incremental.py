"""Theorem 5.4: incremental JIPE-2 converges with Robbins-Monro step sizes, and not with constant ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import jmdp
from jmdp.methods.incremental import ConstantSteps, PolynomialSteps
from jmdp.show.plots.style import COLOURS, DASHES, GREY, SMALL, WIDTH, clear_spines, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Floats, Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHRINKING, CONSTANT = "Robbins-Monro step sizes, n^−0.8", "constant step size 0.1"


@dataclass(frozen=True, kw_only=True)
class IncrementalConvergence(Experiment):
    """Distance (Eq. (30)) of the last iterates from the true moments, against the number of updates."""

    name = "incremental"
    title = "Incremental JIPE-2 converges"
    where = "Theorem 5.4"
    ours = (
        "The paper has no experiment of the tabular version. Ours: the 2 × 3 windy gridworld, γ = 0.9, reward −1 if "
        "the wind moves the agent, a random action with probability 0.2; moments that are not centred and last "
        "iterates, as in the theorem; coordinates drawn at random, one block at a time; step sizes "
        "½ (1 + n/100)^−0.8 after n updates of a coordinate. A finite run cannot show almost sure convergence. We "
        "judge whether the error keeps decreasing, by the factor below as the number of updates grows a hundredfold. "
        "With constant step sizes it must not, as a control for the rule."
    )

    updates: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    """Updates of the runs whose last iterates are compared; the last number is a hundred times the first."""
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    discount: float = 0.9
    falls: float = 0.5
    """Largest allowed factor of the error for a hundredfold of the updates; the step sizes alone give about 0.16."""

    @classmethod
    def quick(cls) -> Self:
        """Three seeds."""
        return cls(seeds=(1, 2, 3))

    def run(self, work: Work) -> Numbers:
        """Run both kinds of step sizes for every number of updates and every seed."""
        world = jmdp.worlds.windy_gridworld(2, 3, blown_reward=-1.0, discount=self.discount)
        policy = world.policies["careless"]
        truth = jmdp.evaluate(world.model, policy, jmdp.Local(), progress=work.progress)
        rules: dict[str, PolynomialSteps | ConstantSteps] = {
            SHRINKING: PolynomialSteps(exponent=0.8),
            CONSTANT: ConstantSteps(0.1),
        }
        data: dict[str, Any] = {"updates": list(self.updates), "errors": {}}
        for name, steps in rules.items():
            data["errors"][name] = [
                [
                    distance(
                        truth,
                        jmdp.evaluate(world.model, policy, jmdp.Local(), method=method, progress=False),
                        world.model,
                    )
                    for updates in self.updates
                    for method in [
                        jmdp.Incremental(seed=seed, updates=updates, steps=steps, centred=False, averaging=False)
                    ]
                ]
                for seed in self.seeds
            ]
        return Numbers(self._judged(data), data)

    def _judged(self, data: dict[str, Any]) -> list[Finding]:
        left = {name: self._left(np.array(errors)) for name, errors in data["errors"].items()}
        quantity = f"‖M − M*‖_λ after {self.updates[-1]:,} updates over that after {self.updates[0]:,} (geometric mean)"
        return [
            Claim(
                "With Robbins-Monro step sizes the iterates converge to the true moments.", self.where, quantity
            ).at_most(self.falls, left[SHRINKING]),
            Claim(
                "With constant step sizes they do not (control of the rule).", self.where, quantity, addition=True
            ).above(self.falls, left[CONSTANT]),
        ]  # fmt: skip

    def _left(self, errors: Floats) -> Measured:
        return Measured.over_seeds(errors[:, -1] / errors[:, 0], self.seeds, "runs")

    def figure(self, data: dict[str, Any]) -> Figure:
        """Errors against updates: bold is the geometric mean of the seeds, faint the single ones."""
        figure, [[axes]] = new_figure(size=(WIDTH, 4.2))
        for i, (name, errors) in enumerate(data["errors"].items()):
            style: dict[str, Any] = {"color": COLOURS[i], "linestyle": DASHES[i]}
            for single in errors:
                axes.loglog(data["updates"], single, alpha=0.3, linewidth=1, **style)
            middle = np.exp(np.log(errors).mean(axis=0))
            label = "step sizes $n^{-0.8}$ (Robbins–Monro)" if "n^" in name else name.replace("steps", "step size")
            axes.loglog(data["updates"], middle, marker="os"[i], linewidth=2, label=label, **style)
        axes.plot([], [], color=GREY, linewidth=1, label="thin: single seeds; bold: their geometric mean")
        axes.set_ylim(0.02, 1)
        axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5, 1], ["0.02", "0.05", "0.1", "0.2", "0.5", "1"])
        axes.tick_params(axis="y", which="minor", labelleft=False)
        axes.set_xlabel("updates of single coordinates")
        axes.set_ylabel("error of the last iterate (λ-norm)")
        axes.grid(alpha=0.3)
        figure.legend(loc="outside lower left", frameon=False, fontsize=SMALL)
        clear_spines(axes)
        return figure


def distance(truth: jmdp.results.Evaluation, found: jmdp.results.Evaluation, model: jmdp.TabularJMDP) -> float:
    """‖M − M*‖_λ (Eq. (20)) = max(largest error of a mean, of a second moment / λ), λ = 2B/(1 − γ)."""
    live = np.flatnonzero(~model.terminal)
    coordinates = [(int(s), a) for s in live for a in range(model.actions.size)]
    seconds = max(
        abs(truth.second_moment(*x, *y) - found.second_moment(*x, *y)) for x in coordinates for y in coordinates
    )
    means = float(np.abs(truth.mean - found.mean).max())
    return max(means, seconds * (1 - model.discount) / (2 * model.reward_bound))
