"""What the Atari experiment is: games, luck, data. Settings of learning were chosen on other seeds than those here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

import jmdp
from jmdp.base.identity import identity
from jmdp.simulators import ALESimulator, WalkPlan

PAPER = ("pong", "battle_zone", "boxing", "atlantis")
FURTHER = ("breakout", "space_invaders", "freeway", "asterix", "seaquest", "ms_pacman")
"""Named before any of them was run."""

COUPLINGS = {"Synchronous": jmdp.Synchronous(), "Local": jmdp.Local()}

DISCOUNT = 0.9
LOADING = 0.1
"""Standard deviation over actions of what the shock pays more or less, as a share of what it pays on average."""

NOISE = 1e-3
"""Walks are kept with the paper's reward shock at this scale: clipped points are whole numbers, so both can be told
apart afterwards, and one collection serves every weight c of the game's own reward."""

AHEAD = 8
"""Of the walks from a held-out state, those for looking ahead; the others are the truth."""


@dataclass(frozen=True)
class Walks:
    """One collection."""

    game: str
    coupling: str
    seed: int
    held_out: bool
    quick: bool = False

    @property
    def plan(self) -> WalkPlan:
        """γ^22 is a tenth: a hundredth of a variance is cut off from the truth."""
        if not self.held_out:
            return WalkPlan(visits=100, spacing=8, repeats=2, length=12)
        if self.game in PAPER:
            return WalkPlan(visits=6, spacing=60, repeats=28, length=22)
        return WalkPlan(visits=18, spacing=60, repeats=18, length=22)

    @property
    def name(self) -> str:
        """Of its file."""
        part = "hold_out" if self.held_out else "learn"
        made_by = identity(self.plan, self.blocks, NOISE, LOADING, version("ale-py"))
        return f"{self.game}-{self.coupling}-{self.seed}-{part}-{made_by.hex()[:8]}"

    @property
    def blocks(self) -> int:
        """1,500 states to learn from; 54 held out for each of three data seeds, or 162 for one. Quick: 200 and 12."""
        if self.quick:
            return 2
        return 9 if self.held_out else 15


@dataclass(frozen=True)
class Run:
    """One network."""

    game: str
    coupling: str
    c: float  # weight of the game's own reward; the shock's is 1
    seed: int
    kernel: str
    quick: bool = False  # little data and few updates, to see that it runs

    @property
    def learn(self) -> Walks:
        """What it learns from."""
        return Walks(self.game, self.coupling, self.seed, False, self.quick)

    @property
    def held_out(self) -> list[Walks]:
        """Where it is judged: states of its own data seed, or of all three where one network speaks for the game."""
        seeds = SEEDS if self.coupling == "Local" and self.game in PAPER else (self.seed,)
        return [Walks(self.game, self.coupling, seed, True, self.quick) for seed in seeds]

    @property
    def method(self) -> jmdp.NeuralGram:
        """How it learns."""
        updates = 100 if self.quick else 600
        return jmdp.NeuralGram(seed=self.seed, kernel=self.kernel, updates=updates)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """Of its file."""
        versions = [version(package) for package in ("jmdp", "jax")]
        made_by = identity(self.method, self.learn.name, [walks.name for walks in self.held_out], AHEAD, versions)
        return f"{self.game}-{self.coupling}-{self.c:g}-{self.seed}-{self.kernel}-{made_by.hex()[:8]}"


SEEDS = (11, 12, 13)


def runs() -> Iterator[Run]:
    """All of them: three data seeds for the paper's games under Synchronous luck, one for everything else."""
    for game in PAPER:
        for c in (0.1, 1.0):
            yield from (Run(game, "Synchronous", c, seed, "sum") for seed in SEEDS)
            yield Run(game, "Synchronous", c, SEEDS[0], "gram")
        yield from (Run(game, "Local", 0.1, SEEDS[0], kernel) for kernel in ("sum", "gram"))
    for game in FURTHER:
        yield from (Run(game, "Synchronous", c, SEEDS[0], "sum") for c in (0.1, 1.0))


def simulator(game: str) -> ALESimulator:
    """A game with clipped rewards and the shock."""
    spread = loadings(ALESimulator(game).actions.size).std()
    return ALESimulator(game, clip_rewards=True, shared_noise=NOISE, action_noise=NOISE * LOADING / spread)


def loadings(actions: int) -> np.ndarray:
    """As ALESimulator has them."""
    return np.linspace(-1.0, 1.0, actions)
