"""Tables that `couple` makes, held against exact rationals: outcomes keep their probabilities, intervals the truth.

The truth is that of the given marginals, each list divided by its exact sum, under the joint distribution of the rule
(`reference.couplings`). Lists have residual masses down to 1e-300, entries 1 − sum, and sums that differ from 1. The
default run takes a few marginals under all rules; ``pytest -m long`` takes 2,000.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

import jmdp
from jmdp.models.couple import CommonUniform, JointTable, Maximal, Product, couple
from jmdp.models.marginals import Marginals
from reference import couplings
from reference.containment import Checks
from reference.policies import PolicyTruth, violations

RULES = [
    CommonUniform(),
    CommonUniform(order="reward"),
    CommonUniform(across_states=True),
    Product(),
    Maximal(),
    JointTable,
]
PIECES = 4


def rational(x):
    return fmpq(x.numerator, x.denominator) if isinstance(x, Fraction) else fmpq(*float(x).as_integer_ratio())


# Marginals with what real matrices have.


def some_list(rng, n):
    """Probabilities: even, decimals with a last entry 1 − sum, with a residual mass, of all sizes, not normalised."""
    kind = rng.choice(["even", "difference", "residual", "sizes", "single precision", "loose", "units"])
    row = rng.dirichlet(np.ones(n))
    if kind == "even" or n == 1:
        return np.full(n, 1 / n)
    if kind == "difference":
        row = rng.multinomial(rng.choice([10, 100]), np.full(n - 1, 1 / (n - 1))) / 10.0
        row /= max(1.0, round(float(row.sum())))
        left = 1.0
        for p in row.tolist():
            left -= p
        return np.append(row, max(left, 0.0))
    if kind == "residual":
        row[rng.integers(n)] = rng.choice([1e-300, 1e-200, 1e-60, 1e-17, 2.0**-53, 2.0**-54, 1e-12])
        return row / row.sum()
    if kind == "sizes":
        row = 10.0 ** rng.uniform(-20, 0, n)
        return row / row.sum()
    if kind == "single precision":
        return row.astype(np.float32).astype(float)
    if kind == "loose":
        return row * (1 + rng.uniform(-9e-7, 9e-7))
    return row * (1 + rng.integers(-n, n + 1) * 2.0**-52)


def some_marginals(rng):
    S, A = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    count = rng.integers(1, 4, (S, A))
    rows = [some_list(rng, n) for n in count.ravel()]
    if rng.random() < 0.3:  # lists in common
        rows = [rows[int(rng.integers(len(rows)))] for _ in rows]
        count = np.array([row.size for row in rows]).reshape(S, A)
    prob = np.concatenate(rows)
    N, gamma = prob.size, float(rng.choice([0.0, 0.5, 0.9, 0.99, 0.9999]))
    reward = rng.normal(size=N) * 10.0 ** rng.uniform(-5, 5)
    if rng.random() < 0.3:
        reward = rng.integers(-2, 3, N).astype(float)
    elif rng.random() < 0.5:  # rare outcomes matter
        reward = np.sign(reward) / np.maximum(prob, 1e-100)
    return Marginals(count, prob, reward, rng.integers(0, S, N), gamma, rng.random(S) < 0.2)


# The truth.


def lists_of(marginals, s):
    """Lists of the actions in a state, divided by their exact sums."""
    A, found = marginals.shape[1], []
    for row in range(s * A, (s + 1) * A):
        at = slice(*marginals.first[row : row + 2])
        p, r, n = (part[at].tolist() for part in (marginals.prob, marginals.reward, marginals.next_state))
        found.append(couplings.exact(list(zip(p, zip(r, n, strict=True), strict=True))))
    return found


def true_scenarios(marginals, rule):
    """Scenarios [(probability, ((reward, next state), …)), …] of each state that is not terminal."""
    live = np.flatnonzero(~marginals.terminal).tolist()
    lists = {s: lists_of(marginals, s) for s in live}
    if rule == CommonUniform(order="reward"):
        lists = {s: [couplings.by_reward(one) for one in lists[s]] for s in live}
    if rule == CommonUniform(across_states=True):
        rows = [one for s in live for one in lists[s]]
        ends = {Fraction(0), *(end for one in rows for end in itertools.accumulate(p for p, _ in one))}
        steps = list(itertools.pairwise(sorted(ends)))
        return {s: [(y - x, tuple(couplings.at(one, x) for one in lists[s])) for x, y in steps] for s in live}
    joint = couplings.common_uniform if isinstance(rule, CommonUniform) else couplings.independent
    joint = couplings.maximal if isinstance(rule, Maximal) else joint
    return {s: [(p, outcome) for outcome, p in joint(lists[s]).items()] for s in live}


def product_table(marginals):
    """The product of the marginals as a `JointTable`, with each probability rounded once."""
    S, A = marginals.shape
    K = int(marginals.count.prod(axis=1).max())
    prob, outcome = np.zeros((S, K)), np.zeros((S, K, A), int)
    for s in range(S):
        rows = [[p for p, _ in one] for one in lists_of(marginals, s)]
        for k, chosen in enumerate(itertools.product(*(range(len(row)) for row in rows))):
            chance = math.prod((row[j] for row, j in zip(rows, chosen, strict=True)), start=Fraction(1))
            prob[s, k], outcome[s, k] = float(chance), chosen
    return JointTable(prob, outcome)


class Truth:
    """Means and second moments of the returns of all coordinates, from scenarios in exact rationals."""

    def __init__(self, marginals, scenarios, policy, coupling):
        S, A = marginals.shape
        self.scenarios = {
            s: [(rational(p), [(rational(r), n) for r, n in outcome]) for p, outcome in some]
            for s, some in scenarios.items()
        }
        self.gamma, self.coupling = rational(marginals.discount), coupling
        self.policy = [[rational(Fraction(p) / sum(map(Fraction, row))) for p in row] for row in policy.probs.tolist()]
        coordinates = list(itertools.product(range(S), range(A)))
        self.index = {x: i for i, x in enumerate(coordinates)}
        self.mean = self._solved(coordinates, lambda x: self._mean_row(*x))
        pairs = list(itertools.product(coordinates, repeat=2))
        self.pair = {pair: i for i, pair in enumerate(pairs)}
        self.products = self._solved(pairs, lambda pair: self._product_row(*pair))

    def _mean_row(self, s, a):
        row, source = defaultdict(fmpq), fmpq(0)
        for p, outcome in self.scenarios.get(s, ()):
            reward, n = outcome[a]
            source += p * reward
            for b, q in enumerate(self.policy[n]):
                row[self.index[n, b]] += self.gamma * p * q
        return row, source

    def _value(self, n):
        return sum((q * self.mean[self.index[n, b]] for b, q in enumerate(self.policy[n])), fmpq(0))

    def _joint(self, x, y):
        """Probability, reward and next state of two branches; they are one if x = y and scenarios are shared."""
        (s, a), (t, b) = x, y
        c = self.coupling
        if c.shared_between_states or (c.shared_in_a_state and s == t):
            both = zip(self.scenarios.get(s, ()), self.scenarios.get(t, ()), strict=False)
            yield from ((p, one[a], other[b]) for (p, one), (_, other) in both)
        else:
            for (p, one), (q, other) in itertools.product(self.scenarios.get(s, ()), self.scenarios.get(t, ())):
                yield p * q, one[a], other[b]

    def _product_row(self, x, y):
        row, source = defaultdict(fmpq), fmpq(0)
        if x == y:
            for p, outcome in self.scenarios.get(x[0], ()):
                r, n = outcome[x[1]]
                source += p * (r * r + 2 * self.gamma * r * self._value(n))
                for b, q in enumerate(self.policy[n]):
                    row[self.pair[(n, b), (n, b)]] += self.gamma**2 * p * q
            return row, source
        for p, (r, n), (u, m) in self._joint(x, y):
            source += p * (r * u + self.gamma * (r * self._value(m) + u * self._value(n)))
            if not self.coupling.shared_in_a_state:
                source += p * self.gamma**2 * self._value(n) * self._value(m)
                continue
            for (b, q), (d, w) in itertools.product(enumerate(self.policy[n]), enumerate(self.policy[m])):
                row[self.pair[(n, b), (m, d)]] += self.gamma**2 * p * q * w
        return row, source

    @staticmethod
    def _solved(unknowns, row_of):
        system, right = fmpq_mat(len(unknowns), len(unknowns)), fmpq_mat(len(unknowns), 1)
        for i, x in enumerate(unknowns):
            row, right[i, 0] = row_of(x)
            system[i, i] = fmpq(1)
            for j, w in row.items():
                system[i, j] -= w
        solution = system.solve(right)
        return [solution[i, 0] for i in range(len(unknowns))]

    def covariance(self, s, a, t, b):
        x, y = (s, a), (t, b)
        return self.products[self.pair[x, y]] - self.mean[self.index[x]] * self.mean[self.index[y]]


# What is checked.


def hold_table(model, scenarios, checks):
    """Scenarios of an outcome of an action differ by at most `prob_error` of its probability, in total."""
    for s, some in scenarios.items():
        right, found = defaultdict(Fraction), defaultdict(Fraction)
        for p, outcome in some:
            right[outcome] += p
        row = [Fraction(p) for p in model.prob[s].tolist()]
        for k, p in enumerate(row):
            outcome = tuple(zip(model.reward[s, k].tolist(), model.next_state[s, k].tolist(), strict=True))
            found[outcome] += p / sum(row)
        for a in range(model.shape[2]):
            off, mass = defaultdict(Fraction), defaultdict(Fraction)
            for outcome in {*right, *found}:
                off[outcome[a]] += abs(right[outcome] - found[outcome])
                mass[outcome[a]] += found[outcome]
            checks.looked += len(off)
            for outcome, error in off.items():
                if error > Fraction(model.prob_error) * mass[outcome]:
                    checks.missed.append(f"outcome {outcome} of {s, a} by {float(error)} of {float(mass[outcome])}")


def hold_actions(rng, model, marginals, scenarios, checks):
    S, A = marginals.shape
    shared = model.coupled_by == repr(CommonUniform(across_states=True))
    coupling = (jmdp.Local(), jmdp.Synchronous() if shared else jmdp.Local(), jmdp.Independent())[rng.integers(3)]
    policy = jmdp.TabularPolicy(rng.dirichlet(np.full(A, 0.3), size=S))
    state = int(rng.integers(S))
    method = rng.choice([jmdp.ExactPairs(), jmdp.JIPE(max_sweeps=50), jmdp.ReachablePairs(state)], p=[0.6, 0.2, 0.2])
    result = jmdp.evaluate(model, policy, coupling, method, throw=False, progress=False)
    truth = Truth(marginals, scenarios, policy, coupling)
    checks.moments(result, truth, [state] if isinstance(method, jmdp.ReachablePairs) else range(S))


def hold_policies(rng, model, marginals, scenarios, checks):
    S, A = marginals.shape
    K = max((len(some) for some in scenarios.values()), default=1)
    nothing = (fmpq(0), ((0.0, 0),) * A)
    rows = [
        [(rational(p), outcome) for p, outcome in scenarios.get(s, ())] + [nothing] * (K - len(scenarios.get(s, ())))
        for s in range(S)
    ]
    shell = SimpleNamespace(
        prob=np.ones((S, K)),
        reward=np.array([[[r for r, _ in outcome] for _, outcome in row] for row in rows]),
        next_state=np.array([[[n for _, n in outcome] for _, outcome in row] for row in rows]),
        terminal=marginals.terminal,
        discount=marginals.discount,
        shape=(S, K, A),
    )
    policies = [jmdp.TabularPolicy(rng.dirichlet(np.full(A, 0.3), size=S)) for _ in range(2)]
    horizon = [None, int(rng.integers(1, 4))][rng.integers(2)]
    coupling, order = jmdp.Local(policy_luck=str(rng.choice(["independent", "shared"]))), int(rng.integers(2, 4))
    truth = PolicyTruth(shell, policies, coupling, horizon=horizon)
    truth.prob = [[p for p, _ in row] for row in rows]
    method = jmdp.ExactPairs(order=order, max_sweeps=2000)
    named = dict(zip(("one", "other"), policies, strict=True))
    result = jmdp.evaluate(model, named, coupling, method, horizon=horizon, throw=False, progress=False)
    checks.looked += 8 * S
    checks.missed += violations(result, truth, order)


def hold_distributions(rng, model, marginals, scenarios, checks):
    """Gaps of one step."""
    model = jmdp.models.tabular.changed(model, discount=0.0)
    method = jmdp.ExactDistribution(cells=64, max_cells=64, max_sweeps=2)
    result = jmdp.evaluate(model, "uniform", jmdp.Local(), method, throw=False, progress=False)
    for s, some in scenarios.items():
        for a, b in itertools.permutations(range(marginals.shape[1]), 2):
            right = defaultdict(Fraction)
            for p, outcome in some:
                right[Fraction(outcome[a][0]) - Fraction(outcome[b][0])] += p
            checks.gap_distribution(result.gap(s, a, b), dict(right), f"gap {s, a, b}")


def hold(marginals_of, numbers, evaluated):
    checks, done = Checks(), Counter()
    for i in numbers:
        rng = np.random.default_rng([41, i])
        marginals = marginals_of(rng)
        for rule in RULES:
            before = len(checks.missed)
            by = product_table(marginals) if rule is JointTable else rule
            scenarios = true_scenarios(marginals, by)
            model = couple(marginals, by)
            hold_table(model, scenarios, checks)
            part = rng.choice([hold_actions, hold_policies, hold_distributions], p=[0.6, 0.3, 0.1])
            if rng.random() < evaluated:
                part(rng, model, marginals, scenarios, checks)
                done[part.__name__] += 1
            checks.missed[before:] = [f"[41, {i}] {by!r}: {missed}" for missed in checks.missed[before:]]
    print(f"{len(numbers)} marginals, {checks.looked} checks, {len(checks.missed)} miss; {dict(done)}")
    return checks, done


def test_outcomes_keep_their_probabilities_and_intervals_contain_the_truth():
    checks, done = hold(some_marginals, range(8), 0.5)
    assert checks.missed == []
    assert checks.looked >= 1000
    assert {"hold_actions", "hold_policies", "hold_distributions"} <= set(done)


@pytest.mark.long
@pytest.mark.parametrize("piece", range(PIECES), ids=lambda piece: f"part{piece + 1}")
def test_outcomes_keep_their_probabilities_on_two_thousand_marginals(piece):
    assert hold(some_marginals, range(100 + piece, 2100 + piece, PIECES), 0.3)[0].missed == []
