"""Simulate paired rollouts of every game, coupling and data seed, and store them in files."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np

from jmdp import Shock, as_policy
from jmdp.base.whole_files import whole_file
from jmdp.simulators import PairedRollouts, PairWalks
from reproduction.atari.settings import COUPLINGS, NOISE, Walks, simulator


def collect(wanted: Walks, folder: Path, workers: int, progress: bool = True) -> None:
    """Simulate the rollouts and save them, unless their file exists."""
    path = path_of(wanted, folder)
    if path.exists():
        return
    emulator = simulator(wanted.game)
    actor = as_policy("uniform", emulator.actions)
    rollouts = PairedRollouts(emulator, actor, COUPLINGS[wanted.coupling])
    purpose = b"held out" if wanted.held_out else b"walks"
    seed = Shock.of_sample(wanted.seed, 0).derived(purpose).seed()
    walks = rollouts.collect(wanted.plan, seed=seed, blocks=wanted.blocks, pool=workers, progress=progress)
    with whole_file(path) as file:
        np.savez(file, **{field.name: getattr(walks, field.name) for field in fields(walks)})


def path_of(walks: Walks, folder: Path) -> Path:
    """Return the path of the file of these rollouts."""
    return folder / "walks" / f"{walks.name}.npz"


def load(walks: Walks, folder: Path, c: float, *, shock: bool = True) -> PairWalks:
    """Load rollouts with the reward c · points + shock, in units of the points: points + shock/c, or points alone."""
    with np.load(path_of(walks, folder)) as file:
        arrays = {name: file[name] for name in file.files}
    points = np.round(arrays["reward"])
    added = (arrays["reward"] - points) / (NOISE * c) if shock else 0.0
    return PairWalks(**{**arrays, "reward": points + added})
