"""Settings of the Atari experiment: games, couplings, data. Hyperparameters were chosen on seeds not used here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

import jmdp
from jmdp.base.labels import identity
from jmdp.simulators import ALESimulator, WalkPlan

PAPER = ("pong", "battle_zone", "boxing", "atlantis")
FURTHER = ("breakout", "space_invaders", "freeway", "asterix", "seaquest", "ms_pacman")
"""Chosen before any of them was run."""

COUPLINGS = {"Synchronous": jmdp.Synchronous(), "Local": jmdp.Local()}

DISCOUNT = 0.9
LOADING = 0.1
"""Standard deviation of the shock's action-specific reward, relative to its common reward."""

NOISE = 1e-3
"""Scale of the paper's reward shock in stored rollouts. Clipped points are integers, so that shock and points can be
separated later, and the same rollouts serve every weight c of the game's own reward."""

AHEAD = 8
"""Rollouts from a held-out state that serve as lookahead; the others are the reference."""


@dataclass(frozen=True)
class Walks:
    """Settings of one collection of paired rollouts."""

    game: str
    coupling: str
    seed: int
    held_out: bool
    quick: bool = False

    @property
    def plan(self) -> WalkPlan:
        """Plan of the rollouts. With length 22, γ^22 = 0.1: truncation removes about 1% of a variance."""
        if not self.held_out:
            return WalkPlan(visits=100, spacing=8, repeats=2, length=12)
        if self.game in PAPER:
            return WalkPlan(visits=6, spacing=60, repeats=28, length=22)
        return WalkPlan(visits=18, spacing=60, repeats=18, length=22)

    @property
    def name(self) -> str:
        """Name of its file."""
        part = "hold_out" if self.held_out else "learn"
        made_by = identity(self.plan, self.blocks, NOISE, LOADING, version("ale-py"))
        return f"{self.game}-{self.coupling}-{self.seed}-{part}-{made_by.hex()[:8]}"

    @property
    def blocks(self) -> int:
        """Blocks of the plan: 1,500 training states; 54 held-out ones per data seed, or 162 for one. Quick: 200, 12."""
        if self.quick:
            return 2
        return 9 if self.held_out else 15


@dataclass(frozen=True)
class Run:
    """Settings of one network."""

    game: str
    coupling: str
    c: float  # weight of the game's own reward; the shock's is 1
    seed: int
    kernel: str
    quick: bool = False  # little data and few updates, for a test run

    @property
    def learn(self) -> Walks:
        """Training data."""
        return Walks(self.game, self.coupling, self.seed, False, self.quick)

    @property
    def held_out(self) -> list[Walks]:
        """Held-out data: of its own data seed, or of all three if the game has only one network."""
        seeds = SEEDS if self.coupling == "Local" and self.game in PAPER else (self.seed,)
        return [Walks(self.game, self.coupling, seed, True, self.quick) for seed in seeds]

    @property
    def method(self) -> jmdp.NeuralGram:
        """Settings of training."""
        updates = 100 if self.quick else 600
        return jmdp.NeuralGram(seed=self.seed, kernel=self.kernel, updates=updates)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """Name of its file."""
        versions = [version(package) for package in ("jmdp", "jax")]
        made_by = identity(self.method, self.learn.name, [walks.name for walks in self.held_out], AHEAD, versions)
        return f"{self.game}-{self.coupling}-{self.c:g}-{self.seed}-{self.kernel}-{made_by.hex()[:8]}"


SEEDS = (11, 12, 13)


def runs() -> Iterator[Run]:
    """Yield all networks: three data seeds for the paper's games under Synchronous, one for all others."""
    for game in PAPER:
        for c in (0.1, 1.0):
            yield from (Run(game, "Synchronous", c, seed, "sum") for seed in SEEDS)
            yield Run(game, "Synchronous", c, SEEDS[0], "gram")
        yield from (Run(game, "Local", 0.1, SEEDS[0], kernel) for kernel in ("sum", "gram"))
    for game in FURTHER:
        yield from (Run(game, "Synchronous", c, SEEDS[0], "sum") for c in (0.1, 1.0))


def simulator(game: str) -> ALESimulator:
    """Return the simulator of a game with clipped rewards and the reward shock."""
    spread = loadings(ALESimulator(game).actions.size).std()
    return ALESimulator(game, clip_rewards=True, shared_noise=NOISE, action_noise=NOISE * LOADING / spread)


def loadings(actions: int) -> np.ndarray:
    """Return the weights of the shock per action, as in `ALESimulator`."""
    return np.linspace(-1.0, 1.0, actions)
