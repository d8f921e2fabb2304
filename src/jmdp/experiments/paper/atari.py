"""The networks that both Atari experiments look at: trained once, kept, and found again."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Self

from jmdp.errors import MissingExtraError
from jmdp.experiments.atari.settings import PAPER, Run
from jmdp.experiments.reproduction.experiment import Experiment, Work

TITLES = {"pong": "Pong", "battle_zone": "BattleZone", "boxing": "Boxing", "atlantis": "Atlantis"}


@dataclass(frozen=True, kw_only=True)
class AtariExperiment(Experiment):
    """Networks for four games; settings of learning are the defaults of `NeuralGram`, chosen on other seeds."""

    ours: ClassVar[str] = (
        "The paper does not say its discount, policy, observations, networks, how long it trains, or the scale of the "
        "reward perturbation. Ours: γ = 0.9, the uniform policy, clipped rewards, the console's RAM as observation, "
        "and in every step a shock that pays all actions alike (standard deviation 1) and each a little more or less "
        "(0.1). The game's own reward counts 0.1. One shock for all branches in each step (Synchronous): with the "
        "one-step coupling of its theory independent marginals overestimate by about 1/γ² alone, 1.2 here. The "
        "seeds were fixed before any network of theirs was trained; settings were chosen on others."
    )

    games: tuple[str, ...] = PAPER
    """By their names in the Arcade Learning Environment."""
    seeds: tuple[int, ...] = (21, 22, 23)
    """Of the data and the network; held-out states have luck of their own."""
    points: float = 0.1
    """Weight of the game's own reward; the shock's is 1."""
    little: bool = False
    """A seventh of the data and a sixth of the updates: to see that it runs."""

    @classmethod
    def quick(cls) -> Self:
        """One seed, little data, few updates."""
        return cls(seeds=(21,), little=True)

    @classmethod
    def require(cls) -> None:
        """What no other experiment needs."""
        for module in ("jax", "equinox", "optax", "ale_py"):
            if find_spec(module) is None:
                raise MissingExtraError(f'Networks on Atari need {module}: pip install "jmdp[reproduce]"')

    def runs(self, game: str) -> list[Run]:
        """One network for each seed."""
        return [Run(game, "Synchronous", self.points, seed, "sum", self.little) for seed in self.seeds]

    def records(self, work: Work) -> dict[str, list[Path]]:
        """Records of all networks by game, made where they are missing."""
        from tqdm import tqdm

        from jmdp.experiments.atari.collect import collect
        from jmdp.experiments.atari.train import record_path, train_and_judge

        folder = work.folder / "atari"
        wanted = [run for game in self.games for run in self.runs(game)]
        with tqdm(wanted, unit=" network", disable=None if work.progress else True) as bar:
            for run in bar:
                bar.set_description(f"{TITLES.get(run.game, run.game)}, seed {run.seed}")
                if not record_path(run, folder).exists():
                    for walks in (run.learn, *run.held_out):
                        collect(walks, folder, work.workers, work.progress)
                    train_and_judge(run, folder)
        return {game: [record_path(run, folder) for run in self.runs(game)] for game in self.games}
