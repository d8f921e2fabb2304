"""One run of learning in a folder, which may kill itself: ``training_worker.py FOLDER never|report N|save N SECONDS``.

The digest of what was learned comes out; of a run that is killed nothing does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import jax
import numpy as np

from jmdp.base.labels import identity
from jmdp.methods.neural_gram.checkpoints import Checkpoints, Tracker
from jmdp.methods.neural_gram.encoders import OneHot
from jmdp.methods.neural_gram.neural_gram import NeuralGram
from jmdp.methods.neural_gram.training_loop import CHUNK, TrainingData, train
from methods.neural_gram.gram_cases import WORLD, walks

METHOD = NeuralGram(seed=1, updates=10 * CHUNK, batch=16, rank=2, encoder=OneHot(4), length=6)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(Checkpoints):
    """Saves as ever, while somebody waits to kill it: some seconds after a save of this number has begun."""

    def __init__(self, folder: Path, number: int, seconds: float) -> None:
        super().__init__(folder, b"a test")
        self._left, self._seconds = number, seconds

    def save(self, progress) -> None:
        self._left -= 1
        if self._left == 0:
            threading.Thread(target=lambda: (time.sleep(self._seconds), die()), daemon=True).start()
        super().save(progress)
        if self._left == 0:
            time.sleep(self._seconds + 1)


def main(folder: str, how: str, number: str = "0", seconds: str = "0") -> None:
    def report(updates: int) -> None:
        if how == "report" and updates >= int(number) * CHUNK:
            die()

    checkpoints = Dying(Path(folder), int(number) if how == "save" else 0, float(seconds))
    tracker = Tracker(Path(folder))
    data = TrainingData(walks(), walks(8, 8, seed=1), 4, WORLD.model.discount)
    found = train(METHOD, data, report=report, checkpoints=checkpoints, tracker=tracker)
    checkpoints.close()
    tracker.close()
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(found.network)]
    curve = found.curve
    print(identity(leaves, found.network.gap_scale, found.scores, curve.rms, curve.drift).hex())


if __name__ == "__main__":
    main(*sys.argv[1:])
