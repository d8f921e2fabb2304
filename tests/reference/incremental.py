"""The paper's incremental JIPE-2, one coordinate at a time in plain Python."""

from __future__ import annotations

from collections import defaultdict


class Incremental:
    """M as dictionaries: mean[x], square[x], product[x, y] with x ≤ y; all start at 0."""

    def __init__(self, discount, steps, coalesce):
        self.discount, self.steps, self.coalesce = discount, steps, coalesce
        self.mean, self.square, self.product = defaultdict(float), defaultdict(float), defaultdict(float)
        self.count = defaultdict(int)

    def step(self, table, key, target):
        name = (id(table), key)
        table[key] += self.steps(self.count[name]) * (target - table[key])
        self.count[name] += 1

    def update_mean(self, x, r, n):
        self.step(self.mean, x, r + self.discount * self.mean_at(n))

    def update_square(self, x, r, n):
        ahead = 0.0 if n is None else self.square[n]
        self.step(self.square, x, r * r + 2 * self.discount * r * self.mean_at(n) + self.discount**2 * ahead)

    def update_product(self, x, y, r, n, u, m):
        g = self.discount
        if n is None or m is None:
            ahead = 0.0
        elif n == m and self.coalesce:
            ahead = self.square[n]
        else:
            ahead = self.product[min(n, m), max(n, m)]
        target = r * u + g * r * self.mean_at(m) + g * u * self.mean_at(n) + g * g * ahead
        self.step(self.product, (min(x, y), max(x, y)), target)

    def mean_at(self, n):
        return 0.0 if n is None else self.mean[n]
