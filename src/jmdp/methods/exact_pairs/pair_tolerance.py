"""Limits on certified errors: the tolerance relative to the returns reachable from each state."""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.methods.shared.pair_operator import PairOperator

VISIBLE = -50
"""A standard deviation below 2**VISIBLE times the mean is below the float64 resolution of the returns."""

LARGEST_STD = 500
"""Largest log2 of a standard deviation, in units of its return, whose square does not overflow."""


class Tolerance:
    """Limits on the errors of means and covariances.

    The scale of a return is that of the largest return, including itself, that the policy can reach from it, as if the
    model had no other states.
    """

    def __init__(self, operator: PairOperator, tolerance: float) -> None:
        model, shaped, units = operator.model, operator.shaped, operator.units
        possible = np.broadcast_to(operator.prob[:, :, None] > 0, model.shape)

        def largest(own: Floats, reached: Floats) -> Floats:
            ahead = np.where(possible, reached[model.next_state], -np.inf).max(axis=1)
            return np.asarray(np.maximum(own, ahead))

        with np.errstate(divide="ignore"):
            reached = shaped.classes.reachable_max(np.log2(operator.V) + 2 * units.state)
            variance = largest(np.log2(operator.variance()) + 2 * units.coordinate, reached)
            value = shaped.classes.reachable_max(np.log2(np.abs(shaped.value.high)))
            mean = largest(np.log2(np.abs(shaped.mean)), value)
        square = 2 * np.maximum(mean, value[:, None])  # actions of a state are compared, so its own value also counts
        self._operator = operator
        self._mean = tolerance * np.exp2(np.logaddexp2(variance, square) / 2)
        self._errors = shaped.mean_errors
        effects = operator.td_error_effects()
        std = np.minimum(np.maximum(variance, square + 2 * VISIBLE) / 2 - units.coordinate, LARGEST_STD)
        allowed = tolerance * np.exp2(std)[:, :, None] * np.exp2(std)[:, None, :] - effects.within_states()
        self.step_error = float(
            allowed[~(effects.is_zero[:, :, None] | effects.is_zero[:, None, :])].min(initial=np.inf)
        )
        """Largest permitted `PairOperator.step_error`; not positive if the TD errors alone exceed the limit."""

    def target(self, entry: float) -> float:
        """Largest acceptable residual of a table whose entries are at most `entry`."""
        return self._operator.largest_residual(entry, self.step_error)

    def reached(self, entry: float, residual: float) -> bool:
        """True if a table with this residual meets the tolerance."""
        return self._operator.step_error(entry, residual) <= self.step_error

    @property
    def means_met(self) -> bool:
        """True if all means meet the tolerance."""
        return bool((self._errors <= self._mean).all())
