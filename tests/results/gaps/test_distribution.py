"""Distributions known up to a band: what is asked of them."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import jmdp
from jmdp.base.interval import ANYWHERE, Interval
from jmdp.errors import SettingsError

FOUR = Interval(-4.0, 4.0)


def distribution(kind=jmdp.results.GapDistribution, slack=0.0, support=FOUR):
    """Masses ½ in [−2, −1], ¼ exactly at 0, ¼ in [1, 3]."""
    low, high = np.array([-2.0, 0.0, 1.0]), np.array([-1.0, 0.0, 3.0])
    return kind(low, high, np.array([-1.5, 0.0, 2.0]), np.array([0.5, 0.25, 0.25]), slack, support)


def close(estimate, value, low, high):
    assert estimate == pytest.approx(value, abs=1e-12)
    assert estimate.low == pytest.approx(low, abs=1e-12)
    assert estimate.high == pytest.approx(high, abs=1e-12)
    assert estimate.low <= estimate <= estimate.high


@pytest.mark.parametrize(
    ("x", "cdf", "below"),
    [
        (-5.0, (0, 0, 0), (0, 0, 0)),
        (-2.0, (0, 0, 0.5), (0, 0, 0)),
        (-1.5, (0.5, 0, 0.5), (0, 0, 0.5)),
        (-1.0, (0.5, 0.5, 0.5), (0.5, 0, 0.5)),
        (0.0, (0.75, 0.75, 0.75), (0.5, 0.5, 0.5)),
        (2.5, (1, 0.75, 1), (1, 0.75, 1)),
        (4.0, (1, 1, 1), (1, 1, 1)),
        (math.inf, (1, 1, 1), (1, 1, 1)),
        (-math.inf, (0, 0, 0), (0, 0, 0)),
    ],
)
def test_cdf(x, cdf, below):
    close(distribution().cdf(x), *cdf)
    close(distribution().below(x), *below)


def test_quantiles_and_the_worst():
    close(distribution().quantile(0.5 - 1e-9), -1.5, -2, -1)
    close(distribution().quantile(0.6), 0, 0, 0)
    close(distribution().quantile(0.9), 2, 1, 3)
    close(distribution().quantile(1.0), 2, 1, 4)
    close(distribution().cvar(0.25), -1.5, -2, -1)
    close(distribution().cvar(0.75), -1, -4 / 3, -2 / 3)
    close(distribution().mean, -0.25, -0.75, 0.25)
    for ask in (distribution().quantile, distribution().cvar):
        for p in (0.0, -0.1, 1.1, math.nan):
            with pytest.raises(SettingsError, match="Give a probability above 0"):
                ask(p)
    with pytest.raises(SettingsError, match="x is nan"):
        distribution().cdf(math.nan)


def test_slack_widens_everything():
    wide = distribution(slack=0.1)
    close(wide.cdf(0.5), 0.75, 0.65, 0.85)
    close(wide.quantile(0.05), -1.5, -4, -1)
    close(wide.quantile(0.95), 2, 1, 4)
    close(wide.cvar(0.2), -1.5, (-4 * 0.1 - 2 * 0.1) / 0.2, -1)
    close(wide.mean, -0.25, -0.4 - 1 + 0.25 * 0 + 0.15 * 1, -0.4 + 0.75 + 0.4)
    close(wide.ties(), 0.25, 0.05, 0.45)
    assert wide.cdf(-9.0).high == 0.0
    assert distribution(slack=0.1, support=ANYWHERE).cvar(0.2).low == -math.inf
    assert distribution(slack=0.1, support=ANYWHERE).cvar(0.2).high == pytest.approx(-1)
    assert distribution(slack=0.0).cvar(5e-324) == pytest.approx(-1.5)


def test_superiority_keeps_ties_apart():
    close(distribution().superiority(), 0.25, 0.25, 0.25)
    close(distribution().ties(), 0.25, 0.25, 0.25)
    close(distribution().inferiority(), 0.5, 0.5, 0.5)
    zero = jmdp.results.GapDistribution.zero()
    assert (zero.superiority(), zero.ties(), zero.inferiority()) == (0.0, 1.0, 0.0)
    assert zero.cvar(0.3) == zero.quantile(0.3) == 0.0


def test_it_prints_and_travels():
    text = repr(distribution())
    assert text.startswith("The mean gap is ")
    assert "  outer bounds   [-4, 4]\n  P(gap > 0)     0.250000000000000 ± 2e-15\n" in text
    assert "  95% quantile   2.0 in [1.0, 3.0]\n" in text
    assert "P(gap" not in repr(distribution(jmdp.results.Distribution))
    again = pickle.loads(pickle.dumps(distribution()))
    assert again.cdf(0.0) == 0.75
    with pytest.raises(ValueError, match="read-only"):
        again.mass[0] = 1


def test_estimates_are_floats_that_know_their_interval():
    estimate = jmdp.results.Estimate(1.0, 0.5, 2.0)
    assert isinstance(estimate, float)
    assert estimate + 1 == 2.0
    assert type(estimate + 1) is float
    assert estimate.interval == Interval(0.5, 2.0)
    assert repr(estimate) == "1.0 in [0.5, 2.0]"
    assert repr(jmdp.results.Estimate(1.0, 1 - 2**-30, 1 + 1e-10)) == "1.0000000000 ± 1.0e-09"
    assert repr(jmdp.results.Estimate(1.0, 1 - 1.1e-9, 1.0)) == "1.000000000 ± 2e-09"
    assert repr(jmdp.results.Estimate(1.0, 1 - 9.4e-9, 1.0)) == "1.000000000 ± 1.0e-08"
    assert repr(jmdp.results.Estimate(1.0, 1.0, 1.0)) == "1"
    assert f"{estimate:.2f}" == "1.00"
    again = pickle.loads(pickle.dumps(estimate))
    assert (again, again.low, again.high) == (1.0, 0.5, 2.0)


def test_intervals_multiply_outwards():
    product = Interval(-1.0, 2.0) * Interval(0.1, 3.0)
    assert product.low < -3.0 < 6.0 < product.high
    assert Interval(-2.0, 1.0).power(2).low == 0.0
    assert Interval(-2.0, 1.0).power(2).high >= 4.0
    assert Interval(-2.0, -1.0).power(2).low <= 1.0
    assert Interval(-2.0, -1.0).power(3).high >= -1.0
    assert Interval(-2.0, -1.0).power(0) == Interval(1.0, 1.0)
    assert Interval(0.0, 0.0) * ANYWHERE == Interval(0.0, 0.0)
    tiny = Interval(1e-200, 1e-200).power(2)
    assert tiny.low < 0 < tiny.high < 1e-300
    assert (Interval(0.0, 0.0) + Interval(0.0, 0.0)) == Interval(0.0, 0.0)
