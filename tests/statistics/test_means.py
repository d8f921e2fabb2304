"""Intervals of means: direct formulas, constants of their looks, and coverage of a fixed number and of all looks."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtrit

from jmdp.statistics import means
from jmdp.statistics.anytime import Unseen, unseen_chance, with_largest_loss
from jmdp.statistics.means import FEW, FIXED, Sampling, looks, planned_looks, planned_radius, sequential_radius

ERROR = 0.05
ALARM = 1e-6
"""False-alarm rate of each simulation below, if intervals miss as often as they may and no oftener."""

LAWS: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], np.ndarray], float]] = {
    "normal": (lambda rng, shape: rng.standard_normal(shape), 0.0),
    "uniform": (lambda rng, shape: rng.random(shape), 0.5),
    "coin": (lambda rng, shape: 1.0 * (rng.random(shape) < 0.5), 0.5),
    "one in ten": (lambda rng, shape: 1.0 * (rng.random(shape) < 0.1), 0.1),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
}


def allowed(runs: int, rate: float = ERROR) -> int:
    return int(stats.binom.isf(ALARM, runs, rate))


# ------------------------------------------------------------------------------------------------ a fixed number


def slow_fixed(x: list[float], error: float) -> tuple[float, float]:
    """The interval of a fixed number of samples, sum by sum: errors below and above the mean."""
    n = len(x)
    differ = n - Counter(x).most_common(1)[0][1]
    if differ < 8:
        return math.inf, math.inf
    mean = math.fsum(x) / n
    m2, m3, m4 = (math.fsum((value - mean) ** k for value in x) / n for k in (2, 3, 4))
    s, t = math.sqrt(n * m2 / (n - 1)), float(stats.t.isf(error / 2, n - 1))
    g, kappa = math.sqrt(n * (n - 1)) / (n - 2) * m3 / m2**1.5, m4 / m2**2
    factor = min(2.0, max(1.0, 20 * kappa / n)) * max(1.0, (0.05 / error) ** 0.25)
    tail = factor * abs(g) * s * (t * t / 3 + 1 / 6) / n
    plain = t * s / math.sqrt(n)
    if 2 * differ < n and n < 10 * kappa:
        return plain + tail, plain + tail
    return (plain + tail, plain) if g < 0 else (plain, plain + tail)


@pytest.mark.parametrize("n", [9, 30, 100, 1000])
@pytest.mark.parametrize("error", [0.05, 0.001])
def test_a_fixed_number_has_the_direct_formula(n, error):
    rng = np.random.default_rng(n)
    x = np.stack([rng.standard_normal(n), rng.exponential(size=n), -rng.lognormal(size=n), rng.random(n) < 0.4], axis=1)
    x = np.column_stack([x, np.where(np.arange(n) < max(9, n // 10), x[:, 0], 0.0)])
    found = np.array(FIXED.mean_errors(x, error))
    assert pytest.approx(np.array([slow_fixed(column.tolist(), error) for column in x.T]), rel=1e-9) == found.T


def test_a_longer_tail_widens_its_side_alone_and_normal_samples_hardly():
    rng = np.random.default_rng(0)
    below, above = FIXED.mean_errors(rng.exponential(size=(100, 400)), ERROR)
    assert (above > below).mean() > 0.99
    ordinary = -float(stdtrit(99, ERROR / 2)) / 10
    x = rng.standard_normal((100, 400))
    both = np.add(*FIXED.mean_errors(x, ERROR)) / (2 * x.std(axis=0, ddof=1))
    assert 1 <= np.mean(both) / ordinary <= 1.01
    assert FIXED.mean_errors(-x, ERROR)[0] == pytest.approx(FIXED.mean_errors(x, ERROR)[1])


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e300, 1e-300])
def test_a_constant_has_no_spread_although_its_mean_is_rounded(value):
    for n in (64, 100, 999):
        assert means.shape_of(np.full((n, 1), value))[0][0] == 0
        assert np.isinf(Sampling().mean_errors(np.full((n, 1), value), ERROR)).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("size", [7, 8192, 30_000])
def test_the_shape_and_the_median_of_many_samples_are_those_of_all_at_once(size, order):
    """Bit for bit, although many samples are read in parts. Of columns of equal and of mostly equal values too."""
    values = np.random.default_rng(5).lognormal(size=(size, 4))
    values[:, 1], values[: -size // 3, 2] = 0.1, 0.1
    values = np.asarray(values, order=order)
    about = values - values[0]
    about -= about.mean(axis=0)
    variance = (about * about).mean(axis=0)
    unit = about / np.where(variance > 0, np.sqrt(variance), 1.0)
    std, skewness, kurtosis = means.shape_of(values)
    np.testing.assert_array_equal(std, np.sqrt(variance * size / (size - 1)))
    np.testing.assert_array_equal(skewness, (unit * unit * unit).mean(axis=0))
    np.testing.assert_array_equal(kurtosis, np.where(variance > 0, ((unit * unit) * (unit * unit)).mean(axis=0), size))
    np.testing.assert_array_equal(means.median(values), np.sort(values, axis=0)[(size - 1) // 2])


def test_too_few_samples_that_differ_have_no_interval():
    for most in (0.0, 7.5):
        for differ in (FEW - 1, FEW):
            x = np.full((50, 1), most)
            x[:differ, 0] = np.arange(1, differ + 1) + most
            assert math.isinf(FIXED.mean_errors(x, ERROR)[0][0]) == (differ < FEW)
    assert np.isinf(FIXED.mean_errors(np.random.default_rng(0).random((FEW, 1)), ERROR)).all()


@pytest.mark.parametrize("runs", [2000, pytest.param(40_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", LAWS)
def test_a_fixed_number_covers(name, runs):
    """Of 100 samples, those without an interval aside: at most 6% missed, and 5% of normal ones; false alarm 1e-6."""
    draw, truth = LAWS[name]
    x = draw(np.random.default_rng(1), (100, runs))
    below, above = FIXED.mean_errors(x, ERROR)
    known = np.isfinite(below)
    missed = (x.mean(axis=0) - below > truth) | (x.mean(axis=0) + above < truth)
    assert known.mean() > 0.5
    assert missed[known].sum() <= allowed(int(known.sum()), 0.05 if name == "normal" else 0.06)


def test_half_the_width_would_be_caught():
    x = np.random.default_rng(2).standard_normal((100, 2000))
    below, above = FIXED.mean_errors(x, ERROR)
    missed = (x.mean(axis=0) - below / 2 > 0) | (x.mean(axis=0) + above / 2 < 0)
    assert missed.sum() > allowed(2000, 0.06)


# ------------------------------------------------------------------------------------------------ scheduled looks


def test_looks_are_a_fixed_schedule():
    first = list(itertools.islice(looks(), 14))
    assert first == [1, 2, 4, 8, 16, 32, 48, 64, 80, 100, 125, 156, 195, 243]
    assert [Sampling().next_look(n) for n in (0, 1, 63, 64, 100)] == [1, 2, 64, 80, 125]
    planned = Sampling("planned", 203)
    assert planned_looks(203) == [41, 82, 122, 163, 203]
    assert [planned.next_look(n) for n in (0, 32, 41, 64, 81, 195, 203, 243)] == [1, 41, 48, 80, 82, 203, 243, 303]


def test_the_radius_is_sharpest_where_it_says_and_larger_than_at_a_fixed_time():
    """Sharpest: none of the radii optimised for other sizes is smaller by more than 1%."""
    n = means._SHARPEST_AT
    assert sequential_radius(n, ERROR) > FIXED.radius(n, ERROR / 4)  # what looking just four times would cost
    for k in (64, 500, 10**6):
        assert sequential_radius(k, 0.01) > sequential_radius(k, 0.05)
    errors = [sequential_radius(k, ERROR) / math.sqrt(k) for k in (64, 100, 500, 1000, 10**6)]
    assert errors == sorted(errors, reverse=True)
    assert math.isinf(sequential_radius(1, ERROR))
    assert math.isinf(sequential_radius(2, 1e-6))


def slow_sequential(x: list[float], error: float) -> float:
    """The interval of sequential samples, sum by sum."""
    n = len(x)
    mean = math.fsum(x) / n
    m2, m3, m4 = (math.fsum((value - mean) ** k for value in x) / n for k in (2, 3, 4))
    if n < 32 or m2 == 0 or (n * m2) ** 2 / (n * m4) < 6:
        return math.inf
    s, radius = math.sqrt(n * m2 / (n - 1)), sequential_radius(n, error)
    factor = min(3.0, max(1.0, 60 * m4 / m2**2 / n)) * max(1.0, (0.05 / error) ** 0.125)
    return radius * s / math.sqrt(n) + factor * abs(m3) / m2**1.5 * s * radius**2 / (3 * n)


@pytest.mark.parametrize("n", [31, 32, 64, 300])
def test_sequential_samples_have_the_direct_formula(n):
    rng = np.random.default_rng(n)
    x = np.stack([rng.standard_normal(n), rng.exponential(size=n), rng.random(n) < 0.1, np.ones(n)], axis=1)
    below, above = Sampling().mean_errors(x, 0.01)
    assert below == pytest.approx(np.array([slow_sequential(column.tolist(), 0.01) for column in x.T]), rel=1e-9)
    assert (below == above).all()


def ever_missed(name: str, runs: int, last: int, sampling: Sampling, scale: float = 1.0) -> int:
    """Number of runs in which an interval at a look up to `last` misses the mean."""
    draw, truth = LAWS[name]
    x = draw(np.random.default_rng(5), (last, runs))
    at = planned_looks(last) if sampling.kind == "planned" else [n for n in _up_to(last) if n >= 64]
    missed = np.zeros(runs, bool)
    for n in at:
        below, above = sampling.mean_errors(x[:n], ERROR)
        middle = x[:n].mean(axis=0)
        missed |= (middle - scale * below > truth) | (middle + scale * above < truth)
    return int(missed.sum())


def _up_to(last: int) -> list[int]:
    return list(itertools.takewhile(lambda n: n <= last, looks()))


@pytest.mark.parametrize(
    ("runs", "last"), [(2000, 1000), pytest.param(10_000, 4000, marks=pytest.mark.long)], ids=["short", "long"]
)
@pytest.mark.parametrize("name", LAWS)
def test_the_mean_is_in_the_intervals_of_all_looks_but_as_often_as_allowed(name, runs, last):
    assert ever_missed(name, runs, last, Sampling()) <= allowed(runs)


def test_ordinary_intervals_would_be_caught():
    """At 1.96 standard errors, about two thirds of the radius, looking again and again misses too often."""
    assert ever_missed("normal", 2000, 1000, Sampling(), 1.96 / sequential_radius(150, ERROR)) > allowed(2000)


@pytest.mark.parametrize("runs", [4000, pytest.param(40_000, marks=pytest.mark.long)])
def test_the_calibration_to_the_looks_spends_most_of_the_error(runs):
    """On normal samples to n = 4,000: between 3% and 5% of runs ever miss, with 1e-6 of false alarm on each side."""
    rng, missed, sums = np.random.default_rng(8), np.zeros(runs, bool), np.zeros((2, runs))
    before = 0
    for n in (n for n in _up_to(4000) if n >= 32):
        x = rng.standard_normal((n - before, runs))
        sums += x.sum(axis=0), (x * x).sum(axis=0)
        before = n
        mean = sums[0] / n
        std = np.sqrt((sums[1] - n * mean**2) / (n - 1))
        missed |= np.abs(mean) > sequential_radius(n, ERROR) * std / math.sqrt(n)
    assert int(stats.binom.ppf(ALARM, runs, 0.03)) <= missed.sum() <= allowed(runs)


# ------------------------------------------------------------------------------------------------ planned looks


def test_the_constant_of_five_planned_looks_is_that_of_the_tables():
    """O'Brien & Fleming, K = 5 (Jennison & Turnbull, "Group sequential methods", 2000, table 2.3)."""
    found = [means._planned_constant(error) for error in (0.1, 0.05, 0.01)]
    assert found == pytest.approx([1.751, 2.040, 2.621], abs=6e-4)


