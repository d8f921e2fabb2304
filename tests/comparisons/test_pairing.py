"""What pairing gains, where the randomness is, and when pairing is given up."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

import jmdp
from jmdp.base.interval import Estimate
from jmdp.comparisons.pairing import (
    LuckShares,
    Pairing,
    gain_with_interval,
    pairing_ceiling,
    pairing_costs,
    pairing_gain,
)
from jmdp.simulators.rollouts.draws import LuckProbe
from jmdp.statistics.means import FIXED, Sampling
from jmdp.statistics.means import looks as schedule


def correlated(rng, n, rho):
    x = rng.standard_normal((n, 2))
    return np.stack([x[:, 0], rho * x[:, 0] + math.sqrt(1 - rho**2) * x[:, 1]], axis=1)


def lognormal(common, own):
    def draw(rng, n):
        return np.exp(common * rng.standard_normal((n, 1)) + own * rng.standard_normal((n, 2)))

    each, both = (math.exp(common**2 + own**2) * (math.exp(v) - 1) for v in (common**2 + own**2, common**2))
    return draw, each / (each - both)


def coins(p, q):
    """Returns of 0 or 1, decided by one uniform number."""
    apart = abs(p - q)
    return (
        lambda rng, n: (rng.random((n, 1)) < np.array([p, q])).astype(float),
        (p * (1 - p) + q * (1 - q)) / (apart * (1 - apart)),
    )


def separating(p, size):
    """The second return differs with probability p."""

    def draw(rng, n):
        both = rng.standard_normal(n)
        return np.stack([both, both + (rng.random(n) < p) * size * rng.standard_normal(n)], axis=1)

    return draw, (2 + p * size**2) / (p * size**2)


LAWS = {  # samplers of returns [n, 2], and the true gain
    **{
        f"normal {rho}": (lambda rng, n, rho=rho: correlated(rng, n, rho), 1 / (1 - rho)) for rho in (0, 0.5, 0.9, 0.99)
    },
    "normal −0.5": (lambda rng, n: correlated(rng, n, -0.5), 2 / 3),
    "lognormal": lognormal(0.7, 0.5),
    "lognormal, correlated": lognormal(1.0, 0.1),
    "coins": coins(0.3, 0.45),
    "rare coins": coins(0.03, 0.05),
    "rare separation": separating(0.1, 1.0),
    "heavy tails": (lambda rng, n: rng.standard_t(4, (n, 1)) + rng.standard_normal((n, 2)), 3.0),
    "gap with heavy tails": (
        lambda rng, n: rng.standard_normal((n, 1)) + 0.3 * rng.standard_t(4, (n, 2)),
        1 + 1 / (0.09 * 2),
    ),
    "exponential": (lambda rng, n: rng.exponential(size=(n, 1)) + 0.2 * rng.exponential(size=(n, 2)), 26.0),
}


def covered(law, n, runs, interval=lambda x: gain_with_interval(x, 0, 1e-24, FIXED, 0.05)):
    """In how many runs the interval contains the true gain, and in how many there is none."""
    (draw, truth), rng = LAWS[law], np.random.default_rng([7, n])
    found = [interval(draw(rng, n)) for _ in range(runs)]
    return sum(one.has_interval and one.low <= truth <= one.high for one in found), sum(
        not one.has_interval for one in found
    )


def delta_method(returns):
    gain, _, error = pairing_gain(returns, 0, 1e-24)
    return Estimate(gain, gain * math.exp(-1.96 * error), gain * math.exp(1.96 * error))


@pytest.mark.parametrize("law", ["normal 0", "normal 0.9", "lognormal", "heavy tails"])
def test_the_interval_of_the_gain_covers(law):
    """400 samples of 100 pairs; the false-alarm rate of each is 1e-6 at a coverage of 94%."""
    hits, none = covered(law, 100, 400)
    assert none == 0
    assert hits >= binom.ppf(1e-6, 400, 0.94)


def test_the_delta_method_would_be_caught():
    """It covers 83% for lognormal returns."""
    assert covered("lognormal", 100, 400, delta_method)[0] < binom.ppf(1e-6, 400, 0.94)


@pytest.mark.long
@pytest.mark.parametrize("n", [64, 100, 300, 1000])
@pytest.mark.parametrize("law", LAWS)
def test_the_interval_of_the_gain_covers_for_many_distributions(law, n):
    """2,000 samples; those without an interval do not count. False alarms at a coverage of 94%: 1e-3/52 each."""
    hits, none = covered(law, n, 2000)
    if none < 1000:
        assert hits >= binom.ppf(1e-3 / 52, 2000 - none, 0.94)


@pytest.mark.long
@pytest.mark.parametrize("law", ["normal 0.9", "lognormal", "heavy tails", "rare separation"])
def test_the_interval_of_the_gain_holds_at_all_looks(law):
    """Ever missed at looks to 2,000 pairs, in 400 runs: false alarm 1e-6 at 5%."""
    (draw, truth), rng, missed = LAWS[law], np.random.default_rng(8), 0
    looks = list(itertools.takewhile(lambda n: n <= 2000, itertools.dropwhile(lambda n: n < 32, schedule())))
    for _ in range(400):
        returns = draw(rng, 2000)
        found = [gain_with_interval(returns[:n], 0, 1e-24, Sampling(), 0.05) for n in looks]
        missed += any(one.has_interval and not one.low <= truth <= one.high for one in found)
    assert missed <= binom.isf(1e-6, 400, 0.05)


def test_few_gaps_that_differ_have_no_interval():
    returns = np.random.default_rng(0).standard_normal((100, 1)) + np.zeros(2)
    for differ in (1, 7, 8):
        returns[:differ, 1] += np.arange(1, differ + 1)
        found = gain_with_interval(returns, 0, 1e-24, FIXED, 0.05)
        assert found.has_interval == (differ == 8)
        assert found > 1


@pytest.mark.parametrize("sampling", [FIXED, Sampling()])
def test_a_multiple_of_the_other_return_shows_no_spread(sampling):
    """1.25 x beside x: 2.5625/0.0625 = 41, whatever x is. Only rounding varies."""
    x = np.random.default_rng(0).exponential(size=(100, 1))
    found = gain_with_interval(x * np.array([1.0, 1.25]), 0, 1e-24, sampling, 0.05)
    assert float(found) == pytest.approx(41)
    assert not found.has_interval


def noise(luck, key, kind):
    return {
        "normal": lambda: luck.normal(key, mean=0, std=1),
        "lognormal": lambda: math.exp(0.5 * luck.normal(key, mean=0, std=1)),
        "coin": lambda: float(luck.uniform(key) < 0.2),
        "exponential": lambda: -math.log(1 - luck.uniform(key)),
    }[kind]()


def designs(kind, own, paired):
    """Two designs with a common part, on the same key or not, and parts of their own."""

    def design(name, shift, slope):
        def run(luck):
            both = noise(luck, "both" if paired else f"both {name}", kind)
            return shift + slope * both + own * luck.normal(f"own {name}", mean=0, std=1)

        return run

    return {"old": design("old", 0.0, 1.0), "new": design("new", 0.1, 1.2)}


@pytest.mark.parametrize(
    ("kind", "own", "samples"),
    [
        ("normal", 0.2, 500),
        *(
            pytest.param(kind, own, 4000, marks=pytest.mark.long)
            for kind, own in [
                ("normal", 1.0),
                ("normal", 0.1),
                ("lognormal", 0.2),
                ("coin", 0.1),
                ("exponential", 0.3),
                ("exponential", 1.0),
            ]
        ),
    ],
)
def test_the_stated_gain_is_the_realised_one(kind, own, samples):
    """The ratio of squared widths at the same number of runs, within 20%: four standard errors or more."""
    paired, apart = (
        jmdp.compare_runs(designs(kind, own, together), seed=1, samples=samples, progress=False)
        for together in (True, False)
    )
    widths = [found.gap("new", "old").mean_interval.width for found in (apart, paired)]
    assert (widths[0] / widths[1]) ** 2 / float(paired.pairing.gain) == pytest.approx(1, abs=0.2)
    assert float(apart.pairing.gain) == pytest.approx(1, abs=0.2)


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
