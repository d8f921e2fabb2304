"""Distributions over a finite horizon, against an enumeration of all outcomes in rationals."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import jmdp
from reference.enumeration import distribution_violations
from sample_models import COUPLINGS


class Oracle:
    """Distributions {value: probability} of gaps and returns, by recursion over both branches, step by step.

    A branch is (policy, state, action). It is independent of the package: probabilities and rewards are fractions, rows
    are divided by their sums, and outcomes are listed one by one.
    """

    def __init__(self, model, policies, coupling, horizon, final, discount):
        self.model, self.policies, self.coupling = model, policies, coupling
        self.horizon, self.discount = horizon, Fraction(discount)
        self.final = [Fraction(x) for x in final]
        self.branch_gap, self.branch_return = cache(self.branch_gap), cache(self.branch_return)
        self.draws = cache(self.draws)

    def chances(self, row):
        row = [Fraction(float(p)) for p in row]
        return [p / sum(row) for p in row]

    def scenarios(self, s):
        return [(k, p) for k, p in enumerate(self.chances(self.model.prob[s])) if p]

    def outcome(self, s, k, a):
        return Fraction(float(self.model.reward[s, k, a])), int(self.model.next_state[s, k, a])

    def draws(self, one, other):
        """Pairs of scenarios of two branches, with probabilities."""
        s, t = one[1], other[1]
        together = self.coupling.shared_in_a_state and (s == t or self.coupling.shared_between_states)
        if together:
            return [(k, k, p) for k, p in self.scenarios(s)]
        return [(k, j, p * q) for k, p in self.scenarios(s) for j, q in self.scenarios(t)]

    def actions(self, step, i, s, j, t):
        """Pairs of actions drawn in states s and t by policies i and j at a step, with probabilities."""
        one, other = (self.chances(self.policies[x][step].probs[y]) for x, y in ((i, s), (j, t)))
        if self.coupling.policy_luck == "independent":
            return [(a, b, p * q) for a, p in enumerate(one) for b, q in enumerate(other) if p and q]
        found, a, b, left, right = [], 0, 0, one[0], other[0]
        while True:
            both = min(left, right)
            if both:
                found.append((a, b, both))
            left, right = left - both, right - both
            if not left:
                if a + 1 == len(one):
                    return found
                a, left = a + 1, one[a + 1]
            if not right:
                if b + 1 == len(other):
                    return found
                b, right = b + 1, other[b + 1]

    def worth(self, s):
        return Fraction(0) if self.model.terminal[s] else self.final[s]

    def branch_return(self, step, branch):
        """Return of a branch from a step on whose action is given."""
        i, s, a = branch
        if self.model.terminal[s]:
            return {Fraction(0): Fraction(1)}
        found = defaultdict(Fraction)
        for k, p in self.scenarios(s):
            reward, n = self.outcome(s, k, a)
            for x, q in self.drawn_return(step + 1, i, n).items():
                found[reward + self.discount * x] += p * q
        return dict(found)

    def drawn_return(self, step, i, s):
        if step == self.horizon or self.model.terminal[s]:
            return {self.worth(s): Fraction(1)}
        found = defaultdict(Fraction)
        for a, p in enumerate(self.chances(self.policies[i][step].probs[s])):
            for x, q in self.branch_return(step, (i, s, a)).items() if p else ():
                found[x] += p * q
        return dict(found)

    def branch_gap(self, step, one, other):
        """Return of one branch minus that of the other, whose actions are given."""
        (i, s, a), (j, t, b) = one, other
        if one == other and self.coupling.shared_in_a_state:
            return {Fraction(0): Fraction(1)}
        if self.model.terminal[s] or self.model.terminal[t]:
            left, right = self.branch_return(step, one), self.branch_return(step, other)
            return convolved(left, right)
        found = defaultdict(Fraction)
        for k, m, p in self.draws(one, other):
            (gain, after), (loss, then) = self.outcome(s, k, a), self.outcome(t, m, b)
            for x, q in self.drawn_gap(step + 1, (i, after), (j, then)).items():
                found[gain - loss + self.discount * x] += p * q
        return dict(found)

    def drawn_gap(self, step, one, other):
        (i, s), (j, t) = one, other
        if step == self.horizon or self.model.terminal[s] or self.model.terminal[t]:
            return convolved(self.drawn_return(step, i, s), self.drawn_return(step, j, t))
        found = defaultdict(Fraction)
        for a, b, p in self.actions(step, i, s, j, t):
            for x, q in self.branch_gap(step, (i, s, a), (j, t, b)).items():
                found[x] += p * q
        return dict(found)


def convolved(one, other):
    found = defaultdict(Fraction)
    for x, p in one.items():
        for y, q in other.items():
            found[x - y] += p * q
    return dict(found)


def random_problem(rng, i):
    S, K, A = int(rng.integers(1, 4)), int(rng.integers(1, 3)), 2
    prob = np.broadcast_to(rng.dirichlet(np.ones(K)), (S, K))
    reward = rng.integers(-2, 3, size=(S, K, A)).astype(float) if rng.random() < 0.6 else rng.normal(size=(S, K, A))
    terminal = rng.random(S) < 0.25
    model = jmdp.TabularJMDP(prob, reward, rng.integers(0, S, size=(S, K, A)), 0.5, terminal)
    horizon, discount = int(rng.integers(1, 5)), float(rng.choice([0.0, 0.5, 0.75, 0.9, 1.0]))
    scale = rng.choice([1.0, 1e-6, 1e8])
    model = jmdp.TabularJMDP(prob, reward * scale, model.next_state, 0.5, terminal)
    final = np.where(terminal, 0.0, rng.integers(-1, 2, size=S) * scale) if rng.random() < 0.6 else None

    def table():
        if rng.random() < 0.4:
            return jmdp.TabularPolicy.deterministic(model, rng.integers(0, A, S))
        return jmdp.TabularPolicy(rng.dirichlet(np.ones(A), size=S))

    def policy():
        return [table() for _ in range(horizon)] if rng.random() < 0.5 else [table()] * horizon

    return model, policy, horizon, discount, final, COUPLINGS[i % len(COUPLINGS)]


def violations(models, seed, cells=(64, 400)):
    """Check all gaps and returns of random problems, of actions and of policies in turn."""
    rng, found, widths = np.random.default_rng(seed), [], []
    for i in range(models):
        model, policy, horizon, discount, final, coupling = random_problem(rng, i)
        several = bool(rng.random() < 0.5)
        steps = {"old": policy(), "new": policy()} if several else policy()
        size = int(rng.choice(cells))
        method = jmdp.ExactDistribution(tolerance=float(rng.choice([0.5, 0.01])), cells=size, max_cells=4 * size)
        result = jmdp.evaluate(
            model, steps, coupling, method, horizon=horizon, discount=discount, terminal_value=final, throw=False
        )
        given = list(steps.values()) if several else [steps]
        worth = np.zeros(model.shape[0]) if final is None else final
        oracle = Oracle(model, given, coupling, horizon, worth, discount)
        for s in range(model.shape[0]):
            for a in range(2):
                right = oracle.drawn_return(0, a, s) if several else oracle.branch_return(0, (0, s, a))
                found += distribution_violations(result.return_distribution(s, a), right, f"{i}: {s, a}, {coupling}")
            right = oracle.drawn_gap(0, (0, s), (1, s)) if several else oracle.branch_gap(0, (0, s, 0), (0, s, 1))
            for x, y, sign in ((0, 1, 1), (1, 0, -1)):
                distribution = result.gap(s, x, y).distribution()
                truth = {sign * value: p for value, p in right.items()}
                found += distribution_violations(distribution, truth, f"{i}: gap {s, x, y}, {coupling}, γ = {discount}")
                widths.append(distribution.ties().interval.width)
    return found, widths


def test_distributions_over_a_horizon_contain_the_truth():
    found, widths = violations(12, seed=1)
    assert found == []
    assert np.median(widths) < 1e-9


def test_a_random_walk():
    """Ten steps of ±1 without discount: ties, quantiles and chances of a binomial distribution."""
    model = jmdp.TabularJMDP([[0.5, 0.5]], [[[1.0, 0.0], [-1.0, 0.0]]], np.zeros((1, 2, 2), int), 0.5)
    rules = {"walk": [0], "stay": [1]}
    result = jmdp.evaluate(model, rules, jmdp.Synchronous(), jmdp.ExactDistribution(), horizon=10, discount=1.0)
    distribution = result.gap(0, "walk", "stay").distribution()
    assert distribution.ties() == pytest.approx(252 / 1024, abs=1e-12)
    assert distribution.ties().interval.width < 1e-12
    assert distribution.superiority() == pytest.approx(386 / 1024, abs=1e-12)
    assert -6.0 in distribution.quantile(0.05).interval
    kept = jmdp.evaluate(
        model, rules, jmdp.Synchronous(), jmdp.ExactDistribution(), horizon=10, discount=1.0, terminal_value=[7.0]
    )
    assert 7.0 in kept.return_distribution(0, "stay").quantile(0.5).interval
    assert 252 / 1024 in kept.gap(0, "walk", "stay").distribution().ties().interval


def test_values_after_the_last_step_can_tie():
    """1 now, or 1 after the last step in a quarter of all cases and 2 in the others."""
    reward = [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0]] * 2, [[0.0, 0.0]] * 2]
    following = [[[0, 1], [0, 2]], [[1, 1]] * 2, [[2, 2]] * 2]
    model = jmdp.TabularJMDP([[0.25, 0.75]] * 3, reward, following, 0.5)
    policy, final = jmdp.TabularPolicy([[0.0, 1.0]] * 3), [0.0, 1.0, 2.0]
    result = jmdp.evaluate(
        model, policy, jmdp.Local(), jmdp.ExactDistribution(), horizon=1, discount=1.0, terminal_value=final
    )
    distribution = result.gap(0, 0, 1).distribution()
    assert 0.25 in distribution.ties().interval
    assert distribution.ties().interval.width < 1e-12
    assert distribution.inferiority() == pytest.approx(0.75, abs=1e-12)


def test_ties_of_steps_whose_rewards_have_other_units():
    """The last step has rewards with more binary digits than the first: 0.1 now and −0.1 then."""
    reward = [[[0.5, 0.0]], [[0.1, -0.1]]]
    model = jmdp.TabularJMDP([[1.0]] * 2, reward, [[[1, 1]], [[1, 1]]], 0.5)
    now, then = jmdp.TabularPolicy([[1.0, 0.0]] * 2), jmdp.TabularPolicy([[0.0, 1.0], [0.25, 0.75]])
    rules = {"one": [now, now, then], "other": [then, now, now]}
    result = jmdp.evaluate(model, rules, jmdp.Independent(), jmdp.ExactDistribution(), horizon=3, discount=1.0)
    oracle = Oracle(model, list(rules.values()), jmdp.Independent(), 3, [0.0, 0.0], 1.0)
    for s in range(2):
        right = oracle.drawn_gap(0, (0, s), (1, s)).get(Fraction(0), Fraction(0))
        ties = result.gap(s, 0, 1).distribution().ties()
        assert Fraction(ties.low) <= right <= Fraction(ties.high)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_distributions_over_a_horizon_on_two_thousand_models(seed):
    assert violations(200, seed)[0] == []
