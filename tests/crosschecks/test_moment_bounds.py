"""Bounds from moments against semidefinite programmes solved by Clarabel, which need no grid of points.

P(X ≤ x) ≤ min E[q(X)] over polynomials q of degree 2m with q ≥ 1 on the support up to x and q ≥ 0 above. A polynomial
is nonnegative on [a, b] if and only if it is σ + (t − a)(b − t) τ with sums of squares σ and τ, on a half-line with one
factor less, on the line with σ only (Pólya and Szegő; Lukács). A sum of squares is a positive semidefinite matrix.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.polynomial import polynomial
from scipy import sparse

from jmdp.base.interval import Interval
from jmdp.results.gaps.bounds import cdf_bounds, cvar_bounds

clarabel = pytest.importorskip("clarabel")

TOLERANCE = 1e-7
"""Largest difference of a probability, or of a mean in standard deviations: Clarabel solves to 1e-9 at degree 6."""


def sums_of_squares(half, factor):
    """Columns: coefficients [n + 1] of factor(t) · Σ Q_ij tⁱ tʲ per entry of the scaled triangle of Q, by columns."""
    columns = []
    for j in range(half + 1):
        for i in range(j + 1):
            power = np.zeros(i + j + 1)
            power[-1] = 1.0 if i == j else math.sqrt(2)
            columns.append(polynomial.polymul(factor, power))
    return columns


def nonnegative(low, high, m):
    """Sizes of matrices and columns of the polynomials of degree 2m that are nonnegative between `low` and `high`."""
    ends = [[-low, 1.0]] if math.isfinite(low) else []
    ends += [[high, -1.0]] if math.isfinite(high) else []
    product = [1.0]
    for end in ends:
        product = polynomial.polymul(product, end)
    blocks = [(m, [1.0])] + ([(m - 1, product)] if ends else [])
    columns = [column for half, factor in blocks for column in sums_of_squares(half, factor)]
    return [half + 1 for half, _ in blocks], np.array([np.pad(c, (0, 2 * m + 1 - len(c))) for c in columns]).T


def least_mean(moments, pieces):
    """Minimum of E[q(X)] over q with q(t) ≥ p(t) from a to b for (a, b, p) in `pieces`."""
    m = (len(moments) - 1) // 2
    parts = [nonnegative(low, high, m) for low, high, _ in pieces]
    n, widths = len(moments), [columns.shape[1] for _, columns in parts]
    equal = np.zeros((n * len(pieces), n + sum(widths)))
    right, at = [], n
    for k, ((_, columns), (_, _, above)) in enumerate(zip(parts, pieces, strict=True)):
        rows = slice(k * n, (k + 1) * n)
        equal[rows, :n], equal[rows, at : at + widths[k]] = np.eye(n), -columns
        right.append(np.pad(np.asarray(above, dtype=float), (0, n - len(above))))
        at += widths[k]
    matrices = sparse.hstack([sparse.csc_matrix((sum(widths), n)), -sparse.eye(sum(widths))])
    cones = [clarabel.ZeroConeT(len(equal))] + [clarabel.PSDTriangleConeT(d) for sizes, _ in parts for d in sizes]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cost = np.concatenate([moments, np.zeros(sum(widths))])
    found = clarabel.DefaultSolver(
        sparse.csc_matrix((cost.size, cost.size)),
        cost,
        sparse.vstack([sparse.csc_matrix(equal), matrices], format="csc"),
        np.concatenate([*right, np.zeros(sum(widths))]),
        cones,
        settings,
    ).solve()
    assert str(found.status) in ("Solved", "AlmostSolved")
    return found.obj_val


def highest_chance(x, moments, low, high):
    return least_mean(moments, [(low, x, [1.0]), (x, high, [0.0])])


def mirrored(moments):
    return moments * (-1.0) ** np.arange(len(moments))


def some_moments(rng, m):
    """Of a standardised distribution with more atoms than the moments determine, and the range of its atoms."""
    points, chance = rng.normal(size=m + 4), rng.dirichlet(np.ones(m + 4))
    points -= chance @ points
    points /= math.sqrt(chance @ points**2)
    return np.array([chance @ points**k for k in range(2 * m + 1)]), points.min() - 0.3, points.max() + 0.3


SUPPORTS = {"line": (False, False), "upwards": (True, False), "downwards": (False, True), "range": (True, True)}


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("m", [1, 2, 3])
def test_chances(m, support):
    rng = np.random.default_rng(m)
    for _ in range(5):
        moments, low, high = some_moments(rng, m)
        low, high = low if SUPPORTS[support][0] else -math.inf, high if SUPPORTS[support][1] else math.inf
        x = float(rng.uniform(max(low, -2), min(high, 2)))
        found = cdf_bounds(x, [Interval(k, k) for k in moments.tolist()], Interval(low, high))
        assert found.high == pytest.approx(highest_chance(x, moments, low, high), abs=TOLERANCE)
        assert found.low == pytest.approx(1 - highest_chance(-x, mirrored(moments), -high, -low), abs=TOLERANCE)


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize(("m", "p"), [(1, 0.5), (1, 0.05), (2, 0.3), (3, 0.1)])
def test_means_of_the_worst_outcomes(m, p, support):
    """CVaR_p = max over η of η − E(η − X)₊/p, with the greatest E(η − X)₊ by a programme for each η."""
    moments, low, high = some_moments(np.random.default_rng(10 + m), m)
    low, high = low if SUPPORTS[support][0] else -math.inf, high if SUPPORTS[support][1] else math.inf

    def bound(eta):
        return eta - least_mean(moments, [(low, eta, [eta, -1.0]), (eta, high, [0.0])]) / p

    found = cvar_bounds(p, [Interval(k, k) for k in moments.tolist()], Interval(low, high))
    best = max(low, golden_maximum(bound, max(low + 1e-3, -6.0), min(high - 1e-3, 3.0)))
    assert found.low == pytest.approx(best, abs=TOLERANCE / p)


def golden_maximum(concave, low, high):
    ratio = (math.sqrt(5) - 1) / 2
    inner = [high - ratio * (high - low), low + ratio * (high - low)]
    values = [concave(t) for t in inner]
    for _ in range(20):
        if values[0] < values[1]:
            low, inner = inner[0], [inner[1], inner[0] + ratio * (high - inner[0])]
            values = [values[1], concave(inner[1])]
        else:
            high, inner = inner[1], [inner[1] - ratio * (inner[1] - low), inner[0]]
            values = [concave(inner[0]), values[0]]
    return max(values)
