"""Walks of every game, regime and data seed, kept in files: the emulator's part of the work."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path

import numpy as np

from experiments.atari.settings import NOISE, REGIMES, Experiment, simulator
from jmdp.actors.as_policy import UniformPolicy, as_policy
from jmdp.pair_walks import PairWalks
from jmdp.walk_workers import Walkers


def collect(game: str, regime: str, seeds: tuple[int, ...], experiment: Experiment, folder: Path, workers: int) -> None:
    """What is not there yet."""
    wanted = [(seed, part) for seed in seeds for part in ("learn", "hold_out")]
    missing = [(seed, part) for seed, part in wanted if not path_of(folder, game, regime, seed, part).exists()]
    if not missing:
        return
    emulator = simulator(game, experiment.loading)
    actor = as_policy(UniformPolicy(), emulator.actions)
    with Walkers(emulator, actor, REGIMES[regime], workers=workers) as walkers:
        for seed, part in missing:
            start = time.monotonic()
            plan, blocks = getattr(experiment, part), getattr(experiment, f"{part}_blocks")
            walks = walkers.collect(plan, seed=2 * seed + (part == "hold_out"), blocks=blocks)
            path = path_of(folder, game, regime, seed, part)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.with_suffix(".part").open("wb") as file:
                np.savez(file, **{field.name: getattr(walks, field.name) for field in fields(walks)})
            path.with_suffix(".part").rename(path)
            steps = walks.reward.size + blocks * plan.visits * plan.spacing
            seconds = time.monotonic() - start
            print(
                f"{game} {regime} {seed} {part}: {steps:,} steps, {seconds:.0f} s, {steps / seconds:.0f}/s", flush=True
            )


def path_of(folder: Path, game: str, regime: str, seed: int, part: str) -> Path:
    """Where walks are kept."""
    return folder / "walks" / f"{game}-{regime}-{seed}-{part}.npz"


def load(folder: Path, game: str, regime: str, seed: int, part: str, c: float) -> PairWalks:
    """Walks whose reward is c · points + shock, in units of the points: points + shock/c."""
    with np.load(path_of(folder, game, regime, seed, part)) as file:
        arrays = {name: file[name] for name in file.files}
    points = np.round(arrays["reward"])
    return PairWalks(**{**arrays, "reward": points + (arrays["reward"] - points) / (NOISE * c)})
