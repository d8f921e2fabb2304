"""Confidence intervals from the averages of successive batches of one run.

Batches that are long compared with the memory time of the iterates have nearly independent averages. The standard error
of a smooth function of the moments is then that of its linear part, evaluated batch by batch: for a covariance
Σ(x,y) − μ(x)μ(y), that of Σ_b(x,y) − μ(y)μ_b(x) − μ(x)μ_b(y). Intervals use Student's t with one degree of freedom less
than there are batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats

_LITTLE, _FEWEST = 1.1, 8


@dataclass(frozen=True, eq=False)
class Moments:
    """Estimates in non-terminal states, [L, A] or [L, A, A], each with the half width of its interval."""

    mean: Floats
    mean_error: Floats
    covariance: Floats
    covariance_error: Floats
    gap_mean_error: Floats
    gap_variance_error: Floats
    correlation_error: Floats
    mean_floor: float = 0.0  # part of the errors that is due to rounding
    covariance_floor: float = 0.0

    @classmethod
    def none(cls, actions: int) -> Moments:
        """Moments of zero states."""
        row, square = np.zeros((0, actions)), np.zeros((0, actions, actions))
        return cls(row, row, square, square, square, square, square)


def from_batches(
    mean: Floats,  # [L, A], over all batches
    product: Floats,  # [L, A, A]
    batch_mean: Floats,  # [B, L, A], nan where a batch had no update
    batch_product: Floats,  # [B, L, A, A]
    mean_times: Floats,  # [L, A], length of all batches in memory times
    product_times: Floats,  # [L, A, A]
    confidence: float,
) -> Moments:
    """Moments with their errors; an error is infinite if a batch is empty."""

    def error(batches: Floats, times: Floats) -> Floats:
        return half_widths(batches, times, confidence)

    covariance = product - mean[:, :, None] * mean[:, None, :]
    means = batch_mean - mean
    tilt = means[:, :, :, None] * mean[:, None, :]
    covariances = batch_product - product - tilt - tilt.transpose(0, 1, 3, 2)
    own, own_batches = np.einsum("laa->la", covariance), np.einsum("blaa->bla", covariances)
    scale = 1 / np.sqrt(np.where(own > 0, own, np.inf))
    correlation = covariance * scale[:, :, None] * scale[:, None, :]
    relative = own_batches * scale * scale
    halves = (relative[:, :, :, None] + relative[:, :, None, :]) / 2
    correlations = covariances * scale[:, :, None] * scale[:, None, :] - correlation * halves
    own_times = np.einsum("laa->la", product_times)
    all_times = np.minimum(product_times, np.minimum(own_times[:, :, None], own_times[:, None, :]))
    return Moments(
        mean,
        error(means, mean_times),
        covariance,
        error(covariances, product_times),
        error(means[:, :, :, None] - means[:, :, None, :], np.minimum(mean_times[:, :, None], mean_times[:, None, :])),
        error(own_batches[:, :, :, None] + own_batches[:, :, None, :] - 2 * covariances, all_times),
        error(correlations, all_times),
    )


def half_widths(batches: Floats, times: Floats, confidence: float) -> Floats:
    """Half widths of intervals around averages over all batches [B, …], of `times` […] memory times in total.

    Correlation between neighbouring batches makes the variance of averages of two of them larger than half. The ratio
    is estimated from all quantities together. Batches are joined until it is near 1, and the remaining excess is
    extrapolated (batches of twice the length would miss half of it: σ² ≈ 2 σ²(2b) − σ²(b)). Intervals of quantities
    with a longer memory than most are widened in proportion. If batches are shorter than the memory time, the memory
    time alone determines the widening.
    """
    from scipy.special import stdtrit

    p, B = (1 + confidence) / 2, batches.shape[0]
    excess = _excess(times, B)
    short = np.sqrt(batches.var(axis=0, ddof=1) / B * excess) * stdtrit(np.clip(times, 1, B - 1), p)
    while True:
        pairs = (batches[0::2] + batches[1::2]) / 2
        single, paired = (part.var(axis=0, ddof=1) / part.shape[0] for part in (batches, pairs))
        seen = single > 0
        ratio = float((paired[seen] / single[seen]).mean()) if seen.any() else 1.0
        if ratio <= _LITTLE or pairs.shape[0] <= _FEWEST // 2:
            break
        batches = pairs
    usual = float(np.median(excess))
    more = max(1.0, 2 * ratio - 1) * np.maximum(1.0, excess / usual if usual < np.inf else 1.0)
    long = np.sqrt(single * more) * float(stdtrit(batches.shape[0] - 1, p))
    widths = np.where(times < B, np.maximum(short, long), long)
    return np.where((times < 1) | ~np.isfinite(widths), np.inf, widths)


def _excess(times: Floats, B: int) -> Floats:
    """Ratio of the variance of an average over B batches to its estimate under independence; ≥ 1.

    If correlations decay like e^−t, the variance of an average over y memory times is proportional to
    f(y) = (1 − (1 − e^−y)/y)/y. So the sample variance of batches is proportional to f(y/B) − f(y), times B/(B − 1).
    """
    y = np.clip(times, 1e-3, 1e6)
    whole, part = _averaged(y), _averaged(y / B)
    return np.asarray((B - 1) * whole / (part - whole))


def _averaged(y: Floats) -> Floats:
    return (1 - -np.expm1(-y) / y) / y
