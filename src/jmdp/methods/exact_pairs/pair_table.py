"""What a solved table of pairs tells: covariances and bounds on their errors, back from units to rewards as given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.methods.exact_pairs.pair_refinement import Refined
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import scaled_error


@dataclass(frozen=True, eq=False)
class PairTable:
    """The solved table, and the covariances it gives: what a certificate rests on."""

    operator: PairOperator
    H: Floats  # [S, S], on rewards divided by 2**exponent, in the units of the states
    step_error: float  # of any covariance, in its units, given the TD errors as they are
    refined: Refined | None = None

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b)) for s ≠ t."""
        return float(np.ldexp(self.operator.cross_covariance(self.H, s, a, t, b), self._exponent(s, a, t, b)))

    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of `cross_covariance`."""
        slips = self.operator.slips()
        if slips.still[s, a] or slips.still[t, b]:
            return 0.0
        error = (self.step_error + slips.between((s, a), (t, b))) * (1 + 2.0**-40)
        return scaled_error(error, self._exponent(s, a, t, b))

    def _exponent(self, s: int, a: int, t: int, b: int) -> int:
        unit = self.operator.units.coordinate
        return int(unit[s, a] + unit[t, b]) + 2 * self.operator.shaped.exponent

    def covariance(self) -> Floats:
        """[S, A, A], covariances within each state."""
        found = self.operator.covariance(self.H) if self.refined is None else self.refined.covariance
        return np.ldexp(found, self._exponents())

    def covariance_error(self) -> Floats:
        """[S, A, A], bounds on the errors of `covariance`."""
        slips = self.operator.slips()
        still = slips.still[:, :, None] | slips.still[:, None, :]
        step_error = self.step_error if self.refined is None else self.refined.error
        error = np.where(still, 0.0, (step_error + slips.within_states()) * (1 + 2.0**-40))
        return scaled_error(error, self._exponents())

    def _exponents(self) -> Integers:
        unit = self.operator.units.coordinate
        return np.asarray(unit[:, :, None] + unit[:, None, :] + 2 * self.operator.shaped.exponent)
