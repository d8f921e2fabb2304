"""Gaps, intervals and three-valued answers."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

import jmdp
from jmdp.errors import UnavailableError, UndecidedError
from jmdp.results.gaps.bounds import cantelli
from jmdp.results.gaps.gap import Gap

YES, NO, UNKNOWN = jmdp.results.Verdict.YES, jmdp.results.Verdict.NO, jmdp.results.Verdict.UNKNOWN


def bandit(coupling, policy="first", discount=0.9):
    world = jmdp.worlds.anti_correlated_bandit(discount=discount)
    return jmdp.evaluate(world.model, world.policies[policy], coupling)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.999])
def test_var_g_of_the_anti_correlated_bandit(discount):
    """Closed forms: 1 under Local; 0.5/(1 − γ²) under Independent."""
    assert bandit(jmdp.Local(), discount=discount).gap(0, 0, 1).variance == pytest.approx(1, rel=1e-11)
    alone = bandit(jmdp.Independent(), discount=discount).gap(0, 0, 1).variance
    assert alone == pytest.approx(0.5 / (1 - discount**2), rel=1e-11)


def test_gap_is_antisymmetric_and_nothing_against_itself():
    world = jmdp.worlds.inventory()
    result = jmdp.evaluate(world.model, world.policies["base_stock"], jmdp.Local())
    forth, back = result.gap("3", "order 0", "order 4"), result.gap("3", "order 4", "order 0")
    assert forth.mean == -back.mean
    assert forth.variance == back.variance
    assert forth.correlation == back.correlation
    same = result.gap("3", "order 4", "order 4")
    assert (same.mean, same.variance, same.std) == (0.0, 0.0, 0.0)
    assert same.mean_interval == same.variance_interval == jmdp.results.Interval(0.0, 0.0)
    assert same.inferiority_bound() == 1.0


def test_the_variance_adds_both_variances():
    """The paper's section 5.4 has a minus before the second one."""
    world = jmdp.worlds.inventory()
    result = jmdp.evaluate(world.model, world.policies["base_stock"], jmdp.Independent())
    gap = result.gap(0, 0, 3)
    assert gap.variance == pytest.approx(result.covariance[0, 0, 0] + result.covariance[0, 3, 3])
    assert gap.correlation == 0.0


def test_cantelli_is_taken_at_the_conservative_end():
    local = jmdp.Local()
    gap = Gap(
        state="s",
        first="a",
        second="b",
        coupling=local,
        mean=0.5,
        variance=1.0,
        correlation=0.0,
        mean_interval=jmdp.results.Interval(0.4, 0.6),
        variance_interval=jmdp.results.Interval(0.9, 1.1),
        correlation_interval=None,
    )
    assert gap.inferiority_bound() == pytest.approx(1.1 / (1.1 + 0.16))
    assert gap.inferiority_bound() >= 1.1 / (1.1 + 0.4**2)
    unsure = dataclasses.replace(gap, mean_interval=jmdp.results.Interval(-0.1, 1.1))
    assert unsure.inferiority_bound() == 1.0
    assert unsure.is_better() is UNKNOWN


def test_cantelli_closed_form_and_edges():
    assert cantelli(1.0, 1.0) == pytest.approx(0.5)
    assert cantelli(0.0, 1.0) == cantelli(-3.0, 1.0) == cantelli(float("nan"), 1.0) == 1.0
    assert cantelli(1.0, 0.0) == 0.0
    assert 0 < cantelli(1e-160, 1e-320) <= 1
    assert cantelli(1e200, 1e-100) == pytest.approx(0.0, abs=1e-300)


@pytest.mark.parametrize(
    ("threshold", "answer"),
    [(0.99, YES), (1.0, UNKNOWN), (1.5, UNKNOWN), (2.0, NO), (2.1, NO)],
)
def test_intervals_answer_in_three_values(threshold, answer):
    """The quantity lies in [1, 2]; it is > 0.99, may or may not be > 1, and is not > 2."""
    assert jmdp.results.Interval(1.0, 2.0).exceeds(threshold) is answer


def test_unknown_is_neither_true_nor_false():
    assert bool(YES) is True
    assert bool(NO) is False
    with pytest.raises(UndecidedError, match="smaller tolerance or more samples"):
        bool(UNKNOWN)


def test_intervals_are_rounded_outwards():
    interval = jmdp.results.Interval.around(1.0, 1e-17)
    assert interval.low < 1.0 < interval.high
    assert 1.0 in interval
    assert 2.0 not in interval
    assert jmdp.results.Interval.around(1.0, 0.0) == jmdp.results.Interval(1.0, 1.0)
    assert interval.width == interval.high - interval.low


def test_without_a_certificate_nothing_is_certain():
    gap = Gap(
        state="s",
        first="a",
        second="b",
        coupling=jmdp.Local(),
        mean=0.5,
        variance=1.0,
        correlation=0.0,
        mean_interval=None,
        variance_interval=None,
        correlation_interval=None,
    )
    assert gap.std_interval is None
    for ask in (gap.is_better, gap.inferiority_bound):
        with pytest.raises(UnavailableError, match="no certificate"):
            ask()
    assert "mean         0.5 (estimate without an interval)\n" in str(gap)


def test_correlation_is_absent_where_nothing_varies():
    world = jmdp.worlds.windy_gridworld(3, 3)
    result = jmdp.evaluate(world.model, world.policies["goal_directed"], jmdp.Local())
    goal = world.model.states.index("0,2")
    assert np.isnan(result.correlation[goal]).all()
    live = np.delete(result.correlation, goal, axis=0)
    assert (np.einsum("saa->sa", live) == 1).all()
    assert (np.abs(live) <= 1).all()


def test_correlation_interval_holds_the_correlation():
    gap = bandit(jmdp.Local(), "uniform").gap(0, 0, 1)
    assert gap.correlation in gap.correlation_interval
    assert gap.correlation_interval.width < 1e-9
    assert gap.std in gap.std_interval
    assert math.isclose(gap.std**2, gap.variance)
    still = jmdp.worlds.windy_gridworld(2, 2, gust=0.0)
    flat = jmdp.evaluate(still.model, still.policies["goal_directed"], jmdp.Local()).gap(2, 0, 1)
    assert flat.correlation_interval == jmdp.results.Interval(-1.0, 1.0)
    assert math.isnan(flat.correlation)


def test_a_gap_prints_its_numbers():
    text = str(bandit(jmdp.Local(), "uniform").gap("play", "first", "second"))
    assert text.startswith("In state play, ")
    assert "\n  gap          Z(first) − Z(second), Local coupling, certified\n  mean " in text
    assert "P(gap ≤ 0)" not in text  # the bound is 1
    world = jmdp.worlds.inventory()
    sampled = jmdp.evaluate(
        world.model, world.policies["never"], jmdp.Local(), method=jmdp.MonteCarlo(seed=0, samples=100)
    )
    text = str(sampled.gap("3", 0, 1))
    assert "each interval at 95% confidence" in text
    mean = re.search(r"mean +(-?\d+\.\d+) ± (\d+\.\d+)\n", text)
    assert len(mean[1].partition(".")[2]) == len(mean[2].partition(".")[2]) <= 3
