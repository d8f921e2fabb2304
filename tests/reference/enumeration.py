"""Laws of returns and gaps by enumeration of all that can happen, in exact rationals.

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
    """Exact laws {value: probability} of one model, policy and coupling."""

    def __init__(self, model, policy, coupling):
        self.step = ExactStep(model, policy, coupling)
        self.terminal = model.terminal
        self._returns, self._gaps = {}, {}

    def return_law(self, x):
        """The law of Z(x)."""
        if x not in self._returns:
            law = defaultdict(Fraction)
            if self.terminal[x[0]]:
                law[Fraction(0)] = Fraction(1)
            for p, _, r, n in self.step.one(x):
                for a, q in enumerate(self.step.policy[n]):
                    if q:
                        for z, chance in self.return_law((n, a)).items():
                            law[r + self.step.discount * z] += p * q * chance
            self._returns[x] = dict(law)
        return self._returns[x]

    def gap_law(self, x, y):
        """The law of Z(x) − Z(y) of two distinct branches."""
        if self.step.coalesced(x, y):
            return {Fraction(0): Fraction(1)}
        if self.terminal[x[0]]:
            return {-z: p for z, p in self.return_law(y).items()}
        if self.terminal[y[0]]:
            return self.return_law(x)
        if (x, y) not in self._gaps:
            law = defaultdict(Fraction)
            for w, r, n, u, m in self.step.two(x, y):
                for q, a, b in self.step.actions(n, m):
                    for g, chance in self.gap_law((n, a), (m, b)).items():
                        law[r - u + self.step.discount * g] += w * q * chance
            self._gaps[x, y] = dict(law)
        return self._gaps[x, y]


def cdf(law, x, *, strictly=False):
    return sum((p for v, p in law.items() if v < x or (v == x and not strictly)), Fraction(0))


def quantile(law, p):
    total = Fraction(0)
    for value in sorted(law):
        total += law[value]
        if total >= p:
            return value
    return max(law)


def cvar(law, p):
    left, total = p, Fraction(0)
    for value in sorted(law):
        taken = min(left, law[value])
        total += taken * value
        left -= taken
    return total / p


def around(law):
    """Thresholds at which a wrong law shows: at each of the largest atoms, beside it, and at 0."""
    atoms = sorted(law, key=law.get, reverse=True)[:8]
    for atom in atoms:
        x = float(atom)
        yield from (x, math.nextafter(x, -math.inf), math.nextafter(x, math.inf))
    yield 0.0


def law_violations(law, truth, name):
    """Every stated interval that does not contain the truth."""

    def check(what, estimate, right):
        if (
            not Fraction(estimate.low) <= right <= Fraction(estimate.high)
            or not estimate.low <= estimate <= estimate.high
        ):
            found.append(f"{what} of {name}: {estimate!r} for {float(right)!r}")

    found = []
    for x in around(truth):
        check(f"cdf({x!r})", law.cdf(x), cdf(truth, Fraction(x)))
        check(f"below({x!r})", law.below(x), cdf(truth, Fraction(x), strictly=True))
    for p in PROBABILITIES:
        check(f"quantile({p})", law.quantile(p), quantile(truth, Fraction(p)))
        check(f"cvar({p})", law.cvar(p), cvar(truth, Fraction(p)))
    if isinstance(law, jmdp.GapLaw):
        check("superiority", law.superiority(), 1 - cdf(truth, 0))
        check("ties", law.ties(), truth.get(Fraction(0), Fraction(0)))
        check("inferiority", law.inferiority(), cdf(truth, 0, strictly=True))
    return found
