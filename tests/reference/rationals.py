"""The pair chain solved in exact rationals (FLINT): the truth that certificates are held against.

Equations are written per pair of coordinates, uncentred, as the paper has them. The steps come from
`jmdp.models.exact`, which a test holds against `pair_chain`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
from flint import fmpq, fmpq_mat

from jmdp.models.exact import ExactStep


def exact(x: float | Fraction) -> fmpq:
    return fmpq(*x.as_integer_ratio()) if isinstance(x, Fraction) else fmpq(*float(x).as_integer_ratio())


class Truth:
    """Exact means and second moments of one model, policy and coupling."""

    def __init__(self, model, policy, coupling):
        self.step = ExactStep(model, policy, coupling)
        S, _, A = model.shape
        self.gamma = exact(self.step.discount)
        self.pi = [[exact(p) for p in row] for row in self.step.policy]
        self.coordinates = list(product(range(S), range(A)))
        self.index = {x: i for i, x in enumerate(self.coordinates)}
        self._solve_mean()
        self._solve_squares()

    def _steps(self, x):
        for p, _, r, n in self.step.one(x):
            yield exact(p), exact(r), n

    def _linear(self, rows, sources):
        n = len(rows)
        system = fmpq_mat(n, n)
        right = fmpq_mat(n, 1)
        for i, row in enumerate(rows):
            system[i, i] = fmpq(1)
            for j, w in row.items():
                system[i, j] -= w
            right[i, 0] = sources[i]
        solution = system.solve(right)
        return [solution[i, 0] for i in range(n)]

    def _solve_mean(self):
        rows, sources = [], []
        for x in self.coordinates:
            row, source = defaultdict(fmpq), fmpq(0)
            for p, r, n in self._steps(x):
                source += p * r
                for b, q in enumerate(self.pi[n]):
                    row[self.index[n, b]] += self.gamma * p * q
            rows.append(row)
            sources.append(source)
        self.mean = self._linear(rows, sources)
        self.value = [sum(q * self.mean[self.index[n, b]] for b, q in enumerate(row)) for n, row in enumerate(self.pi)]

    def _solve_squares(self):
        rows, sources = [], []
        for x in self.coordinates:
            row, source = defaultdict(fmpq), fmpq(0)
            for p, r, n in self._steps(x):
                source += p * (r * r + 2 * self.gamma * r * self.value[n])
                for b, q in enumerate(self.pi[n]):
                    row[self.index[n, b]] += self.gamma**2 * p * q
            rows.append(row)
            sources.append(source)
        self.square = self._linear(rows, sources)

    @cached_property
    def second(self):
        """E[Z(x) Z(y)] of distinct branches, by pair of coordinate numbers."""
        X = len(self.coordinates)
        merge = self.step.coupling.shared_in_a_state
        pairs = [(i, j) for i in range(X) for j in range(i + merge, X)]
        number = {pair: i for i, pair in enumerate(pairs)}
        rows, sources = [], []
        for i, j in pairs:
            row, source = defaultdict(fmpq), fmpq(0)
            for w, r, n, u, m in self.step.two(self.coordinates[i], self.coordinates[j]):
                w, r, u = exact(w), exact(r), exact(u)
                source += w * (r * u + self.gamma * (r * self.value[m] + u * self.value[n]))
                for q, a, b in self.step.actions(n, m):
                    q = exact(q)
                    k, m2 = sorted((self.index[n, a], self.index[m, b]))
                    if merge and k == m2:
                        source += w * q * self.gamma**2 * self.square[k]
                    else:
                        row[number[k, m2]] += w * q * self.gamma**2
            rows.append(row)
            sources.append(source)
        solved = self._linear(rows, sources) if pairs else []
        return {pair: solved[i] for pair, i in number.items()}

    def covariance(self, s, a, t, b) -> fmpq:
        i, j = sorted((self.index[s, a], self.index[t, b]))
        moment = self.square[i] if i == j else self.second[i, j]
        return moment - self.mean[i] * self.mean[j]


def violations(evaluation, truth: Truth) -> list[str]:
    """Every stated interval of an evaluation that does not contain the truth."""
    found = []
    for i, (s, a) in enumerate(truth.coordinates):
        if not contains(evaluation.mean_interval(s, a), truth.mean[i]):
            found.append(f"mean of {s, a}")
        error = float(np.broadcast_to(evaluation.certificate.mean_error, evaluation.mean.shape)[s, a])
        if error < math.inf and abs(exact(evaluation.mean[s, a]) - truth.mean[i]) > exact(error):
            found.append(f"stored error of the mean of {s, a}")
        for j, (t, b) in enumerate(truth.coordinates[i:], start=i):
            right = truth.covariance(s, a, t, b)
            if not contains(evaluation.cross_covariance_interval(s, a, t, b), right):
                found.append(f"covariance of {s, a} and {t, b}")
            if s == t and i != j:
                gap = evaluation.gap(s, a, b)
                mean = truth.mean[i] - truth.mean[j]
                variance = truth.covariance(s, a, s, a) + truth.covariance(s, b, s, b) - 2 * right
                for name, value, interval in (
                    ("mean", mean, gap.mean_interval),
                    ("variance", variance, gap.variance_interval),
                ):
                    if not contains(interval, value):
                        found.append(f"gap {name} of {s, a, b}")
    return found


def contains(interval, value: fmpq) -> bool:
    return not (math.isfinite(interval.low) and exact(interval.low) > value) and not (
        math.isfinite(interval.high) and exact(interval.high) < value
    )
