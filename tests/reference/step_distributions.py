"""The exact distribution of one step of two branches, and G-tests of draws against it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from jmdp.models.exact import ExactStep
from sample_models import COUPLINGS, random_problem

DRAWS = 20_000
FALSE_ALARM = 1e-6
POWER = 0.99


def expected(model, policy, coupling, x, y):
    """The exact distribution of the same."""
    distribution = defaultdict(float)
    exact = ExactStep(model, policy, coupling)
    if exact.coalesced(x, y):
        for p, _, r, n in exact.one(x):
            for a, q in enumerate(exact.policy[n]):
                distribution[float(r), n, a, float(r), n, a] += float(p * q)
        return distribution
    for w, r, n, u, m in exact.two(x, y):
        for q, a, b in exact.actions(n, m):
            distribution[float(r), n, a, float(u), m, b] += float(w * q)
    return distribution


def g_test(seen, distribution):
    """G statistic and degrees of freedom; cells with fewer than 10 expected draws are taken together."""
    impossible = [cell for cell in seen if distribution.get(cell, 0.0) <= 0]
    assert not impossible, f"drew what cannot happen: {impossible[0]}"
    large = [cell for cell, p in distribution.items() if p * DRAWS >= 10]
    cells = [(seen[cell], distribution[cell] * DRAWS) for cell in large]
    rest = 1 - sum(distribution[cell] for cell in large)
    if rest * DRAWS >= 10:
        cells.append((DRAWS - sum(seen[cell] for cell in large), rest * DRAWS))
    g = 2 * sum(o * np.log(o / e) for o, e in cells if o)
    return max(g, 0.0), len(cells) - 1


def cases():
    """Models and pairs of coordinates: same state, two states, one coordinate."""
    rng = np.random.default_rng(61)
    for i in range(6):
        while True:
            model, policy = random_problem(rng, states=4, scenarios=3, actions=3)
            _, K, A = model.shape
            going = np.flatnonzero(~model.terminal)
            if going.size >= 2 and K >= 2 and A >= 2 and policy.probs.max() < 1:
                break
        s, t = (int(x) for x in rng.permutation(going)[:2])
        a, b = (int(x) for x in rng.permutation(A)[:2])
        for x, y in (((s, a), (s, b)), ((s, a), (t, b)), ((s, a), (t, a)), ((s, a), (s, a))):
            for j, coupling in enumerate(COUPLINGS):
                yield model, policy, coupling, x, y, (i, j)
