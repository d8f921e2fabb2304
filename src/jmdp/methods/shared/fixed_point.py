"""Iteration of a contraction to its fixed point, with acceleration and stopping rules."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.machine import deferred_interrupts
from jmdp.results.certificate import Outcome

_LEAST_REDUCTION = 0.5
"""A combination is used only if it reduces the residual at least by this factor."""


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Result of an iteration: the last point, its residual, and the residual of every sweep."""

    point: Floats
    residual: float
    residuals: Floats  # nan for sweeps that were not measured
    outcome: Outcome


class Past(ABC):
    """Recorded changes d_0, d_1, … of successive sweeps, and operations on them."""

    length: int
    changes: Any  # [length, ·]

    @abstractmethod
    def gram(self) -> Floats:
        """[length, length], inner products of d_1 − d_0, d_2 − d_1, … and, last, of the last change itself."""

    @abstractmethod
    def largest(self, weights: Floats) -> float:
        """‖Σ weights × changes‖ in the norm of the iteration."""

    @abstractmethod
    def add(self, weights: Floats, point: Floats) -> None:
        """point += Σ weights × changes."""


@dataclass(frozen=True, eq=False)
class Sweeps:
    """An affine sweep T x = b + L x.

    `measured(x, out, change)` fills `out` with T x and, unless it is None, `change` with T x − x, and returns
    ‖T x − x‖.
    """

    measured: Callable[[Floats, Floats, Any], float]
    past: Past | None = None  # record of changes, if they are to be combined
    unmeasured: Callable[[Floats, Floats], None] | None = None  # cheaper: only fills `out` with T x


@dataclass(frozen=True, eq=False)
class StoppingRule:
    """Stop if the residual is at most `target` and `enough(point, residual)` holds, or if this is unattainable."""

    target: float
    floor: Callable[[Floats], float]  # bound on the rounding error in the residual of a point
    rate: float  # upper bound on ‖L‖
    max_sweeps: int
    enough: Callable[[Floats, float], bool] = lambda point, residual: True


def iterate(
    sweeps: Sweeps, point: Floats, out: Floats, stopping: StoppingRule, report: Callable[[int, float, float], None]
) -> FixedPoint:
    """Sweep from `point` until the stopping rule applies. `out` is a second table; the two are used alternately.

    With `past`, every few sweeps the changes recorded since the last combination are combined as in reduced rank
    extrapolation (Sidi 1991), which for an affine sweep is restarted GMRES: x̄ = Σ g_i x_i, Σ g_i = 1, has the residual
    r̄ = Σ g_i d_i, and the next point is x̄ + r̄ with residual L r̄. The combination with the smallest ‖r̄‖₂ is used only
    if ‖r̄‖ is also smaller than the last residual in the norm of the iteration, so no step is worse than the guarantee
    of a plain sweep. Each rejected combination doubles the number of plain sweeps before the next attempt; their
    residuals are not measured if the sweeps support that. The outcome always depends on the residual of a sweep just
    measured, never on a combination.

    Ctrl-C ends the iteration after the current sweep, with the residual of the last point measured.

    The iteration has stalled if the residual is far below `floor`, the bound on its rounding error; if it is below
    `floor` and no longer decreases; or if it has not halved in twice the sweeps that a contraction with this `rate`
    needs.
    """
    return _Iteration(sweeps, point, out, stopping, report).run()


