"""Learning curves: TD errors per window of a run."""

from __future__ import annotations

from dataclasses import dataclass

from jmdp.base import arrays
from jmdp.base.arrays import Floats


@dataclass(frozen=True, eq=False)
class LearningCurve(arrays.FrozenArrays):
    """TD errors δ = target − estimate of each block, averaged over windows of the run.

    `rms` decreases to the noise of a single sample. In `drift` the noise averages out, so it decreases further.
    """

    blocks: tuple[str, ...]  # the paper's kinds of coordinates
    updates: Floats  # [T], number of updates at the end of the window
    rms: Floats  # [T, blocks], root mean square of δ; nan if a block had no update
    drift: Floats  # [T, blocks], mean of δ
    floor: Floats | None = None  # [blocks], rms of δ due to the noise of a single sample, if measured

    def __post_init__(self) -> None:
        for array in (self.updates, self.rms, self.drift, self.floor):
            if array is not None:
                arrays.frozen(array)
