"""Distributions of returns and gaps by enumeration of all that can happen, in exact rationals.

For models that end after finitely many steps, whose returns take finitely many values.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import jmdp
from jmdp.models.exact import ExactStep

PROBABILITIES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


class Enumeration:
    """Exact distributions {value: probability} of one model, policy and coupling."""

    def __init__(self, model, policy, coupling):
        self.step = ExactStep(model, policy, coupling)
        self.terminal = model.terminal
        self._returns, self._gaps = {}, {}

    def return_distribution(self, x):
        """The distribution of Z(x)."""
        if x not in self._returns:
            distribution = defaultdict(Fraction)
            if self.terminal[x[0]]:
                distribution[Fraction(0)] = Fraction(1)
            for p, _, r, n in self.step.one(x):
                for a, q in enumerate(self.step.policy[n]):
                    if q:
                        for z, chance in self.return_distribution((n, a)).items():
                            distribution[r + self.step.discount * z] += p * q * chance
            self._returns[x] = dict(distribution)
        return self._returns[x]

    def gap_distribution(self, x, y):
        """The distribution of Z(x) − Z(y) of two distinct branches."""
        if self.step.coalesced(x, y):
            return {Fraction(0): Fraction(1)}
        if self.terminal[x[0]]:
            return {-z: p for z, p in self.return_distribution(y).items()}
        if self.terminal[y[0]]:
            return self.return_distribution(x)
        if (x, y) not in self._gaps:
            distribution = defaultdict(Fraction)
            for w, r, n, u, m in self.step.two(x, y):
                for q, a, b in self.step.actions(n, m):
                    for g, chance in self.gap_distribution((n, a), (m, b)).items():
                        distribution[r - u + self.step.discount * g] += w * q * chance
            self._gaps[x, y] = dict(distribution)
        return self._gaps[x, y]


def cdf(distribution, x, *, strictly=False):
    return sum((p for v, p in distribution.items() if v < x or (v == x and not strictly)), Fraction(0))


def quantile(distribution, p):
    total = Fraction(0)
    for value in sorted(distribution):
        total += distribution[value]
        if total >= p:
            return value
    return max(distribution)


def cvar(distribution, p):
    left, total = p, Fraction(0)
    for value in sorted(distribution):
        taken = min(left, distribution[value])
        total += taken * value
        left -= taken
    return total / p


def around(distribution):
    """Thresholds at which a wrong distribution shows: at each of the largest atoms, beside it, and at 0."""
    atoms = sorted(distribution, key=distribution.get, reverse=True)[:8]
    for atom in atoms:
        x = float(atom)
        yield from (x, math.nextafter(x, -math.inf), math.nextafter(x, math.inf))
    yield 0.0


def distribution_violations(distribution, truth, name):
    """Every stated interval that does not contain the truth."""

    def check(what, estimate, right):
        if (
            not Fraction(estimate.low) <= right <= Fraction(estimate.high)
            or not estimate.low <= estimate <= estimate.high
        ):
            found.append(f"{what} of {name}: {estimate!r} for {float(right)!r}")

    found = []
    for x in around(truth):
        check(f"cdf({x!r})", distribution.cdf(x), cdf(truth, Fraction(x)))
        check(f"below({x!r})", distribution.below(x), cdf(truth, Fraction(x), strictly=True))
    for p in PROBABILITIES:
        check(f"quantile({p})", distribution.quantile(p), quantile(truth, Fraction(p)))
        check(f"cvar({p})", distribution.cvar(p), cvar(truth, Fraction(p)))
    if isinstance(distribution, jmdp.results.GapDistribution):
        check("superiority", distribution.superiority(), 1 - cdf(truth, 0))
        check("ties", distribution.ties(), truth.get(Fraction(0), Fraction(0)))
        check("inferiority", distribution.inferiority(), cdf(truth, 0, strictly=True))
    return found