class _Iteration:
    """The state of `iterate`."""

    def __init__(
        self, sweeps: Sweeps, point: Floats, out: Floats, stopping: StoppingRule, report: Callable[..., None]
    ) -> None:
        self.sweeps, self.point, self.out, self.stopping, self.report = sweeps, point, out, stopping, report
        half_life = math.ceil(math.log(2) / -math.log(stopping.rate)) if stopping.rate > 0 else 1
        self.length = sweeps.past.length if sweeps.past is not None else 0
        self.patience, self.settled = 2 * half_life + 4 * self.length + 2, 4 * self.length + 20
        self.residuals: list[float] = []  # nan for sweeps that were not measured
        self.last_halving, self.halving = 0, math.inf
        self.recorded = 0  # changes since the last combination
        self.waiting = 0  # sweeps to make before changes are recorded again
        self.pause = 0  # length of the last such pause
        self.aim = stopping.target

    def run(self) -> FixedPoint:
        """Sweep until the stopping rule gives an outcome."""
        with deferred_interrupts() as interrupted:
            return self._run(interrupted)

    def _run(self, interrupted: Callable[[], bool]) -> FixedPoint:
        while True:
            if self.sweeps.past is not None and self.recorded == self.length:
                self._combine(self.sweeps.past)
                continue
            unmeasured = self.sweeps.unmeasured is not None and self.waiting > 0
            self.residuals.append(self._sweep())
            outcome = None if unmeasured else self._outcome()
            if outcome is not None:
                return self._ended(outcome)
            if interrupted():
                if unmeasured:
                    self.residuals[-1] = self.sweeps.measured(self.point, self.out, None)
                return self._ended(Outcome.INTERRUPTED)
            self.point, self.out = self.out, self.point
            if self.waiting > 0:
                self.waiting -= 1
            elif self.sweeps.past is not None:
                self.recorded += 1

    def _sweep(self) -> float:
        """Fill `out`; return the residual of `point` if measured, else nan."""
        sweeps = self.sweeps
        if sweeps.unmeasured is not None and self.waiting > 0:
            sweeps.unmeasured(self.point, self.out)
            return math.nan
        change = sweeps.past.changes[self.recorded] if sweeps.past is not None and self.waiting == 0 else None
        return sweeps.measured(self.point, self.out, change)

    def _combine(self, past: Past) -> None:
        """Combine the recorded changes if that reduces the residual, and decide when to record again."""
        self.pause = 0 if _jump(past, self.point, self.residuals[-1]) else max(2 * self.pause, self.length)
        left = _sweeps_left(self.residuals[-self.length :], self.aim)
        most = self.stopping.max_sweeps - len(self.residuals) - 1
        self.waiting = max(0, min(self.pause, left - self.length, most))
        self.recorded = 0

    def _outcome(self) -> Outcome | None:
        """Outcome if the iteration stops at `point`, whose residual was just measured; None to continue."""
        count, residual, stopping = len(self.residuals), self.residuals[-1], self.stopping
        hidden = stopping.floor(self.point)
        self.aim = max(stopping.target, hidden / 16)
        self.report(count, residual, self.aim)
        if residual <= self.halving / 2:
            self.last_halving, self.halving = count, residual
        waited = count - self.last_halving
        if residual <= stopping.target and stopping.enough(self.point, residual):
            return Outcome.CONVERGED
        below_rounding = residual <= hidden / 16 or (residual <= hidden and waited > self.settled)
        if below_rounding or waited > self.patience + self.pause:
            return Outcome.STALLED
        return Outcome.SWEEPS_EXHAUSTED if count >= stopping.max_sweeps else None

    def _ended(self, outcome: Outcome) -> FixedPoint:
        return FixedPoint(self.point, self.residuals[-1], np.array(self.residuals), outcome)


def _jump(past: Past, point: Floats, residual: float) -> bool:
    """Move the point after the last recorded change to x̄ + r̄ if ‖r̄‖ is small enough; return True if moved."""
    gram = past.gram()
    matrix, right, size = gram[:-1, :-1], gram[-1, :-1], gram[-1, -1]
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    c = np.linalg.lstsq(matrix / np.multiply.outer(scale, scale), right / scale, rcond=1e-15)[0] / scale
    if not size - 2 * c @ right + c @ matrix @ c < _LEAST_REDUCTION**2 * size:
        return False
    weights = np.append(c, 1.0) - np.insert(c, 0, 0.0)  # of d_last − Σ c_j (d_{j+1} − d_j)
    if not past.largest(weights) < residual:
        return False
    past.add(np.insert(-c, 0, 0.0), point)
    return True


def _sweeps_left(residuals: list[float], aim: float) -> int:
    """Number of sweeps until the residual reaches `aim`, at the rate of the last sweeps."""
    first, last = residuals[0], residuals[-1]
    if not 0 < last < first or aim <= 0:
        return 2**30
    return math.ceil(math.log(last / aim) / math.log(first / last) * (len(residuals) - 1)) if last > aim else 0
