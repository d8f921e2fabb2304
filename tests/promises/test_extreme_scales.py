"""Certified intervals contain the truth at any scale: rewards from 1e-320 to 1e150, discounts from 1e-320 to 1 − 2⁻⁵³.

Every method that certifies is held against exact rationals on random small models. The default run takes a few dozen
models in all; ``pytest -m long`` takes 1,000 for each method.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import jmdp
from jmdp.errors import CouplingError, ModelError, SettingsError
from jmdp.methods.linear_projected import Restart, Stationary, features
from reference.containment import Checks
from reference.enumeration import Enumeration
from reference.joint_moments import JointMoments
from reference.mixed_moments import MixedMoments
from reference.policies import PolicyTruth, start_violations, violations
from reference.rationals import Truth
from sample_models import COUPLINGS, extreme_problem

NO_CERTIFICATE = "no certificate"


def second_moments(model, policy, coupling, method, checks):
    """Hold what a method says of means, covariances and gaps against the truth, and return how it ended."""
    result = jmdp.evaluate(model, policy, coupling, method, throw=False)
    if result.certificate is None:
        return NO_CERTIFICATE
    assert result.certificate.kind in ("exact", "certified")
    states = [method.state] if isinstance(method, jmdp.ReachablePairs) else range(model.shape[0])
    checks.moments(result, Truth(model, policy, coupling), states)
    return result.outcome.name


def exact_pairs(rng, coupling, checks):
    model, policy = extreme_problem(rng, coupling)
    method = jmdp.ExactPairs(tolerance=float(rng.choice([1e-10, 1e-3, 0.0])), max_sweeps=3000)
    return second_moments(model, policy, coupling, method, checks)


def single_precision(rng, coupling, checks):
    model, policy = extreme_problem(rng, coupling)
    method = jmdp.ExactPairs(tolerance=1e-5, precision="float32", max_sweeps=3000)
    return second_moments(model, policy, coupling, method, checks)


def jipe(rng, coupling, checks):
    model, policy = extreme_problem(rng, coupling, sizes=(2, 2, 2))
    return second_moments(model, policy, coupling, jmdp.JIPE(max_sweeps=200), checks)


def reachable_pairs(rng, coupling, checks):
    """Cut at one state or more, or not at all."""
    model, policy = extreme_problem(rng, coupling, sizes=(4, 2, 2))
    S = model.shape[0]
    method = jmdp.ReachablePairs(
        int(rng.integers(S)),
        tolerance=float(rng.choice([0.3, 0.01, 1e-6, 0.0])),
        max_states=int(rng.integers(1, S + 1)),
        memory_budget=18 * 8 * (int(rng.integers(1, S + 1)) + 1) ** 2,
    )
    return second_moments(model, policy, coupling, method, checks)


def linear_projected(rng, coupling, checks):
    model, policy = extreme_problem(rng, coupling, sizes=(2, 2, 2))
    X = model.shape[0] * model.shape[2]
    method = jmdp.LinearProjected(
        features.OneHot() if rng.random() < 0.5 else rng.normal(size=(X, int(rng.integers(1, X + 1)))),
        same_state=True if rng.random() < 0.5 else None,
        target=str(rng.choice(["covariance", "second_moment"])),
        weights=Stationary() if rng.random() < 0.2 else Restart(),
        max_sweeps=200,
    )
    try:
        return second_moments(model, policy, coupling, method, checks)
    except (CouplingError, ModelError, SettingsError) as refused:  # independent luck; walks that all end; no state left
        if not any(why in str(refused) for why in ("Independent", "terminal", "ends")):
            raise
        return "refused"


def exact_pairs_order_4(rng, coupling, checks):
    model, policy = extreme_problem(rng, coupling, sizes=(2, 2, 2))
    return higher_moments(
        model, policy, coupling, jmdp.ExactPairs(order=4, max_sweeps=3000), MixedMoments, checks.mixed
    )


def jipe_order_3(rng, coupling, checks):
    model, policy = extreme_problem(rng, coupling, sizes=(2, 2, 2))
    return higher_moments(model, policy, coupling, jmdp.JIPE(order=3, max_sweeps=200), JointMoments, checks.joint)


def higher_moments(model, policy, coupling, method, truth, check):
    try:
        result = jmdp.evaluate(model, policy, coupling, method, throw=False)
    except SettingsError as refused:
        if "overflow" not in str(refused):
            raise
        return "refused"
    check(result, truth(model, policy, coupling, method.order), method.order)
    return result.outcome.name


def exact_distribution(rng, coupling, checks):
    """Models that end, so that every distribution can be enumerated."""
    model, policy = extreme_problem(rng, coupling, ends=True)
    method = jmdp.ExactDistribution(max_sweeps=int(rng.choice([3, 30])), cells=64, max_cells=256)
    result = jmdp.evaluate(model, policy, coupling, method, throw=False)
    checks.moments(result, Truth(model, policy, coupling), range(model.shape[0]))
    S, _, A = model.shape
    truth = Enumeration(model, policy, coupling)
    for s in range(S):
        for a in range(A):
            checks.distribution(result.return_distribution(s, a), truth.return_distribution((s, a)), f"return {s, a}")
            for b in range(A):
                if a != b:
                    checks.gap_distribution(
                        result.gap(s, a, b), truth.gap_distribution((s, a), (s, b)), f"gap {s, a, b}"
                    )
    if A > 1:
        checks.moment_bounds(result.gap(0, 0, 1), truth.gap_distribution((0, 0), (0, 1)))
    return result.outcome.name


def two_policies(rng, coupling, checks):
    """From each state and from a drawn start, over all time and over a few steps."""
    model, one = extreme_problem(rng, coupling)
    S, _, A = model.shape
    other = rng.dirichlet(np.full(A, 0.3), size=S) if rng.random() < 0.5 else np.eye(A)[rng.integers(0, A, S)]
    policies, order = {"one": one, "other": jmdp.TabularPolicy(other)}, int(rng.integers(2, 4))
    start, horizon = rng.dirichlet(np.ones(S)), int(rng.integers(1, 4))
    settings = {"horizon": horizon, "discount": float(rng.choice([model.discount, 1.0]))}
    tables = list(policies.values())
    for asked, truth in (
        ({}, PolicyTruth(model, tables, coupling)),
        (settings, PolicyTruth(model, tables, coupling, horizon=horizon, discount=settings["discount"])),
    ):
        method = jmdp.ExactPairs(order=order, max_sweeps=3000)
        try:
            result = jmdp.evaluate(model, policies, coupling, method, starts=start, throw=False, **asked)
        except SettingsError:  # moments of this order can overflow
            return "refused"
        checks.looked += 8 * S
        checks.missed += violations(result, truth, order) + start_violations(result, truth, start, order)
    return result.outcome.name


MODELS = {
    two_policies: 18,
    exact_pairs: 30,
    single_precision: 12,
    jipe: 18,
    reachable_pairs: 30,
    linear_projected: 18,
    exact_pairs_order_4: 6,
    jipe_order_3: 6,
    exact_distribution: 12,
}
"""In the default run. They draw in turn from all couplings, with independent and shared policy luck."""


def hold(method, models, seed):
    """Run so many models, model i of (seed, i) alone; return what was looked at and how the runs ended."""
    checks, outcomes = Checks(), Counter()
    for i in range(models):
        coupling, before = COUPLINGS[i % len(COUPLINGS)], len(checks.missed)
        outcomes[method(np.random.default_rng([seed, i]), coupling, checks)] += 1
        checks.missed[before:] = [f"[{seed}, {i}] {coupling}: {missed}" for missed in checks.missed[before:]]
    print(f"{method.__name__}: {models} models, {checks.looked} intervals, {len(checks.missed)} miss; {dict(outcomes)}")
    return checks, outcomes


@pytest.fixture(autouse=True)
def _short_series(monkeypatch):
    """Weights of LinearProjected may be of any series: what it leaves out is in the contraction that is measured."""
    monkeypatch.setattr("jmdp.methods.linear_projected.pair_steps._MOST_STEPS", 200)


@pytest.mark.parametrize("method", MODELS, ids=lambda method: method.__name__)
def test_intervals_contain_the_truth_at_any_scale(method):
    checks, outcomes = hold(method, MODELS[method], seed=170)
    assert checks.missed == []
    assert checks.looked >= 100
    assert sum(outcomes.values()) - outcomes["refused"] - outcomes[NO_CERTIFICATE] >= 5


@pytest.mark.long
@pytest.mark.parametrize("method", MODELS, ids=lambda method: method.__name__)
def test_intervals_contain_the_truth_on_a_thousand_models(method):
    assert hold(method, 1000, seed=171)[0].missed == []
