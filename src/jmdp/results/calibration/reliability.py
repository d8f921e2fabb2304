"""Split-half reliability of simulated gaps: expected correlation with a second simulation of the same size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.results.calibration import bootstrap

_HALVINGS = 16


def halves(gap: Floats, seeds: Sequence[int]) -> list[tuple[Floats, Floats]]:
    """Random splits of simulated gaps [M, n] into two halves, the same in all states; an odd rollout is dropped."""
    n = gap.shape[1]
    half, generator = n // 2, bootstrap.generator(seeds, b"halves of rollouts")
    orders = [generator.permutation(n) for _ in range(_HALVINGS)]
    return [(gap[:, order[:half]], gap[:, order[half : 2 * half]]) for order in orders]


def of_all(correlations: Sequence[Floats] | Floats, rollouts: int) -> Floats:
    """Spearman–Brown reliability k r/(1 + (k − 1) r), with r the mean split-half correlation and k = n/(n // 2)."""
    longer, r = rollouts / (rollouts // 2), np.maximum(np.mean(correlations, axis=0), 0.0)
    return np.asarray(longer * r / (1 + (longer - 1) * r))
