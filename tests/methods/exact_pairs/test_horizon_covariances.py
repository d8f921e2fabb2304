"""Covariances between states over a finite horizon, against exact rationals.

``pytest -m long`` runs 300 models.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError, UnavailableError
from reference.horizons import HorizonTruth
from reference.policies import PolicyTruth, contains
from sample_models import COUPLINGS, random_problem


def holds(interval, right):
    """True if the interval is finite and contains the rational."""
    finite = math.isfinite(interval.low) and math.isfinite(interval.high)
    return finite and Fraction(interval.low) <= right <= Fraction(interval.high)


def hold_against_rationals(models, seed):
    rng = np.random.default_rng(seed)
    for i in range(models):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = random_problem(
            rng, states=3, scenarios=2, actions=2, discounts=(0.0, 0.9, 1 - 2.0**-53), bounds=(2.0**-30, 1.0, 1e8)
        )
        S, _, A = model.shape
        H = int(rng.integers(1, 5))
        settings = {"horizon": H, "discount": (None, 1.0)[i % 2]}
        final = np.where(model.terminal, 0.0, rng.normal(size=S)) if rng.random() < 0.5 else None
        steps = [policy] * H
        if rng.random() < 0.5:
            steps = [jmdp.TabularPolicy(rng.dirichlet(np.full(A, 0.5), S)) for _ in range(H)]
        result = jmdp.evaluate(model, steps, coupling, terminal_value=final, **settings)
        truth = HorizonTruth(model, steps, coupling, final=final, discount=settings["discount"])
        for (s, a), (t, b) in product(product(range(S), range(A)), repeat=2):
            if (s, a) != (t, b):
                right = truth.covariance((s, a), (t, b))
                assert holds(result.cross_covariance_interval(s, a, t, b), right), (seed, i, coupling, s, a, t, b)
        if A == 1:  # all policies are equal and have one row
            continue
        others = [[jmdp.TabularPolicy(rng.dirichlet(np.full(A, 0.5), S)) for _ in range(H)] for _ in range(2)]
        policies = {f"p{j}": policy for j, policy in enumerate([steps, *others])}
        together = jmdp.evaluate(model, policies, coupling, terminal_value=final, **settings)
        both = PolicyTruth(
            model, list(policies.values()), coupling, horizon=H, final=final, discount=settings["discount"]
        )
        for s, t, (j, k) in product(range(S), range(S), ((0, 1), (1, 0), (2, 1))):
            right = both.moment(s, j, 1, k, 1, t) - both.mean(s, j) * both.mean(t, k)
            assert contains(together.cross_covariance_interval(s, j, t, k), right), (seed, i, coupling, s, j, t, k)


def test_covariances_between_states_hold_against_rationals():
    hold_against_rationals(36, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_covariances_between_states_hold_against_rationals_on_300_models(seed):
    hold_against_rationals(100, 10 + seed)


def test_shared_luck_in_two_states_by_hand():
    """One coin pays ±1 in state 0 and ±3 in state 1, at each of two steps: Cov = 3 + 3 γ²."""
    reward = np.array([[[1.0], [-1.0]], [[3.0], [-3.0]]])
    onward = np.array([[[0], [0]], [[1], [1]]])
    model = jmdp.TabularJMDP(np.full((2, 2), 0.5), reward, onward, 0.5)
    shared = jmdp.evaluate(model, [0, 0], jmdp.Synchronous(), horizon=2)
    assert shared.cross_covariance(0, 0, 1, 0) == shared.cross_covariance(1, 0, 0, 0) == 3.75
    assert shared.second_moment(0, 0, 1, 0) == 3.75
    assert jmdp.evaluate(model, [0, 0], jmdp.Local(), horizon=2).cross_covariance(0, 0, 1, 0) == 0.0


def test_they_are_saved(tmp_path):
    world = jmdp.worlds.windy_gridworld(2, 3)
    whole = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Synchronous(), horizon=4)
    whole.save(tmp_path / "result.nc")
    assert jmdp.load(tmp_path / "result.nc").cross_covariance_interval(0, 1, 3, 2) == whole.cross_covariance_interval(
        0, 1, 3, 2
    )


@pytest.mark.parametrize("horizon", [None, 3])
@pytest.mark.parametrize("states", [3, 8])
def test_a_random_start_has_no_covariance_with_a_state(horizon, states):
    """It was read from a state that is not in the model: 0 in [0, 0]."""
    rng = np.random.default_rng(0)
    model = jmdp.TabularJMDP(
        np.full((states, 2), 0.5), rng.normal(size=(states, 2, 2)), rng.integers(0, states, (states, 2, 2)), 0.9
    )
    policies = {"first": [0] * states, "uniform": "uniform"}
    start = np.full(states, 1 / states)
    result = jmdp.evaluate(model, policies, jmdp.Synchronous(), starts=start, horizon=horizon)
    alone = jmdp.evaluate(model, policies, jmdp.Synchronous(), horizon=horizon)
    same = 0, "first", 1, "uniform"
    assert result.cross_covariance_interval(*same) == alone.cross_covariance_interval(*same)
    for asked in (result.cross_covariance, result.cross_covariance_interval):
        with pytest.raises(SettingsError, match='"start" and another state'):
            asked("start", "first", 0, "uniform")
        with pytest.raises(SettingsError, match='"start" and another state'):
            asked(0, "uniform", "start", "first")
    with pytest.raises(UnavailableError, match="Evaluate that policy on its own"):
        result.cross_covariance(0, "first", 1, "first")
