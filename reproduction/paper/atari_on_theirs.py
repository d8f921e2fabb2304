"""Figure 7 and Table 1 on the authors' settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import stdtrit

from jmdp.show.plots.style import COLOURS, DASHES, GREY, SMALL, WIDTH, clear_spines, new_figure
from reproduction.atari.settings import PAPER
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import CONFIDENCE, Claim, Finding, Floats, Judgement, Measured, Setting
from reproduction.paper.atari import TITLES, AtariExperiment
from reproduction.paper.atari_gap_variances import PRINTED, judged_ratios
from reproduction.paper.atari_td_errors import FALL, judged_falls
from reproduction.paper.atari_td_errors import PAPER as PAPER_BLOCKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reproduction.atari.authors.games import Game

FULL = 45_000
"""Updates of the authors: 50,000 steps, of which the first 5,000 are without one."""
COPIED_EVERY = 2_000
DISCOUNT = 0.99


@dataclass(frozen=True, kw_only=True)
class OnTheirSettings(Experiment):
    """Their network and our learned method on four games."""

    theirs: ClassVar[str] = (
        "Frame skip 1, no sticky actions, one grey frame of 84 × 84, the uniform policy, γ = 0.99, returns times 1 − "
        "γ. Two actions are queried in a state under one sign u = ±1: the first has the reward clip(points + u, 0, 1), "
        "the second clip(points − u, 0, 1). Branches share u while they have the same RAM. A random walk of 50,000 "
        "steps with one query and one update each, batches of 32 from the replay, learning after 5,000 steps, Adam at "
        "0.0001, a target copied every 2,000 updates, three convolutions and 256 units, Gram features of size 128 "
        "whose last layer begins at N(0, 0.001²); losses for means, pairs in one state, pairs in two, single "
        "coordinates, and 0.1 for the gap. The sizes of the convolutions are the usual ones (32 of 8 × 8, 64 of 4 × 4, "
        "64 of 3 × 3). Judged in the first 40 states of a random walk with a random pair each, 32 paired rollouts of "
        "150 steps; with `--further 128` also in 200 states, 8 of each of 25 walks and 25 steps apart."
    )
    costs: ClassVar[str] = (
        "20 minutes of processor time for each of 12 networks, or 60 for all updates of the authors (`--minutes 60`)"
    )
    ours: ClassVar[str] = AtariExperiment.ours

    games: tuple[str, ...] = PAPER
    seeds: tuple[int, ...] = (31, 32, 33)
    """Seeds of networks."""
    updates: int = FULL
    minutes: float = 20.0
    """Processor time of training, for each network; more continues from the same checkpoint. 0 trains nothing, nor
    `LearnedMoments`: only what needs no learning."""
    first: tuple[int, int, int, int] = (1, 40, 1, 32)
    """Walks, states of each, steps between them, and paired rollouts: the authors' states."""
    apart: tuple[int, int, int] = (25, 8, 25)
    """Walks, states of each and steps between them, for states further apart."""
    further: int = 0
    """Paired rollouts in each of these; 0 does not judge there."""
    learned_steps: int = 100_000
    """Simulated steps of `LearnedMoments`: as many as the queries of the network's walk."""
    segment: int = 5000
    """Steps of the walk that are simulated and stored together."""
    length: int = 150
    """Steps of a rollout."""

    @classmethod
    def quick(cls) -> Self:
        """One game, few updates, states and rollouts."""
        return cls(
            games=("pong",), seeds=(31,), updates=200, first=(1, 4, 1, 8), apart=(2, 2, 25), further=8, segment=300,
            length=20, learned_steps=1,
        )  # fmt: skip

    @classmethod
    def require(cls) -> None:
        """Raise `MissingExtraError` if a package for networks or Atari is not installed."""
        AtariExperiment.require()

    def game(self, name: str) -> Game:
        """Return what is run of one game."""
        from reproduction.atari.authors.games import Game

        sizes = self.first, (*self.apart, self.further), self.learned_steps, self.segment, self.length
        return Game(name, self.seeds, self.updates, self.minutes, *sizes)

    def folder(self, work: Work) -> Path:
        """Folder of all intermediate results."""
        return work.folder / "atari"


