"""Equal returns have a correlation of exactly 1, by every method that evaluates several policies of a table."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import jmdp
from sample_models import random_problem

METHODS = {
    "exact pairs": lambda s: jmdp.ExactPairs(),
    "reachable pairs": jmdp.ReachablePairs,
    "exact distribution": lambda s: jmdp.ExactDistribution(cells=64, max_cells=256),
    "samples": lambda s: jmdp.MonteCarlo(seed=0, samples=50),
}


@pytest.mark.parametrize("method", METHODS)
def test_equal_policies_have_correlation_one(method):
    """√v √v is rounded, and v / (√v √v) was 0.9999999999999999 with error 0 in a fourth of the models."""
    rng, one = np.random.default_rng(4), 0
    for _ in range(12):
        model, policy = random_problem(rng, states=4, scenarios=3, actions=2)
        both = {"a": policy, "b": jmdp.TabularPolicy(policy.probs)}
        result = jmdp.evaluate(
            model, both, jmdp.Local(policy_luck="shared"), METHODS[method](0), throw=False, progress=False
        )
        gap, own = result.gap(0, "a", "b"), result.covariance_interval(0, "a", "a")
        if own is not None and own.low > 0:
            one += 1
            assert gap.correlation == 1.0
            assert gap.correlation_interval == jmdp.results.Interval(1.0, 1.0)
            assert "correlation  1" in str(gap).split("\n  ")
        else:
            assert gap.correlation == 1.0 or math.isnan(gap.correlation)
    assert one >= 5


@pytest.mark.parametrize("variance", [0.1, 3e-7, 0.7e10, 1e-300])
def test_correlation_of_equal_variances_is_a_quotient(variance):
    """With equal variances the correlation is the covariance divided by one of them, rounded once."""
    base = jmdp.evaluate(
        jmdp.worlds.anti_correlated_bandit().model, {"a": [0], "b": [1]}, jmdp.Independent(), progress=False
    )
    covariance = variance * np.array([[[1.0, 0.5], [0.5, 1.0]]])
    result = replace(base, covariance=covariance, certificate=None)
    assert result.correlation[0, 0, 1] == covariance[0, 0, 1] / covariance[0, 0, 0]
