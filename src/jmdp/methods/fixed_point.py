"""Iterating a contraction to its fixed point, and knowing when to stop."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jmdp.arrays import Floats
from jmdp.evaluation import Outcome


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

    With `memory` > 0 each step is Anderson's: the combination of the last sweeps with the least residual (Walker & Ni
    2011, which for a linear sweep is GMRES). The residual is always that of a sweep just made, so that what is
    concluded from it never rests on the acceleration. An accelerated step that makes the residual grow is taken back.

    It has stalled when the residual is far below `floor`, what rounding may hide of it, or when it has not halved in twice the
    sweeps that a contraction with this `rate` needs.
    """
    half_life = math.ceil(math.log(2) / -math.log(rate)) if rate > 0 else 1
    patience = 2 * half_life + 2 * memory + 2
    point, best, best_residual = start, start, math.inf
    residuals: list[float] = []
    last_halving, halving = 0, math.inf
    steps: deque[tuple[Floats, Floats]] = deque(maxlen=max(memory, 1))
    previous: tuple[Floats, Floats] | None = None
    while True:
        change = sweep(point)
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
        if best_residual <= floor(best) / 16 or len(residuals) - last_halving > patience:
            outcome = Outcome.STALLED
            break
        if len(residuals) >= max_sweeps:
            outcome = Outcome.SWEEPS_EXHAUSTED
            break
        if memory and previous is not None:
            if residual > 2 * norm(previous[1]):
                steps.clear()
                (point, change), previous = previous, None
                point = point + change
                continue
            steps.append((point - previous[0], change - previous[1]))
        previous = (point, change)
        point = point + change
        if steps:
            differences = [d for _, d in steps]
            gram = np.array([[d @ e for e in differences] for d in differences])
            weights = np.linalg.lstsq(gram, np.array([d @ change for d in differences]), rcond=1e-15)[0]
            for w, (dx, dr) in zip(weights, steps, strict=True):
                point -= w * dx
                point -= w * dr
    return FixedPoint(best, best_residual, np.array(residuals), outcome)
