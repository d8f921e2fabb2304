"""Confidence intervals of correlations."""

from __future__ import annotations

import math

from jmdp.base.interval import Interval


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
