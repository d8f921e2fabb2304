"""Dependence of successive gaps: closed forms of autoregressions, a slow reference, and coverage of intervals.

Series of 400,000 values: estimates are within 5% of the closed form, three standard errors or more.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from history_coverage import DAYS, RHOS, measured
from scipy import stats
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from jmdp.statistics.history import Dependence, _autoregressions, _of_weights
from jmdp.statistics.means import history_errors, history_radius


def series(weights: list[float], size: int, seed: int = 0) -> np.ndarray:
    """An autoregression, after its beginning."""
    noise = np.random.default_rng(seed).normal(size=size + 1000)
    return np.asarray(lfilter([1], [1, *(-w for w in weights)], noise)[1000:])


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8, -0.6])
def test_autoregressions_of_order_1(rho: float) -> None:
    factor, reach = (1 + rho) / (1 - rho), 2 * rho / (1 - rho**2)
    assert _of_weights(np.array([rho]), 1.0, 1 / (1 - rho**2)) == pytest.approx((factor, reach))
    found = Dependence.of(series([rho], 400_000), 1)
    assert found is not None
    assert found.factor == pytest.approx(factor, rel=0.05)
    assert found.reach == pytest.approx(reach, rel=0.05, abs=0.05)


def test_an_autoregression_of_order_2() -> None:
    """γ₀, γ₁ and γ₂ from the Yule–Walker equations, the others by their recursion."""
    a, b = 0.5, -0.4
    gamma = [1.0, a / (1 - b)]
    for _ in range(300):
        gamma.append(a * gamma[-1] + b * gamma[-2])
    total = 1 + 2 * sum(gamma[1:])
    reach = 2 * sum(k * g for k, g in enumerate(gamma)) / total
    variance = 1 / (1 - a * gamma[1] - b * gamma[2])
    assert _of_weights(np.array([a, b]), 1.0, variance) == pytest.approx((total, reach))
    found = Dependence.of(series([a, b], 400_000), 1)
    assert found is not None
    assert found.factor == pytest.approx((1 + gamma[1]) / (1 - gamma[1]), rel=0.05)  # the larger one, of order 1
    assert found.effective == pytest.approx(400_000 / found.factor)


def test_levinsons_recursion_solves_the_yule_walker_equations() -> None:
    x = series([0.6, -0.3, 0.2], 500)
    covariances = np.array([x[: 500 - k] @ x[k:] for k in range(27)]) / 500
    scores = []
    for p in range(1, 27):
        weights = solve_toeplitz(covariances[:p], covariances[1 : p + 1])
        noise = covariances[0] - weights @ covariances[1 : p + 1]
        scores.append((500 * math.log(noise) + 2 * p, weights, noise))
    best = min(scores, key=lambda one: one[0])
    expected = [_of_weights(one[1], one[2], covariances[0]) for one in (scores[0], best)]
    assert np.array(_autoregressions(covariances, 500)) == pytest.approx(np.array(expected))


def test_a_season_is_no_dependence() -> None:
    week = np.tile([0.0, 1, 2, 3, 9, 9, 0], 300)
    noise = np.random.default_rng(2).normal(size=2100)
    with_season, without = Dependence.of(week + noise, 7), Dependence.of(week + noise, 1)
    assert with_season is not None
    assert without is not None
    assert 0.8 < with_season.factor < 1.25
    assert with_season.block <= 4
    assert without.factor > 2 or abs(without.reach) > 2


def test_why_there_is_no_interval() -> None:
    def known(values: np.ndarray) -> Dependence:
        found = Dependence.of(values, 1)
        assert found is not None
        return found

    long, rng = known(series([0.5], 600)), np.random.default_rng(5)
    assert long.lacks(long.block) == ""
    assert long.lacks(1) == "and these blocks are too short for them, or too long"
    assert known(series([0.8], 100)).lacks(20) == "fewer than 50"
    assert known(rng.normal(size=60)).lacks(1).startswith("perhaps only ")
    rare = np.where(rng.random(400) < 0.02, 5.0, 1.0)
    assert known(rare).lacks(1).endswith("of them have the same gap")
    assert Dependence.of(np.full(50, 3.0), 1) is None


def test_the_error_of_one_history() -> None:
    """√(n + 1) times Student's t over √n; nothing is known from equal histories, or without degrees of freedom."""
    t = stats.t.ppf(0.975, 1 / (1 / 40 + 1 / 199))
    assert history_radius(200, 0.05, 40.0) == pytest.approx(t * math.sqrt(201))
    assert history_radius(200, 0.05, 0.0) == math.inf
    values = np.stack([np.arange(200.0) ** 2, np.full(200, 7.0)], axis=1)
    below, above = history_errors(values, history_radius(200, 0.05, 40.0))
    assert above[0] > below[0] > 2 * values[:, 0].std()
    assert below[1] == above[1] == math.inf


def test_intervals_cover_where_the_iid_bootstrap_does_not() -> None:
    """60 histories of 300 days, ρ = ½. With a coverage of 93%, 50 or fewer of 60 have a chance of 1%."""
    row = measured("newsvendor", 0.5, 300, 60, seed=3, samples=60)
    assert row.given >= 45
    assert row.covered >= row.given - 9
    assert row.iid <= 52


@pytest.mark.long
@pytest.mark.parametrize("case", ["newsvendor", "shop"])
def test_intervals_cover_wherever_they_are_given(case: str) -> None:
    """Of 200 histories in each cell at least 90%, less three standard errors; false alarms below 2% in all."""
    for rho in RHOS:
        for days in DAYS:
            row = measured(case, rho, days, 200, seed=11)
            if row.given:
                assert row.covered >= 0.9 * row.given - 3 * math.sqrt(0.09 * row.given), (rho, days, row)
