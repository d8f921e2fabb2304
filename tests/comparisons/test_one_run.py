"""The gap in one run: its quantiles, its worst 5% and the win rate, with intervals that hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

import jmdp
from jmdp.comparisons.comparison_table import OneRun
from jmdp.statistics.anytime import chance_interval, fixed_chance_interval
from jmdp.statistics.means import FIXED, Sampling, looks


def missed(error, runs=400, n=100):
    """How often intervals of three quantiles of normal samples fail."""
    rng, found = np.random.default_rng(0), np.zeros(3)
    for _ in range(runs):
        one = OneRun(rng.standard_normal(n), np.zeros(n), -math.inf, math.inf, error, FIXED)
        for i, p in enumerate((0.05, 0.5, 0.95)):
            interval = one.quantile(p)
            found[i] += not interval.low <= norm.ppf(p) <= interval.high
    return found


def test_quantiles_are_within_their_intervals():
    """400 samples of 100; false alarm 1e-6 each at 5%. Intervals at 70% would be caught."""
    most = binom.isf(1e-6, 400, 0.05)
    assert (missed(0.05) <= most).all()
    assert (missed(0.3) > most).all()


def test_the_worst_5_percent_within_a_range():
    """Uniform gaps in [−1, 1]: the mean of the worst 5% is −0.95, of the best 0.95. In 100 samples of 400."""
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(100):
        one = OneRun(rng.uniform(-1, 1, 400), np.zeros(400), -1.0, 1.0, 0.05, FIXED)
        worst, best = one.negative().cvar(0.05).negative(), one.cvar(0.05)
        wrong += not (-1 <= worst.low <= -0.95 <= worst.high < -0.8 and 0.8 < best.low <= 0.95 <= best.high <= 1)
    assert wrong <= binom.isf(1e-6, 100, 0.05)


@pytest.mark.parametrize("n", [10, 40, 100])
def test_ties_that_count_half_keep_the_error_of_a_fixed_number(n):
    """Exact: the distribution of wins + ties/2 is a convolution. Each side fails with at most 2.5%."""
    ends = [fixed_chance_interval(count / 2, n, 0.05) for count in range(2 * n + 1)]
    low, high = (np.array([getattr(end, side) for end in ends]) for side in ("low", "high"))
    worst = 0.0
    for tie in (0.0, 0.001, 0.02, 0.1, 0.3, 0.7, 0.95):
        for rate in np.linspace(0.01, 0.99, 50):
            if tie / 2 <= min(rate, 1 - rate):
                counts = np.array([1.0])
                for _ in range(n):
                    counts = np.convolve(counts, [1 - rate - tie / 2, tie, rate - tie / 2])
                worst = max(worst, counts[rate < low].sum(), counts[rate > high].sum())
    assert 0.02 < worst <= 0.025 + 1e-12


@pytest.mark.parametrize("tie", [0.1, 0.8])
def test_ties_that_count_half_keep_the_error_at_all_looks(tie):
    """500 runs to 1,000 samples with a win rate of ½; false alarm 1e-6 at 5%."""
    rng, wrong = np.random.default_rng(2), 0
    at = [n for n, _ in zip(looks(), range(19), strict=False)]
    for _ in range(500):
        score = np.cumsum(rng.choice([0.0, 0.5, 1.0], at[-1], p=[(1 - tie) / 2, tie, (1 - tie) / 2]))
        found = (chance_interval(float(score[n - 1]), n, 0.05) for n in at)
        wrong += any(not one.low <= 0.5 <= one.high for one in found)
    assert wrong <= binom.isf(1e-6, 500, 0.05)


def draw(luck):
    return luck.uniform("x")


RUNS = {  # better by 5 in 60%, equal in 30%, worse by 1 in 10%
    "old": lambda luck: 0.0 * draw(luck),
    "new": lambda luck: 5.0 if draw(luck) < 0.6 else 0.0 if draw(luck) < 0.9 else -1.0,
}


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize("settings", [{"samples": 200}, {"max_samples": 200, "precision": 0.01}])
def test_a_comparison_states_them(minimize, settings):
    found = jmdp.compare_runs(RUNS, minimize=minimize, baseline="old", seed=0, progress=False, **settings)
    truth = {"5% quantile": -1.0, "50% quantile": 5.0, "95% quantile": 5.0, "worst 5%": -1.0}
    if minimize:
        truth = {"5% quantile": -5.0, "50% quantile": -5.0, "95% quantile": 1.0, "worst 5%": -5.0}
    quantiles = found.advantage_quantiles("new", "old")
    assert {key: float(value) for key, value in quantiles.items()} == truth
    assert all(value.low <= truth[key] <= value.high for key, value in quantiles.items())
    wins = found.win_rate("new", "old")
    assert wins.low <= (0.25 if minimize else 0.75) <= wins.high
    assert wins.high - wins.low < 0.25
    assert float(wins) + float(found.win_rate("old", "new")) == pytest.approx(1)
    assert found.win_rate("old", "old") == 0.5
    assert all(value == value.low == value.high == 0 for value in found.advantage_quantiles("old", "old").values())
    row = {row["design"]: row for row in found.rows()}["new"]
    assert row["win rate"] == wins
    assert all(row[f"{key} of advantage"] == value for key, value in quantiles.items())
    said = " ".join(repr(found).split())
    assert "advantage of new over old in one run: 5% " in said
    assert f"worst 5% {truth['worst 5%']:g}; win rate {100 * float(wins):.0f}% [" in said


def test_the_leader_is_first_without_a_baseline():
    found = jmdp.compare_runs(RUNS, seed=0, samples=100, progress=False)
    assert "advantage of new over old in one run: 5% " in " ".join(repr(found).split())
    assert Sampling() != found.summary.sampling == FIXED


def test_an_interval_that_is_not_symmetric_is_said_as_one():
    """Of 200 gaps 12 are 1, the others 0: ± would include values that the interval excludes."""
    found = jmdp.compare_runs(
        {"old": lambda luck: 0.0 * draw(luck), "new": lambda luck: float(draw(luck) < 0.06)}, seed=0, samples=200
    )
    gap = found.advantage("new", "old")
    assert gap.high - float(gap) > 1.2 * (float(gap) - gap.low)
    assert f"by {jmdp.base.rounding.with_ends(gap)} on average" in found.answer
    assert "±" not in found.answer