@dataclass(frozen=True, kw_only=True)
class AuthorsTDErrors(OnTheirSettings):
    """TD errors of the authors' network along training."""

    name = "authors_td_errors"
    title = "TD errors of networks on Atari"
    where = "Figure 7"

    def run(self, work: Work) -> Numbers:
        """Train the networks as far as the time allows."""
        data = {"games": [self.game(name).curves(self.folder(work), work.tell) for name in self.games]}
        return Numbers(self._judged(data), data)

    def _judged(self, data: dict[str, Any]) -> list[Finding]:
        findings = []
        for game in data["games"]:
            done = min(game["updates"])
            falls = ends(np.array(game["squares"]))[:, [game["blocks"].index(block) for block in PAPER_BLOCKS]]
            found = {
                block: Measured.over_seeds(falls[:, i], self.seeds, "networks") for i, block in enumerate(PAPER_BLOCKS)
            }
            least = max(found, key=lambda block: (found[block].high, found[block].value))
            quantity = (
                f"final mean square TD error over that of the untrained network, in the block that decreases least "
                f"({least}), after {done:,} of {FULL:,} updates"
            )
            fell = judged_falls(TITLES[game["game"]], Setting.AUTHORS, quantity, found[least], _remark(data))
            findings += [_if_trained(finding, done) for finding in fell]
        return findings

    def figure(self, data: dict[str, Any]) -> Figure:
        """TD errors of all blocks against updates, a line for each seed."""
        games = data["games"]
        rows = (len(games) + 1) // 2
        figure, grid = new_figure(rows, 2, size=(WIDTH, 2.7 * rows + 0.9), sharey=True)
        panels = [panel for row in grid for panel in row]
        for panel, game in zip(panels, games, strict=False):
            squares = np.array(game["squares"])
            at = game["window"] * np.arange(squares.shape[1])
            for i, block in enumerate(game["blocks"]):
                for n, single in enumerate(squares):
                    panel.semilogy(at, single[:, i] / single[0, i], color=COLOURS[i], linestyle=DASHES[i % len(DASHES)],
                                   linewidth=1.5, label=None if n else block)  # fmt: skip
            panel.axhline(FALL, color="black", linewidth=1, linestyle=":")
            panel.set_title(f"{TITLES[game['game']]}: {min(game['updates']):,} updates", fontsize=SMALL)
            panel.set_xlabel("updates", fontsize=SMALL)
            panel.grid(alpha=0.3)
            clear_spines(panel)
        for panel in panels[len(games) :]:
            panel.set_visible(False)
        for row in grid:
            row[0].set_ylabel("mean square TD error\n/ untrained", fontsize=SMALL)
        handles, labels = panels[0].get_legend_handles_labels()
        title = f"The authors' settings; dotted: {FALL:g}"
        figure.legend(handles, labels, loc="outside lower left", ncols=3, frameon=False, fontsize=SMALL, title=title,
                      title_fontsize=SMALL, alignment="left")  # fmt: skip
        return figure


