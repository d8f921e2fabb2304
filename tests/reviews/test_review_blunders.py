"""Planted blunders are ranked first; the correction for luck is unbiased; intervals contain the truth."""

from __future__ import annotations

import numpy as np
import pytest
from blunder_runs import BlackjackValues, ranked
from correction_runs import bias, no_folds
from coverage_runs import average_misses, misses
from review_worlds import rare_table
from scipy.stats import binomtest

import jmdp
from jmdp.reviews.errors import average


@pytest.mark.parametrize("name", ["inventory", "FrozenLake"])
def test_a_planted_blunder_is_ranked_first(name):
    found = ranked(name, 3)
    assert found.reviewed == found.first == 3


def test_ranking_is_not_first_by_chance(monkeypatch):
    """If regrets are ranked in the wrong order, blunders are not found."""
    from jmdp.reviews.review import Review

    right = Review.worst
    monkeypatch.setattr(Review, "worst", lambda self, count=None: right(self)[::-1][:count])
    assert ranked("FrozenLake", 2).first == 0


def test_values_of_blackjack():
    """By the recursion for an infinite deck; known: sticking on 20 against a 10 earns 0.4 to 0.5."""
    stick, hit = BlackjackValues()((20, 10, 0))
    assert 0.4 < stick < 0.5
    assert hit < -0.7


def test_the_corrected_mean_is_unbiased():
    mean, error, plain, exact = bias(40, 20, 5)
    assert abs(mean - exact) < 5 * error
    assert error < 0.7 * plain


def test_no_folds_are_planted():
    """The patch that plants the bias changes the estimate; its size is measured in review_evidence.py."""
    with no_folds():
        wrong = bias(5, 6, 2)[0]
    assert wrong != bias(5, 6, 2)[0]


@pytest.mark.parametrize("name", ["random table 3", "skewed rewards, other reference", "reward of chance 0.02"])
def test_intervals_of_rollouts_contain_the_truth(name):
    for quantity, (missed, total) in misses(name, 32, 40).items():
        assert binomtest(missed, total, 0.05, alternative="greater").pvalue > 1e-3, quantity


def test_intervals_of_averages_contain_the_truth():
    found = average_misses("skewed rewards", 40, 20, truth=400)
    for quantity, (missed, total, without) in found.items():
        assert without == 0
        assert binomtest(missed, total, 0.05, alternative="greater").pvalue > 1e-3, quantity


def test_one_value_has_no_interval():
    """An interrupted review may have one episode."""
    assert not average(np.array([2.0]), 0.95).has_interval
    assert average(np.array([2.0, 3.0]), 0.95).has_interval


def test_a_rare_reward_that_no_rollout_shows_is_possible():
    """The reward of another state shows what is possible, so intervals of all-zero rollouts are not narrow."""
    model = rare_table(0.002)
    policy = jmdp.TabularPolicy(np.array([[0.5, 0.5]] * 3))
    one = jmdp.review(model, policy, seed=1, starts=[0], steps=range(3), method=jmdp.RolloutValues(32), progress=False)
    assert all(decision.action_value.error > 0 for decision in one.decisions)
