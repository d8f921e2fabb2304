"""Correlations and their intervals."""

from __future__ import annotations

import math

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval


def correlations(covariance: Floats, floor: Floats) -> Floats:
    """Correlations [S, A, A] from covariances [S, A, A]; nan where a variance is at most its `floor` [S, A].

    √v √v is not v, so covariances of returns with equal variances are divided by these: equal returns have exactly 1.
    """
    variance = np.einsum("saa->sa", covariance)
    variance = np.where(variance > floor, variance, np.nan)
    one, other = variance[:, :, None], variance[:, None, :]
    rho = np.clip(covariance / np.where(one == other, one, np.sqrt(one) * np.sqrt(other)), -1, 1)
    np.einsum("saa->sa", rho)[...] = np.where(np.isnan(variance), np.nan, 1.0)
    return np.asarray(rho)


def clipped(correlation: float, error: float) -> Interval:
    """Interval correlation ± error, clipped to [−1, 1]."""
    wide = Interval.around(correlation, error)
    return Interval(max(-1.0, wide.low), min(1.0, wide.high))


def fisher(correlation: float, error: float) -> Interval:
    """Interval of a sampled correlation with this error, from Fisher's z-transformation."""
    if abs(correlation) >= 1 or error == 0 or error > 1 - correlation * correlation:  # outside its domain
        return clipped(correlation, error)
    middle, radius = math.atanh(correlation), error / (1 - correlation * correlation)
    flat = clipped(correlation, error)  # tanh excludes ±1, the correlation of actions that share all randomness
    return Interval(min(flat.low, math.tanh(middle - radius)), max(flat.high, math.tanh(middle + radius)))
