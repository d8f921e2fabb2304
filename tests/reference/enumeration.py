"""Laws of returns and gaps by enumeration of all that can happen, in exact rationals.

For models that end after finitely many steps, whose returns take finitely many values.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from jmdp.exact import ExactStep


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
