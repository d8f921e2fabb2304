"""Means and second moments of the returns of first actions over a finite horizon, in exact rationals, uncentred."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from jmdp.models.exact import ExactStep


class HorizonTruth:
    """E[Z(x)] and E[Z(x) Z(y)] of coordinates x, y = (state, action), over len(policies) steps and then `final` [S].

    The first action is given; each later one is drawn from the policy of its step.
    """

    def __init__(self, model, policies, coupling, *, final=None, discount=None):
        self.steps = [ExactStep(model, policy, coupling) for policy in policies]
        self.gamma = Fraction(float(model.discount if discount is None else discount))
        S = model.shape[0]
        self.final = [Fraction(0)] * S if final is None else [Fraction(float(x)) for x in final]
        self.mean, self.square, self.product = cache(self._mean), cache(self._square), cache(self._product)

    def covariance(self, x, y):
        """Covariance of two different coordinates."""
        return self.product(x, y, 0) - self.mean(x, 0) * self.mean(y, 0)

    def _drawn(self, n, t, of):
        """Mean over the actions of one branch that is in n before step t."""
        if t == len(self.steps):
            return None
        return sum((p * of((n, a), t) for a, p in enumerate(self.steps[t].policy[n]) if p), Fraction(0))

    def _value(self, n, t):
        return self.final[n] if t == len(self.steps) else self._drawn(n, t, self.mean)

    def _mean(self, x, t):
        return sum((p * (r + self.gamma * self._value(n, t + 1)) for p, _, r, n in self.steps[t].one(x)), Fraction(0))

    def _square(self, x, t):
        total = Fraction(0)
        for p, _, r, n in self.steps[t].one(x):
            later = self.final[n] ** 2 if t + 1 == len(self.steps) else self._drawn(n, t + 1, self.square)
            total += p * (r * r + 2 * self.gamma * r * self._value(n, t + 1) + self.gamma**2 * later)
        return total

    def _product(self, x, y, t):
        total = Fraction(0)
        for w, r, n, u, m in self.steps[t].two(x, y):
            one, other = self._value(n, t + 1), self._value(m, t + 1)
            total += w * (r * u + self.gamma * (r * other + u * one) + self.gamma**2 * self._later(n, m, t + 1))
        return total

    def _later(self, n, m, t):
        """E[Z Z̃] of two distinct branches that are in n and m before step t."""
        if t == len(self.steps):
            return self.final[n] * self.final[m]
        step, total = self.steps[t], Fraction(0)
        for q, a, b in step.actions(n, m):
            x, y = (n, a), (m, b)
            total += q * (self.square(x, t) if step.coalesced(x, y) else self.product(x, y, t))
        return total
