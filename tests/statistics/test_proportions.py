"""Differences of success rates from pairs, by enumeration of all tables."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, binomtest, multinomial

from jmdp.statistics.proportions import _score, _tables, mcnemar, rate_interval, unpaired

ERROR = 0.05


def test_mcnemar_is_the_binomial_test():
    for first, second in ((0, 0), (0, 1), (3, 9), (28, 11), (5, 5)):
        expected = binomtest(first, first + second, 0.5).pvalue if first + second else 1.0
        assert mcnemar(first, second) == pytest.approx(expected)


def test_a_table_of_the_documentation():
    """220 pairs, 55% and 64% succeed: unpaired nothing is decided, paired it is."""
    assert unpaired(139, 121, 220) == pytest.approx(0.080, abs=0.003)
    assert mcnemar(30, 12) == pytest.approx(0.008, abs=0.0005)


@pytest.mark.parametrize("n", [12, 30])
def test_mcnemar_is_never_wrong_too_often(n):
    """Whatever the chance of a discordant pair, by enumeration: at most 5%."""
    for chance in np.linspace(0.02, 1.0, 25):
        wrong = sum(
            binom.pmf(k, n, chance) * sum(binom.pmf(i, k, 0.5) for i in range(k + 1) if mcnemar(i, k - i) <= ERROR)
            for k in range(n + 1)
        )
        assert wrong <= ERROR


def test_the_score_is_that_of_the_likelihood():
    """The estimate of q for a given δ maximises the likelihood; found here by a search."""
    for first, second, n, delta in ((9, 3, 40, 0.1), (0, 1, 44, -0.2), (20, 2, 25, 0.5), (7, 7, 60, 0.05)):

        def minus(q, first=first, second=second, n=n, delta=delta):
            return -(first * np.log(q + delta) + second * np.log(q) + (n - first - second) * np.log(1 - 2 * q - delta))

        low, high = max(1e-12, -delta + 1e-12), (1 - delta) / 2 - 1e-12
        q = minimize_scalar(minus, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x
        expected = (first - second - n * delta) / np.sqrt(n * (2 * q + delta * (1 - delta)))
        assert float(_score(first, second, n, delta)) == pytest.approx(expected, rel=1e-5)


def covered(n, delta, q):
    """Chance that the interval contains δ, by enumeration."""
    first, second, _ = _tables(n)
    p = [q + delta, q, max(0.0, 1 - 2 * q - delta)]
    found = 0.0
    for one, other in zip(first.astype(int).tolist(), second.astype(int).tolist(), strict=True):
        chance = multinomial.pmf([one, other, n - one - other], n, p)
        if chance > 1e-12:
            interval = rate_interval(one, other, n, ERROR)
            found += chance * (interval.low <= delta <= interval.high)
    return found


GRID = [(d, q) for d, q in itertools.product((0.0, 0.07, 0.3, 0.7), (0.001, 0.02, 0.1, 0.2, 0.4)) if 2 * q + d <= 1]


@pytest.mark.parametrize("n", [8, pytest.param(20, marks=pytest.mark.long), pytest.param(35, marks=pytest.mark.long)])
def test_exact_intervals_hold_for_every_pair_of_rates(n):
    assert min(covered(n, delta, q) for delta, q in GRID) >= 1 - ERROR - 1e-9


@pytest.mark.long
@pytest.mark.parametrize("n", [60, 120])
def test_tangos_intervals_hold_nearly(n):
    found = [covered(n, delta, q) for delta, q in GRID if n * (2 * q + delta) >= 8]
    assert min(found) > 0.93
    assert np.mean(found) == pytest.approx(0.95, abs=0.01)


def test_intervals_are_symmetric_and_within_their_range():
    for first, second, n in ((0, 0, 10), (10, 0, 10), (3, 5, 40), (0, 0, 200), (30, 11, 220)):
        one, other = rate_interval(first, second, n, ERROR), rate_interval(second, first, n, ERROR)
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-9)
        assert -1 <= one.low <= (first - second) / n <= one.high <= 1
