"""TD errors of the networks during training, for each block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from reproduction.atari.td_figure import fall_figure
from reproduction.experiment import Numbers, Work
from reproduction.findings import Claim, Finding, Floats, Measured, Setting
from reproduction.paper.atari import TITLES, AtariExperiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLOCKS = {"mean": "mean\n(μ)", "diagonal": "diagonal\n(σ diag)", "same state": "same state\n(σ same)",
          "cross": "cross\n(σ cross)", "gap": "gap\n(ours)"}  # fmt: skip
"""The paper's names beside ours. The gap, which its appendix trains as well, is not in its figure: here its second
moment, of our networks its variance."""

PAPER = ("mean", "diagonal", "same state", "cross")
"""Blocks of the paper's figure."""

FALL = 0.01
"""Required factor of the mean square: the paper says several orders of magnitude, and we require two."""

REMARK = (
    "A TD error cannot fall below the noise of single samples. Its relative decrease depends on how far above that "
    "noise it starts: with the reward perturbation, whose noise is 1, a network with outputs near 0 starts at the "
    "noise. Our own networks start at the scales of the data. Accuracy after training is judged in held-out states "
    "(Table 1)."
)


@dataclass(frozen=True, kw_only=True)
class AtariTDErrors(AtariExperiment):
    """Averages of squared TD errors over windows of updates, on four games with three seeds each."""

    name = "atari_td_errors"
    title = "TD errors of networks on Atari"
    where = "Figure 7"
    described = (
        "four panels, one for each game: moving averages of TD errors against updates on a logarithmic scale, a curve "
        "for each of four blocks, bold for the mean of three seeds. The text says that all errors decrease by several "
        "orders of magnitude."
    )
    ours = (
        f"{AtariExperiment.ours} The judged networks follow the paper's description: default initialisation, its Gram "
        "kernel, one-step backups from one sample, and squared TD errors minimised by Adam (learning rate 0.001, "
        "batches of 64). Figure 7 is about shared emulator randomness and does not mention the perturbation, which the "
        "appendix uses for Table 1. We run both: clipped points without it, and with it as above. All networks of a "
        "game are trained on the rollouts of the first seed; the three seeds are those of networks and batches. The "
        "first point of a curve is the untrained network."
    )

    updates: int = 1000
    """Updates of each plain network."""

    @classmethod
    def quick(cls) -> Self:
        """One seed, little data, few updates."""
        return replace(super().quick(), updates=200)

    def run(self, work: Work) -> Numbers:
        """Train plain networks, and load the learning curves of our own."""
        curves: dict[str, Any] = {kind: {} for kind in ("plain", "perturbed", "ours")}
        for game, paths in self.records(work).items():
            squares = []
            for path in paths:
                with np.load(path) as file:
                    updates, rms, blocks = file["updates"], file["rms"], file["blocks"].tolist()
                squares.append(rms[:, [blocks.index(block) for block in BLOCKS]] ** 2)
            title = TITLES.get(game, game)
            curves["ours"][title] = {"updates": updates.tolist(), "squares": np.array(squares).tolist()}
            for kind, points in (("plain", None), ("perturbed", self.points)):
                curves[kind][title] = self._plain(game, points, work)
        return Numbers(self._judged(curves), curves)

    def _plain(self, game: str, points: float | None, work: Work) -> dict[str, Any]:
        """Learning curves of plain networks, one per seed, trained on the rollouts of the first seed."""
        from reproduction.atari.collect import collect
        from reproduction.atari.plain import PlainRun, curve_of, make_curve

        folder = work.folder / "atari"
        walks = self.runs(game)[0].learn
        collect(walks, folder, work.workers, work.progress)
        squares = []
        for seed in self.seeds:
            run = PlainRun(walks, seed, points, self.updates)
            make_curve(run, folder)
            updates, found = curve_of(run, folder)
            squares.append(found.tolist())
        return {"updates": updates.tolist(), "squares": squares}

    def _judged(self, curves: dict[str, Any]) -> list[Finding]:
        """Return the findings of all games."""
        findings = []
        for game in curves["plain"]:
            quantity, measured = self._least("the untrained network", curves["plain"][game])
            findings += judged_falls(game, Setting.OURS, f"game points only: {quantity}", measured, REMARK)
            quantity, measured = self._least("the untrained network", curves["perturbed"][game])
            findings += judged_falls(game, Setting.OURS, f"perturbed rewards: {quantity}", measured, REMARK)[:1]
            quantity, measured = self._least("the first 50 updates", curves["ours"][game])
            claim = Claim(f"{game}: TD errors of `NeuralGram` with its defaults.", self.where, quantity, addition=True)
            findings.append(claim.unjudged("not the paper's networks: ours start at the scale of the data", measured))
        return findings

    def _least(self, start: str, curve: dict[str, Any]) -> tuple[str, Measured]:
        """What is measured: the fall of the block that falls least."""
        falls = _falls(curve)[:, [list(BLOCKS).index(block) for block in PAPER]]
        found = {block: Measured.over_seeds(falls[:, i], self.seeds, "networks") for i, block in enumerate(PAPER)}
        least = max(PAPER, key=lambda block: (found[block].high, found[block].value))
        quantity = f"final mean square TD error over that of {start}, in the block that decreases least ({least})"
        return quantity, found[least]

    def figure(self, data: dict[str, Any]) -> Figure:
        """Mean square TD error at the end of training over that at its start, for each game, block and network."""
        kinds = {
            "paper's networks, game points only": data["plain"],
            "paper's networks, perturbed rewards": data["perturbed"],
            "NeuralGram, perturbed rewards": data["ours"],
        }
        falls = {name: {game: _falls(curve) for game, curve in curves.items()} for name, curves in kinds.items()}
        return fall_figure(falls, list(BLOCKS.values()), FALL)


def judged_falls(game: str, setting: Setting, quantity: str, measured: Measured, remark: str = "") -> list[Finding]:
    """Findings on how far TD errors fell: by two orders of magnitude, and at all."""
    several = f"{game}: TD errors of all blocks decrease by several orders of magnitude."
    some = f"{game}: the TD error of every block decreases."
    return [
        Claim(several, "Figure 7", quantity, remark=remark, setting=setting).at_most(FALL, measured),
        Claim(some, "Figure 7", quantity, setting=setting).at_most(1.0, measured),
    ]


def _falls(curve: dict[str, Any]) -> Floats:
    """[seeds, blocks], mean square TD error at the end over that at the start."""
    square = np.array(curve["squares"])
    last = max(1, square.shape[1] // 6)
    return np.asarray(square[:, -last:].mean(axis=1) / square[:, 0])
