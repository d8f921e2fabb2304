"""The fully sequential procedure of Kim & Nelson, compiled, because it compares all pairs after every sample.

"A fully sequential procedure for indifference-zone selection in simulation", ACM TOMACS 2001.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from jmdp.base.arrays import Booleans, Floats, Integers

FIRST_STAGE = 10
"""Samples of the first stage, from which the variances of all gaps are estimated once."""

_CHUNK = 32
"""Samples drawn at once; those after an elimination are drawn for eliminated alternatives too, but do not count."""


def eta(k: int, n0: int = FIRST_STAGE, error: float = 0.05) -> float:
    """Constant η = ((2 error/(k − 1))^(−2/(n₀ − 1)) − 1)/2 of the procedure, for c = 1."""
    return 0.5 * (math.pow(2 * error / (k - 1), -2 / (n0 - 1)) - 1)


def lasting(first: Floats, delta: float, error: float) -> Floats:
    """Number of samples [k, k] after which two alternatives are no longer considered close: h² S²_ij/δ².

    h² = 2 η (n₀ − 1), and S²_ij is the variance of the gap in the first stage [n₀, k].
    """
    n0, k = first.shape
    centred = first - first.mean(axis=1, keepdims=True)  # noise shared by all alternatives is in no gap
    covariance = np.atleast_2d(np.cov(centred.T))
    variance = np.diag(covariance)
    gaps = np.maximum(0.0, variance[:, None] + variance - 2 * covariance)
    return np.asarray(2 * eta(k, n0, error) * (n0 - 1) / delta**2 * gaps)


def kim_nelson(
    k: int, draw: Callable[[int, Integers], Floats], delta: float, error: float, n0: int = FIRST_STAGE
) -> tuple[int, int]:
    """Select one of k alternatives; return it and the rollouts of all alternatives.

    `draw(n, active)` returns the next n samples [n, active]. After r samples, alternative i is eliminated if the sum of
    another active one exceeds its own by more than δ/2 · max(0, h² S²_ij/δ² − r).
    """
    active = np.arange(k)
    first = draw(n0, active)
    limits, sums = lasting(first, delta, error), first.sum(axis=0)
    r, rollouts = n0, n0 * k
    keep = np.ones(k, dtype=bool)
    screen(sums, limits, r, delta, keep)
    while keep.sum() > 1:
        active, sums, limits = active[keep], sums[keep], np.ascontiguousarray(limits[np.ix_(keep, keep)])
        keep = np.ones(len(active), dtype=bool)
        used, more = follow(draw(_CHUNK, active), sums, limits, r, delta, keep)
        r, rollouts = r + used, rollouts + more
    return int(active[keep][0]), rollouts


@njit(cache=True)
def follow(
    samples: Floats, sums: Floats, limits: Floats, r: int, delta: float, keep: Booleans
) -> tuple[int, int]:  # pragma: no cover
    """Add samples [n, active] one by one to `sums` until one alternative is left; return samples and rollouts used."""
    used, rollouts, left = 0, 0, keep.sum()
    for sample in samples:
        used += 1
        rollouts += left
        for i in range(len(sums)):
            sums[i] += sample[i]
        left = screen(sums, limits, r + used, delta, keep)
        if left == 1:
            break
    return used, rollouts


@njit(cache=True)
def screen(sums: Floats, limits: Floats, r: int, delta: float, keep: Booleans) -> int:  # pragma: no cover
    """Unset `keep` of the alternatives that another kept one eliminates after r samples; return how many are left."""
    k = len(sums)
    out = np.zeros(k, dtype=np.bool_)
    left = 0
    for i in range(k):
        if not keep[i]:
            continue
        for j in range(k):
            if keep[j] and sums[j] - sums[i] > 0.5 * delta * max(0.0, limits[i, j] - r):
                out[i] = True
                break
        if not out[i]:
            left += 1
    for i in range(k):
        keep[i] = keep[i] and not out[i]
    return left
