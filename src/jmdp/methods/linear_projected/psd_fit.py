"""The projected fixed point in parameters: symmetric matrices, positive semidefinite, with M θ = b where that is.

A block Θ is kept as the vector of its upper triangle, off the diagonal times √2, so that inner products stay as they
are. With G = Σ w g gᵀ, H = Σ w g (P₂ g)ᵀ and b = Σ w g · source over pairs, g the features of a pair, the projected
fixed point solves

    ⟨M θ − b, θ' − θ⟩ ≥ 0 for every θ' in the cone,          M = G − γ² H,

which is θ = argmin_{cone} ‖g·θ − (source + γ² P₂ g·θ)‖_w, paper, "Projected JIPE-2". As θᵀ M θ ≥ (1 − κ) θᵀ G θ, M is
monotone, so it is found by splitting, with one factorisation and eigenvalues clipped, without a projection
in the weighted norm inside each step.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.errors import MissingExtraError
from jmdp.results.outcome import Outcome

_RANK = 1e-12
"""Relative to the largest, what is left of a direction that is a combination of others."""

_ROUNDING = 1e-9
"""An eigenvalue this far below 0, relative to the largest, is 0."""

_STEP = 0.1
"""ρ of the splitting, in units of the mean eigenvalue of M."""

_RELAXED = 1.8
"""How far each step of the splitting goes; any number below 2 converges."""

_PATIENCE = 200
"""Steps without a smaller residual after which rounding is all there is."""

_FEW = 5
"""The same of the paper's iteration, which falls by a factor each time."""

_GAPS = (1e-15, 1e-12)
"""Of Clarabel, the nearer of two: the error is as the root of the gap, and rounding may spoil a sharp one."""


@lru_cache(maxsize=16)
def triangle(d: int) -> tuple[Integers, Integers, Floats]:
    """Rows and columns of the upper triangle, and its factors: u_i v_j + u_j v_i times these is the pair's feature."""
    i, j = np.triu_indices(d)
    return i.astype(np.int64), j.astype(np.int64), np.where(i == j, 0.5, math.sqrt(0.5))


def outer(u: Floats, v: Floats) -> Floats:
    """[..., n], features of pairs from those of their coordinates [..., d]: ⟨outer(u, v), θ⟩ = uᵀ Θ v."""
    i, j, factor = triangle(u.shape[-1])
    found: Floats = u[..., i] * v[..., j]
    found += u[..., j] * v[..., i]
    found *= factor
    return found


def packed(matrix: Floats) -> Floats:
    """A symmetric matrix [..., d, d] as a vector [..., n]."""
    i, j, factor = triangle(matrix.shape[-1])
    return np.asarray((matrix[..., i, j] + matrix[..., j, i]) * factor)


def unpacked(vector: Floats, d: int) -> Floats:
    """The symmetric matrix [d, d] of a vector [n]."""
    i, j, factor = triangle(d)
    matrix = np.zeros((d, d))
    matrix[i, j] = vector * factor
    return matrix + matrix.T


@dataclass(frozen=True, eq=False)
class Fit:
    """A solution, and how it was come by."""

    parameters: Floats  # [n], blocks one after the other
    constrained: bool  # whether the cone was needed
    residuals: Floats  # [sweeps]
    outcome: Outcome


class Cone:
    """Blocks of positive semidefinite matrices of these sizes."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self._ends = np.cumsum([d * (d + 1) // 2 for d in sizes])[:-1]

    def blocks(self, parameters: Floats) -> list[Floats]:
        """The matrices of a vector."""
        parts = np.split(parameters, self._ends)
        return [unpacked(part, d) for part, d in zip(parts, self.sizes, strict=True)]

    def nearest(self, parameters: Floats) -> tuple[Floats, float]:
        """Negative eigenvalues set to 0; and the least, relative to the largest in size of all blocks."""
        found, least, size = [], 0.0, 0.0
        for block in self.blocks(parameters):
            if not block.size:
                continue
            values, vectors = np.linalg.eigh(block)
            size, least = max(size, float(np.abs(values).max())), min(least, float(values[0]))
            found.append(packed((vectors * np.maximum(values, 0.0)) @ vectors.T))
        return np.concatenate(found) if found else parameters, least / size if size else 0.0


def solve(G: Floats, M: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The least θ with M θ = b, and a basis [n, ·] of what no pair with weight sees, the null space of G.

    A pair that is seen leads to pairs that are seen, so these are in the null space of M too. They are found by
    a Cholesky factorisation with pivots, on a diagonal of ones.
    """
    from scipy.linalg import lapack, solve_triangular

    size = np.sqrt(G.diagonal())
    visible = size > _RANK * size.max(initial=0.0)
    seen, unseen = np.flatnonzero(visible), np.flatnonzero(~visible)
    scaling = np.multiply.outer(size[seen], size[seen])
    factor, pivots, rank, _ = lapack.dpstrf(G[np.ix_(seen, seen)] / scaling, lower=1, tol=_RANK)
    pivotal, left = pivots[:rank] - 1, pivots[rank:] - 1
    scaled, right = M[np.ix_(seen, seen)] / scaling, b[seen] / size[seen]
    theta, null = np.zeros_like(b), np.zeros((b.size, unseen.size + left.size))
    theta[seen[pivotal]] = _refined(scaled[np.ix_(pivotal, pivotal)], right[pivotal]) / size[seen[pivotal]]
    null[unseen, np.arange(unseen.size)] = 1.0
    if left.size:  # theta + null space: take the least
        mixed = np.zeros((seen.size, left.size))
        mixed[pivotal] = -solve_triangular(factor[:rank, :rank], factor[rank:, :rank].T, lower=True, trans=1)
        mixed[left] = np.eye(left.size)
        null[seen, unseen.size :] = np.linalg.qr(mixed / size[seen, None])[0]
        theta -= null @ (null.T @ theta)
    return theta, null


