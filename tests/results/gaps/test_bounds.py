"""Bounds on chances and worst means from moments: true for every distribution, attained by some."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmdp.base.interval import ANYWHERE, Interval
from jmdp.errors import SettingsError
from jmdp.results.gaps import canonical
from jmdp.results.gaps.bounds import cantelli, cdf_bounds, cvar_bounds
from reference.discrete_distributions import Discrete, hull, points, random_distribution, random_problem

F = Fraction
INF = math.inf


UNIFORM = [F(1, k + 1) if k % 2 == 0 else F(0) for k in range(21)]  # on [−1, 1]
EXPONENTIAL = [F(1), F(0)]  # about its mean: the numbers of permutations without a fixed point
for k in range(2, 21):
    EXPONENTIAL.append(k * EXPONENTIAL[-1] + (-1) ** k)


SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_truth_is_inside(seed):
    """30 distributions a seed, each at 6 points from 2, 4, 6 and 8 moments: 720 cases; and more moments never widen."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        distribution, moments = random_problem(rng, 8)
        for x in points(distribution, rng):
            before = Interval(0.0, 1.0)
            for n in (2, 4, 6, 8):
                found = cdf_bounds(x, moments[: n + 1], distribution.support)
                assert found.low <= distribution.cdf(F(x)) <= found.high, (
                    seed,
                    distribution.atoms,
                    distribution.masses,
                    x,
                    n,
                )
                assert before.low <= found.low <= found.high <= before.high
                before = found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_true_cvar_is_inside(seed):
    rng = np.random.default_rng(seed)
    for _ in range(8):
        distribution, moments = random_problem(rng, 6)
        p = float(rng.choice([1e-9, 0.01, 0.05, 0.3, float(distribution.masses[0]), 0.9, 1 - 1e-12]))
        lower = -INF
        for n in (2, 4, 6):
            found = cvar_bounds(p, moments[: n + 1], distribution.support)
            assert found.low <= distribution.cvar(p) <= found.high, (
                seed,
                distribution.atoms,
                distribution.masses,
                p,
                n,
            )
            assert lower <= found.low
            lower = found.low


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8, 16])
def test_continuous_distributions_are_inside(n):
    uniform, exponential = ([hull(m) for m in moments[: n + 1]] for moments in (UNIFORM, EXPONENTIAL))
    for x in np.linspace(-1.2, 1.2, 7):
        for support in (ANYWHERE, Interval(-1.0, INF), Interval(-1.0, 1.0)):
            assert min(1.0, max(0.0, (x + 1) / 2)) in cdf_bounds(x, uniform, support)
    for x in np.linspace(-1.5, 9.0, 6):
        for support in (ANYWHERE, Interval(-1.0, INF)):
            assert (0.0 if x < -1 else 1 - math.exp(-x - 1)) in cdf_bounds(x, exponential, support)
    if n <= 6:
        for p in (0.01, 0.5, 0.95):
            assert p - 1 in cvar_bounds(p, uniform, Interval(-1.0, 1.0))
            assert (1 - p) / p * math.log1p(-p) in cvar_bounds(p, exponential, ANYWHERE)


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_two_moments_are_cantelli(scale):
    """σ²/(σ² + x²) on the whole line, both sides; μ − σ√((1 − p)/p) for the worst p."""
    std = 1.7
    moments = [Interval(1.0, 1.0), Interval(0.0, 0.0), hull(F(std * scale) ** 2)]
    for x in (-7.0, -1.0, -0.1):
        tail = std**2 / (std**2 + x**2)
        below, above = (cdf_bounds(sign * x * scale, moments, ANYWHERE) for sign in (1, -1))
        assert below.low == 0.0
        assert below.high == pytest.approx(tail, abs=1e-9)
        assert above.low == pytest.approx(1 - tail, abs=1e-9)
        assert above.high == 1.0
    for p in (0.01, 0.5, 0.9):
        found = cvar_bounds(p, moments, ANYWHERE)
        assert found.low / scale == pytest.approx(-std * math.sqrt((1 - p) / p), rel=1e-9)
        assert found.high == 0.0


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("ends", ["none", "low", "high", "both"])
def test_an_extremal_distribution_attains_the_bounds(m, ends):
    """A canonical representation itself: its mass up to x is the upper bound, its mass before x the lower one."""
    rng = np.random.default_rng(m)
    for _ in range(10):
        count = m + 1 if ends == "none" else m + 2 if ends == "both" else m + 1
        atoms = sorted(F(int(t), 8) for t in rng.choice(32, count, replace=False))
        cuts = sorted(rng.choice(np.arange(1, 64), count - 1, replace=False).tolist())
        masses = [F(b - a, 64) for a, b in pairwise([0, *cuts, 64])]
        low = float(atoms[0]) if ends in ("low", "both") else -INF
        high = float(atoms[-1]) if ends in ("high", "both") else INF
        distribution = Discrete(atoms, masses, low, high)
        inner = distribution.atoms[ends in ("low", "both") : count - (ends in ("high", "both"))]
        for x in inner:
            found = cdf_bounds(float(x), distribution.moments(2 * m), distribution.support)
            assert found.low == pytest.approx(float(distribution.below(x)), abs=1e-6)
            assert found.high == pytest.approx(float(distribution.cdf(x)), abs=1e-6)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_an_extremal_distribution_attains_the_worst_mean(m):
    """Where p is the mass of its first atoms, which have m + 1 in all; and of its first alone for m = 1."""
    rng = np.random.default_rng(m)
    for _ in range(5):
        atoms = sorted(F(int(t), 8) for t in rng.choice(32, m + 1, replace=False))
        distribution = Discrete(atoms, [F(int(w)) for w in rng.integers(1, 16, m + 1)])
        p = float(distribution.masses[0])
        found = cvar_bounds(p, distribution.moments(2 * m), ANYWHERE)
        assert found.low == pytest.approx(float(distribution.atoms[0]), abs=1e-5)


