"""Values and TD errors: right to the last bits, and honestly bounded where they are not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import jmdp
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared import shaping, state_units
from jmdp.methods.shared.policy_chain import ChainSolver
from reference.rationals import Truth, exact, violations
from sample_models import COUPLINGS, random_problem


def test_two_words_hold_about_106_bits():
    """Sums and products of random numbers against exact fractions."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=200) * 2.0 ** rng.integers(-30, 30, 200) for _ in range(2))
    for result, right in (
        (dd.add(dd.of(x), dd.of(y)), [Fraction(a) + Fraction(b) for a, b in zip(x, y, strict=True)]),
        (dd.scale(dd.of(x), y), [Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)]),
    ):
        for high, low, value in zip(*result, right, strict=True):
            assert abs(Fraction(high) + Fraction(low) - value) <= Fraction(dd.RELATIVE_ERROR) * abs(value)
    total = dd.total(dd.of(x[None] * np.ones((3, 1))), axis=1)
    off = abs(Fraction(total.high[0]) + Fraction(total.low[0]) - sum(map(Fraction, x)))
    assert off <= 200 * Fraction(dd.RELATIVE_ERROR) * sum(abs(Fraction(a)) for a in x)


@pytest.mark.parametrize("discount", [0.5, 0.999, 1 - 2**-30, 1 - 2**-50])
def test_means_are_correctly_rounded_up_to_discounts_near_one(discount):
    rng = np.random.default_rng(1)
    for _ in range(20):
        model, policy = random_problem(rng, states=3, scenarios=3, actions=2, discounts=(discount,))
        truth = Truth(model, policy, jmdp.Local())
        mean = shaping.shape_rewards(model, policy)
        largest = max(float(abs(m)) for m in truth.mean)
        for i, (s, a) in enumerate(truth.coordinates):
            off = abs(exact(mean.scale.restore(mean.mean[s, a])) - truth.mean[i])
            assert float(off) <= 2**-52 * largest


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_a_bad_solver_makes_certificates_wide_and_not_wrong(coupling, monkeypatch):
    for room in (shaping, state_units):
        monkeypatch.setattr(room, "policy_chain_solver", lambda *problem: ChainSolver(lambda b: 0.7 * b, lambda b: b))
    rng = np.random.default_rng(2)
    for _ in range(10):
        model, policy = random_problem(rng, states=3, scenarios=3, actions=3, discounts=(0.5, 0.9))
        result = jmdp.evaluate(model, policy, coupling, throw=False)
        assert violations(result, Truth(model, policy, coupling)) == []
