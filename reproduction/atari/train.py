"""Train networks on stored rollouts, and save their calibration in held-out states, one file per run."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from jmdp.base.whole_files import whole_file
from jmdp.methods.neural_gram import LookaheadRollouts, TrainingData, calibration_of, equivalent_rollouts, train
from jmdp.results import Calibration
from jmdp.simulators import ALESimulator, PairWalks
from reproduction.atari.collect import load
from reproduction.atari.settings import AHEAD, DISCOUNT, LOADING, Run, loadings

LOOKAHEAD_STEPS = 8


def train_and_judge(run: Run, folder: Path) -> None:
    """Train a network and save its calibration, unless its file exists."""
    path = record_path(run, folder)
    if path.exists():
        return
    start = time.monotonic()
    walks = load(run.learn, folder, run.c)
    held_out = PairWalks.joined([load(part, folder, run.c) for part in run.held_out])
    actions = ALESimulator(run.game).actions.size
    found = train(run.method, TrainingData(walks, None, actions, DISCOUNT))
    repeats = int((held_out.visit == 0).sum())
    ahead, truth = (_some(held_out, repeats, which) for which in (range(AHEAD), range(AHEAD, repeats)))
    pair = truth.action[:: repeats - AHEAD, 0]
    closed = closed_form(run.coupling, actions, pair, run.c)
    alone = calibration_of(found.network, truth, DISCOUNT, run.seed, closed)
    rollouts = equivalent_rollouts(calibration_of(found.network, ahead, DISCOUNT, run.seed))
    means, covariances = LookaheadRollouts.of_walks(ahead, LOOKAHEAD_STEPS, DISCOUNT).moments(found.network, rollouts)
    mean = means[:, 0] - means[:, 1]
    variance = covariances[:, 0, 0] + covariances[:, 1, 1] - 2 * covariances[:, 0, 1]
    with whole_file(path) as file:
        np.savez(
            file,
            first=alone.first, second=alone.second, mean=alone.mean, variance=alone.variance,
            independent=alone.independent, returns=alone.returns, closed_form=closed,
            ahead_mean=mean, ahead_variance=variance,
            blocks=np.array(found.curve.blocks), updates=found.curve.updates, rms=found.curve.rms,
            drift=found.curve.drift,
            floor=np.asarray(found.curve.floor),
            about=json.dumps(
                {
                    **asdict(run), "equivalent_rollouts": rollouts, "gap_variance_scale": found.network.gap_scale**2,
                    "seconds": time.monotonic() - start, "states": len(pair),
                }
            ),
        )  # fmt: skip


def record_path(run: Run, folder: Path) -> Path:
    """Return the path of the record of a run."""
    return folder / "records" / f"{run.name}.npz"


def records(path: Path) -> tuple[Calibration, Calibration, dict[str, object]]:
    """Load a record: calibration of the network alone and with a lookahead, and the settings of the run."""
    with np.load(path) as file:
        saved = {name: file[name] for name in file.files}
    about = json.loads(str(saved["about"]))
    alone = Calibration(
        np.arange(len(saved["first"])), saved["first"], saved["second"], saved["mean"], saved["variance"],
        saved["independent"], saved["returns"], about["seed"], saved["closed_form"],
    )  # fmt: skip
    return alone, replace(alone, mean=saved["ahead_mean"], variance=saved["ahead_variance"]), about


def closed_form(coupling: str, actions: int, pair: np.ndarray, c: float) -> np.ndarray:
    """Closed form of Var(gap) from the shock's scale, for a game without points whose branches never merge."""
    spread = loadings(actions)
    loading = LOADING * spread / spread.std()
    later = DISCOUNT**2 / (1 - DISCOUNT**2)
    each_step = loading.var() if coupling == "Synchronous" else 1 + loading.var()
    return np.asarray((np.diff(loading[pair], axis=1)[:, 0] ** 2 + 2 * each_step * later) / c**2)


def _some(walks: PairWalks, repeats: int, which: range) -> PairWalks:
    chosen = np.isin(np.arange(len(walks)) % repeats, which)
    return PairWalks(*(getattr(walks, name)[chosen] for name in walks.__dataclass_fields__))
