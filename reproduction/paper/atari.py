"""Networks of both Atari experiments, trained once and stored."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Self

from jmdp.errors import MissingExtraError
from reproduction.atari.settings import PAPER, Run
from reproduction.experiment import Experiment, Work

TITLES = {"pong": "Pong", "battle_zone": "BattleZone", "boxing": "Boxing", "atlantis": "Atlantis"}


@dataclass(frozen=True, kw_only=True)
class AtariExperiment(Experiment):
    """Networks for four games, trained with the defaults of `NeuralGram`, which were chosen on other seeds."""

    ours: ClassVar[str] = (
        "The paper does not state the discount, policy, observations, networks, training time, or the scale of the "
        "reward perturbation. Ours: γ = 0.9, the uniform policy, clipped rewards, the console's RAM as observation, "
        "and in every step a reward perturbation ξ (1 + ℓ), with one draw ξ ~ N(0, 1) for all actions, and ℓ evenly "
        "spaced over the actions with standard deviation 0.1. The game's own reward has weight 0.1. All branches "
        "receive the same shock in each step (Synchronous): with the one-step coupling of the paper's theory, "
        "independent marginals would overestimate by only 1.3 to 1.4. The seeds were fixed before any of these "
        "networks was trained; hyperparameters were chosen on other seeds."
    )

    games: tuple[str, ...] = PAPER
    """Names of the games in the Arcade Learning Environment."""
    seeds: tuple[int, ...] = (21, 22, 23)
    """Random seeds of data and network; held-out states have independent randomness."""
    points: float = 0.1
    """Weight of the game's own reward; the shock's is 1."""
    little: bool = False
    """Use a seventh of the data and a sixth of the updates, for a test run."""

    @classmethod
    def quick(cls) -> Self:
        """One seed, little data, few updates."""
        return cls(seeds=(21,), little=True)

    @classmethod
    def require(cls) -> None:
        """Raise `MissingExtraError` if a package for networks or Atari is not installed."""
        for module in ("jax", "equinox", "optax", "ale_py"):
            if find_spec(module) is None:
                raise MissingExtraError(f'Networks on Atari need {module}: pip install "jmdp[reproduce]"')

    def runs(self, game: str) -> list[Run]:
        """Return the settings of all networks of a game, one per seed."""
        return [Run(game, "Synchronous", self.points, seed, "sum", self.little) for seed in self.seeds]

    def records(self, work: Work) -> dict[str, list[Path]]:
        """Return the records of all networks by game; train those that are missing."""
        from tqdm import tqdm

        from reproduction.atari.collect import collect
        from reproduction.atari.train import record_path, train_and_judge

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
