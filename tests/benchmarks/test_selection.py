"""The benchmark of selection procedures: its cells, the constants of the procedures, and one small run."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks.running import Parts
from benchmarks.selection import Found, compare, exceeds
from benchmarks.selection_cells import DELTA, MEANS, NOISES, Cell, cells
from benchmarks.selection_classics import Runs, nelson_matejcik, nelson_matejcik_constant, rinott, rinott_constant
from benchmarks.selection_kim_nelson import eta, kim_nelson
from benchmarks.selection_rules import known_variances, looks_up_to
from reference import kim_nelson as slow

CELLS = [Cell(6, means, noise, correlated) for means in MEANS for noise in NOISES for correlated in (True, False)]


def near(values, expected, axis=0):
    """Means within 5 standard errors; false alarms: 6e-7 for each number, 2e-4 for all tests here."""
    error = values.std(axis=axis, ddof=1) / np.sqrt(values.shape[axis])
    return bool((abs(values.mean(axis=axis) - expected) <= 5 * error).all())


def test_there_are_96_cells():
    assert len(set(cells(quick=False))) == 96
    assert {cell.k for cell in cells(quick=False)} == {2, 10, 50, 200}


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_cells_have_the_stated_means_and_variances(cell):
    returns = cell.draw(np.random.default_rng(1), 40_000)
    gaps = returns[:, :1] - returns[:, 1:]
    assert near(gaps, cell.shortfalls[1:])
    assert near((gaps - cell.shortfalls[1:]) ** 2, 1.0)
    own = cell.variances + (9.0 if cell.correlated else 0.0)
    assert near((returns + cell.shortfalls) ** 2, own)


def test_the_smallest_gap_is_delta_or_a_tie():
    shortfalls = {means: Cell(4, means, "normal", True).shortfalls.tolist() for means in MEANS}
    assert shortfalls["slippage"] == [0, 0.2, 0.2, 0.2]
    assert shortfalls["one close"] == [0, 0.2, 2, 2]
    assert shortfalls["monotone"] == pytest.approx([0, 0.2, 0.4, 0.6])
    assert shortfalls["ties"] == [0, 0, 0.2, 0.2]


@pytest.mark.parametrize("noise", ["skewed", "rare loss"])
def test_noise_is_skewed_against_the_best(noise):
    """Third moments of (gap − mean): 2 × 2 (½)^(3/2) = √2 for two exponentials; p(1 − p)(1 − 2p) L³ for a rare loss."""
    cell = Cell(3, "slippage", noise, True)
    returns = cell.draw(np.random.default_rng(2), 200_000)
    gaps = returns[:, :1] - returns[:, 1:] - DELTA
    expected = np.sqrt(2) if noise == "skewed" else 0.5**1.5 * 0.96 / np.sqrt(0.02 * 0.98)
    assert near(gaps**3, expected)


@pytest.mark.parametrize("cell", CELLS[::3], ids=lambda cell: cell.name)
def test_sums_have_the_distribution_of_sums(cell):
    """Their mean and covariance, and that of the same cell simulated separately."""
    rng, n = np.random.default_rng(3), 7
    for shared in (True, False):
        found = cell.sums(rng, np.full((20_000, 1), n), shared) + n * cell.shortfalls
        assert near(found, 0.0)
        common = 9.0 * n if cell.correlated else 0.0
        assert near(found**2, n * cell.variances + common)
        assert near(found[:, 0] * found[:, 1], common if shared else 0.0)
    assert cell.sums(rng, np.zeros((2, 1), dtype=int)).tolist() == [[0.0] * cell.k] * 2


def test_some_columns_are_the_same_problem():
    cell = Cell(4, "monotone", "rare loss", True)
    returns = cell.draw(np.random.default_rng(4), 40_000, np.array([1, 3]))
    assert near(returns, -cell.shortfalls[[1, 3]])
    assert near((returns[:, 0] - returns[:, 1] - 2 * DELTA) ** 2, 1.5)


def test_rinotts_constant():
    """Against SciPy's adaptive integral, and against the definition: h normal standard errors of unequal sizes."""
    freedom = 19
    density = stats.chi2(freedom).pdf

    def inside(h):
        def value(x, y):
            return stats.norm.cdf(h / np.sqrt(freedom * (1 / x + 1 / y))) * density(x) * density(y)

        return integrate.dblquad(value, 1, 80, 1, 80, epsabs=1e-8)[0]

    assert rinott_constant(2) == pytest.approx(2.4525, abs=1e-4)
    assert inside(rinott_constant(2)) == pytest.approx(0.95, abs=1e-6)
    rng = np.random.default_rng(5)
    x, y, z = rng.chisquare(freedom, (9, 100_000)), rng.chisquare(freedom, 100_000), rng.standard_normal((9, 100_000))
    beaten = (z <= rinott_constant(10) / np.sqrt(freedom * (1 / x + 1 / y))).all(axis=0)
    assert rinott_constant(10) == pytest.approx(3.8753, abs=1e-4)
    # Given y the nine events are independent; the z of the procedure are not, but only this integral defines h.
    assert near(beaten.astype(float), 0.95)


