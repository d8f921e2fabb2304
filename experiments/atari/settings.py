"""What the Atari experiment is: games, luck, data. Chosen on other seeds than those here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import jmdp
from jmdp.pair_walks import WalkPlan
from jmdp.simulators import ALESimulator

PAPER = ("pong", "battle_zone", "boxing", "atlantis")
FURTHER = ("breakout", "space_invaders", "freeway", "asterix", "seaquest", "ms_pacman")
"""Named before any of them was run."""

REGIMES = {"Synchronous": jmdp.Synchronous(), "Local": jmdp.Local()}

NOISE = 1e-3
"""Walks are kept with the paper's reward shock at this scale: clipped points are whole numbers, so both can be told
apart afterwards, and one collection serves every weight c of the game's own reward."""


LEARN = WalkPlan(visits=100, spacing=8, lucks=2, length=12)
HOLD_OUT = WalkPlan(visits=6, spacing=60, lucks=28, length=22)
"""γ^22 is a tenth: a hundredth of a variance is cut off."""


@dataclass(frozen=True)
class Experiment:
    """Sizes and seeds."""

    discount: float = 0.9
    loading: float = 0.1  # standard deviation of the shock's part that depends on the action, as a share of the other
    learn: WalkPlan = LEARN
    learn_blocks: int = 15
    hold_out: WalkPlan = HOLD_OUT
    hold_out_blocks: int = 9  # 54 states for each of three data seeds
    ahead: int = 8  # of the walks from a held-out state, those for looking ahead; the others are the truth
    seeds: tuple[int, ...] = (11, 12, 13)


def simulator(game: str, loading: float) -> ALESimulator:
    """A game with clipped rewards and the shock; actions' loadings have standard deviation `loading`."""
    spread = loadings(ALESimulator(game).actions.size).std()
    return ALESimulator(game, clip_rewards=True, shared_noise=NOISE, action_noise=NOISE * loading / spread)


def loadings(actions: int) -> np.ndarray:
    """As ALESimulator has them."""
    return np.linspace(-1.0, 1.0, actions)