@dataclass(frozen=True, kw_only=True)
class AuthorsGapVariances(OnTheirSettings):
    """Gap variances of the authors' network, ours and two constants, over simulated ones."""

    name = "authors_gap_variances"
    title = "Gap variances on Atari, learned over simulated"
    where = "Table 1"
    theirs = (
        f"{OnTheirSettings.theirs} The networks are those of Figure 7, as far as they were trained by "
        "`python -m reproduction authors_td_errors` into the same folder."
    )

    def run(self, work: Work) -> Numbers:
        """Compare all predictions with simulated gap variances, with the networks as far as they are trained."""
        data = {"games": [self.game(name).compared(self.folder(work), work.tell) for name in self.games]}
        return Numbers(self._judged(data), data)

    def _judged(self, data: dict[str, Any]) -> list[Finding]:
        findings = []
        for game in data["games"]:
            first, name, done = game["sets"]["first"], game["game"], min(game["updates"])
            of = _of(first)
            close, severe = judged_ratios(
                name, Setting.AUTHORS,
                (f"mean of learned over mean of simulated gap variances, after {done:,} of {FULL:,} updates",
                 with_states(first["network"], self.seeds, of)),
                ("mean of Var Z(x) + Var Z(y), simulated, over mean of simulated gap variances",
                 one(first["independent"], self.seeds, of)),
                " ".join([_share_remark(done, first), *self._not_run(game)]),
            )  # fmt: skip
            explained = Claim(
                f"{TITLES[name]}: second moments that are not centred give the paper's ratio.", self.where,
                f"mean of E[Z(x)²] + E[Z(y)²], simulated, over mean of simulated gap variances; the paper prints "
                f"{PRINTED[name][1]:g} for independent marginals", PRINTED[name][1], _UNCENTRED, Setting.AUTHORS, True,
            )  # fmt: skip
            findings += [_if_trained(close, done), severe, explained.agreeing(one(first["uncentred"], self.seeds, of))]
            for key, found in game["sets"].items():
                where = "the authors' 40 states" if key == "first" else f"{found['states']} states further apart"
                for label, ratio in (
                    ("sum of second moments, not centred", found["uncentred"] if key == "more" else None),
                    ("closed form without learning or points", found["closed_form"]),
                    ("constant of `LearnedMoments`", found.get("constant")),
                    ("`LearnedMoments`", found.get("ours")),
                    ("their network", found["network"][0] if key == "more" else None),
                ):
                    if ratio is None:
                        continue
                    claim = Claim(
                        f"{TITLES[name]}, {where}: other numbers over simulated gap variances.", self.where, label,
                        setting=Setting.AUTHORS, addition=True,
                    )  # fmt: skip
                    measured = one(ratio, self.seeds, _of(found))
                    findings.append(claim.unjudged("beside the paper's numbers", measured))
        return findings

    def _not_run(self, game: dict[str, Any]) -> list[str]:
        """What these numbers lack, and the command that runs it."""
        walks, states, _ = self.apart
        further = (
            f"The {walks * states} states further apart were not judged for these numbers: `--further 128` does it, in "
            "14 to 26 minutes of processor time for each game."
        )
        ours = (
            "`LearnedMoments` was not trained for these numbers, which need no learning: every number of `--minutes` "
            "above 0 trains it."
        )
        return [text for text, missing in ((further, not self.further), (ours, game["learned"] is None)) if missing]

    def figure(self, data: dict[str, Any]) -> Figure:
        """Ratios of each game in the authors' states, and those of their network along training."""
        kinds = {
            "network": ("their network", COLOURS[0], "o"), "ours": ("LearnedMoments", COLOURS[2], "D"),
            "constant": ("its constant", GREY, "v"), "closed_form": ("closed form, no learning", "black", "s"),
            "independent": ("independent marginals", COLOURS[1], "^"),
            "uncentred": ("second moments, not centred", COLOURS[3], "x"),
        }  # fmt: skip
        games = data["games"]
        trained = max(max(game["updates"]) for game in games) > 0
        rows = 2 if trained else 1
        figure, grid = new_figure(rows, size=(WIDTH, 1.2 * len(games) + 2.4 * rows))
        axes = grid[0][0]
        for y, game in enumerate(games):
            first = game["sets"]["first"]
            for i, (key, (label, colour, marker)) in enumerate(kinds.items()):
                if key not in first:
                    continue
                value, low, high = ratio_of(first[key][0] if key == "network" else first[key])
                error = [[value - low], [high - value]] if np.isfinite([low, high]).all() else None
                axes.errorbar(value, y + 0.11 * (i - 3), xerr=error, fmt=marker, markersize=5, capsize=2, color=colour,
                              label=label if y == 0 else None)  # fmt: skip
            for printed, colour in zip(PRINTED[game["game"]], (COLOURS[0], COLOURS[1]), strict=True):
                axes.plot(printed, y + 0.42, "D", markersize=6, markerfacecolor="white", color=colour)
        axes.plot([], [], "D", markerfacecolor="white", color="black", label="the paper's two ratios")
        axes.axvline(1.0, color=GREY, linewidth=1, linestyle="--", zorder=0)
        axes.set_xscale("log")
        axes.set_ylim(len(games) - 0.4, -0.6)
        axes.set_yticks(range(len(games)), [TITLES[game["game"]] for game in games])
        axes.set_xlabel("ratio to the simulated gap variance")
        axes.set_title("The authors' settings and states", fontsize=SMALL)
        clear_spines(axes)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize=SMALL)
        if not trained:
            return figure
        below = grid[1][0]
        for i, game in enumerate(games):
            first = game["sets"]["first"]
            for at, curve in zip(first["looked_at"], first["curves"], strict=True):
                below.semilogy(at, curve, color=COLOURS[i], linestyle=DASHES[i % len(DASHES)], linewidth=1.5,
                               label=TITLES[game["game"]] if curve is first["curves"][0] else None)  # fmt: skip
        below.axhline(1.0, color=GREY, linewidth=1, linestyle="--", zorder=0)
        below.set_xlabel(f"updates; the authors run {FULL:,}")
        below.set_ylabel("their network\n/ simulated")
        below.set_title("Learning curves of their network, a line for each seed", fontsize=SMALL)
        below.legend(frameon=False, fontsize=SMALL)
        clear_spines(below)
        return figure


