"""Covariances from a solved pair table and bounds on their errors, in the original reward units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.scale import Scale
from jmdp.methods.exact_pairs.pair_refinement import Refined
from jmdp.methods.shared.pair_operator import PairOperator


@dataclass(frozen=True, eq=False)
class PairTable:
    """Solved pair table, with the covariances computed from it and their certified errors."""

    operator: PairOperator
    H: Floats  # [S, S], for rewards scaled to size 1, in the units of the states
    step_error: float  # error of any covariance, in its units, assuming exact TD errors
    refined: Refined | None = None

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Return Cov(Z(s, a), Z(t, b)) for s ≠ t."""
        found = self.operator.cross_covariance(self.H, s, a, t, b)
        return self._scale.restore(found, 2, self._unit(s, a, t, b))

    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of `cross_covariance`."""
        effects = self.operator.td_error_effects()
        if effects.is_zero[s, a] or effects.is_zero[t, b]:
            return 0.0
        error = (self.step_error + effects.between((s, a), (t, b))) * (1 + 2.0**-40)
        return self._scale.restore_error(error, 2, self._unit(s, a, t, b))

    @property
    def _scale(self) -> Scale:
        return self.operator.shaped.scale

    def _unit(self, s: int, a: int, t: int, b: int) -> int:
        """Unit of a covariance, as an exponent of 2."""
        unit = self.operator.units.coordinate
        return int(unit[s, a] + unit[t, b])

    def covariance(self) -> Floats:
        """[S, A, A], covariances within each state."""
        found = self.operator.covariance(self.H) if self.refined is None else self.refined.covariance
        return self._scale.restore(found, 2, self._units())

    def covariance_error(self) -> Floats:
        """[S, A, A], bounds on the errors of `covariance`."""
        effects = self.operator.td_error_effects()
        is_zero = effects.is_zero[:, :, None] | effects.is_zero[:, None, :]
        step_error = self.step_error if self.refined is None else self.refined.error
        error = np.where(is_zero, 0.0, (step_error + effects.within_states()) * (1 + 2.0**-40))
        return self._scale.restore_error(error, 2, self._units())

    def _units(self) -> Integers:
        """[S, A, A], units of covariances within states, as exponents of 2."""
        unit = self.operator.units.coordinate
        return np.asarray(unit[:, :, None] + unit[:, None, :])
