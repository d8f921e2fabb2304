"""Planted blunders are ranked first; the correction for luck is unbiased; intervals contain the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from blunder_runs import BlackjackValues, ranked, stop_at_17
from correction_runs import bias, no_folds
from coverage_runs import average_misses, misses
from scipy.stats import binomtest

import jmdp
from jmdp.reviews.decision import average, mean_errors, with_unseen
from jmdp.reviews.rollout_values import summary, widened
from jmdp.simulators.rollouts.draws import Draws


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
    found = average_misses("skewed rewards", 60, 14, truth=400)
    for quantity, (missed, total, without) in found.items():
        assert without == 0
        assert binomtest(missed, total, 0.05, alternative="greater").pvalue > 1e-3, quantity


def test_the_jackknife_leaves_out_one_row_at_a_time():
    """The vectorised form against the definition."""
    from scipy.special import stdtrit

    from jmdp.reviews import reviews
    from jmdp.reviews.decision import jackknife

    x, y = np.random.default_rng(0).normal(1000, 3, (2, 12))
    plain = {
        reviews._share: lambda x, y: np.cov(x, y)[0, 1] / np.var(y, ddof=1),
        reviews._log_ratio: lambda x, y: np.log(x.var() / y.var()),
        reviews._ratio: lambda x, y: x.sum() / y.sum(),
    }
    for statistic, value in plain.items():
        terms = np.column_stack([x, y]) if statistic is reviews._ratio else reviews._moments(x, y)
        found = jackknife(statistic, terms, 0.95)
        without = np.array([value(np.delete(x, i), np.delete(y, i)) for i in range(12)])
        error = np.sqrt(11 / 12 * ((without - without.mean()) ** 2).sum())
        assert float(found) == pytest.approx(value(x, y), rel=1e-9)
        assert found.error == pytest.approx(stdtrit(11, 0.975) * error, rel=1e-6)
    assert float(jackknife(reviews._log_ratio, reviews._moments(x, np.ones(12)), 0.95)) == np.inf
    assert np.isnan(jackknife(reviews._share, reviews._moments(x, np.ones(12)), 0.95))
    assert not jackknife(reviews._ratio, np.array([[1.0, 1.0], [0, 0], [0, 0]]), 0.95).has_interval


def test_actions_share_all_randomness_of_a_rollout():
    """In a table whose states have the same scenarios too: gaps have smaller errors than values."""
    world = jmdp.worlds.inventory()
    one = jmdp.review(
        world, world.policies["base_stock"], seed=0, starts=[0], steps=range(3), method=jmdp.reviews.RolloutValues(64),
        progress=False,
    )  # fmt: skip
    for values in one.values[:-1]:
        assert np.median(values.gap_errors) < 0.5 * np.median(values.action_errors)


def test_one_value_has_no_interval():
    """An interrupted review may have one episode."""
    assert not average(np.array([2.0]), 0.95).has_interval
    assert average(np.array([2.0, 3.0]), 0.95).has_interval


def drawn(returns):
    """Values of a step from returns [n, 2] of rollouts."""
    ends, gains = np.zeros(returns.shape, np.int32), np.zeros(returns.shape, np.int64)
    return summary(Draws(returns, ends, gains, 1.0, 64, 0, True), 0, np.array([0.5, 0.5]), 0, 0.95)


def test_a_rare_reward_that_no_rollout_shows_is_possible():
    """The returns of another state show what is possible, so intervals of equal rollouts are not narrow."""
    quiet, loud = drawn(np.zeros((32, 2))), drawn(np.random.default_rng(0).random((32, 2)) * 10)
    found, other = widened([quiet, loud], [np.zeros(0)] * 2, 0.95)
    least = 9 * math.log(20) / 32
    assert (found.action_errors > least).all()
    assert found.gap_errors[1] > least
    assert found.skill_error > least
    assert found.value_error > least
    assert quiet.action_errors.max() == 0
    assert (other.action_errors == loud.action_errors).all()  # what was seen there has this spread


def test_pairing_narrows_gaps_also_below_what_returns_vary_by():
    """Gaps of a standard deviation of 0.1 between returns of 10: the interval of Student's t, nothing more."""
    rng = np.random.default_rng(0)
    common = 10 * rng.standard_normal((128, 1))
    step = drawn(common + 0.1 * rng.standard_normal((128, 2)))
    found, _ = widened([step, drawn(30 * rng.standard_normal((128, 2)))], [np.zeros(0)] * 2, 0.95)
    assert found.gap_errors[1] < 1.2 * 1.98 * math.sqrt(2) * 0.1 / math.sqrt(128)
    assert found.skill_error < found.gap_errors[1]
    assert (found.action_errors > 2).all()  # the other step varies three times as much


def test_levels_of_different_steps_are_no_spread():
    """Returns from early steps are larger than those from late ones, whatever the luck."""
    noise = np.random.default_rng(0).random((32, 2))
    early, late = drawn(1000 + noise), drawn(noise)
    found = widened([early, late], [np.array([1000.5]), np.array([0.5])], 0.95)[1]
    assert (found.action_errors < 1).all()
    wide = widened([early, late], [np.array([900.0]), np.array([0.5])], 0.95)[1]  # a bad end of the episode
    assert (wide.action_errors > 90 * math.log(20) / 32).all()


@pytest.mark.parametrize("n", [32, 128])
@pytest.mark.parametrize("expected", [0.5, 2.0, 2.9, 3.1, 4.6, 5.6, 8.0])
def test_intervals_of_means_allow_for_rare_outcomes(n, expected):
    """An outcome of this expected number in n samples; its size is known. Without `with_unseen` up to 90% miss."""
    rng, chance = np.random.default_rng(0), expected / n
    samples = (rng.random((n, 4000)) < chance).astype(float)
    errors = with_unseen(*mean_errors(samples, 0.05, 1.0), 1.0, n, 0.05)
    missed = int((np.abs(samples.mean(axis=0) - chance) > errors).sum())
    assert binomtest(missed, 4000, 0.05, alternative="greater").pvalue > 1e-3


def test_values_are_those_of_the_state_though_the_policy_sees_less():
    """In Blackjack the dealer's second card is dealt at the start: values and regrets are those for this card."""
    gymnasium = pytest.importorskip("gymnasium")
    reviews = jmdp.review(
        gymnasium.make("Blackjack-v1"), stop_at_17, seed=0, discount=1.0, horizon=20, episodes=6,
        method=jmdp.reviews.RolloutValues(256), progress=False,
    )  # fmt: skip
    truth, far = BlackjackValues(), 0
    for one in reviews:
        hand = one.replay.player.simulator.observe(one.trajectory.states[0])
        values = one.values[0]
        assert (np.abs(values.action_values - truth.of_review(hand, one)) <= values.action_errors).all()
        far += (np.abs(values.action_values - truth(hand)) > values.action_errors).any()
    assert far >= 3
