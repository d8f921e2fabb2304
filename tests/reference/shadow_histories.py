"""All policies of the full scenario history of a small table, beside a deterministic incumbent, in exact integers.

A gap is a whole number of units, a probability a number of shares; `Histories` says how large both are.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import lcm

import numpy as np

from jmdp.control.shadow import Problem, ShadowActions


class Always:
    """A stationary policy, one action [S] for each state."""

    def __init__(self, actions: np.ndarray) -> None:
        self._actions = actions

    def at(self, h: int, s: int, t: int, gap: int) -> int:
        """The action."""
        return int(self._actions[s])


class Histories:
    """One problem: rewards, terminal values and probabilities as integers."""

    def __init__(self, problem: Problem) -> None:
        model, H = problem.model, problem.steps
        self.problem, self.steps, self.incumbent = problem, H, problem.given
        discount = Fraction(problem.discount)
        rewards = [[[Fraction(x) for x in row] for row in table] for table in model.reward.tolist()]
        finals = [Fraction(x) for x in problem.final.tolist()]
        every = [x * discount**h for h in range(H) for table in rewards for row in table for x in row]
        every += [x * discount**H for x in finals]
        self.unit = Fraction(1, lcm(*(x.denominator for x in every)))
        self._reward = [
            [[[int(x * discount**h / self.unit) for x in row] for row in table] for table in rewards] for h in range(H)
        ]
        self._final = [int(x * discount**H / self.unit) for x in finals]
        alive = int(np.flatnonzero(~model.terminal)[0])
        shares = [Fraction(p) for p in model.prob[alive].tolist()]
        low = lcm(*(p.denominator for p in shares))
        self._shares = [int(p * low) for p in shares]
        starts = [Fraction(p) for p in problem.start.tolist()]
        low = lcm(*(p.denominator for p in starts))
        self._starts = [(s, int(p * low)) for s, p in enumerate(starts) if p]
        self.whole = sum(p for _, p in self._starts) * sum(self._shares) ** H
        self._tie = Fraction(problem.tie_tolerance) / self.unit

    def _following(self, h, s, t, a):
        """Share, next state, next shadow and increment, for each scenario."""
        model, b = self.problem.model, int(self.incumbent[h, t])
        for k, share in enumerate(self._shares):
            if share:

                def after(x, y, k=k):
                    over = model.terminal[x]
                    return (x, 0) if over else (int(model.next_state[x, k, y]), self._reward[h][x][k][y])

                (n, r), (m, u) = after(s, a), after(t, b)
                yield share, n, m, r - u

    def policies(self):
        """Mean, shortfall and chance of being worse of all policies, in units × shares; [n, 3]."""
        return self._together([self._all(0, s, s, 0) * share for s, share in self._starts])

    def _all(self, h, s, t, g):
        if h == self.steps:
            g += self._final[s] - self._final[t]
            return np.array([[g, max(0, -g), int(g < -self._tie)]], object)
        found = [
            self._together([self._all(h + 1, n, m, g + d) * share for share, n, m, d in self._following(h, s, t, a)])
            for a in range(self.problem.model.shape[2])
        ]
        return np.concatenate(found)

    @staticmethod
    def _together(parts):
        """All sums of one row of each part, each once."""
        found = parts[0]
        for part in parts[1:]:
            found = (found[:, None] + part[None]).reshape(-1, 3)
        return np.array(sorted(set(map(tuple, found.tolist()))), object)

    def best(self, every, weight, loss):
        """Largest mean − weight × shortfall − loss × chance of all policies."""
        shares = [self.unit, -weight * self.unit, -loss]
        common = lcm(*(x.denominator for x in shares))
        return Fraction(
            max((every @ np.array([int(x * common) for x in shares], object)).tolist()), self.whole * common
        )

    def best_tail(self, weight, tail):
        """Largest E[G] + weight × mean of the worst share `tail` of G, of all policies."""
        found, tail = None, Fraction(tail)
        for q in sorted(self._gaps()):
            # Multiplied by the denominators, so that all numbers are integers.
            slope, common = weight / tail, (weight / tail).denominator * weight.denominator
            one = self._largest(lambda g, q=q, slope=slope, c=common: int(c * (g - slope * max(0, q - g))))
            value = Fraction(one, common * self.whole) + weight * q
            found = value if found is None else max(found, value)
        return found * self.unit

    def _gaps(self):
        """All values of the gap, of all policies, in units."""
        found = set()

        def follow(h, s, t, g):
            if h == self.steps:
                found.add(g + self._final[s] - self._final[t])
                return
            for a in range(self.problem.model.shape[2]):
                for _, n, m, d in self._following(h, s, t, a):
                    follow(h + 1, n, m, g + d)

        for s, _ in self._starts:
            follow(0, s, s, 0)
        return found

    def _largest(self, utility):
        """Largest mean of a utility of the gap in units, in shares."""

        def best(h, s, t, g):
            if h == self.steps:
                return utility(g + self._final[s] - self._final[t])
            return max(
                sum(share * best(h + 1, n, m, g + d) for share, n, m, d in self._following(h, s, t, a))
                for a in range(self.problem.model.shape[2])
            )

        return sum(share * best(0, s, s, 0) for s, share in self._starts)

    def largest_gains(self, every, scale):
        """Largest mean for each shortfall + scale × chance, the latter as a float."""
        found = {}
        for g, x, p in every.tolist():
            found[x, p] = max(g, found.get((x, p), g))
        for (x, p), g in found.items():
            yield (
                Fraction(g, self.whole) * self.unit,
                float(Fraction(x, self.whole) * self.unit + scale * Fraction(p, self.whole)),
            )

    def distribution(self, policy: ShadowActions | Always) -> Counter[int]:
        """Shares of each gap, in units, of a policy that tracks the gap in cells."""
        problem, found = self.problem, Counter()

        def follow(h, s, t, g, tracked, share):
            if h == self.steps:
                found[g + self._final[s] - self._final[t]] += share
                return
            a = policy.at(h, s, t, tracked)
            for i, (own, n, m, d) in enumerate(self._following(h, s, t, a)):
                follow(h + 1, n, m, g + d, tracked + problem.increment(h, s, t, i, a), share * own)

        for s, share in self._starts:
            follow(0, s, s, 0, 0, share)
        return found

    def paths(self):
        """Starts, and all sequences of scenarios that can happen."""
        possible = [k for k, share in enumerate(self._shares) if share]
        for s, _ in self._starts:
            for path in product(possible, repeat=self.steps):
                yield s, path

    def statistics(self, policy: ShadowActions | Always) -> dict[str, Fraction]:
        """Exact statistics of a policy, by the names of `Statistics`."""
        shares = self.distribution(policy)
        mean = lambda f: Fraction(sum(share * f(g) for g, share in shares.items()), self.whole)  # noqa: E731
        left, worst = Fraction(self.whole, 20), Fraction(0)
        for g in sorted(shares):
            taken = min(left, shares[g])
            worst += taken * g
            left -= taken
        return {
            "gain": mean(lambda g: g) * self.unit,
            "shortfall": mean(lambda g: max(0, -g)) * self.unit,
            "chance": mean(lambda g: g < -self._tie),
            "worst": worst / Fraction(self.whole, 20) * self.unit,
            "equal": mean(lambda g: abs(g) <= self._tie),
        }


def sets_of_changes(problem: Problem, k: int):
    """Actions [S] of a stationary incumbent with each set of at most k changes."""
    S, _, A = problem.model.shape
    own = problem.given[0]
    for chosen in product(*(range(A) for _ in range(S))):
        found = np.array(chosen)
        if 0 < (found != own).sum() <= k:
            yield found
