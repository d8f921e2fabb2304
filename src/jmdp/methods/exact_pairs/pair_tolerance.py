"""How small each certified error has to be: the tolerance, measured with what each return can reach."""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.methods.shared.pair_operator import PairOperator

VISIBLE = -50
"""A standard deviation below 2**VISIBLE times the mean is less than float64 shows of the returns themselves."""

LARGEST_STD = 500
"""Logarithm of a standard deviation, in units of its own return, whose square a float can hold."""


class Tolerance:
    """What is asked of the errors of means and of covariances.

    The scale of a return is that of the largest one which the policy can reach from it, itself among them: what it
    would be in a model without all other states.
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
        square = 2 * np.maximum(mean, value[:, None])  # actions of a state are compared, so its own value counts too
        self._operator = operator
        self._mean = tolerance * np.exp2(np.logaddexp2(variance, square) / 2)
        self._errors = shaped.mean_errors
        effects = operator.td_error_effects()
        std = np.minimum(np.maximum(variance, square + 2 * VISIBLE) / 2 - units.coordinate, LARGEST_STD)
        allowed = tolerance * np.exp2(std)[:, :, None] * np.exp2(std)[:, None, :] - effects.within_states()
        self.step_error = float(
            allowed[~(effects.is_zero[:, :, None] | effects.is_zero[:, None, :])].min(initial=np.inf)
        )
        """What `PairOperator.step_error` may be; not positive where the errors of TD errors are too large already."""

    def target(self, entry: float) -> float:
        """The residual that is small enough for a table whose entries are at most `entry`."""
        return self._operator.largest_residual(entry, self.step_error)

    def reached(self, entry: float, residual: float) -> bool:
        """Whether a table with this residual is good enough."""
        return self._operator.step_error(entry, residual) <= self.step_error

    @property
    def means_met(self) -> bool:
        """Whether all means are good enough."""
        return bool((self._errors <= self._mean).all())
