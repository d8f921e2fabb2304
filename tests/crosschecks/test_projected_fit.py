"""Fits over positive semidefinite matrices against Clarabel, called directly on another form of the problem.

The fixed point is θ in the cone with s = M θ − b in the cone and ⟨θ, s⟩ = 0. So it minimises θᵀ M θ − b·θ over θ and s
in the cone, and the minimum is 0: a quadratic programme, since M is monotone. If M is symmetric, θ minimises
½ θᵀ M θ − b·θ over the cone alone.

In addition, against the iteration of the paper, each step of which is a projection by cvxpy and Clarabel.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import jmdp
from jmdp.base.arrays import Floats
from jmdp.methods.linear_projected import linear_projected
from jmdp.methods.linear_projected.psd_fit import Cone, Fit, fit, outer, packed, solve, triangle
from jmdp.results.certificate import Outcome
from sample_models import ergodic, random_problem, some_features

clarabel = pytest.importorskip("clarabel")
cp = pytest.importorskip("cvxpy")

SOLUTION, OBJECTIVE, CLARABEL = 1e-4, 5e-8, 2e-6
"""Largest differences, relative to ‖b‖ with M of size 1, and to ‖b‖². Clarabel's error is of the root of its gap.

A minimum of ours may be below that of Clarabel by CLARABEL, and above it by OBJECTIVE."""

SIZES = [(1, 0), (2, 0), (3, 2), (5, 1), (6, 4)]


def by_columns(sizes):
    """Permutation from the order of rows of the upper triangles to Clarabel's order of columns; both scale by √2."""
    order, start = [], 0
    for d in sizes:
        row, column = np.triu_indices(d)
        order.append(start + np.lexsort((row, column)))
        start += row.size
    return sparse.eye(start, format="csc")[np.concatenate(order)]


def minimised(quadratic, linear, sizes, also=None):
    """Argmin and minimum of ½ θᵀ Q θ + l·θ over θ in the cone, and with A θ − r in it for `also` = (A, r)."""
    order = by_columns(sizes)
    rows, right = [-order], [np.zeros(linear.size)]
    if also is not None:
        rows.append(-order @ sparse.csc_matrix(also[0]))
        right.append(-order @ also[1])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.PSDTriangleConeT(d) for d in sizes if d] * len(rows)
    upper = sparse.triu(sparse.csc_matrix(quadratic), format="csc")
    stacked = sparse.vstack(rows, format="csc")
    found = clarabel.DefaultSolver(upper, linear, stacked, np.concatenate(right), cones, settings).solve()
    assert str(found.status) in ("Solved", "AlmostSolved")
    return np.array(found.x), found.obj_val


def fixed_point(M, b, sizes):
    """By Clarabel, and the minimum that must be 0."""
    return minimised(M + M.T, -b, sizes, (M, b))


def assert_optimal(M, b, theta, sizes, tolerance):
    """θ and s = M θ − b in the cone and orthogonal, up to a part of ‖b‖: no solver is needed to see it."""
    slack, size = M @ theta - b, np.linalg.norm(b)
    for matrix in (*Cone(sizes).blocks(theta), *Cone(sizes).blocks(slack)):
        assert not matrix.size or np.linalg.eigvalsh(matrix)[0] >= -tolerance * size
    assert abs(theta @ slack) <= tolerance * size**2


