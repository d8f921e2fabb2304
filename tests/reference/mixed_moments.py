"""E[Z(x)^i Z(y)^j] of two branches in exact rationals (FLINT), uncentred, per pair of coordinates.

Nothing of the methods is here: no shaping, no state pairs. The steps come from `jmdp.exact`.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from math import comb

from flint import fmpq

from reference.rationals import Truth, exact


class MixedMoments(Truth):
    """Exact moments of all orders up to `order` of one and of two returns."""

    def __init__(self, model, policy, coupling, order):
        super().__init__(model, policy, coupling)
        self.ones = {(0, x): fmpq(1) for x in self.coordinates}  # E[Z(x)^o] by (o, x)
        for o in range(1, order + 1):
            self._solve_one(o)
        self.apart = {}  # E[Z(x)^i Z(y)^j] of distinct branches by (i, j, x, y), i, j ≥ 1
        for o in range(2, order + 1):
            for i in range(1, o):
                self._solve_two(i, o - i)

    def moment(self, x, i, y, j):
        """E[Z(x)^i Z(y)^j]."""
        if x == y:
            return self.ones[i + j, x]
        return self._two(i, j, x, y)

    def central(self, x, i, y, j):
        """The same of Z(x) − E[Z(x)] and Z(y) − E[Z(y)]."""
        one, other = self.mean[self.index[x]], self.mean[self.index[y]]
        return sum(
            comb(i, p) * comb(j, q) * (-one) ** (i - p) * (-other) ** (j - q) * self.moment(x, p, y, q)
            for p, q in product(range(i + 1), range(j + 1))
        )

    def gap_central(self, s, a, b, n):
        """E[(G − E[G])^n] of G = Z(s, a) − Z(s, b)."""
        return sum(comb(n, i) * (-1) ** (n - i) * self.central((s, a), i, (s, b), n - i) for i in range(n + 1))

    def _two(self, i, j, x, y):
        if not i or not j:
            return self.ones[i + j, x if i else y]
        if self.step.coalesced(x, y):
            return self.ones[i + j, x]
        return self.apart[i, j, x, y]

    def _solve_one(self, o):
        rows, sources = [], []
        for x in self.coordinates:
            row, source = defaultdict(fmpq), fmpq(0)
            if o == 0 and self.step.model.terminal[x[0]]:
                source = fmpq(1)
            for p, r, n in self._steps(x):
                for b, q in enumerate(self.pi[n]):
                    for m in range(o):
                        source += p * q * comb(o, m) * r ** (o - m) * self.gamma**m * self.ones[m, (n, b)]
                    row[self.index[n, b]] += self.gamma**o * p * q
            rows.append(row)
            sources.append(source)
        for x, value in zip(self.coordinates, self._linear(rows, sources), strict=True):
            self.ones[o, x] = value

    def _solve_two(self, i, j):
        pairs = [(x, y) for x, y in product(self.coordinates, repeat=2) if not self.step.coalesced(x, y)]
        number = {pair: k for k, pair in enumerate(pairs)}
        rows, sources = [], []
        for x, y in pairs:
            row, source = defaultdict(fmpq), fmpq(0)
            for w, r, n, u, m in self.step.two(x, y):
                w, r, u = exact(w), exact(r), exact(u)
                for q, a, b in self.step.actions(n, m):
                    q = exact(q)
                    for k, g in product(range(i + 1), range(j + 1)):
                        times = w * q * comb(i, k) * comb(j, g) * self.gamma ** (k + g) * r ** (i - k) * u ** (j - g)
                        if (k, g) == (i, j) and not self.step.coalesced((n, a), (m, b)):
                            row[number[(n, a), (m, b)]] += times
                        else:
                            source += times * self._two(k, g, (n, a), (m, b))
            rows.append(row)
            sources.append(source)
        if pairs:
            for (x, y), value in zip(pairs, self._linear(rows, sources), strict=True):
                self.apart[i, j, x, y] = value
