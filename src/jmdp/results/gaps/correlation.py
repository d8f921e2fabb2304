"""Intervals of correlations."""

from __future__ import annotations

import math

from jmdp.base.interval import Interval


def clipped(correlation: float, error: float) -> Interval:
    """Correlation ± error, as far as that is between −1 and 1."""
    wide = Interval.around(correlation, error)
    return Interval(max(-1.0, wide.low), min(1.0, wide.high))


def fisher(correlation: float, error: float) -> Interval:
    """Interval of a sampled correlation with this error, on Fisher's scale, where it is nearly symmetric."""
    if abs(correlation) >= 1 or error == 0 or error > 1 - correlation * correlation:  # beyond what that scale is for
        return clipped(correlation, error)
    middle, radius = math.atanh(correlation), error / (1 - correlation * correlation)
    flat = clipped(correlation, error)  # Fisher's scale never reaches ±1, where actions that share all their luck are
    return Interval(min(flat.low, math.tanh(middle - radius)), max(flat.high, math.tanh(middle + radius)))