def count(sizes):
    return sum(d * (d + 1) // 2 for d in sizes)


def monotone(rng, n, contraction):
    """G and M = G − contraction · R Q Rᵀ with G = R Rᵀ and an orthogonal Q; the eigenvalues of G are near 1."""
    rows = rng.standard_normal((4 * n + 4, n)) / np.sqrt(4 * n + 4)
    root = np.linalg.cholesky(rows.T @ rows)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return root @ root.T, root @ (np.eye(n) - contraction * Q) @ root.T


@pytest.mark.parametrize("sizes", SIZES)
def test_symmetric_problems(sizes):
    """A projection on the cone in the norm of G: the same minimum and the same argmin."""
    rng = np.random.default_rng(count(sizes))
    for _ in range(8):
        G, _ = monotone(rng, count(sizes), 0.0)
        b = rng.standard_normal(len(G))
        found = fit(G, G, b, Cone(sizes), 1e-10, 10_000).parameters
        theta, least = minimised(G, -b, sizes)
        assert -CLARABEL <= (found @ G @ found / 2 - b @ found - least) / (b @ b) <= OBJECTIVE
        assert np.linalg.norm(found - theta) <= SOLUTION * np.linalg.norm(b)


@pytest.mark.parametrize("contraction", [0.3, 0.9])
@pytest.mark.parametrize("sizes", SIZES)
def test_fixed_points(sizes, contraction):
    """With M that is not symmetric; the fit alone is outside the cone in most cases."""
    rng = np.random.default_rng(100 + count(sizes))
    constrained = 0
    for _ in range(6):
        G, M = monotone(rng, count(sizes), contraction)
        b = rng.standard_normal(len(G))
        found = fit(G, M, b, Cone(sizes), 1e-10, 10_000)
        constrained += found.constrained
        assert found.outcome is jmdp.results.Outcome.CONVERGED
        assert_optimal(M, b, found.parameters, sizes, 1e-8)
        theta, least = fixed_point(M, b, sizes)
        assert least == pytest.approx(0, abs=CLARABEL * (b @ b))
        assert np.linalg.norm(found.parameters - theta) <= SOLUTION * np.linalg.norm(b)
    assert constrained >= 2


@pytest.mark.parametrize("sizes", SIZES[1:])
def test_solutions_at_an_edge_of_the_cone(sizes):
    """θ of rank 1 with s of rank 1 orthogonal to it and with s = 0, and θ = 0 with s of rank 1 and of rank 3."""
    rng = np.random.default_rng(200 + count(sizes))
    for some, slack in ((1, 1), (1, 0), (0, 1), (0, 3)):
        G, M = monotone(rng, count(sizes), 0.5)
        theta, s = [], []
        for d in sizes:
            basis = np.linalg.qr(rng.standard_normal((d, d)))[0] if d else np.zeros((0, 0))
            theta.append(packed(basis[:, :some] @ basis[:, :some].T))
            s.append(packed(basis[:, some : some + slack] @ basis[:, some : some + slack].T))
        right, b = np.concatenate(theta), M @ np.concatenate(theta) - np.concatenate(s)
        found = fit(G, M, b, Cone(sizes), 1e-12, 20_000).parameters
        assert np.linalg.norm(found - right) <= 1e-8 * np.linalg.norm(b)
        assert np.linalg.norm(fixed_point(M, b, sizes)[0] - right) <= SOLUTION * np.linalg.norm(b)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_pairs_that_leave_directions_undetermined(d):
    """Coordinates in a subspace, and with some pairs unseen: equal values at all seen pairs, and equal minima."""
    rng, sizes = np.random.default_rng(300 + d), (d, 0)
    for i in range(6):
        coordinates = np.linalg.qr(rng.standard_normal((d + 1, d)))[0][:, :-1] @ np.eye(d - 1, d)
        coordinates = coordinates @ np.linalg.qr(rng.standard_normal((d, d)))[0]
        x, y = np.triu_indices(d + 1)
        seen = (x == y) | (rng.random(x.size) < (0.5 if i % 2 else 1.0))
        x, y = x[seen], y[seen]
        rows = outer(coordinates[x], coordinates[y])
        values = rng.standard_normal(x.size) + (x == y)
        G, b = rows.T @ rows, rows.T @ values
        M = rows.T @ (np.eye(x.size) - 0.6 * np.linalg.qr(rng.standard_normal((x.size, x.size)))[0]) @ rows
        assert np.linalg.matrix_rank(G) < len(G)
        for matrix in (G, M):
            found = fit(G, matrix, b, Cone(sizes), 1e-10, 20_000).parameters
            assert_optimal(matrix, b, found, sizes, 1e-7)
            aim = b + (G - matrix) @ found
            theta, least = minimised(G, -aim, sizes)
            assert -CLARABEL <= (found @ G @ found / 2 - aim @ found - least) / (values @ values) <= OBJECTIVE
            assert np.linalg.norm(rows @ (found - theta)) <= SOLUTION * np.linalg.norm(values)


@pytest.mark.parametrize("scale", [1e-140, 1e-9, 1e9, 1e140])
def test_the_unit_does_not_matter(scale):
    """Neither that of weights nor that of rewards; Clarabel is given the problem in units of 1."""
    rng, sizes = np.random.default_rng(400), (3, 2)
    for _ in range(2):
        G, M = monotone(rng, count(sizes), 0.7)
        b = rng.standard_normal(len(G))
        theta, _ = fixed_point(M, b, sizes)
        for weight, unit in ((scale, scale), (1.0, scale), (scale, 1.0)):
            found = fit(weight * G, weight * M, unit * b, Cone(sizes), 1e-10, 10_000).parameters
            assert np.linalg.norm(found / (unit / weight) - theta) <= SOLUTION * np.linalg.norm(b)


@pytest.mark.parametrize("target", ["covariance", "second_moment"])
@pytest.mark.parametrize("coupling", [jmdp.Local("shared"), jmdp.Synchronous("independent")], ids=repr)
def test_equations_of_models(coupling, target, monkeypatch):
    """Those that LinearProjected makes of random models and features, also where they leave directions undetermined."""
    problems = []

    def recorded(G, M, b, cone, *settings):
        problems.append((G, M, b, cone.sizes, fit(G, M, b, cone, *settings)))
        return problems[-1][-1]

    monkeypatch.setattr(linear_projected, "fit", recorded)
    rng = np.random.default_rng(500)
    while sum(found.constrained for *_, found in problems) < 6:
        model, policy = random_problem(rng, states=4, scenarios=3, actions=2, discounts=(0.5, 0.9))
        if model.terminal.all():
            continue
        going = ~np.repeat(model.terminal, model.shape[2])[:, None]
        features = [rng.standard_normal((going.size, d)) * going for d in (3, 2)]
        method = jmdp.LinearProjected(features[0], features[1] if len(problems) % 2 else None, target=target)
        jmdp.evaluate(model, policy, coupling, method, throw=False)
    for G, M, b, sizes, found in problems:
        assert found.outcome is jmdp.results.Outcome.CONVERGED
        unit, size = np.trace(G) / len(G), np.linalg.norm(b) or 1.0
        theta, least = fixed_point(M / unit, b / size, sizes)
        values, vectors = np.linalg.eigh(G / unit)
        difference = np.sqrt(np.maximum(values, 0.0)) * (vectors.T @ (found.parameters * unit / size - theta))
        assert least == pytest.approx(0, abs=CLARABEL)
        assert np.linalg.norm(difference) <= SOLUTION


FEW = 5
"""Steps without a smaller residual after which the iteration stops; its residual falls geometrically."""

GAPS = (1e-15, 1e-12)
"""Gap tolerances of Clarabel; the better result is kept. The error is of the order of the root of the gap."""


def iterated(G: Floats, M: Floats, b: Floats, cone: Cone, tolerance: float, max_sweeps: int) -> Fit:
    """The paper's iteration (Eq. (72), Eq. (74)), each step by an interior-point method.

    θ ← argmin_{cone} ½ θ' G θ' − (b + γ² H θ)·θ'.
    """
    values, vectors = np.linalg.eigh(G)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    sure = values > 1e-15 * values[-1]
    seen, back = root[sure], vectors[:, sure].T / np.sqrt(values[sure])[:, None]
    matrices = [cp.Variable((d, d), PSD=True) for d in cone.sizes if d]
    vector = cp.hstack(
        [cp.multiply(matrix[i, j], 2 * factor) for matrix in matrices for i, j, factor in [triangle(matrix.shape[0])]]
    )
    aim = cp.Parameter(len(seen))
    problem = cp.Problem(cp.Minimize(cp.sum_squares(seen @ vector - aim)))

    def step(theta: Floats) -> Floats:
        target = b + (G - M) @ theta
        found = back @ target
        size = max(float(np.linalg.norm(found)), 1e-300)
        aim.value = found / size
        tries = []
        for gap in GAPS:
            with warnings.catch_warnings():  # warns that the requested accuracy was not reached
                warnings.simplefilter("ignore")
                problem.solve(solver=cp.CLARABEL, tol_gap_abs=gap, tol_gap_rel=gap, tol_feas=1e-13)
            inside, _ = cone.nearest(np.concatenate([packed(size * np.asarray(matrix.value)) for matrix in matrices]))
            tries.append((float(np.linalg.norm(seen @ inside - found)), inside))
        return min(tries, key=lambda one: one[0])[1]

    theta, residuals = cone.nearest(solve(G, M, b)[0])[0], []
    for _ in range(max_sweeps):
        new = step(theta)
        change, size = (float(np.linalg.norm(seen @ x)) for x in (new - theta, new))
        residuals.append(change / max(size, 1e-300))
        theta = new
        if residuals[-1] <= tolerance:
            return Fit(theta, True, np.array(residuals), Outcome.CONVERGED)
        if len(residuals) - int(np.argmin(residuals)) > FEW:  # limited by the accuracy of Clarabel
            break
    return Fit(theta, True, np.array(residuals), Outcome.STALLED)


def fit_by_iteration(G, M, b, cone, tolerance, max_sweeps, elsewhere=None):
    """`psd_fit.fit`, with the paper's iteration where the cone constraint is active."""
    found = fit(G, M, b, cone, tolerance, max_sweeps, elsewhere)
    return iterated(G, M, b, cone, tolerance, max_sweeps) if found.constrained else found


@pytest.mark.parametrize("models", [6, pytest.param(20, marks=pytest.mark.long)])
def test_the_iteration_of_the_paper_agrees(models, monkeypatch):
    """Models where the fit would not be positive semidefinite by itself, to 1e-6 in ‖·‖_w.

    In the median: where Θ is all but singular Clarabel stops up to 1e-5 from the projection.
    """
    rng = np.random.default_rng(20261205)
    active, found = 0, []
    while active < models:
        model, policy = ergodic(rng, 0.7)
        phi = some_features(rng, model, 5)
        psi = some_features(rng, model, 2) if active % 2 else None
        method = jmdp.LinearProjected(phi, psi)
        one = jmdp.evaluate(model, policy, jmdp.Local(), method=method)
        if not one.projection.constrained:
            continue
        active += 1
        with monkeypatch.context() as patch:
            patch.setattr(linear_projected, "fit", fit_by_iteration)
            other = jmdp.evaluate(model, policy, jmdp.Local(), method=method, throw=False)
        w = one.projection.weights
        off = np.sqrt((w * (one.covariance - other.covariance) ** 2).sum() / (w * one.covariance**2).sum())
        found.append(off)
    print(f"relative difference, median {np.median(found):.1e}, largest {max(found):.1e}")
    assert np.median(found) <= 1e-6
    assert max(found) <= 2e-5
