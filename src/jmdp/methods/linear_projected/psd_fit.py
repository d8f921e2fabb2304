"""The projected fixed point over positive semidefinite matrices; it solves M θ = b if that solution is in the cone.

A block Θ is stored as the vector of its upper triangle, off-diagonal entries times √2, which preserves inner products.
With G = Σ w g gᵀ, H = Σ w g (P₂ g)ᵀ and b = Σ w g · source over pairs, g the features of a pair, the projected
fixed point solves

    ⟨M θ − b, θ' − θ⟩ ≥ 0 for every θ' in the cone,          M = G − γ² H,

which is θ = argmin_{cone} ‖g·θ − (source + γ² P₂ g·θ)‖_w, the fixed point of Eq. (74). As θᵀ M θ ≥ (1 − κ) θᵀ G θ, M is
monotone, so operator splitting applies: one factorisation and clipped eigenvalues, without a projection in the
weighted norm inside each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.machine import deferred_interrupts
from jmdp.results.certificate import Outcome

_RANK = 1e-12
"""Relative threshold below which a pivot is 0: the direction depends linearly on others."""

_ROUNDING = 1e-9
"""Negative eigenvalues up to this size, relative to the largest, are treated as 0."""

_STEP = 0.1
"""ρ of the splitting, in units of the mean eigenvalue of M."""

_RELAXED = 1.8
"""Relaxation factor of the splitting; any number below 2 converges."""

_PATIENCE = 200
"""Steps without a smaller residual after which the splitting stops, because rounding dominates."""


@lru_cache(maxsize=16)
def triangle(d: int) -> tuple[Integers, Integers, Floats]:
    """Rows, columns and factors of the upper triangle: the feature of a pair is (u_i v_j + u_j v_i) × factor."""
    i, j = np.triu_indices(d)
    return i.astype(np.int64), j.astype(np.int64), np.where(i == j, 0.5, math.sqrt(0.5))


def outer(u: Floats, v: Floats) -> Floats:
    """Features of pairs [..., n] from those of their coordinates [..., d]: ⟨outer(u, v), θ⟩ = uᵀ Θ v."""
    i, j, factor = triangle(u.shape[-1])
    found: Floats = u[..., i] * v[..., j]
    found += u[..., j] * v[..., i]
    found *= factor
    return found


def packed(matrix: Floats) -> Floats:
    """Vector [..., n] of a symmetric matrix [..., d, d]."""
    i, j, factor = triangle(matrix.shape[-1])
    return np.asarray((matrix[..., i, j] + matrix[..., j, i]) * factor)


def unpacked(vector: Floats, d: int) -> Floats:
    """Symmetric matrix [d, d] of a vector [n]."""
    i, j, factor = triangle(d)
    matrix = np.zeros((d, d))
    matrix[i, j] = vector * factor
    return matrix + matrix.T


@dataclass(frozen=True, eq=False)
class Fit:
    """Solution of a projected fit, with residuals and outcome."""

    parameters: Floats  # [n], blocks concatenated
    constrained: bool  # whether the cone constraint is active
    residuals: Floats  # [sweeps]
    outcome: Outcome


class Cone:
    """Cone of blocks of positive semidefinite matrices of these sizes: the paper's K_Σ (Eq. (64)) in parameters."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self._ends = np.cumsum([d * (d + 1) // 2 for d in sizes])[:-1]

    def blocks(self, parameters: Floats) -> list[Floats]:
        """Matrices of a vector of parameters."""
        parts = np.split(parameters, self._ends)
        return [unpacked(part, d) for part, d in zip(parts, self.sizes, strict=True)]

    def nearest(self, parameters: Floats) -> tuple[Floats, float]:
        """Projection that sets negative eigenvalues to 0; and the smallest one, relative to the largest in size."""
        found, least, size = [], 0.0, 0.0
        for block in self.blocks(parameters):
            if not block.size:
                continue
            values, vectors = np.linalg.eigh(block)
            size, least = max(size, float(np.abs(values).max())), min(least, float(values[0]))
            found.append(packed((vectors * np.maximum(values, 0.0)) @ vectors.T))
        return np.concatenate(found) if found else parameters, least / size if size else 0.0


def solve(G: Floats, M: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Minimum-norm θ with M θ = b, and a basis [n, ·] of the null space of G, which no weighted pair determines.

    Pairs with positive weight lead only to such pairs, so this is in the null space of M too. It is computed by
    a pivoted Cholesky factorisation, after scaling to a unit diagonal.
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
    if left.size:  # choose the minimum norm in theta + null space
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
    elsewhere: Callable[[], tuple[Floats, Floats]] | None = None,
) -> Fit:
    """The projected fixed point: the solution of M θ = b if that is in the cone.

    Directions that no weighted pair determines are free, and 0 there may violate the cone where other values would not.
    Then they are determined from the equations M, b of pairs `elsewhere`, or assigned to the first block.
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
    return _split(M, b, cone, alone, tolerance, max_sweeps)


def _split(M: Floats, b: Floats, cone: Cone, start: Floats, tolerance: float, max_sweeps: int) -> Fit:
    """Douglas–Rachford splitting of 0 ∈ M θ − b + N(θ), N the normal cone: clip eigenvalues and solve in turn."""
    rho = _STEP * float(np.trace(M)) / b.size
    try:
        inverse = np.linalg.inv(M + rho * np.eye(b.size))
    except np.linalg.LinAlgError:
        return Fit(cone.nearest(start)[0], True, np.zeros(0), Outcome.STALLED)
    z, residuals, best, at_best = start, [], math.inf, 0
    with deferred_interrupts() as interrupted:
        for i in range(max_sweeps):
            x, _ = cone.nearest(z)
            difference = inverse @ (b + rho * (2 * x - z)) - x
            z = z + _RELAXED * difference
            size = float(np.linalg.norm(x)) or float(np.linalg.norm(start))  # x may be 0
            residuals.append(float(np.linalg.norm(difference)) / size)
            if residuals[-1] <= tolerance:
                return Fit(x, True, np.array(residuals), Outcome.CONVERGED)
            if residuals[-1] < best:
                best, at_best = residuals[-1], i
            if i - at_best >= _PATIENCE:  # rounding, or sampled equations that are not monotone
                return Fit(x, True, np.array(residuals), Outcome.STALLED)
            if interrupted():
                return Fit(x, True, np.array(residuals), Outcome.INTERRUPTED)
    return Fit(x, True, np.array(residuals), Outcome.SWEEPS_EXHAUSTED)
