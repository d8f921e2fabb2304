"""Rare losses that cancel a steady advantage: what verdicts say of them while they have not been seen.

The true mean gap is 0. It has the other sign than any verdict if it is changed by next to nothing, so every verdict
counts as wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.statistics.anytime import Unseen, with_largest_loss
from jmdp.statistics.means import Sampling

_COLUMNS = 250
"""Comparisons simulated at a time."""


@dataclass(frozen=True)
class RareLoss:
    """The new alternative returns chance × loss more than the old one, and `loss` less with this chance."""

    loss: float
    chance: float
    size: float  # of a return
    common: float  # standard deviation of what both returns have in common
    own: float  # standard deviation of the gap otherwise


RARE_LOSSES = {
    **{
        f"loss of 10 in 1 of {runs}, gap std {own:g}": RareLoss(10.0, 1 / runs, 10.0, 1.0, own)
        for runs in (30, 100, 300)
        for own in (0.05, 0.3, 1.0)
    },
    **{
        f"crash from 200 in 1 of 201, {kind} std {std}": RareLoss(201.0, 1 / 201, 200.0, common, own)
        for std in (0, 5, 20, 60)
        for kind, common, own in (("shared", std, 0.5), ("gap", 0.0, std))
    },
}


@dataclass(frozen=True)
class Verdicts:
    """[runs] each: what comparisons that stop at their first verdict say, or those that go on to the last look."""

    given: np.ndarray  # a verdict
    false: np.ndarray  # a sentence that is false: the loss was seen, costs no more, or happens more often than it says
    firm: np.ndarray  # a verdict called firm
    ever_false: np.ndarray
    ever_firm: np.ndarray
    with_loss: np.ndarray  # a verdict although the right `largest_loss` is given

    @property
    def rates(self) -> dict[str, float]:
        return {name: float(values.mean()) for name, values in vars(self).items()}


def verdicts(rare: RareLoss, runs: int, seed: int, at: list[int], sampling: Sampling | None = None) -> Verdicts:
    """Simulate comparisons that look at these sample sizes."""
    found = [
        _block(rare, min(_COLUMNS, runs - first), np.random.default_rng([seed, first]), at, sampling or Sampling())
        for first in range(0, runs, _COLUMNS)
    ]
    return Verdicts(*np.concatenate(found, axis=1))


def _block(
    rare: RareLoss, runs: int, rng: np.random.Generator, at: list[int], sampling: Sampling, error: float = 0.05
) -> np.ndarray:
    shape, advantage = (max(at), runs), rare.chance * rare.loss
    lost = rng.random(shape) < rare.chance
    old = rare.size + rare.common * rng.standard_normal(shape)
    gaps = advantage + rare.own * rng.standard_normal(shape) - rare.loss * lost
    seen, largest = np.logical_or.accumulate(lost), np.maximum.accumulate(np.maximum(abs(old), abs(old + gaps)))
    found = np.zeros((6, runs), dtype=bool)
    for n in at:
        mean, (below, above) = gaps[:n].mean(axis=0), sampling.mean_errors(gaps[:n], error)
        up, down = mean > below, -mean > above
        low = np.where(up, mean - np.where(up, below, 0), 0) - np.where(down, mean + np.where(down, above, 0), 0)
        unseen = Unseen(low, n, largest[n - 1])
        excused = ~seen[n - 1] & (unseen.break_even < rare.loss - advantage) & (rare.chance <= unseen.chance)
        false, firm = (up & ~excused) | down, (up | down) & unseen.firm
        stops = (up | down) & ~found[0]
        allowed = [with_largest_loss(off, rare.loss, n, error) for off in (below, above)]
        found |= [up | down, stops & false, stops & firm, false, firm, (mean > allowed[0]) | (-mean > allowed[1])]
    return found
