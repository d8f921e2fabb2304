"""TD errors of the networks while they learn, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.arrays import Floats
from jmdp.experiments.atari.td_figure import td_figure
from jmdp.experiments.paper.atari import TITLES, AtariExperiment
from jmdp.experiments.paper.experiment import Numbers, Work
from jmdp.experiments.paper.findings import Claim, Finding, Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLOCKS = {"mean": "μ", "diagonal": "σ diag", "same state": "σ same", "cross": "σ cross", "gap": "gap"}
"""The paper's names for ours, and the gap's second moment, which its appendix trains as well."""


@dataclass(frozen=True, kw_only=True)
class AtariTDErrors(AtariExperiment):
    """Moving averages of squared TD errors on four games, three seeds each."""

    name = "atari_td_errors"
    title = "TD errors of networks on Atari"
    where = "Figure 7"

    fall: float = 0.01
    """The paper says several orders of magnitude; two, of mean squares, would count."""

    def run(self, work: Work) -> Numbers:
        """Read the curves of all networks."""
        from jmdp.neural.td_losses import NAMES

        findings: list[Finding] = []
        curves: dict[str, Any] = {}
        for game, paths in self.records(work).items():
            squares = []
            for path in paths:
                with np.load(path) as file:
                    updates, rms = file["updates"], file["rms"]
                squares.append(rms[:, [NAMES.index(block) for block in BLOCKS]] ** 2)
            square = np.array(squares)  # [seeds, windows, blocks]
            curves[TITLES.get(game, game)] = {"updates": updates.tolist(), "squares": square.tolist()}
            findings += self._judged(TITLES.get(game, game), square)
        return Numbers(findings, {"curves": curves})

    def _judged(self, game: str, square: Floats) -> list[Finding]:
        last = max(1, square.shape[1] // 6)
        falls = square[:, -last:].mean(axis=1) / square[:, 0]  # [seeds, blocks]
        paper = list(BLOCKS)[:4]
        found = {block: Measured.over_seeds(falls[:, i], self.seeds, "networks") for i, block in enumerate(paper)}
        least = max(paper, key=lambda block: found[block].high)
        quantity = f"mean square TD error at the end over that of the first 50 updates, where it falls least ({least})"
        remark = (
            "Our networks start at the scales found in the data, and the first point is an average over 50 updates, in "
            "which most is learned; what is left is mostly the noise of single samples, which no network removes. An "
            "error that falls by orders of magnitude tells of its start. How right the end is, held-out states tell "
            "(Table 1)."
        )
        return [
            Claim(
                f"{game}: TD errors of all blocks fall by several orders of magnitude.", self.where, quantity,
                remark=remark,
            ).at_most(self.fall, found[least]),
            Claim(f"{game}: every block descends.", self.where, quantity).at_most(1.0, found[least]),
        ]  # fmt: skip

    def figure(self, data: dict[str, Any]) -> Figure:
        """A panel for each game: bold is the mean of the seeds, faint the single ones."""
        curves = {
            game: (np.array(curve["updates"]), np.array(curve["squares"])) for game, curve in data["curves"].items()
        }
        return td_figure(curves, [f"{block} ({symbol})" for block, symbol in BLOCKS.items()])
