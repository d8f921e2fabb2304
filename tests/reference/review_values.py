"""Values of a reviewed episode in exact rationals, from the definitions: nothing of the package is used."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_mat


def rational(x: float) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())


def fraction(x: fmpq) -> Fraction:
    return Fraction(int(x.p), int(x.q))


def distributions(table) -> list[list[fmpq]]:
    """Rows of probabilities, each divided by its exact sum."""
    rows = [[rational(p) for p in row] for row in np.asarray(table).tolist()]
    return [[p / sum(row, fmpq(0)) for p in row] for row in rows]


@dataclass
class Decided:
    """A decision of an episode: its numbers, not discounted."""

    value: fmpq
    action_value: fmpq
    skill: fmpq
    luck: fmpq
    regret: fmpq


class ReviewTruth:
    """v and q of a table under a policy, v = Σ π q and q = Σ p (r + γ v'), with v = 0 in terminal states."""

    def __init__(self, prob, reward, next_state, discount, terminal, policy):
        self.discount, S = rational(discount), len(prob)
        self._prob, self._policy = distributions(prob), distributions(policy)
        self._reward, self._next, self._terminal = reward, next_state, terminal
        system, right = fmpq_mat(S, S), fmpq_mat(S, 1)
        for s in range(S):
            system[s, s] += fmpq(1)
            for a, share in enumerate(self._policy[s]):
                for p, r, t in self._outcomes(s, a):
                    system[s, t] -= share * p * self.discount
                    right[s, 0] += share * p * r
        solved = system.solve(right)
        self.value = [solved[s, 0] for s in range(S)]

    def _outcomes(self, s, a):
        if self._terminal[s]:
            return
        for k, p in enumerate(self._prob[s]):
            if p:
                yield p, rational(self._reward[s][k][a]), int(self._next[s][k][a])

    def action_value(self, s, a) -> fmpq:
        return sum((p * (r + self.discount * self.value[t]) for p, r, t in self._outcomes(s, a)), fmpq(0))

    def decision(self, s, a, reward, following) -> Decided:
        q = [self.action_value(s, b) for b in range(len(self._policy[s]))]
        return Decided(
            self.value[s],
            q[a],
            q[a] - self.value[s],
            rational(reward) + self.discount * self.value[following] - q[a],
            max(q) - q[a],
        )

    def totals(self, decisions: list[Decided], rewards, last) -> dict[str, fmpq]:
        """Discounted sums over an episode that ends in a state `last`."""
        powers = [self.discount**t for t in range(len(decisions) + 1)]
        final = powers[-1] * self.value[last]
        earned = sum((w * rational(r) for w, r in zip(powers[:-1], rewards, strict=True)), fmpq(0))
        sums = {
            name: sum((w * getattr(one, name) for w, one in zip(powers[:-1], decisions, strict=True)), fmpq(0))
            for name in ("skill", "luck", "regret")
        }
        expectation = decisions[0].value
        assert earned + final == expectation + sums["skill"] + sums["luck"]
        return {"expectation": expectation, "final": final, "earned": earned, "total": earned + final, **sums}