def test_a_known_support_makes_it_narrower():
    moments = [hull(m) for m in UNIFORM[:5]]
    for x in np.linspace(-0.95, 0.95, 20):
        found = [cdf_bounds(x, moments, s) for s in (ANYWHERE, Interval(-1.0, INF), Interval(-1.0, 1.0))]
        assert found[0].width >= found[1].width - 1e-12 >= found[2].width - 2e-12
    assert cdf_bounds(0.3, moments, ANYWHERE).width > cdf_bounds(0.3, moments, Interval(-1.0, 1.0)).width + 0.01
    found = [cvar_bounds(0.05, moments, s) for s in (ANYWHERE, Interval(-1.0, 1.0))]
    assert found[0].low < found[1].low < found[1].high < found[0].high


def linear_programme(cost, basis, target, more=None):
    from scipy.optimize import linprog

    found = linprog(cost, A_eq=basis, b_eq=target, **(more or {}), method="highs")
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("n", [2, 4, 6])
def test_equal_to_a_linear_programme_on_a_fine_grid(n):
    """All distributions on 801 points of [−1, 1] with the moments of one of them."""
    rng = np.random.default_rng(n)
    grid = np.linspace(-1, 1, 801)
    for _ in range(3):
        mass = rng.dirichlet(np.full(5, 0.7))
        atoms = rng.choice(grid[1:-1], 5, replace=False)
        basis = np.polynomial.chebyshev.chebvander(grid, n).T
        target = mass @ np.polynomial.chebyshev.chebvander(atoms, n)
        moments = [Interval.around(float(mass @ atoms**k), 1e-15) if k else Interval(1.0, 1.0) for k in range(n + 1)]
        for x in rng.choice(grid[40:-40], 4):
            found = cdf_bounds(x, moments, Interval(-1.0, 1.0))
            assert found.high == pytest.approx(-linear_programme(-1.0 * (grid <= x), basis, target), abs=1e-3)
            assert found.low == pytest.approx(linear_programme(1.0 * (grid < x), basis, target), abs=1e-3)


