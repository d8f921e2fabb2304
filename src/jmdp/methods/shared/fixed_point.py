"""Iterating a contraction to its fixed point, and knowing when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.results.outcome import Outcome

_WORTH = 0.5
"""A combination must make the residual at least this much smaller to be tried."""


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The last point, its residual, and the residual of every sweep."""

    point: Floats
    residual: float
    residuals: Floats  # nan for sweeps that were not measured
    outcome: Outcome


class Past(Protocol):
    """The changes d_0, d_1, … of successive sweeps, and what is done with them."""

    length: int
    changes: Any  # [length, ·]

    def gram(self) -> Floats:
        """[length, length], inner products of d_1 − d_0, d_2 − d_1, … and, last, of the last change itself."""

    def largest(self, weights: Floats) -> float:
        """‖Σ weights × changes‖ in the norm of the iteration."""

    def add(self, weights: Floats, point: Floats) -> None:
        """point += Σ weights × changes."""


def iterate(
    measured: Callable[[Floats, Floats, Any], float],
    point: Floats,
    out: Floats,
    *,
    target: float,
    enough: Callable[[Floats, float], bool],
    floor: Callable[[Floats], float],
    rate: float,
    max_sweeps: int,
    report: Callable[[int, float, float], None],
    past: Past | None = None,
    bare: Callable[[Floats, Floats], None] | None = None,
) -> FixedPoint:
    """Sweep from `point` until the residual is at most `target` and `enough(point, residual)`, or that is out of reach.

    The sweep is affine, T x = b + L x with ‖L‖ ≤ `rate`. `measured(x, out, change)` fills `out` with T x and, unless it
    is None, `change` with T x − x, and returns ‖T x − x‖. `out` is a second table; the two are used in turn.

    With `past`, every few sweeps the changes recorded since the last time are combined as in reduced rank
    extrapolation (Sidi 1991), which for an affine sweep is restarted GMRES: x̄ = Σ g_i x_i, Σ g_i = 1, has the residual
    r̄ = Σ g_i d_i, and the next point is x̄ + r̄ with residual L r̄. The combination with the least ‖r̄‖₂ is taken only
    where ‖r̄‖ is smaller than the last residual in the norm of the iteration too, so no step does worse than a plain
    sweep is sure to. Where it is not worth while, more and more plain sweeps come between tries. Those between are
    made by `bare`, if given, which does not measure. What is concluded always rests on the residual of a sweep just
    measured, never on a combination.

    An interrupt from the keyboard ends it with the point it has, whose residual is then measured.

    It has stalled when the residual is far below `floor`, what rounding may hide of it; when it is below it and no
    longer falls; or when it has not halved in twice the sweeps that a contraction with this `rate` needs.
    """
    half_life = math.ceil(math.log(2) / -math.log(rate)) if rate > 0 else 1
    length = past.length if past is not None else 0
    patience, settled = 2 * half_life + 4 * length + 2, 4 * length + 20
    residuals: list[float] = []
    last_halving, halving = 0, math.inf
    recorded = waiting = pause = 0
    jump_due = False
    aim = target
    while True:
        skipped = bare is not None and waiting > 0
        try:
            if jump_due and past is not None:
                pause = 0 if _jump(past, point, residuals[-1]) else max(2 * pause, length)
                left = _sweeps_left(residuals[-length:], aim)
                waiting = max(0, min(pause, left - length, max_sweeps - len(residuals) - 1))
                recorded, jump_due = 0, False
                continue
            if bare is not None and skipped:
                bare(point, out)
                residual = math.nan
            else:
                recording = past is not None and waiting == 0
                residual = measured(point, out, past.changes[recorded] if past is not None and recording else None)
        except KeyboardInterrupt:
            if not residuals:
                raise
            residuals.append(measured(point, out, None))
            return FixedPoint(point, residuals[-1], np.array(residuals), Outcome.INTERRUPTED)
        residuals.append(residual)
        if not skipped:
            hidden = floor(point)
            aim = max(target, hidden / 16)
            report(len(residuals), residual, aim)
            if residual <= halving / 2:
                last_halving, halving = len(residuals), residual
            outcome = None
            waited = len(residuals) - last_halving
            if residual <= target and enough(point, residual):
                outcome = Outcome.CONVERGED
            elif residual <= hidden / 16 or (residual <= hidden and waited > settled) or waited > patience + pause:
                outcome = Outcome.STALLED
            elif len(residuals) >= max_sweeps:
                outcome = Outcome.SWEEPS_EXHAUSTED
            if outcome is not None:
                return FixedPoint(point, residual, np.array(residuals), outcome)
        point, out = out, point
        if past is None:
            continue
        if waiting > 0:
            waiting -= 1
            continue
        recorded += 1
        jump_due = recorded == length


def _jump(past: Past, point: Floats, residual: float) -> bool:
    """Move the point after the last recorded change to x̄ + r̄, if ‖r̄‖ is small enough; say whether."""
    gram = past.gram()
    matrix, right, size = gram[:-1, :-1], gram[-1, :-1], gram[-1, -1]
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    c = np.linalg.lstsq(matrix / np.multiply.outer(scale, scale), right / scale, rcond=1e-15)[0] / scale
    if not size - 2 * c @ right + c @ matrix @ c < _WORTH**2 * size:
        return False
    weights = np.append(c, 1.0) - np.insert(c, 0, 0.0)  # of d_last − Σ c_j (d_{j+1} − d_j)
    if not past.largest(weights) < residual:
        return False
    past.add(np.insert(-c, 0, 0.0), point)
    return True


def _sweeps_left(residuals: list[float], aim: float) -> int:
    """How many more sweeps bring the residual down to `aim`, at the pace of the last ones."""
    first, last = residuals[0], residuals[-1]
    if not 0 < last < first or aim <= 0:
        return 2**30
    return math.ceil(math.log(last / aim) / math.log(first / last) * (len(residuals) - 1)) if last > aim else 0
