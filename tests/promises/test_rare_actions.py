"""Several policies with actions of probability down to 1e-300: every stated interval contains the rational truth.

The default run takes a few dozen problems; ``pytest -m long`` takes 1,000.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError
from reference.policies import PolicyTruth, start_violations, violations
from sample_models import COUPLINGS

RARE = [1e-300, 1e-200, 1e-100, 1e-40, 1e-17, 2.0**-53, 1e-12, 3e-8]
PIECES = 4


def some_row(rng, A):
    """Certain, certain up to rounding, with a rare action, or of all sizes."""
    row = np.zeros(A)
    row[rng.integers(A)] = 1.0 if rng.random() < 0.8 else 1 - 2.0**-53
    kind = rng.choice(["certain", "rare", "sizes", "any"], p=[0.2, 0.5, 0.15, 0.15])
    if kind == "rare":
        other = rng.integers(A)
        row[other] = row[other] or rng.choice(RARE)
    elif kind == "sizes":
        row = 10.0 ** rng.uniform(-300, 0, A)
        row[rng.integers(A)] = 1.0
        row /= row.sum()
    elif kind == "any":
        row = rng.dirichlet(np.ones(A))
    return row


def some_problem(rng, coupling):
    """A table whose rewards make rare actions matter, two or three policies, some of them equal, and what is asked."""
    S, K, A = (int(n) for n in rng.integers([1, 1, 2], [3, 3, 4]))
    rows = rng.dirichlet(np.ones(K), size=1 if coupling.shared_between_states else S)
    policies = [np.array([some_row(rng, A) for _ in range(S)]) for _ in range(int(rng.integers(2, 4)))]
    if rng.random() < 0.4:
        policies[-1] = policies[0]
    gamma = float(rng.choice([0.0, 0.5, 0.9, 0.999, 1e-160]))
    reward = rng.normal(size=(S, K, A)) * 10.0 ** rng.choice([0.0, 6.0, 10.0, 50.0, 100.0], size=(1, 1, A))
    model = jmdp.TabularJMDP(np.broadcast_to(rows, (S, K)), reward, rng.integers(0, S, (S, K, A)), gamma)
    asked = {"starts": rng.dirichlet(np.ones(S))}
    if rng.random() < 0.3:
        asked |= {"horizon": int(rng.integers(1, 4)), "discount": float(rng.choice([gamma, 1.0]))}
    return model, [jmdp.TabularPolicy(table) for table in policies], asked


def hold(numbers):
    missed, ended = [], Counter()
    for i in numbers:
        rng, coupling = np.random.default_rng([42, i]), COUPLINGS[i % len(COUPLINGS)]
        model, policies, asked = some_problem(rng, coupling)
        order = int(rng.choice([2, 2, 3]))
        method = jmdp.ExactPairs(order=order, max_sweeps=2000)
        named = {str(n): policy for n, policy in enumerate(policies)}
        try:
            result = jmdp.evaluate(model, named, coupling, method, throw=False, progress=False, **asked)
        except SettingsError:  # moments of this order can overflow
            ended["refused"] += 1
            continue
        over = {name: asked[name] for name in ("horizon", "discount") if name in asked}
        truth = PolicyTruth(model, policies, coupling, **over)
        wrong = violations(result, truth, order) + start_violations(result, truth, asked["starts"], order)
        missed += [f"[42, {i}] {coupling}: {what}" for what in wrong]
        ended[result.outcome.name] += 1
    print(f"{len(numbers)} problems, {len(missed)} miss; {dict(ended)}")
    return missed, ended


def test_intervals_contain_the_truth_if_actions_are_rare():
    missed, ended = hold(range(48))
    assert missed == []
    assert ended["CONVERGED"] >= 20


@pytest.mark.long
@pytest.mark.parametrize("piece", range(PIECES), ids=lambda piece: f"part{piece + 1}")
def test_intervals_contain_the_truth_on_a_thousand_problems_with_rare_actions(piece):
    assert hold(range(100 + piece, 1100 + piece, PIECES))[0] == []
