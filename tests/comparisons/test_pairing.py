"""What pairing gains, where the randomness is, and when pairing is given up."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from jmdp.base.interval import Estimate
from jmdp.comparisons.pairing import LuckShares, Pairing, pairing_ceiling, pairing_costs, pairing_gain
from jmdp.simulators.episodes import LuckProbe
from jmdp.statistics.means import looks as schedule


def correlated(rng, n, rho):
    x = rng.standard_normal((n, 2))
    return np.stack([x[:, 0], rho * x[:, 0] + math.sqrt(1 - rho**2) * x[:, 1]], axis=1)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.95])
def test_the_interval_of_the_gain_covers_about_95_percent(rho):
    """400 samples of 256 pairs; counts beyond limits of 1e-6 at a coverage of 91% to 98% are a fault."""
    rng, truth = np.random.default_rng(0), 1 / (1 - rho)
    covered = 0
    for _ in range(400):
        gain, correlation, _ = pairing_gain(correlated(rng, 256, rho), 0, 0.0)
        covered += gain.low <= truth <= gain.high
        assert abs(correlation - rho) < 0.35
    assert binom.ppf(1e-6, 400, 0.91) <= covered <= binom.isf(1e-6, 400, 0.98)


@pytest.mark.parametrize("rho", [-1.0, -0.7, -0.5, -0.3, -0.2, -0.1, -0.05, 0.0, 0.05])
def test_pairing_costs_at_most_a_twentieth_of_640_samples(rho):
    """n paired samples of N cost as many as N (1 + n/N (1/gain − 1)) independent ones; the mean over 60 runs."""
    rng, N = np.random.default_rng(1), 640
    looks = [n for n in itertools.takewhile(lambda n: n < N, schedule()) if n >= 32]
    paired = []
    for _ in range(60):
        returns = correlated(rng, N, rho)
        paired.append(next((n for n in looks if pairing_costs(returns[:n], 0)), N))
    assert 1 + np.mean(paired) / N * -rho <= 1.05 + 1e-9


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_pairing_that_gains_is_kept(rho):
    rng = np.random.default_rng(2)
    kept = [not any(pairing_costs(returns[:n], 0) for n in (32, 64, 128, 512))
            for returns in (correlated(rng, 512, rho) for _ in range(50))]  # fmt: skip
    assert np.mean(kept) >= 0.95


def test_returns_that_never_vary():
    same = np.ones((64, 2))
    assert math.isnan(pairing_gain(same, 0, 1e-20)[0])
    moving = np.arange(64.0)[:, None] + np.array([0.0, 1.0])
    assert pairing_gain(moving, 0, 1e-20)[0] == math.inf
    assert not pairing_costs(same, 0)
    assert not pairing_costs(moving, 0)


def test_shares_of_a_sum_of_three_parts():
    """Z = a start of variance 5, steps of 3 and draws of 2, in 20,000 samples."""
    rng, n = np.random.default_rng(3), 20_000
    start, *parts = (math.sqrt(v) * rng.standard_normal((n, 1)) for v in (5, 3, 3, 2, 2, 2))
    steps, other_steps, own, other_own, third_own = parts
    probe = LuckProbe(start + steps + own, start + other_steps + other_own, start + steps + third_own)
    shares = LuckShares.of(probe)
    assert shares.start == pytest.approx(0.5, abs=0.03)
    assert shares.steps == pytest.approx(0.3, abs=0.03)
    assert shares.policies == pytest.approx(0.2, abs=0.03)
    assert shares.start + shares.steps + shares.policies == pytest.approx(1)
    assert LuckShares.of(LuckProbe(np.ones((4, 2)), np.ones((4, 2)), None)) is None


def test_sentences():
    shares = LuckShares(0.6, 0.4, 0.0, 32)
    paid = str(Pairing(Estimate(7.4, 6.1, 9.0), 12.0, 0.87, 640, shares, 0))
    assert "would need 7.4 × as many episodes (6.1 to 9, from 640 pairs)" in paid
    assert (
        "About 60% of the variance of returns comes from the initial state, 40% from randomness during the episode"
        in paid
    )
    assert "No pairing of returns with these standard deviations can exceed 12 ×" in paid
    assert "unrelated" not in paid
    unrelated = str(Pairing(Estimate(1.01, 0.9, 1.15), 5000.0, 0.01, 640, None, 0))
    assert "hardly correlated (0.01) although they share randomness" in unrelated
    assert "they allow a factor of more than 1,000" in unrelated
    apart = str(Pairing(Estimate(0.5, 0.48, 0.52), math.inf, -0.99, 32, None, 288))
    assert "the last 288 samples are independent" in apart
    assert "chances use the first 32" in apart
    assert "removes all" in str(Pairing(Estimate(math.inf, 0, math.inf), math.inf, math.nan, 64, None, 0))
    assert "pairing makes no difference" in str(Pairing(Estimate(math.nan, 0, 0), math.nan, math.nan, 64, None, 0))


def test_no_pairing_exceeds_the_ceiling():
    """Two normal returns of standard deviations 1 and 2: (1 + 4)/(2 − 1)² = 5, reached with correlation 1."""
    rng = np.random.default_rng(5)
    x, other = rng.standard_normal((2, 4000))
    together = np.stack([x, 2 * x + 7], axis=1)
    assert pairing_ceiling(together, 0, 1e-24) == pytest.approx(5)
    assert float(pairing_gain(together, 0, 1e-24)[0]) == pytest.approx(5)
    for share in (0.0, 0.5, 0.9, 0.99):
        returns = np.stack([x, 2 * (share * x + math.sqrt(1 - share**2) * other)], axis=1)
        assert float(pairing_gain(returns, 0, 1e-24)[0]) <= pairing_ceiling(returns, 0, 1e-24)
    assert pairing_ceiling(np.stack([x, x + 1, -x], axis=1), 0, 1e-24) == math.inf
    assert math.isnan(pairing_ceiling(np.ones((8, 2)), 0, 1e-24))


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (Estimate(2e6, 1.2e6, 3.14e6), "2,000,000 × as many episodes (1,200,000 to 3,100,000, from 80 pairs)"),
        (Estimate(320.4, 99.5, 411.0), "320 × as many episodes (100 to 410, from 80 pairs)"),
        (Estimate(2.4, 1.6, 3e304), "2.4 × as many episodes (1.6 to over 1,000,000,000, from 80 pairs)"),
    ],
)
def test_factors_are_written_out(gain, said):
    found = Pairing(gain=gain, ceiling=math.inf, correlation=0.9, samples=80, shares=None, independent=0)
    assert said in str(found)
