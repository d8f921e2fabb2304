"""Intervals that hold whenever one stops: closed forms, what they must obey, and thirty looks at 2,000 sequences."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import binom

from jmdp.statistics import anytime

SEQUENCES = 2000
ERROR = 0.05
ALARM = 1e-6
"""False-alarm rate of each simulation below, if intervals miss as often as they may and no oftener."""

ALLOWED = int(binom.isf(ALARM, SEQUENCES, ERROR))
LOOKS = np.unique(np.geomspace(1, 20_000, 34).astype(int))
LATER_LOOKS = np.unique(np.geomspace(64, 4000, 30).astype(int))
"""Intervals of means are for samples that are not few: `compare` first looks after 64."""


def counts_at_looks(chance: float, seed: int) -> np.ndarray:
    """[sequences, looks], how often something has happened."""
    rng = np.random.default_rng(seed)
    return rng.binomial(np.diff(LOOKS, prepend=0), chance, (SEQUENCES, LOOKS.size)).cumsum(axis=1)


@pytest.mark.parametrize("chance", [0.001, 0.1, 0.5, 0.97])
def test_the_chance_is_in_all_intervals_but_as_often_as_allowed(chance):
    missed = np.zeros(SEQUENCES, bool)
    for n, counts in zip(LOOKS.tolist(), counts_at_looks(chance, 1).T, strict=True):
        for count in np.unique(counts).tolist():
            missed[counts == count] |= chance not in anytime.chance_interval(count, n, ERROR)
    assert missed.sum() <= ALLOWED


@pytest.mark.parametrize("p", [0.05, 0.5, 0.95])
def test_the_quantile_is_between_its_ranks_but_as_often_as_allowed(p):
    below = counts_at_looks(p, 2)  # of samples from a continuous distribution, those up to its quantile
    ranks = np.array([anytime.quantile_ranks(p, n, ERROR) for n in LOOKS.tolist()])
    missed = ((below < ranks[:, 0]) | (below >= ranks[:, 1])).any(axis=1)
    assert missed.sum() <= ALLOWED


def test_ranks_hold_for_sorted_samples_with_ties():
    """Of the roll of a die, whose 0.95 quantile is 6 and whose 0.3 quantile is 2."""
    rolls = np.random.default_rng(3).integers(1, 7, (500, 1000))
    missed = np.zeros((2, 500), bool)
    for n in np.unique(np.geomspace(1, 1000, 30).astype(int)).tolist():
        ordered = np.column_stack([np.full(500, -np.inf), np.sort(rolls[:, :n], axis=1), np.full(500, np.inf)])
        for i, (p, truth) in enumerate(((0.95, 6), (0.3, 2))):
            low, high = anytime.quantile_ranks(p, n, ERROR)
            missed[i] |= (ordered[:, low] > truth) | (ordered[:, high] < truth)
    assert missed.sum(axis=1).max() <= binom.isf(ALARM, 500, ERROR)


def test_the_distribution_is_within_the_slack_but_as_often_as_allowed():
    samples = np.random.default_rng(4).random((SEQUENCES, LATER_LOOKS[-1]))
    missed = np.zeros(SEQUENCES, bool)
    for n in LATER_LOOKS.tolist():
        ordered, steps = np.sort(samples[:, :n], axis=1), np.arange(n + 1) / n
        furthest = np.maximum(steps[1:] - ordered, ordered - steps[:-1]).max(axis=1)
        missed |= furthest > anytime.distribution_slack(n, ERROR)
    assert missed.sum() <= ALLOWED


def test_what_never_happened_has_a_closed_form():
    """(1 − p)ⁿ = error · B(½, n + ½)/B(½, ½)."""
    for n in (1, 2, 10, 1000, 10**6):
        found = anytime.chance_interval(0, n, ERROR)
        p = -math.expm1((math.log(ERROR) + betaln(0.5, n + 0.5) - betaln(0.5, 0.5)) / n)
        assert found.low == 0
        assert found.high == pytest.approx(p, rel=1e-9)
        always = anytime.chance_interval(n, n, ERROR)
        assert always.high == 1
        assert always.low == pytest.approx(1 - p, rel=1e-9)


def test_chances_are_ordered_nested_and_symmetric():
    n = 40
    found = [anytime.chance_interval(count, n, ERROR) for count in range(n + 1)]
    for count, (one, other) in enumerate(zip(found, found[::-1], strict=True)):
        assert count / n in one
        assert one.low == pytest.approx(1 - other.high, abs=1e-12)
        surer = anytime.chance_interval(count, n, ERROR / 10)
        assert surer.low <= one.low
        assert one.high <= surer.high
    assert all(a.low < b.low or a.low == 0 for a, b in pairwise(found))
    assert all(a.high < b.high for a, b in pairwise(found[:-1]))
    widths = [anytime.chance_interval(3 * k, 10 * k, ERROR).width for k in (1, 10, 100, 1000)]
    assert widths == sorted(widths, reverse=True)


def test_edges_are_outside_rather_than_inside():
    """An interval found by halving must contain all that is not refused."""
    for count, n in ((1, 3), (7, 20), (500, 1000)):
        found = anytime.chance_interval(count, n, ERROR)
        for p in (found.low, found.high):
            likely, mixture = log_likely(p, count, n), betaln(count + 0.5, n - count + 0.5) - betaln(0.5, 0.5)
            assert likely <= mixture + math.log(ERROR) + 1e-9


def log_likely(p: float, count: int, n: int) -> float:
    return count * math.log(p) + (n - count) * math.log1p(-p)


def double_factorial(k: int) -> int:
    return math.prod(range(k, 0, -2))


@pytest.mark.parametrize("error", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6)])
@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(19, 20)])
def test_ranks_are_those_of_all_counts_tried_in_exact_rationals(p, error):
    """B(k + ½, n − k + ½)/B(½, ½) = (2k − 1)!! (2n − 2k − 1)!!/(2ⁿ n!)."""
    for n in range(1, 61):
        mixture = [
            Fraction(double_factorial(2 * k - 1) * double_factorial(2 * (n - k) - 1), 2**n * math.factorial(n))
            for k in range(n + 1)
        ]
        kept = [k for k in range(n + 1) if error * mixture[k] <= p**k * (1 - p) ** (n - k)]
        assert kept == list(range(kept[0], kept[-1] + 1))
        assert anytime.quantile_ranks(float(p), n, float(error)) == (kept[0], kept[-1] + 1)


# ------------------------------------------------------------------------------------------------ within a range


def test_means_within_a_range_are_covered_at_every_look():
    """Distributions on [0, 1] that large-sample intervals are worst for; 300 sequences each."""
    rng = np.random.default_rng(7)
    distributions = {
        "one in a hundred": ((rng.random((600, 300)) < 0.01).astype(float), 0.01),
        "all but one in fifty": ((rng.random((600, 300)) >= 0.02).astype(float), 0.98),
        "beta": (rng.beta(0.1, 2.0, (600, 300)), 1 / 21),
        "uniform": (rng.random((600, 300)), 0.5),
    }
    for samples, mean in distributions.values():
        low, high = anytime.bounded_means(samples, samples, ERROR)  # at every n at once: limits only ever close in
        assert ((low > mean) | (high < mean)).sum() <= binom.isf(ALARM, 300, ERROR)


def test_limits_only_close_in():
    x = np.random.default_rng(8).beta(0.5, 3.0, (400, 5))
    limits = [anytime.bounded_means(x[:n], x[:n], ERROR) for n in (1, 10, 50, 200, 400)]
    for (low, high), (later_low, later_high) in pairwise(limits):
        assert (later_low >= low - 1e-3).all()
        assert (later_high <= high + 1e-3).all()
    assert (limits[-1][1] - limits[-1][0] < 0.1).all()


def test_limits_are_those_of_capital_in_exact_rationals():
    """The capital at a limit is below 2/error up to rounding outwards, and above it a little further out."""
    x = np.random.default_rng(9).integers(0, 9, 40) / 8.0
    low, high = anytime.bounded_means(x[:, None], x[:, None], ERROR)
    for samples, limit in ((x, Fraction(float(low[0]))), (1 - x, 1 - Fraction(float(high[0])))):
        bets = [Fraction(float(bet)) for bet in anytime._bets(samples[:, None], math.log(2 / ERROR))[:, 0]]

        def most(m: Fraction, samples=samples, bets=bets) -> Fraction:
            capital = highest = Fraction(1)
            for bet, value in zip(bets, samples.tolist(), strict=True):
                capital *= 1 + min(bet, 1 / (2 * m)) * (Fraction(value) - m)
                highest = max(highest, capital)
            return highest

        assert most(limit) >= Fraction(40) > most(limit + Fraction(1, 2**14))


def test_bets_know_only_what_was_before():
    rng = np.random.default_rng(10)
    x, other = rng.random((2, 50, 1))
    for i in (1, 10, 49):
        changed = np.concatenate([x[:i], other[i:]])
        assert np.array_equal(anytime._bets(x, 3.0)[: i + 1], anytime._bets(changed, 3.0)[: i + 1])
        assert not np.array_equal(anytime._bets(x, 3.0)[i + 1 :], anytime._bets(changed, 3.0)[i + 1 :]) or i == 49


def test_samples_known_up_to_an_interval_widen_the_limits():
    x = np.random.default_rng(11).random((200, 1))
    low, high = anytime.bounded_means(x, x, ERROR)
    wide_low, wide_high = anytime.bounded_means(np.clip(x - 0.1, 0, 1), np.clip(x + 0.1, 0, 1), ERROR)
    assert wide_low < low < high < wide_high


def test_the_slack_falls_with_samples_and_rises_with_confidence():
    slack = [anytime.distribution_slack(n, ERROR) for n in (1, 10, 100, 1000, 10**6)]
    assert slack == sorted(slack, reverse=True)
    assert anytime.distribution_slack(1000, 0.01) > anytime.distribution_slack(1000, 0.05)
    # Wider than Dvoretzky, Kiefer, Wolfowitz and Massart's at one fixed n.
    assert all(anytime.distribution_slack(n, ERROR) > math.sqrt(math.log(2 / ERROR) / (2 * n)) for n in (1, 100, 10**6))
