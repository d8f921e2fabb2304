"""How well a simulation would agree with another one as long: the agreement of its two halves, stepped up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.results.calibration import bootstrap

_HALVINGS = 16


def halves(gap: Floats, seeds: Sequence[int]) -> list[tuple[Floats, Floats]]:
    """Simulated gaps [M, n] of two halves of the rollouts, the same halves in all states; an odd one is left out."""
    n = gap.shape[1]
    half, generator = n // 2, bootstrap.generator(seeds, b"halves of rollouts")
    orders = [generator.permutation(n) for _ in range(_HALVINGS)]
    return [(gap[:, order[:half]], gap[:, order[half : 2 * half]]) for order in orders]


def of_all(correlations: Sequence[Floats] | Floats, rollouts: int) -> Floats:
    """Spearman and Brown's k r/(1 + (k − 1) r) of the mean r of halves, for k times as many rollouts as in a half."""
    longer, r = rollouts / (rollouts // 2), np.maximum(np.mean(correlations, axis=0), 0.0)
    return np.asarray(longer * r / (1 + (longer - 1) * r))