def test_planned_looks_of_a_wiener_process_miss_as_often_as_they_say():
    """40,000 sums of five normal steps; within limits of 1e-6 on each side."""
    steps = np.random.default_rng(9).standard_normal((40_000, 5)).cumsum(axis=1)
    c, k = means._planned_constant(ERROR), np.arange(1, 6)
    crossed = (np.abs(steps) / np.sqrt(k) > c * np.sqrt(5 / k)).any(axis=1).sum()
    assert stats.binom.ppf(ALARM, 40_000, ERROR) <= crossed <= allowed(40_000)


def test_the_planned_radius_is_a_quantile_of_t_with_the_same_tail():
    for n in (64, 128, 320):
        tail = stats.norm.sf(means._planned_constant(ERROR) * math.sqrt(320 / n))
        assert planned_radius(n, ERROR, 320) == pytest.approx(stats.t.isf(tail, n - 1), rel=1e-6)
    assert planned_radius(320, ERROR, 320) < sequential_radius(320, ERROR)
    assert Sampling("planned", 320).radius(128, ERROR) == planned_radius(128, ERROR, 320)


@pytest.mark.parametrize("name", LAWS)
def test_the_mean_is_in_the_intervals_of_planned_looks(name):
    assert ever_missed(name, 2000, 500, Sampling("planned", 500)) <= allowed(2000)


