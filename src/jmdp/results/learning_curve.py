"""What a method that learns step by step has to tell of its way."""

from __future__ import annotations

from dataclasses import dataclass

from jmdp.base import arrays
from jmdp.base.arrays import Floats


@dataclass(frozen=True, eq=False)
class LearningCurve(arrays.FrozenArrays):
    """TD errors δ = target − estimate of each block, averaged over windows of the run.

    `rms` falls to the noise of one sample and stays there; `drift`, in which noise averages out, goes on falling.
    """

    blocks: tuple[str, ...]  # the paper's kinds of coordinates
    updates: Floats  # [T], how many were done when the window ended
    rms: Floats  # [T, blocks], root mean square of δ; nan where a block had no update
    drift: Floats  # [T, blocks], mean of δ
    floor: Floats | None = None  # [blocks], rms of δ that the noise of one sample leaves, where it was measured

    def __post_init__(self) -> None:
        for array in (self.updates, self.rms, self.drift, self.floor):
            if array is not None:
                arrays.frozen(array)