@pytest.mark.parametrize("n", [2, 4])
def test_worst_means_are_those_of_linear_programmes(n):
    """The least: part v ≤ masses/p of the distribution, Σ v = 1, with the least mean. The greatest: the best η."""
    rng = np.random.default_rng(n)
    grid = np.linspace(-1, 1, 161)
    for p in (0.1, 0.5):
        mass = rng.dirichlet(np.full(5, 0.7))
        atoms = rng.choice(grid, 5, replace=False)
        basis = np.polynomial.chebyshev.chebvander(grid, n).T
        target = mass @ np.polynomial.chebyshev.chebvander(atoms, n)
        moments = [Interval.around(float(mass @ atoms**k), 1e-15) if k else Interval(1.0, 1.0) for k in range(n + 1)]
        found = cvar_bounds(p, moments, Interval(-1.0, 1.0))
        both = np.block([[basis, np.zeros_like(basis)], [np.zeros((1, grid.size)), np.ones((1, grid.size))]])
        part = {"A_ub": np.hstack([-np.eye(grid.size) / p, np.eye(grid.size)]), "b_ub": np.zeros(grid.size)}
        least = linear_programme(np.concatenate([0 * grid, grid]), both, [*target, 1.0], part)
        assert found.low == pytest.approx(least, abs=2e-3)
        most = max(-linear_programme(np.maximum(eta - grid, 0) / p - eta, basis, target) for eta in grid)
        assert most - 1e-6 <= found.high <= most + 0.02


