"""The verdict of a held-out record, and a ratio without bias: on learners of known quality."""

from __future__ import annotations

import numpy as np
import pytest

from jmdp.results.bootstrap import Judgement
from jmdp.results.calibration import Calibration

ROLLOUTS, STATES = 16, 48  # as in a run of NeuralGram by default

DISTRIBUTIONS = {
    "normal": (lambda rng, shape: rng.standard_normal(shape), 1.0),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
    "lognormal, σ = 0.5": (
        lambda rng, shape: np.exp(0.5 * rng.standard_normal(shape)),
        float(np.exp(0.25) * (np.exp(0.25) - 1)),
    ),
    "one in five": (lambda rng, shape: (rng.random(shape) < 0.2).astype(float), 0.16),
}


def simulated(rng, distribution, spread=1.0):
    """Gaps [states, rollouts] of a distribution, times a factor for each state; and their true variances."""
    draw, variance = DISTRIBUTIONS[distribution]
    scale = np.exp(spread * rng.standard_normal(STATES))
    return draw(rng, (STATES, ROLLOUTS)) * np.sqrt(scale)[:, None], scale * variance


def record(gaps, variance, mean=0.0, seed=0):
    M = len(gaps)
    returns = np.stack([gaps, np.zeros_like(gaps)], axis=2)
    variance, mean = np.broadcast_to(variance, M), np.broadcast_to(mean, M)
    return Calibration(np.arange(M), [0] * M, [1] * M, mean, variance, variance, returns, seed)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_gap_ratio_of_a_perfect_learner_is_1(distribution):
    """200 records of 48 gaps, 16 rollouts. Medians of learned / simulated are 1.04, 1.23, 1.22 and 0.96 here.

    The mean ratio is within 0.03 of 1 (its standard error is below 0.008). Intervals are at 95%; that fewer than 170 of
    200 hold has chance 3e-7 at a coverage of 0.94, and 2e-5 at 0.92, which skewed distributions may have.
    """
    rng = np.random.default_rng(0)
    found = []
    for seed in range(200):
        gaps, true = simulated(rng, distribution)
        found.append(record(gaps, true, seed=seed).gap_ratio)
    held = sum(1.0 in ratio.interval for ratio in found)
    print(distribution, np.mean(found), held)
    assert abs(np.mean(found) - 1) < 0.03
    assert held >= 170


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_perfect_learner_is_useful_and_a_shuffled_one_is_not(distribution):
    """50 records. A perfect learner is useful in 99% of such records, a shuffled one in under 1%.

    Chances of fewer than 40 and of more than 4 are then below 1e-13 and 2e-4.
    """
    rng = np.random.default_rng(1)
    perfect = shuffled = 0
    for seed in range(50):
        gaps, true = simulated(rng, distribution)
        perfect += record(gaps, true, seed=seed).verdict is Judgement.USEFUL
        shuffled += record(gaps, rng.permutation(true), seed=seed).verdict is Judgement.USEFUL
    assert perfect >= 40
    assert shuffled <= 4


@pytest.mark.parametrize("distribution", ["normal", "exponential"])
def test_noise_around_a_constant_is_seldom_called_useful(distribution):
    """A network that is all but constant, the hardest case: nominal chance of a false "useful" is 2.5% a record.

    Of 300 records more than 33 would be so with chance 1e-5 at 5%, which skewed distributions may have.
    """
    rng, false = np.random.default_rng(2), 0
    for seed in range(300):
        gaps, _ = simulated(rng, distribution, spread=0.5)
        learned = gaps.var(axis=1, ddof=1).mean() * np.exp(0.05 * rng.standard_normal(STATES))
        false += record(gaps, learned, seed=seed).verdict is Judgement.USEFUL
    print(distribution, false)
    assert false <= 33


def test_no_constant_is_better_than_the_best_one():
    gaps, true = simulated(np.random.default_rng(3), "normal")
    for factor in (0.0, 0.5, 1.0, 2.0):
        assert record(gaps, factor * true.mean()).verdict is Judgement.NOT_BETTER
    own = record(gaps, gaps.var(axis=1, ddof=1).mean())
    assert abs(own.variance_gain) <= 1e-12
    assert own.verdict is Judgement.NOT_BETTER


def test_mean_gaps_have_a_verdict_of_their_own():
    """Means known, variances not; and the other way round."""
    rng = np.random.default_rng(4)
    gaps, true = simulated(rng, "normal")
    mean = 3 * rng.standard_normal(STATES)
    gaps = gaps + mean[:, None]
    one = record(gaps, true.mean(), mean)
    assert (one.verdict, one.mean_verdict) == (Judgement.NOT_BETTER, Judgement.USEFUL)
    other = record(gaps, true, -mean)
    assert (other.verdict, other.mean_verdict) == (Judgement.USEFUL, Judgement.NOT_BETTER)
    assert "Gap variances: better than a constant. Mean gaps: not better than a constant." in repr(other)
    assert other.to_dict()["verdict"] == "USEFUL"


def test_a_learner_that_ranks_states_the_wrong_way_round_is_not_useful():
    """As NeuralGram on CartPole by default: its variances have a rank correlation of −0.7 with simulated ones."""
    gaps, true = simulated(np.random.default_rng(5), "normal")
    wrong = record(gaps, 1 / true)
    assert wrong.rank_correlation < -0.7
    assert wrong.verdict is Judgement.NOT_BETTER
    assert wrong.variance_gain.high < 0


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_verdicts_do_not_depend_on_the_scale(scale):
    gaps, true = simulated(np.random.default_rng(6), "normal")
    mean = gaps.mean(axis=1)
    one, other = record(gaps, true, mean), record(scale * gaps, scale**2 * true, scale * mean)
    for name in ("gap_ratio", "variance_gain", "mean_gain"):
        assert getattr(one, name) == pytest.approx(float(getattr(other, name)))
    assert (one.verdict, one.mean_verdict) == (other.verdict, other.mean_verdict)
