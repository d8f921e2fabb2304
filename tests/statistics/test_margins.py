"""Margins and the verdicts on them: how a margin is read, and what is answered where little is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jmdp
from jmdp.base.interval import Verdict
from jmdp.errors import SettingsError, UndecidedError
from jmdp.results.certificate import Outcome
from jmdp.simulators.rollouts.draws import ENDED, Draws
from jmdp.statistics.means import Sampling
from jmdp.statistics.pair_means import PairMeans
from jmdp.statistics.selection import Limits, Margin


def pair(new, old, *, ends=None, discount=1.0, horizon=1, return_range=None, certain=False):
    returns = np.stack([new, old], axis=1)
    ends = np.full(returns.shape, ENDED) if ends is None else ends
    draws = Draws(returns, ends, returns.view(np.int64), float(np.abs(returns).max()), 1, 0, True)
    limits = Limits.of_draws([draws], discount, horizon, 1.0 if discount < 1 else None)
    return PairMeans(draws, limits, 0.05, return_range, Sampling(), None, certain)


def normal(mean, n=2000, seed=0, std=1.0):
    return mean + std * np.random.default_rng(seed).standard_normal(n)


@pytest.mark.parametrize(
    ("given", "size", "relative"),
    [(5, 5.0, False), (np.float32(0.5), 0.5, False), ("5", 5.0, False), ("2%", 0.02, True), (" 0.5 % ", 0.005, True)],
)
def test_margins_are_read(given, size, relative):
    found = Margin.of(given)
    assert (found.size, found.relative) == (pytest.approx(size, rel=1e-15), relative)
    assert Margin.of(str(found)) == found


@pytest.mark.parametrize(
    "given", [-1, math.nan, math.inf, True, None, "two", "2 percent", "%", "-2%", "100%", "nan%", 1j]
)
def test_other_margins_are_refused(given):
    with pytest.raises(SettingsError, match="margin is"):
        Margin.of(given)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_relative_margin_is_a_share_of_the_size_of_the_old_mean(sign):
    """Of a mean of −100, 5% are 5: −104 is not worse, −106 is."""
    old = normal(sign * 100)
    for loss, high, low in ((4.0, True, False), (6.0, False, True)):
        excess = pair(old - loss + normal(0, seed=1, std=0.1), old).excess(Margin.of("5%"))
        assert (excess.high < 0, excess.low > 0) == (high, low)
        assert float(excess) == pytest.approx(loss - 5, abs=0.1)


def test_the_interval_of_the_change_decides_as_the_margin_does():
    old = normal(100, std=30)
    means = pair(0.97 * old + normal(0, seed=1, std=3), old)
    change = means.change()
    assert change.low < float(change) < change.high
    assert float(change) == pytest.approx(-0.03, abs=0.003)
    for share, inside in ((change.low, False), (change.high, True)):
        for off in (-1e-9, 1e-9):
            excess = means.excess(Margin(-share - off, relative=True))
            known = excess.low > 0 if inside else excess.high < 0
            assert known == ((off > 0) if inside else (off < 0))


def test_near_zero_a_relative_margin_is_not_known():
    means = pair(normal(5, seed=1), normal(0.01))
    assert means.change() is None
    assert math.isinf(means.excess(Margin.of("2%")).high)
    assert means.excess(Margin.of(0.1)).high < 0


def test_truncated_returns_widen_the_interval_unless_branches_have_merged():
    old, horizon, discount = normal(0.5, std=0.1), 10, 0.5
    cut = discount**horizon / (1 - discount)
    apart, merged = np.array([[1, 2]] * 2000), np.array([[1, 1]] * 2000)
    given = {"discount": discount, "horizon": horizon}
    widths = [pair(old, old, ends=ends, **given).gap.error for ends in (None, merged, apart)]
    assert widths[1] == pytest.approx(widths[0])
    assert widths[2] - widths[0] == pytest.approx(2 * cut, rel=1e-6)
    relative = [pair(old, old, ends=ends, **given).excess(Margin.of("10%")).error for ends in (None, merged, apart)]
    assert relative[1] - relative[0] == pytest.approx(0.1 * cut, rel=1e-6)
    assert relative[2] - relative[0] == pytest.approx(1.9 * cut, rel=1e-6)


def test_an_unseen_event_may_cost_a_whole_episode():
    """Returns that never varied: 3.7 episodes in n may be lost unseen."""
    n = 400
    gap = pair(np.full(n, 500.0), np.full(n, 500.0)).gap
    assert gap.error == pytest.approx(500 * math.log(2 / 0.05) / n, rel=1e-6)
    assert pair(np.full(n, 500.0), np.full(n, 500.0)).excess(Margin.of(5)).high < 0
    assert pair(np.full(n, 500.0), np.full(n, 500.0)).excess(Margin.of(4)).high > 0
    assert math.isinf(pair(np.zeros(n), np.zeros(n)).gap.error)
    assert math.isinf(pair(np.ones(16), np.ones(16)).gap.error)


def test_a_known_range_bounds_what_is_unseen():
    n, rng = 3000, np.random.default_rng(0)
    old = rng.uniform(0.8, 1.0, n)
    means = pair(old, old, return_range=(0.8, 1.0))
    excess = means.excess(Margin.of("1%"))
    assert excess.high < 0
    assert means.gap.low >= -0.2
    with pytest.raises(SettingsError, match="return_range"):
        pair(old, old + 1, return_range=(0.8, 1.0)).excess(Margin.of(1))


def test_without_randomness_one_sample_is_exact():
    means = pair(np.array([95.0]), np.array([100.0]), certain=True)
    assert means.excess(Margin.of("6%")).high < 0 < means.excess(Margin.of("4%")).low


LANE = jmdp.simulators.FunctionSimulator(
    reward=lambda s, a, u: 10 + (0.0, 0.0, -3.0)[a] + u,
    next_state=lambda s, a, u: 1,
    actions=["old", "near", "far"],
    terminal=bool,
    luck=lambda rng: float(rng.standard_normal()),
    start=0,
)


def lane(**settings):
    policies = {"old": lambda s: 0, "near": lambda s: 1, "far": lambda s: 2}
    return jmdp.compare_policies(LANE, policies, seed=0, discount=1.0, horizon=1, progress=False, **settings)


def test_each_policy_is_simulated_until_its_verdict():
    found = lane(baseline="old", margin="5%")
    assert found.outcome is Outcome.MARGIN_DECIDED
    assert found.outcome.successful
    assert found.not_worse("5%", "near").verdict is Verdict.YES
    assert found.not_worse("5%", "far").verdict is Verdict.NO
    assert found.counts["far"] < found.counts["near"] < 500
    assert "near is not worse than old by more than 5%" in found.answer
    assert "far is worse than old by more than 5%" in found.answer
    sooner = lane(baseline="old", margin="5%", max_steps=60)
    assert sooner.outcome is Outcome.BUDGET_EXHAUSTED
    assert sooner.not_worse("5%", "near").verdict is Verdict.UNKNOWN
    with pytest.raises(UndecidedError):
        bool(sooner.not_worse("5%", "near"))


def test_any_comparison_answers():
    found = jmdp.compare(LANE, policy=[0], discount=1.0, horizon=1, seed=0, progress=False, samples=300)
    assert found.not_worse(0.5, "near", "old")
    assert not found.not_worse(0.5, "far", 0)
    assert found.not_worse(0.5, "near", "old").smallest_loss(10_000) == pytest.approx(0.6, abs=0.1)
    for wrong in ({}, {"new": "near"}, {"new": "near", "old": "near"}):
        with pytest.raises(SettingsError, match="Name"):
            found.not_worse(1, **wrong)


@pytest.mark.parametrize(
    "settings", [{"margin": 1}, {"baseline": "old", "margin": 1, "precision": 1}, {"baseline": "old", "margin": -1}]
)
def test_settings_that_do_not_fit(settings):
    with pytest.raises(SettingsError, match="margin"):
        lane(**settings)


@pytest.mark.parametrize(("margin", "edge"), [(1.5, 1.5), ("15%", 0.15)])
def test_where_smaller_is_better_a_larger_mean_is_a_loss(margin, edge):
    waits = {
        "old": lambda luck: 10 + luck.normal("u", mean=0, std=1),
        "new": lambda luck: 11 + luck.normal("u", mean=0, std=1),
    }
    found = jmdp.compare_runs(waits, minimize=True, baseline="old", seed=0, samples=600, progress=False)
    assert found.not_worse(margin).verdict is Verdict.YES
    assert found.not_worse("5%").verdict is Verdict.NO
    answer = found.not_worse(margin)
    assert float(answer.gap) == pytest.approx(1.0)
    shown = answer.gap if answer.change is None else answer.change
    assert shown.high < edge
    assert "not worse than old" in str(answer)
