"""Iterating a contraction to its fixed point, and knowing when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jmdp.arrays import Floats
from jmdp.evaluation import Outcome

_BLOCK = 8192


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The point with the smallest residual seen, and the residual of every sweep."""

    point: Floats
    residual: float
    residuals: Floats
    outcome: Outcome


def iterate(
    sweep: Callable[[Floats], Floats],
    start: Floats,
    *,
    norm: Callable[[Floats], float],
    enough: Callable[[Floats, float], bool],
    floor: Callable[[Floats], float],
    rate: float,
    max_sweeps: int,
    memory: int,
    report: Callable[[int, float], None],
) -> FixedPoint:
    """Apply `sweep` until `enough(point, residual)`, or until that is out of reach.

    The sweep is affine, T x = b + L x with ‖L‖ ≤ `rate` in `norm`. With `memory` > 0 the last sweeps are combined
    as Anderson does (Walker & Ni 2011): x̄ = Σ w_i x_i, Σ w_i = 1, has the residual r̄ = Σ w_i r_i, and the next
    point is x̄ + r̄ with residual L r̄. The combination with the least ‖r̄‖₂ is taken only where it is smaller
    than the last residual in `norm` too, so no step does worse than a plain sweep is sure to. What is concluded
    always rests on the residual of a sweep just made, never on the combination.

    An interrupt from the keyboard ends it with the best point so far, once there is one.

    It has stalled when the residual is far below `floor`, what rounding may hide of it; when it is below it and no
    longer falls; or when it has not halved in twice the sweeps that a contraction with this `rate` needs.
    """
    half_life = math.ceil(math.log(2) / -math.log(rate)) if rate > 0 else 1
    patience = 2 * half_life + 2 * memory + 2
    settled = 2 * memory + 20
    point, best, best_residual = start, start, math.inf
    residuals: list[float] = []
    last_halving, halving = 0, math.inf
    past = _Past(memory) if memory else None
    while True:
        try:
            change = sweep(point)
        except KeyboardInterrupt:
            if not residuals:
                raise
            outcome = Outcome.INTERRUPTED
            break
        change -= point
        residual = norm(change)
        residuals.append(residual)
        report(len(residuals), residual)
        if residual < best_residual:
            best, best_residual = point, residual
        if residual <= halving / 2:
            last_halving, halving = len(residuals), residual
        if enough(best, best_residual):
            outcome = Outcome.CONVERGED
            break
        waited, hidden = len(residuals) - last_halving, floor(best)
        if best_residual <= hidden / 16 or (best_residual <= hidden and waited > settled) or waited > patience:
            outcome = Outcome.STALLED
            break
        if len(residuals) >= max_sweeps:
            outcome = Outcome.SWEEPS_EXHAUSTED
            break
        combined = None
        if past is not None:
            combined = past.combine(point, change, residual, norm)
        point = point + change if combined is None else combined
    return FixedPoint(best, best_residual, np.array(residuals), outcome)


class _Past:
    """The last points and residuals, as differences, with the inner products of the latter."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.last: tuple[Floats, Floats] | None = None
        self.steps: list[tuple[Floats, Floats]] = []
        self.gram = np.zeros((0, 0))

    def combine(self, point: Floats, residual: Floats, size: float, norm: Callable[[Floats], float]) -> Floats | None:
        """Remember a point; return x̄ + r̄ for the best combination, or None where r̄ is no smaller than `size`."""
        if self.last is not None:
            if len(self.steps) == self.memory:
                del self.steps[0]
                self.gram = self.gram[1:, 1:]
            self.steps.append((point - self.last[0], residual - self.last[1]))
            newest = self.steps[-1][1]
            column = np.array([_inner(newest, r) for _, r in self.steps])
            self.gram = np.pad(self.gram, (0, 1))
            self.gram[-1], self.gram[:, -1] = column, column
        self.last = (point, residual)
        if not self.steps:
            return None
        right = np.array([_inner(residual, r) for _, r in self.steps])
        scale = np.sqrt(np.diag(self.gram))
        scale[scale == 0] = 1.0
        weights = np.linalg.lstsq(self.gram / np.multiply.outer(scale, scale), right / scale, rcond=1e-15)[0] / scale
        mixed = residual.copy()
        _subtract(mixed, weights, [r for _, r in self.steps])
        if not norm(mixed) < size:
            return None
        mixed += point
        _subtract(mixed, weights, [x for x, _ in self.steps])
        return mixed


def _subtract(x: Floats, weights: Floats, terms: list[Floats]) -> None:
    """x −= Σ weights × terms, a block that fits the cache at a time."""
    for start in range(0, x.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        for w, term in zip(weights, terms, strict=True):
            x[block] -= w * term[block]


def _inner(x: Floats, y: Floats) -> float:
    """Inner product without BLAS, whose threads cost more than they save here and change the last bits."""
    return float(np.einsum("i,i->", x, y))