def test_touching_polynomials_stay_on_their_side():
    """Exactly, at 160 points, for nodes that are anywhere and not the best ones."""
    rng = np.random.default_rng(0)
    grid = [F(i, 16) for i in range(-80, 81)]
    for _ in range(40):
        inner = sorted(F(int(t), 64) for t in rng.choice(np.arange(-190, 190), int(rng.integers(1, 6)), replace=False))
        low, high = (F(-4) if rng.random() < 0.5 else None), (F(4) if rng.random() < 0.5 else None)
        x = F(int(rng.integers(-200, 200)) * 2 + 1, 128)
        inside = [t for t in grid if (low is None or t >= low) and (high is None or t <= high)] + [x, *inner]
        nodes = canonical.Nodes(tuple(inner), low, high)
        upper, lower = canonical.step(x, nodes)
        kinked = canonical.shortfall_below(x, nodes)
        for t in inside:
            assert canonical.evaluated(upper, t) >= (t <= x)
            assert canonical.evaluated(lower, t) <= (t < x)
            assert canonical.evaluated(kinked, t) <= max(x - t, F(0))
        if len(inner) > 1:
            eta, q = canonical.shortfall_above(inner[len(inner) // 2 - 1], nodes)
            assert all(canonical.evaluated(q, t) >= max(eta - t, F(0)) for t in [*inside, eta])


def test_bad_nodes_cost_sharpness_and_never_truth(monkeypatch):
    rng = np.random.default_rng(5)
    find = canonical._spectrum

    def badly(diagonal, off):
        nodes, masses = find(diagonal, off)
        return nodes + rng.normal(size=nodes.size) * rng.choice([1e-3, 0.3, 2.0]), masses

    monkeypatch.setattr(canonical, "_spectrum", badly)
    for _ in range(60):
        distribution = random_distribution(rng)
        for x in points(distribution, rng):
            found = cdf_bounds(x, distribution.moments(4), distribution.support)
            assert found.low <= distribution.cdf(F(x)) <= found.high


def test_nodes_that_prove_nothing_are_refused():
    x, outside, twice = F(0), canonical.Nodes((F(-3),), F(-2)), canonical.Nodes((F(1), F(1)))
    for nodes in (outside, twice, canonical.Nodes((x,)), canonical.Nodes((F(1),), x)):
        assert canonical.step(x, nodes) is None
        assert canonical.shortfall_below(x, nodes) is None
    assert canonical.shortfall_above(F(-1), outside) is None
    assert canonical.shortfall_above(F(5), canonical.Nodes((F(1), F(2)))) is None


def test_intervals_are_taken_at_their_conservative_ends():
    """For a distribution at the edge of every interval: what is certain for the wide ones is so for it."""
    x = -1.5
    distribution = Discrete([-2, -1, 0, 1, 2], [1, 4, 6, 4, 1])  # variance 1, fourth moment 5/2
    narrow = cdf_bounds(x, distribution.moments(4), ANYWHERE)
    for second, fourth in [((0.7, 1.0), (2.5, 2.9)), ((1.0, 1.3), (2.2, 2.5)), ((0.5, 1.0), (0.5, 2.5))]:
        moments = [*distribution.moments(1), Interval(*second), Interval(0.0, 0.0), Interval(*fourth)]
        wide = cdf_bounds(x, moments, ANYWHERE)
        assert narrow.high <= wide.high
        assert cvar_bounds(0.05, distribution.moments(4), ANYWHERE).low >= cvar_bounds(0.05, moments, ANYWHERE).low


def test_wide_intervals_touch_where_the_worst_distribution_is():
    """Where only the greatest moments matter, the bound is nearly theirs and not that of the middle's polynomial."""
    worst = [Interval(1.0, 1.0), Interval(0.0, 0.0), Interval(1.0, 1.0), Interval(0.0, 0.0), Interval(3.0, 3.0)]
    wide = [*worst[:2], Interval(0.6, 1.0), worst[3], Interval(1.2, 3.0)]
    sharp, found = cdf_bounds(-3.0, worst, ANYWHERE).high, cdf_bounds(-3.0, wide, ANYWHERE).high
    assert sharp <= found <= 1.3 * sharp


def test_few_atoms():
    """As many moments as pin the distribution down: the truth to six digits away from the atoms, their mass at them."""
    coin = Discrete([-1, 1], [F(1, 4), F(3, 4)])  # −1.5 and 0.5
    for x, low, high in [(-2.0, 0, 0), (-1.5, 0, 0.25), (-1.0, 0.25, 0.25), (0.5, 0.25, 1), (3.0, 1, 1)]:
        found = cdf_bounds(x, coin.moments(8), ANYWHERE)
        assert (found.low, found.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))
    assert cvar_bounds(0.25, coin.moments(8), ANYWHERE).low == pytest.approx(-1.5, abs=1e-9)
    assert cvar_bounds(0.5, coin.moments(8), ANYWHERE).low == pytest.approx(-0.5, abs=1e-3)


def test_nothing_varies():
    one, zero = Interval(1.0, 1.0), Interval(0.0, 0.0)
    for n in (2, 4):
        moments = [one] + [zero] * n
        assert cdf_bounds(-1e-300, moments, ANYWHERE) == zero
        assert cdf_bounds(0.0, moments, ANYWHERE) == one
        assert cvar_bounds(0.1, moments, ANYWHERE) == zero
        nearly = [one, zero] + [Interval(0.0, 1e-20)] * (n - 1)
        assert cdf_bounds(-1.0, nearly, ANYWHERE).high <= 1.0001e-20
        assert cdf_bounds(0.0, nearly, ANYWHERE) == Interval(0.0, 1.0)
        assert -1e-9 <= cvar_bounds(0.1, nearly, ANYWHERE).low <= 0


def test_ends_of_the_support_are_exact():
    moments, support = [hull(m) for m in UNIFORM[:5]], Interval(-1.0, 1.0)
    zero, one = Interval(0.0, 0.0), Interval(1.0, 1.0)
    assert cdf_bounds(math.nextafter(-1.0, -2.0), moments, support) == cdf_bounds(-INF, moments, ANYWHERE) == zero
    assert cdf_bounds(1.0, moments, support) == cdf_bounds(INF, moments, ANYWHERE) == one
    at = cdf_bounds(-1.0, moments, support)
    assert at.low == 0.0
    assert at.high == pytest.approx(1 / 9, abs=1e-12)  # the end's weight in the formula of Radau with three points
    assert cdf_bounds(0.0, [], support) == cdf_bounds(0.0, moments[:2], ANYWHERE) == Interval(0.0, 1.0)
    assert cvar_bounds(0.1, [], support) == support
    assert cvar_bounds(0.1, moments[:2], support) == Interval(-1.0, 0.0)
    assert cvar_bounds(1.0, moments, support) == zero


def test_infinite_moments_end_the_list():
    moments = [hull(m) for m in UNIFORM[:9]]
    for k in (3, 4):
        cut = [*moments[:k], Interval(-INF, INF), *moments[k + 1 :]]
        assert cdf_bounds(0.3, cut, ANYWHERE) == cdf_bounds(0.3, moments[:3], ANYWHERE)
    assert cdf_bounds(0.3, [*moments[:2], Interval(0.0, INF)], ANYWHERE) == Interval(0.0, 1.0)
    assert cvar_bounds(0.3, [*moments[:2], Interval(0.0, INF)], ANYWHERE) == Interval(-INF, 0.0)


@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e60, 1e150])
def test_scales(scale):
    """Moments that leave the range of floats are of no use, those that do not are as good as at 1."""
    unit = F(2) ** round(math.log2(scale))
    moments, usual = [], [hull(m) for m in UNIFORM[:7]]
    for k, m in enumerate(UNIFORM[:7]):
        value = m * unit**k
        if value > F(1.7e308):
            moments.append(Interval(1.7e308, INF))
        else:
            moments.append(hull(value))
    same = 4 if scale in (1e-60, 1e60) else 2
    for x in (-0.9, 0.2):
        found = cdf_bounds(float(F(x) * unit), moments, ANYWHERE)
        assert found.low <= (x + 1) / 2 <= found.high
        reference = cdf_bounds(x, usual[: same + 1], ANYWHERE)
        assert found.low >= reference.low - 1e-9
        assert found.high <= reference.high + 1e-9
    worst = cvar_bounds(0.1, moments, ANYWHERE)
    assert worst.low <= -0.9 * unit <= worst.high
    assert worst.low >= cvar_bounds(0.1, usual[: same + 1], ANYWHERE).low * unit * (1 + F(1, 10**9))


