"""Distributions with rational atoms and masses, whose answers are exact: the reference of bounds from moments."""

from __future__ import annotations

import math
from fractions import Fraction

from jmdp.base.interval import ANYWHERE, Interval

F = Fraction
INF = math.inf


class Discrete:
    """A distribution with rational atoms and masses, about its mean: every answer exact."""

    def __init__(self, atoms, masses, low=-INF, high=INF):
        total = sum(map(F, masses))
        masses = [F(w) / total for w in masses]
        mean = sum(F(t) * w for t, w in zip(atoms, masses, strict=True))
        self.atoms = [F(t) - mean for t in atoms]
        self.masses = masses
        self.support = Interval(outwards(low, mean).low, outwards(high, mean).high)

    def moment(self, k):
        return sum(w * t**k for t, w in zip(self.atoms, self.masses, strict=True))

    def moments(self, n):
        return [hull(self.moment(k)) for k in range(n + 1)]

    def cdf(self, x):
        return sum((w for t, w in zip(self.atoms, self.masses, strict=True) if t <= x), F(0))

    def below(self, x):
        return sum((w for t, w in zip(self.atoms, self.masses, strict=True) if t < x), F(0))

    def cvar(self, p):
        left, total = F(p), F(0)
        for t, w in sorted(zip(self.atoms, self.masses, strict=True)):
            total += t * min(w, left)
            left -= min(w, left)
        return total / F(p)


def hull(value):
    """The narrowest interval of floats."""
    near = float(value)
    if F(near) == value:
        return Interval(near, near)
    other = math.nextafter(near, INF if F(near) < value else -INF)
    return Interval(min(near, other), max(near, other))


def outwards(end, mean):
    return Interval(end, end) if math.isinf(end) else hull(F(end) - mean)


def random_distribution(rng):
    """A few atoms or many, clustered or spread, with no ends, one, both, at atoms or beyond."""
    n = int(rng.integers(2, 9))
    atoms = sorted({F(int(t), 16) for t in rng.integers(-64, 65, n) * rng.choice([1, 1, 4])})
    masses = [F(int(w)) for w in rng.integers(1, 1 + rng.choice([2, 100, 10**6]), len(atoms))]
    low = rng.choice([-INF, float(atoms[0]), float(atoms[0]) - 0.5])
    high = rng.choice([INF, float(atoms[-1]), float(atoms[-1]) + 2.0])
    return Discrete(atoms, masses, low, high)


def points(distribution, rng):
    """Between the atoms, at them, next to them and far away."""
    std = math.sqrt(distribution.moment(2))
    exact = float(distribution.atoms[int(rng.integers(len(distribution.atoms)))])
    return [
        rng.normal() * std, exact, math.nextafter(exact, INF), math.nextafter(exact, -INF), exact + 1e-5 * std,
        rng.normal() * 1e3 * std,
    ]  # fmt: skip


def widened(moments, rng, size):
    """Intervals that hold more than the truth, each end by itself; now and then one that says nothing."""
    result = moments[:1]
    for moment in moments[1:]:
        less, more = rng.random(2) ** 2 * size * max(abs(moment.low), abs(moment.high))
        result.append(Interval(moment.low - less, moment.high + more))
    if rng.random() < 0.1:
        result[int(rng.integers(1, len(result)))] = ANYWHERE
    return result


def random_problem(rng, n):
    """A distribution and intervals of its moments up to order n, half of the time wider than they need be."""
    distribution = random_distribution(rng)
    moments = distribution.moments(n)
    if rng.random() < 0.5:
        moments = widened(moments, rng, rng.choice([1e-12, 1e-3, 0.3, 3.0]))
    return distribution, moments
