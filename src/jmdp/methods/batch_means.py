"""Confidence intervals from the averages of successive batches of one run.

Batches that are long beside the memory of the iterates have nearly independent averages. Any smooth function of the
moments is then as uncertain as its linear part, evaluated batch by batch: a covariance Σ(x,y) − μ(x)μ(y) as
Σ_b(x,y) − μ(y)μ_b(x) − μ(x)μ_b(y). Student's t with one degree of freedom less than there are batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.arrays import Floats

_LITTLE, _FEWEST = 1.1, 8


@dataclass(frozen=True, eq=False)
class Moments:
    """Estimates in states that go on, [L, A] or [L, A, A], each with the half width of its interval."""

    mean: Floats
    mean_error: Floats
    covariance: Floats
    covariance_error: Floats
    gap_mean_error: Floats
    gap_variance_error: Floats
    correlation_error: Floats

    @classmethod
    def none(cls, actions: int) -> Moments:
        """Of no state at all."""
        square = np.zeros((0, actions, actions))
        return cls(square[:, 0], square[:, 0], *[square] * 5)


def from_batches(
    mean: Floats,  # [L, A], over all batches
    product: Floats,  # [L, A, A]
    batch_mean: Floats,  # [B, L, A], nan where a batch had no update
    batch_product: Floats,  # [B, L, A, A]
    confidence: float,
) -> Moments:
    """Moments with their errors; an error is infinite where a batch is empty."""

    def error(batches: Floats) -> Floats:
        return half_widths(batches, confidence)

    covariance = product - mean[:, :, None] * mean[:, None, :]
    means = batch_mean - mean
    tilt = means[:, :, :, None] * mean[:, None, :]
    covariances = batch_product - product - tilt - tilt.transpose(0, 1, 3, 2)
    own, own_batches = np.einsum("laa->la", covariance), np.einsum("blaa->bla", covariances)
    scale = 1 / np.sqrt(np.where(own > 0, own, np.inf))
    correlation = covariance * scale[:, :, None] * scale[:, None, :]
    relative = own_batches * scale**2
    halves = (relative[:, :, :, None] + relative[:, :, None, :]) / 2
    correlations = covariances * scale[:, :, None] * scale[:, None, :] - correlation * halves
    return Moments(
        mean,
        error(means),
        covariance,
        error(covariances),
        error(means[:, :, :, None] - means[:, :, None, :]),
        error(own_batches[:, :, :, None] + own_batches[:, :, None, :] - 2 * covariances),
        error(correlations),
    )


def half_widths(batches: Floats, confidence: float) -> Floats:
    """Half widths of intervals around averages over all batches [B, …].

    What neighbouring batches have in common makes averages of pairs of them vary more than half as much. How much more
    is seen from all quantities together; batches are joined until it is little, and what it then still is, is added
    (twice as long batches would miss half of it: σ² ≈ 2 σ²(2b) − σ²(b)).
    """
    from scipy.special import stdtrit

    while True:
        B = batches.shape[0]
        pairs = (batches[0::2] + batches[1::2]) / 2
        single, paired = (part.var(axis=0, ddof=1) / part.shape[0] for part in (batches, pairs))
        seen = single > 0
        ratio = float((paired[seen] / single[seen]).mean()) if seen.any() else 1.0
        if ratio <= _LITTLE or B <= _FEWEST:
            break
        batches = pairs
    spread = np.sqrt(single * max(1.0, 2 * ratio - 1)) * float(stdtrit(B - 1, (1 + confidence) / 2))
    return np.where(np.isfinite(spread), spread, np.inf)
