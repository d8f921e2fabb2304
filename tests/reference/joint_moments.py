"""E[Π Z(x)] of any few coordinates in exact rationals: every configuration of branches is an unknown.

Written from the semantics alone (section 2 of the design), and shares nothing with the package. A configuration is the
distinct branches there are, each with its coordinate and the power of its return. One step goes through all luck there
is; the product of returns is multiplied out factor by factor, each factor giving its reward or what comes later.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import accumulate, combinations_with_replacement, pairwise, product
from math import prod

from flint import fmpq, fmpq_mat


def exact(x):
    return fmpq(*float(x).as_integer_ratio())


def rows(table):
    found = [[exact(p) for p in row] for row in table.tolist()]
    return [[p / sum(row) for p in row] for row in found]


class JointMoments:
    """All moments up to an order, of one model, policy and coupling."""

    def __init__(self, model, policy, coupling, order):
        self.model, self.coupling = model, coupling
        self.gamma = exact(model.discount)
        self.prob, self.policy = rows(model.prob), rows(policy.probs)
        S, _, A = model.shape
        self.coordinates = list(product(range(S), range(A)))
        self.known = {(): fmpq(1)}
        for k in range(1, order + 1):
            self.solve(k)

    def moment(self, coordinates) -> Fraction:
        """E[Π Z(x)]: one branch for each coordinate, repeated ones are powers."""
        found = self.known[tuple(sorted(Counter(coordinates).items()))]
        return Fraction(int(found.p), int(found.q))

    def solve(self, k):
        pieces = [(x, power) for x in self.coordinates for power in range(1, k + 1)]
        unknown = [
            found
            for parts in range(1, k + 1)
            for found in combinations_with_replacement(pieces, parts)
            if sum(power for _, power in found) == k and self.merged(found) == found
        ]
        number = {found: i for i, found in enumerate(unknown)}
        system, right = fmpq_mat(len(unknown), len(unknown)), fmpq_mat(len(unknown), 1)
        for i, branches in enumerate(unknown):
            system[i, i] = fmpq(1)
            row, source = defaultdict(fmpq), fmpq(0)
            for weight, later in self.terms(branches):
                if later in number:
                    row[number[later]] += weight
                else:
                    source += weight * self.known[later]
            for j, weight in row.items():
                system[i, j] -= weight
            right[i, 0] = source
        solution = system.solve(right)
        for found, i in number.items():
            self.known[found] = solution[i, 0]

    def merged(self, branches):
        """Branches on one coordinate are one and the same where the coupling shares luck in a state."""
        if not self.coupling.shared_in_a_state:
            return tuple(sorted(branches))
        powers = Counter()
        for x, power in branches:
            powers[x] += power
        return tuple(sorted(powers.items()))

    def terms(self, branches):
        """Weights and configurations that the moment of these branches is the sum of."""
        if any(self.model.terminal[s] for (s, _), _ in branches):
            return
        factors = [i for i, (_, power) in enumerate(branches) for _ in range(power)]
        for luck, reward, arrived in self.steps([x for x, _ in branches]):
            for stays in product([False, True], repeat=len(factors)):
                left = Counter(i for i, stay in zip(factors, stays, strict=True) if stay)
                gained = prod((reward[i] for i, stay in zip(factors, stays, strict=True) if not stay), start=fmpq(1))
                weight = luck * gained * self.gamma ** sum(stays)
                if not weight:
                    continue
                for chance, actions in self.choices([arrived[i] for i in left]):
                    where = [((arrived[i], a), left[i]) for i, a in zip(left, actions, strict=True)]
                    yield weight * chance, self.merged(where)

    def steps(self, xs):
        """All scenarios that the branches can meet: probability, rewards, next states."""
        c = self.coupling
        own = [0 if c.shared_between_states else s if c.shared_in_a_state else i for i, (s, _) in enumerate(xs)]
        draws = {key: xs[own.index(key)][0] for key in own}  # which draws there are, and in which state
        for ks in product(range(self.model.shape[1]), repeat=len(draws)):
            k = dict(zip(draws, ks, strict=True))
            weight = prod((self.prob[draws[key]][k[key]] for key in draws), start=fmpq(1))
            if weight:
                at = [(s, k[key], a) for key, (s, a) in zip(own, xs, strict=True)]
                yield weight, [exact(self.model.reward[i]) for i in at], [int(self.model.next_state[i]) for i in at]

    def choices(self, states):
        """Next actions of distinct branches in these states, with their probability."""
        distributions = [self.policy[s] for s in states]
        if self.coupling.policy_luck == "independent":
            for actions in product(*(range(len(distribution)) for distribution in distributions)):
                yield (
                    prod(
                        (distribution[a] for distribution, a in zip(distributions, actions, strict=True)), start=fmpq(1)
                    ),
                    actions,
                )
            return
        ends = [list(accumulate(distribution)) for distribution in distributions]
        edges = sorted({fmpq(0), fmpq(1), *(end for row in ends for end in row)})
        for low, high in pairwise(edges):
            yield high - low, [sum(end <= low for end in row) for row in ends]
