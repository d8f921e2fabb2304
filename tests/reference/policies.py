"""Moments of the returns of several policies under the same luck, in exact rationals, uncentred.

Nothing of the methods is here: no blocks, no shaping. Two branches, of policies i and j, stand in states s and t. They
meet one scenario where the coupling says so, and take actions drawn apart or by one uniform number.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import accumulate, product
from math import comb

from flint import fmpq, fmpq_mat


def _rows(table):
    rows = [[exactly(float(p)) for p in row] for row in table.tolist()]
    return [[p / sum(row) for p in row] for row in rows]


def _distribution(start):
    row = [exactly(float(p)) for p in start]
    return [p / sum(row) for p in row]


def exactly(x):
    return x if isinstance(x, fmpq) else fmpq(*x.as_integer_ratio()) if isinstance(x, float) else fmpq(int(x))


class PolicyTruth:
    """E[Z_i(s)^p Z_j(t)^q] for i ≠ j, and E[Z_i(s)^p]; over all time, or over `horizon` steps and then `final` [S].

    A policy is a `TabularPolicy`, or with a horizon a list of one for each step.
    """

    def __init__(self, model, policies, coupling, *, horizon=None, final=None, discount=None):
        self.model, self.coupling, self.horizon = model, coupling, horizon
        self.gamma = exactly(float(model.discount if discount is None else discount))
        self.prob = _rows(model.prob)
        self.reward = [[[exactly(float(r)) for r in row] for row in table] for table in model.reward.tolist()]
        self.policies = [
            [_rows(step.probs) for step in policy] if isinstance(policy, list) else [_rows(policy.probs)]
            for policy in policies
        ]
        self.final = [fmpq(0)] * model.shape[0] if final is None else [exactly(float(x)) for x in final]
        self.single = cache(self._single)
        self.pair = cache(self._pair)
        self._solved = {}

    def _pi(self, i, s, left):
        steps = self.policies[i]
        return steps[0 if len(steps) == 1 else self.horizon - left][s]

    def _step(self, i, s, left):
        """Probability, reward and next state of one branch."""
        if self.model.terminal[s]:
            return
        for (k, p), (a, q) in product(enumerate(self.prob[s]), enumerate(self._pi(i, s, left))):
            if p and q:
                yield p * q, self.reward[s][k][a], int(self.model.next_state[s, k, a])

    def _actions(self, i, s, j, t, left):
        one, other = self._pi(i, s, left), self._pi(j, t, left)
        if self.coupling.policy_luck == "independent":
            for (a, p), (b, q) in product(enumerate(one), enumerate(other)):
                if p and q:
                    yield p * q, a, b
            return
        ends, others, u = list(accumulate(one)), list(accumulate(other)), fmpq(0)
        while u < 1:
            a, b = (next(n for n, end in enumerate(row) if end > u) for row in (ends, others))
            yield min(ends[a], others[b]) - u, a, b
            u = min(ends[a], others[b])

    def _steps(self, i, s, j, t, left):
        """Probability, rewards and next states of two branches, none of them at an end."""
        together = self.coupling.shared_between_states or (self.coupling.shared_in_a_state and s == t)
        for w, a, b in self._actions(i, s, j, t, left):
            for (k, p), (m, q) in product(enumerate(self.prob[s]), enumerate(self.prob[t])):
                chance = (p if k == m else 0) if together else p * q
                if chance:
                    n, o = int(self.model.next_state[s, k, a]), int(self.model.next_state[t, m, b])
                    yield w * chance, self.reward[s][k][a], n, self.reward[t][m][b], o

    def _single(self, i, s, p, left):
        if p == 0:
            return fmpq(1)
        if left == 0:
            return self.final[s] ** p
        return sum(
            (
                w * comb(p, m) * r ** (p - m) * self.gamma**m * self.single(i, n, m, left - 1)
                for w, r, n in self._step(i, s, left)
                for m in range(p + 1)
            ),
            fmpq(0),
        )

    def _pair(self, i, s, j, t, p, q, left):
        if p == 0 or q == 0:
            return self.single(j, t, q, left) if p == 0 else self.single(i, s, p, left)
        if self.model.terminal[s] or self.model.terminal[t]:
            return fmpq(0)
        if left == 0:
            return self.final[s] ** p * self.final[t] ** q
        return sum(
            (
                w * comb(p, m) * comb(q, o) * r ** (p - m) * u ** (q - o) * self.gamma ** (m + o)
                * self.pair(i, n, j, v, m, o, left - 1)
                for w, r, n, u, v in self._steps(i, s, j, t, left)
                for m in range(p + 1)
                for o in range(q + 1)
            ),
            fmpq(0),
        )  # fmt: skip

    def moment(self, s, i, p, j=0, q=0, t=None):
        """E[Z_i(s)^p Z_j(t)^q]; t = s if it is not given."""
        t = s if t is None else t
        if self.horizon is not None:
            return self.pair(i, s, j, t, p, q, self.horizon)
        if q == 0 or p == 0:
            return fmpq(1) if p == q == 0 else self._of_one(i, p)[s] if q == 0 else self._of_one(j, q)[t]
        return self._of_two(i, j, p, q)[s, t]

    def _of_one(self, i, p):
        if p == 0:
            return [fmpq(1)] * self.model.shape[0]
        if (i, p) not in self._solved:
            S = self.model.shape[0]
            rows, source = [{} for _ in range(S)], [fmpq(0)] * S
            for s in range(S):
                for w, r, n in self._step(i, s, 0):
                    rows[s][n] = rows[s].get(n, 0) + w * self.gamma**p
                    source[s] += sum(
                        w * comb(p, m) * r ** (p - m) * self.gamma**m * self._of_one(i, m)[n] for m in range(p)
                    )
            self._solved[i, p] = _linear(rows, source)
        return self._solved[i, p]

    def _known(self, i, s, j, t, p, q):
        if p == 0:
            return self._of_one(j, q)[t]
        return self._of_one(i, p)[s] if q == 0 else self._of_two(i, j, p, q)[s, t]

    def _of_two(self, i, j, p, q):
        if (i, j, p, q) not in self._solved:
            pairs = list(product(range(self.model.shape[0]), repeat=2))
            number = {pair: n for n, pair in enumerate(pairs)}
            rows, source = [{} for _ in pairs], [fmpq(0)] * len(pairs)
            for (s, t), x in number.items():
                if self.model.terminal[s] or self.model.terminal[t]:
                    continue
                for w, r, n, u, v in self._steps(i, s, j, t, 0):
                    rows[x][number[n, v]] = rows[x].get(number[n, v], 0) + w * self.gamma ** (p + q)
                    for m, o in product(range(p + 1), range(q + 1)):
                        if (m, o) != (p, q):
                            times = comb(p, m) * comb(q, o) * r ** (p - m) * u ** (q - o) * self.gamma ** (m + o)
                            source[x] += w * times * self._known(i, n, j, v, m, o)
            self._solved[i, j, p, q] = dict(zip(pairs, _linear(rows, source), strict=True))
        return self._solved[i, j, p, q]

    def mean(self, s, i):
        return self.moment(s, i, 1)

    def covariance(self, s, i, j):
        both = self.moment(s, i, 2) if i == j else self.moment(s, i, 1, j, 1)
        return both - self.mean(s, i) * self.mean(s, j)

    def gap_moment(self, s, i, j, order, starts=None):
        """Central moment of Z_i(s) − Z_j(s); or with the start drawn from `starts` [S]."""
        starts = {s: fmpq(1)} if starts is None else dict(enumerate(_distribution(starts)))
        raw = [
            sum(
                mu * comb(n, p) * (-1) ** (n - p) * self.moment(x, i, p, j, n - p)
                for x, mu in starts.items()
                if mu
                for p in range(n + 1)
            )
            for n in range(order + 1)
        ]
        return sum(comb(order, n) * raw[n] * (-raw[1]) ** (order - n) for n in range(order + 1))


def _linear(rows, source):
    n = len(rows)
    system, right = fmpq_mat(n, n), fmpq_mat(n, 1)
    for i, row in enumerate(rows):
        system[i, i] = fmpq(1)
        for j, w in row.items():
            system[i, j] -= w
        right[i, 0] = source[i]
    solution = system.solve(right)
    return [solution[i, 0] for i in range(n)]


def contains(interval, value):
    above = math.isinf(interval.low) or exactly(interval.low) <= value
    return bool(above and (math.isinf(interval.high) or value <= exactly(interval.high)))


def violations(evaluation, truth, order=2):
    """Every stated interval that does not contain the truth."""
    found = []
    P = evaluation.mean.shape[1]
    for s in range(truth.model.shape[0]):
        for i in range(P):
            if not contains(evaluation.mean_interval(s, i), truth.mean(s, i)):
                found.append(f"mean of {s, i}")
            for j in range(P):
                if not contains(evaluation.covariance_interval(s, i, j), truth.covariance(s, i, j)):
                    found.append(f"covariance of {s, i, j}")
                if i == j:
                    continue
                gap = evaluation.gap(s, i, j)
                if not contains(gap.mean_interval, truth.mean(s, i) - truth.mean(s, j)):
                    found.append(f"mean gap of {s, i, j}")
                if not contains(gap.variance_interval, truth.gap_moment(s, i, j, 2)):
                    found.append(f"gap variance of {s, i, j}")
                for o in range(2, order + 1):
                    if not contains(gap.central_moments[o].interval, truth.gap_moment(s, i, j, o)):
                        found.append(f"gap moment {o} of {s, i, j}")
                for p in range(1, order):
                    for q in range(1, order + 1 - p):
                        if p + q > 2:
                            stated = evaluation.moment(*[(s, i)] * p, *[(s, j)] * q)
                            if not contains(stated.interval, truth.moment(s, i, p, j, q)):
                                found.append(f"moment {p, q} of {s, i, j}")
    return found


def start_violations(evaluation, truth, start, order=2):
    """The same for the state "start", drawn from `start` [S]."""
    found = []
    chances, P = _distribution(start), evaluation.mean.shape[1]

    def mixed(value):
        return sum(chance * value(s) for s, chance in enumerate(chances))

    means = [mixed(lambda s, i=i: truth.mean(s, i)) for i in range(P)]
    for i in range(P):
        if not contains(evaluation.mean_interval("start", i), means[i]):
            found.append(f"mean of the start, {i}")
        for j in range(P):
            if i == j:
                continue
            both = mixed(lambda s, i=i, j=j: truth.moment(s, i, 1, j, 1)) - means[i] * means[j]
            if not contains(evaluation.covariance_interval("start", i, j), both):
                found.append(f"covariance of the start, {i, j}")
            gap, split = evaluation.gap("start", i, j), evaluation.variance_split(i, j)
            variance = truth.gap_moment(None, i, j, 2, start)
            within = mixed(lambda s, i=i, j=j: truth.gap_moment(s, i, j, 2))
            for name, interval, right in (
                ("mean gap", gap.mean_interval, means[i] - means[j]),
                ("gap variance", gap.variance_interval, variance),
                ("variance within", split.within.interval, within),
                ("variance between", split.between.interval, variance - within),
            ):
                if not contains(interval, right):
                    found.append(f"{name} of the start, {i, j}")
            for o in range(2, order + 1):
                if not contains(gap.central_moments[o].interval, truth.gap_moment(None, i, j, o, start)):
                    found.append(f"gap moment {o} of the start, {i, j}")
    return found


def enumerated_gaps(model, one, other, coupling, s):
    """The distribution of Z_one(s) − Z_other(s) in a model that ends: every future listed, {gap: probability}."""
    truth = PolicyTruth(model, [one, other], coupling)

    def alone(i, s):
        if model.terminal[s]:
            return {fmpq(0): fmpq(1)}
        return _collected(
            (w * q, r + truth.gamma * z) for w, r, n in truth._step(i, s, 0) for z, q in alone(i, n).items()
        )

    def both(s, t):
        if model.terminal[s] or model.terminal[t]:
            return _collected((p * q, x - y) for x, p in alone(0, s).items() for y, q in alone(1, t).items())
        return _collected(
            (w * q, r - u + truth.gamma * z)
            for w, r, n, u, m in truth._steps(0, s, 1, t, 0)
            for z, q in both(n, m).items()
        )

    return both(s, s)


def _collected(pairs):
    found = {}
    for chance, value in pairs:
        found[value] = found.get(value, fmpq(0)) + chance
    return found