def test_nelson_and_matejciks_constant():
    """Student's quantile for one gap; Dunnett's table (1955, one-sided 5%, many degrees of freedom) for 2 and 9."""
    assert nelson_matejcik_constant(2) == pytest.approx(stats.t.isf(0.05, 19), abs=1e-8)
    assert nelson_matejcik_constant(3, 10**6) == pytest.approx(1.92, abs=5e-3)
    assert nelson_matejcik_constant(10, 10**6) == pytest.approx(2.42, abs=5e-3)
    rng, freedom = np.random.default_rng(6), 9 * 19
    t = (rng.standard_normal((200_000, 9)) + rng.standard_normal((200_000, 1))) / np.sqrt(2)
    t /= np.sqrt(rng.chisquare(freedom, (200_000, 1)) / freedom)
    assert near((t.max(axis=1) <= nelson_matejcik_constant(10)).astype(float), 0.95)


def test_kim_and_nelsons_constant():
    """By hand: (0.1/9)^(−2/9) = e^0.99996 for ten alternatives, and 0.1^(−2/9) = 10^(2/9) for two."""
    assert eta(10) == pytest.approx((np.exp(0.99996) - 1) / 2, abs=1e-4)
    assert eta(2) == pytest.approx((10 ** (2 / 9) - 1) / 2)


@pytest.mark.parametrize("seed", range(12))
def test_kim_and_nelson_equals_the_plain_loop(seed):
    cell = Cell((2, 5, 12)[seed % 3], MEANS[seed % 4], NOISES[seed % 3], bool(seed % 2))
    returns = cell.draw(np.random.default_rng(seed), 6000)
    taken = 0

    def draw(n, active):
        nonlocal taken
        taken += n
        return returns[taken - n : taken, active]

    assert kim_nelson(cell.k, draw, DELTA, 0.05) == slow.select(returns, DELTA, 0.05, 10)


@pytest.mark.parametrize("procedure", [nelson_matejcik, rinott])
def test_two_stages_select_the_best_as_promised(procedure):
    """Normal slippage is the least favourable case. P(more than 34 of 400 wrong) < 1e-3 at 5%."""
    found = procedure(Cell(5, "slippage", "normal", False), np.random.default_rng(7), 400)
    assert 4 <= (found.chosen != 0).sum() <= 34


def test_known_variances_decide_unless_two_are_tied():
    """False alarms: P(more than 10 of 50 wrong at 5%) < 1e-4, for the ties."""
    far = known_variances(Cell(5, "one close", "normal", True), np.random.default_rng(8), 50, 4000)
    assert (far.chosen == 0).all()
    assert (far.rollouts < 5 * 4000).all()
    tied = known_variances(Cell(2, "ties", "normal", True), np.random.default_rng(9), 50, 500)
    assert (tied.rollouts[tied.chosen < 0] == 2 * 500).all()
    assert (tied.chosen < 0).sum() >= 40
    assert list(looks_up_to(110)) == [64, 80, 100, 110]


def test_wrong_claims_are_counted():
    """Ties: any claim is wrong, but either of the two may be selected. Elsewhere δ below the best is wrong."""
    runs = Runs(np.array([0, 1, 2, -1]), np.array([1, 2, 3, 4]))
    count = {
        (means, selecting): Found.of(Cell(3, means, "normal", True), runs, selecting).wrong
        for means in ("ties", "slippage")
        for selecting in (True, False)
    }
    assert count == {("ties", True): 1, ("ties", False): 3, ("slippage", True): 2, ("slippage", False): 2}
    assert Found.of(Cell(3, "ties", "normal", True), runs, True).undecided == 1
    assert exceeds(45, 400, 96)
    assert not exceeds(36, 400, 96)


def test_a_quick_run():
    report = compare(quick=True, parts=Parts())
    assert len(report.details) == 48
    assert len(report.rows) == 8
    assert len(report.goals) == 5
    assert "| jmdp " in report.table()
    assert report.record()["details"] == report.details
