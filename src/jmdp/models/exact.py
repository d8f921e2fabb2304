"""Reference implementation in exact rationals: all outcomes of one step of one or two branches.

It is slow and written for clarity. Certificates are checked against it; methods do not use it. The model and policy
are defined by their stored tables, with each row of probabilities divided by its exact sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

from jmdp.base.arrays import Floats
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

Coordinate = tuple[int, int]
"""(state, action)."""


class ExactStep:
    """One step of the recursion Z(x) = R + γ Z(x') for one branch or two."""

    def __init__(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling) -> None:
        self.model, self.coupling = model, coupling
        self.discount = Fraction(model.discount)
        self.prob = _rows(model.prob)
        self.policy = _rows(policy.probs)
        self._reward = [[[Fraction(r) for r in row] for row in table] for table in model.reward.tolist()]
        self._cumulative = [list(accumulate(row)) for row in self.policy]

    def one(self, x: Coordinate) -> Iterator[tuple[Fraction, int, Fraction, int]]:
        """Outcomes of a branch at x (Eq. (5)): probability, scenario, reward, next state. Empty in a terminal state."""
        s, a = x
        if self.model.terminal[s]:
            return
        for k, p in enumerate(self.prob[s]):
            if p:
                yield p, k, self._reward[s][k][a], int(self.model.next_state[s, k, a])

    def two(self, x: Coordinate, y: Coordinate) -> Iterator[tuple[Fraction, Fraction, int, Fraction, int]]:
        """Joint outcomes of two distinct branches at x and y: probability, reward and next state of each.

        Under Local, Eq. (17) in different states and Eq. (18) in one. Empty if one of them is in a terminal state: its
        return is 0, and so is the product of both returns.
        """
        c = self.coupling
        together = c.shared_between_states or (c.shared_in_a_state and x[0] == y[0])
        for p, k, r, n in self.one(x):
            for q, other, u, m in self.one(y):
                if not together:
                    yield p * q, r, n, u, m
                elif k == other:
                    yield p, r, n, u, m

    def actions(self, s: int, t: int) -> Iterator[tuple[Fraction, int, int]]:
        """Joint next actions of two distinct branches that have reached s and t: probability and both actions."""
        if self.coupling.policy_luck == "independent":
            for a, p in enumerate(self.policy[s]):
                for b, q in enumerate(self.policy[t]):
                    if p and q:
                        yield p * q, a, b
            return
        u, ends, others = Fraction(0), self._cumulative[s], self._cumulative[t]
        while u < 1:
            a = next(i for i, end in enumerate(ends) if end > u)
            b = next(i for i, end in enumerate(others) if end > u)
            up_to = min(ends[a], others[b])
            yield up_to - u, a, b
            u = up_to

    def coalesced(self, x: Coordinate, y: Coordinate) -> bool:
        """Whether branches at x and y have merged."""
        return x == y and self.coupling.shared_in_a_state


def _rows(table: Floats) -> list[list[Fraction]]:
    rows = [[Fraction(p) for p in row] for row in table.tolist()]
    return [[p / sum(row) for p in row] for row in rows]
