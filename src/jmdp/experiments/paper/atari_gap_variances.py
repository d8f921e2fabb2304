"""Variances of gaps in four Atari games: learned, and of independent marginals, over simulated ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.calibration import Calibration
from jmdp.experiments.paper.atari import TITLES, AtariExperiment
from jmdp.experiments.paper.experiment import Numbers, Work
from jmdp.experiments.paper.findings import Claim, Finding, Measured
from jmdp.interval import Estimate
from jmdp.plots.style import COLOURS, GREY, clear_spines, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRINTED = {"atlantis": (1.03, 83.3), "battle_zone": (3.87, 115.7), "boxing": (3.97, 111.1), "pong": (1.30, 135.4)}
"""The paper's ratios: learned, and of independent marginals."""


@dataclass(frozen=True, kw_only=True)
class AtariGapVariances(AtariExperiment):
    """Learned variances of gaps over simulated ones, in held-out states of four games."""

    name = "atari_gap_variances"
    title = "Gap variances on Atari, learned over simulated"
    where = "Table 1"

    confidence: float = 0.95
    """Of each interval: over held-out states, by bootstrap."""
    overestimate: float = 10.0
    """The least factor that counts as overestimating severely."""

    def run(self, work: Work) -> Numbers:
        """Judge the networks of all seeds together, game by game."""
        from jmdp.experiments.atari.learn import records

        findings: list[Finding] = []
        rows = []
        for game, paths in self.records(work).items():
            record = Calibration.joined([records(path)[0] for path in paths])
            findings += self._judged(game, record)
            rows.append(
                {
                    "game": TITLES.get(game, game),
                    "learned": _numbers(record.ratio),
                    "independent": _numbers(record.independent_ratio),
                    "paper": PRINTED.get(game),
                    "states": len(np.unique(record.state)),
                    "rollouts": record.returns.shape[1],
                }
            )
        return Numbers(findings, {"rows": rows})

    def _judged(self, game: str, record: Calibration) -> list[Finding]:
        states, rollouts = len(np.unique(record.state)), record.returns.shape[1]
        of = f"held-out states, {rollouts} pairs of rollouts each"

        def measured(ratio: Estimate) -> Measured:
            return Measured(float(ratio), ratio.low, ratio.high, "sampled", states, of, self.seeds, self.confidence)

        learned, apart = PRINTED.get(game, (None, None))
        name = TITLES.get(game, game)
        assert learned is not None, game
        return [
            Claim(
                f"{name}: learned variances of gaps are close to simulated ones.", self.where,
                "sum of learned variances over sum of simulated ones", learned,
            ).as_near_to_one(measured(record.ratio)),
            Claim(
                f"{name}: independent marginals overestimate them severely.", self.where,
                "sum of variances if each action had its own luck, over sum of simulated ones", apart,
                "The factor follows from the scales of the shock, which the paper does not print, so its number itself "
                "cannot be reproduced.",
            ).above(self.overestimate, measured(record.independent_ratio)),
        ]  # fmt: skip

    def figure(self, data: dict[str, Any]) -> Figure:
        """Both ratios of each game with their intervals, beside the paper's."""
        figure, [[axes]] = new_figure(size=(8.4, 3.8))
        rows = data["rows"]
        for y, row in enumerate(rows):
            for i, (key, label) in enumerate(
                (("learned", "learned jointly"), ("independent", "independent marginals"))
            ):
                value, low, high = row[key]
                axes.errorbar(value, y - 0.12, xerr=[[value - low], [high - value]], fmt="o", capsize=3,
                              color=COLOURS[i], label=f"{label}, ours, 95% interval" if y == 0 else None)  # fmt: skip
                if row["paper"] is not None:
                    axes.plot(row["paper"][i], y + 0.16, "D", markersize=6, markerfacecolor="white", color=COLOURS[i],
                              label=f"{label}, the paper's" if y == 0 else None)  # fmt: skip
        axes.axvline(1.0, color=GREY, linewidth=1)
        axes.text(1.0, -0.75, "right", color=GREY, ha="center", va="center", fontsize=9)
        axes.set_ylim(len(rows) - 0.4, -1.0)
        axes.set_xscale("log")
        axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100, 200], ["½", "1", "2", "5", "10", "20", "50", "100", "200"])
        axes.minorticks_off()
        axes.set_yticks(range(len(rows)), [row["game"] for row in rows])
        axes.set_xlabel("variance of the gap / simulated variance")
        clear_spines(axes)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        return figure


def _numbers(ratio: Estimate) -> list[float]:
    return [float(ratio), ratio.low, ratio.high]