numbers = st.floats(allow_nan=False)
intervals = st.tuples(numbers, numbers).map(lambda ends: Interval(min(ends), max(ends)))


@settings(max_examples=60, deadline=None)
@given(x=numbers, p=st.floats(0, 1, exclude_min=True), moments=st.lists(intervals, max_size=5), support=intervals)
def test_any_input_has_an_answer(x, p, moments, support):
    """Contradictory or wild: an ordered interval, no nan, no error."""
    moments = [Interval(1.0, 1.0), *moments]
    found = cdf_bounds(x, moments, support)
    assert 0 <= found.low <= found.high <= 1
    worst = cvar_bounds(p, moments, support)
    assert worst.low <= worst.high


def test_bad_questions_are_refused():
    moments = [hull(m) for m in UNIFORM[:5]]
    with pytest.raises(SettingsError, match="nan"):
        cdf_bounds(math.nan, moments, ANYWHERE)
    for p in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(SettingsError, match="p is"):
            cvar_bounds(p, moments, ANYWHERE)


def test_far_away_it_falls_with_the_highest_moment():
    moments = [hull(m) for m in UNIFORM[:9]]
    for x in (1e3, 1e9, 1e100):
        high = cdf_bounds(-x, moments, ANYWHERE).high
        assert 0 < high <= max(float(UNIFORM[8]) * x**-8 if x < 1e30 else 0.0, 1e-300)
        assert high <= cantelli(x, 1 / 3)


def test_eight_moments_take_little_longer_than_four():
    """CPU time, in turn, best of ten: usually 3 times."""
    best = dict.fromkeys((4, 8), INF)
    for x in np.linspace(-0.9, 0.9, 10):
        for order in best:
            moments = [hull(m) for m in UNIFORM[: order + 1]]
            start = time.process_time()
            cdf_bounds(x, moments, Interval(-1.0, 1.0))
            best[order] = min(best[order], time.process_time() - start)
    print(f"cdf_bounds takes {1e3 * best[4]:.1f} ms with 4 moments, {1e3 * best[8]:.1f} ms with 8")
    assert best[8] <= 20 * best[4]