def _refined(matrix: Floats, right: Floats) -> Floats:
    from scipy.linalg import lu_factor, lu_solve

    factors = lu_factor(matrix)
    x = lu_solve(factors, right)
    return np.asarray(x + lu_solve(factors, right - matrix @ x))


def fit(
    G: Floats,
    M: Floats,
    b: Floats,
    cone: Cone,
    tolerance: float,
    max_sweeps: int,
    solver: str,
    elsewhere: Callable[[], tuple[Floats, Floats]] | None = None,
) -> Fit:
    """The projected fixed point: of M θ = b alone where that is in the cone.

    What no pair with weight sees is free, and 0 there may leave the cone where something else would not. Then it is
    filled in from the equations M, b of pairs `elsewhere`, or goes to the first block alone.
    """
    if not b.size:
        return Fit(b, False, np.zeros(0), Outcome.CONVERGED)
    alone, null = solve(G, M, b)
    nearest, least = cone.nearest(alone)
    if least < -_ROUNDING and null.shape[1] and elsewhere is not None:
        more, right = elsewhere()
        filled = alone + null @ np.linalg.lstsq(null.T @ more @ null, null.T @ (right - more @ alone), rcond=_RANK)[0]
        nearest, least = cone.nearest(filled)
    if least < -_ROUNDING and null.shape[1] and cone.sizes[1]:
        rest = cone.sizes[0] * (cone.sizes[0] + 1) // 2
        first = alone - null @ np.linalg.lstsq(null[rest:], alone[rest:], rcond=_RANK)[0]
        nearest, least = max(cone.nearest(first), (nearest, least), key=lambda one: one[1])
    if least >= -_ROUNDING:
        return Fit(nearest, False, np.zeros(0), Outcome.CONVERGED)
    if solver == "convex":
        return _convex(G, M, b, cone, nearest, tolerance, max_sweeps)
    return _split(M, b, cone, alone, tolerance, max_sweeps)


def _split(M: Floats, b: Floats, cone: Cone, start: Floats, tolerance: float, max_sweeps: int) -> Fit:
    """Douglas and Rachford on 0 ∈ M θ − b + N(θ), N the normals of the cone: clip eigenvalues, solve, and by turns."""
    rho = _STEP * float(np.trace(M)) / b.size
    try:
        inverse = np.linalg.inv(M + rho * np.eye(b.size))
    except np.linalg.LinAlgError:
        return Fit(cone.nearest(start)[0], True, np.zeros(0), Outcome.STALLED)
    z, residuals, best, at_best = start, [], math.inf, 0
    for i in range(max_sweeps):
        x, _ = cone.nearest(z)
        difference = inverse @ (b + rho * (2 * x - z)) - x
        z = z + _RELAXED * difference
        size = float(np.linalg.norm(x)) or float(np.linalg.norm(start))  # 0 may be the answer
        residuals.append(float(np.linalg.norm(difference)) / size)
        if residuals[-1] <= tolerance:
            return Fit(x, True, np.array(residuals), Outcome.CONVERGED)
        if residuals[-1] < best:
            best, at_best = residuals[-1], i
        if i - at_best >= _PATIENCE:  # monotone, it would fall: this is rounding, or sampled equations that are not
            return Fit(x, True, np.array(residuals), Outcome.STALLED)
    return Fit(x, True, np.array(residuals), Outcome.SWEEPS_EXHAUSTED)


def _convex(G: Floats, M: Floats, b: Floats, cone: Cone, start: Floats, tolerance: float, max_sweeps: int) -> Fit:
    """The paper's iteration: θ ← argmin_{cone} ½ θ' G θ' − (b + γ² H θ)·θ', each by an interior point method."""
    try:
        cp: Any = import_module("cvxpy")
    except ImportError:
        raise MissingExtraError('solver="convex" needs cvxpy and Clarabel: pip install "jmdp[convex]"') from None
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
    theta, residuals = start, []
    for _ in range(max_sweeps):
        target = b + (G - M) @ theta
        found = back @ target
        size = max(float(np.linalg.norm(found)), 1e-300)
        aim.value = found / size
        tries = []
        for gap in _GAPS:
            with warnings.catch_warnings():  # that it is as accurate as it gets
                warnings.simplefilter("ignore")
                problem.solve(solver=cp.CLARABEL, tol_gap_abs=gap, tol_gap_rel=gap, tol_feas=1e-13)
            inside, _ = cone.nearest(np.concatenate([packed(size * np.asarray(matrix.value)) for matrix in matrices]))
            tries.append((float(np.linalg.norm(seen @ inside - found)), inside))
        new = min(tries, key=lambda one: one[0])[1]
        residuals.append(float(np.linalg.norm(seen @ (new - theta))) / max(float(np.linalg.norm(seen @ new)), 1e-300))
        theta = new
        if residuals[-1] <= tolerance:
            return Fit(theta, True, np.array(residuals), Outcome.CONVERGED)
        if len(residuals) - int(np.argmin(residuals)) > _FEW:  # Clarabel gets no nearer
            return Fit(theta, True, np.array(residuals), Outcome.STALLED)
    return Fit(theta, True, np.array(residuals), Outcome.SWEEPS_EXHAUSTED)