# ------------------------------------------------------------------------------------------------ what was not seen


@pytest.mark.parametrize("n", [1, 64, 10_000])
def test_an_outcome_of_the_unseen_chance_is_missed_once_in_a_hundred(n):
    assert (1 - unseen_chance(n)) ** n == pytest.approx(0.01)
    one = Unseen(2.0, n, 10.0)
    p = one.chance
    assert (1 - p) * one.low - p * one.break_even == pytest.approx(0)
    assert one.firm == (one.break_even >= 10)


def test_the_sentence_rounds_to_the_side_on_which_it_is_true():
    one = Unseen(3.4999, 239, 1e9)
    said = one.sentence("run")
    assert said.startswith(
        f"This reverses only if something that happens in fewer than 1 of {int(1 / one.chance)} runs"
    )
    cost = float(said.split("more than ")[1].split()[0])
    assert 0.9 * one.break_even <= cost <= one.break_even
    assert not one.firm
    assert Unseen(3.5, 239, 1e9, included=True).firm


@pytest.mark.parametrize("std", [0.0, 0.3, 3.0])
def test_with_a_largest_loss_rare_losses_are_covered(std):
    """Loss L at chance p, all p, 2,000 runs of n = 200: the mean is below the upper limit in all but 2.5%."""
    n, loss = 200, 10.0
    rng = np.random.default_rng(11)
    for chance in (0.001, 0.005, 0.01, 0.02):
        happened = rng.random((n, 2000)) < chance
        x = std * rng.standard_normal((n, 2000)) - loss * happened
        seen = x.std(axis=0, ddof=1) * FIXED.radius(n, ERROR) / math.sqrt(n)
        errors = with_largest_loss(seen, loss, n, ERROR)
        assert (x.mean(axis=0) - errors > -loss * chance).sum() <= allowed(2000, ERROR / 2)
