"""Bounds on the law of a gap from its moments alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jmdp.interval import Interval


def cantelli(mean: float, variance: float) -> float:
    """Upper bound on P(G ≤ 0) from a lower bound on E[G] and an upper bound on Var G.

    P(G ≤ 0) ≤ σ²/(σ² + μ²) for μ > 0, and 1 otherwise; rounded up.
    """
    if not mean > 0:
        return 1.0
    # σ²/(σ² + μ²) = 1/(1 + (μ/σ)²) and neither square can overflow in this form.
    if variance == 0:
        return 0.0
    ratio = mean / math.sqrt(variance)
    return min(1.0, (1 + 2**-50) / (1 + ratio * ratio))


def cdf_bounds(x: float, moments: Sequence[Interval], support: Interval) -> Interval:
    """Bounds on P(X ≤ x) from intervals of E[X^k], k = 0, 1, …, for X in the support."""
    raise NotImplementedError


def cvar_bounds(p: float, moments: Sequence[Interval], support: Interval) -> Interval:
    """Bounds on the mean of the worst p of X, from intervals of E[X^k], k = 0, 1, …, for X in the support."""
    raise NotImplementedError
