"""The difference of two success rates from pairs: an exact test, and intervals.

Of n pairs, `first` succeeded with the first alternative alone and `second` with the second alone. The difference of the
rates is δ = p₁ − p₂, with p₁ and p₂ the probabilities of these two events; q = p₂ is the other parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval

MOST_EXACT = 50
"""Largest number of pairs with an exact interval."""

_GRID = 81
"""Values of q for which an exact probability is computed, at each of which its slope is small enough."""

_STEPS = 120
"""Values of δ on each side of the estimate among which the end of an exact interval is looked for."""

_HALVINGS = 40
"""Steps that narrow a bracket of an end."""


def mcnemar(first: int, second: int) -> float:
    """p-value of McNemar's exact test of equal rates: the discordant pairs are tosses of a fair coin."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(first, second), first + second, 0.5))) if first + second else 1.0


def unpaired(one: int, other: int, n: int) -> float:
    """p-value of the z-test of equal rates, of two independent samples of n with so many successes each."""
    from scipy.special import ndtr

    rate = (one + other) / (2 * n)
    if not 0 < rate < 1:
        return 1.0
    return 2 * float(ndtr(-abs(one - other) / math.sqrt(2 * n * rate * (1 - rate))))


@lru_cache(maxsize=4096)
def rate_interval(first: int, second: int, n: int, error: float) -> Interval:
    """Interval of δ: exact and unconditional up to 50 pairs, otherwise Tango's score interval.

    Both invert tests by the score statistic (Tango, "Equivalence test and confidence interval for the difference in
    proportions for the paired-sample design", Statistics in Medicine 1998). The exact one takes its largest tail
    probability over all q.
    """
    seen = (first - second) / n
    if n > MOST_EXACT:
        from scipy.special import ndtri

        z = -float(ndtri(error / 2))

        def refused(delta: float) -> bool:
            return abs(float(_score(first, second, n, delta))) > z

        return Interval(*(_end(refused, seen, end) for end in (-1.0, 1.0)))
    tables = _tables(n)

    def rejected(delta: float) -> bool:
        return _largest_tail(first, second, n, delta, tables) <= error

    ends = []
    for end in (-1.0, 1.0):  # the tail is not monotone in δ: the outermost δ that is kept counts
        steps = np.linspace(end, seen, _STEPS)
        kept = next((i for i, delta in enumerate(steps.tolist()) if not rejected(delta)), _STEPS - 1)
        outer = float(steps[max(0, kept - 1)])
        ends.append(_end(rejected, float(steps[kept]), outer) if kept else end)
    return Interval(*ends)


def _end(refused: Callable[[float], bool], inside: float, outside: float) -> float:
    """The end of an interval between a value inside and one outside of it, rounded outwards."""
    if not refused(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if refused(middle) else (middle, outside)
    return outside


def _score(first: Floats | int, second: Floats | int, n: int, delta: float) -> Floats:
    """Tango's statistic for δ, with q estimated by maximum likelihood for that δ; 0 where nothing deviates."""
    deviation = np.asarray(first - np.asarray(second) - n * delta, dtype=float)
    b = -np.asarray(first, dtype=float) - second + (2 * n - np.asarray(first) + second) * delta
    c = -np.asarray(second, dtype=float) * delta * (1 - delta)
    q = (np.sqrt(np.maximum(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
    variance = n * (2 * q + delta * (1 - delta))
    small = np.abs(deviation) <= 1e-12 * n
    with np.errstate(divide="ignore", invalid="ignore"):
        found = deviation / np.sqrt(np.maximum(variance, 0.0))
    return np.where(small, 0.0, found)


@lru_cache(maxsize=64)
def _tables(n: int) -> tuple[Floats, Floats, Floats]:
    """All tables of n pairs: numbers of both kinds of discordant pairs, and the logarithm of their multiplicity."""
    from scipy.special import gammaln

    first, second = (found.astype(float) for found in np.nonzero(np.add.outer(np.arange(n + 1), np.arange(n + 1)) <= n))
    many = gammaln(n + 1) - gammaln(first + 1) - gammaln(second + 1) - gammaln(n - first - second + 1)
    return first, second, many


def _largest_tail(first: int, second: int, n: int, delta: float, tables: tuple[Floats, Floats, Floats]) -> float:
    """The largest probability, over q, of tables that deviate from δ at least as much as this one."""
    a, b, many = tables
    far = np.abs(_score(a, b, n, delta)) >= abs(float(_score(first, second, n, delta))) * (1 - 1e-9)
    a, b, many = a[far], b[far], many[far]
    least, most = max(0.0, -delta), (1 - delta) / 2

    def tails(q: Floats) -> Floats:
        p = np.stack([q + delta, q, np.maximum(0.0, 1 - 2 * q - delta)])
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(p > 0, np.log(np.maximum(p, 1e-300)), -1e6)
        counts = np.stack([a, b, n - a - b])
        return np.asarray(np.exp(many[:, None] + counts.T @ logs).sum(axis=0))

    q = least + (most - least) * (1 - np.cos(np.linspace(0, math.pi, _GRID))) / 2
    found = tails(q)
    at = int(found.argmax())
    closer = np.linspace(q[max(0, at - 1)], q[min(_GRID - 1, at + 1)], 21)
    return float(max(found[at], tails(closer).max()))