def ends(squares: Floats) -> Floats:
    """[seeds, blocks], mean square TD error in the last sixth of training over that of the untrained network."""
    last = max(1, (squares.shape[1] - 1) // 6)
    return np.asarray(squares[:, -last:].mean(axis=1) / squares[:, 0])


def ratio_of(saved: list[float | None]) -> tuple[float, float, float]:
    """A saved ratio with its interval, whose ends are None where too few states say nothing."""
    value, low, high = saved
    assert value is not None
    return value, 0.0 if low is None else low, np.inf if high is None else high


def one(ratio: list[float | None], seeds: tuple[int, ...], of: str) -> Measured:
    """A ratio with its interval over states."""
    value, low, high = ratio_of(ratio)
    return Measured(value, low, high, "sampled", 1, of, seeds[:1], CONFIDENCE)


def with_states(ratios: list[list[float | None]], seeds: tuple[int, ...], of: str) -> Measured:
    """Geometric mean of the ratios of networks; the interval adds the variance over networks to that over states.

    Of one network the interval is that over states.
    """
    if len(ratios) == 1:
        return one(ratios[0], seeds, f"network, {of}")
    found, n = [ratio_of(ratio) for ratio in ratios], len(ratios)
    logs = np.log([value for value, _, _ in found])
    states = np.mean([np.log(high / low) if low > 0 else np.inf for _, low, high in found]) / 2 / 1.96
    most = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    half = float(np.hypot(most * logs.std(ddof=1) / np.sqrt(n), 1.96 * states))
    middle = float(logs.mean())
    low, high = float(np.exp(middle - half)), float(np.exp(middle + half))
    return Measured(float(np.exp(middle)), low, high, "sampled", n, f"networks, {of}", seeds, CONFIDENCE)


def _of(found: dict[str, Any]) -> str:
    walks = f" of {found['walks']} walks" if found["walks"] > 1 else " of one walk"
    return f"set of {found['states']} states{walks}, {found['rollouts']} paired rollouts each"


_UNCENTRED = (
    "On the authors' settings, returns are nearly sums of fair bits, with mean ½ (1 − γ¹⁵⁰), and branches part within "
    "few steps. Their variances then add up to about the variance of the gap, with or without shared randomness, so "
    "independent marginals cannot overestimate it by a factor of 100. Second moments that are not centred have that "
    "size (E7 in the errata), in Pong and BattleZone the paper's number itself."
)


def _if_trained(finding: Finding, done: int) -> Finding:
    """A verdict on a network waits until it has had all updates of the authors."""
    if done >= FULL:
        return finding
    return replace(finding, verdict=Judgement.CANNOT_BE_JUDGED, rule=f"judged after {FULL:,} updates: {finding.rule}")


def sweeps(updates: int) -> int:
    """Most sweeps of the operator that so many updates can be: one for each target."""
    return -(-updates // COPIED_EVERY)


def _remark(data: dict[str, Any]) -> str:
    updates = [count for game in data["games"] for count in game["updates"]]
    minutes = max(max(game["seconds"]) for game in data["games"]) / 60
    return (
        f"{min(updates):,} to {max(updates):,} updates of each network were run for these numbers, in at most "
        f"{minutes:.2g} minutes of processor time; the authors run {FULL:,}, in about 45 to 60 minutes. A "
        "larger number of `--minutes` continues from here, and verdicts on networks wait for the end. Because "
        "returns are multiplied by 1 − γ, the noise of a one-step backup is small, and TD errors can fall far below "
        "those of an untrained network before the moments are right."
    )


def _share_remark(done: int, first: dict[str, Any]) -> str:
    def shares(updates: int) -> tuple[float, float]:
        k = sweeps(updates)
        return 1 - DISCOUNT**k, 1 - DISCOUNT ** (2 * k)

    (mean, variance), (all_mean, all_variance) = shares(done), shares(FULL)
    return (
        f"A target that is copied every {COPIED_EVERY:,} updates allows {sweeps(done)} sweeps in {done:,} updates and "
        f"{sweeps(FULL)} in {FULL:,}: exact sweeps from 0 reach {mean:.0%} of a mean and {variance:.0%} of a variance, "
        f"and {all_mean:.0%} and {all_variance:.0%}. The untrained network has {first['untrained'][0][0]:.2g} of the "
        "simulated gap variance, because of the scale at which its features begin."
    )
