"""Parts of an evaluation that some methods provide: covariances between states, higher moments, distributions, ranges.

They are computed on request. The base class of methods, as results know them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from jmdp.base.interval import Estimate, Interval
from jmdp.results.gaps.distribution import Distribution, GapDistribution


class MethodSettings:
    """Base class of methods, for results: settings, and the names of steps and residuals."""

    step_name: str = "sweep"  # unit of `Evaluation.residuals`, which has one number per step
    residual_name: str = "residual"


class CrossCovariances(ABC):
    """Covariances between returns of different states."""

    certified: bool = True  # whether errors are bounded

    @abstractmethod
    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b))."""

    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of `cross_covariance`."""
        return math.inf


class Moments(ABC):
    """Moments of any order up to `order`."""

    @property
    @abstractmethod
    def order(self) -> int:
        """The highest available order."""

    @abstractmethod
    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """E[Π Z(x)] over at most `order` coordinates; a repeated coordinate is a power."""

    @abstractmethod
    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        """Central moments of Z(s, a) − Z(s, b), a ≠ b, of orders 0, 1, …, `order`."""


class Distributions(ABC):
    """Distributions of returns and of gaps."""

    @abstractmethod
    def return_distribution(self, s: int, a: int) -> Distribution:
        """The distribution of Z(s, a)."""

    @abstractmethod
    def gap_distribution(self, s: int, a: int, b: int) -> GapDistribution:
        """The distribution of Z(s, a) − Z(s, b), a ≠ b."""

    @abstractmethod
    def refined(self, gaps: Sequence[tuple[int, int, int]], tolerance: float) -> Distributions:
        """Distributions of these gaps (s, a, b), to another tolerance."""


class Ranges(ABC):
    """Ranges of gaps."""

    @abstractmethod
    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Interval that contains Z(s, a) − Z(s, b)."""


class ReturnRanges(Ranges):
    """Ranges of returns and gaps."""

    @abstractmethod
    def is_over(self, s: int) -> bool:
        """True if no reward can follow from this state."""

    @abstractmethod
    def of(self, s: int, a: int) -> Interval:
        """Interval that contains Z(s, a)."""

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Interval that contains Z(s, a) − Z(s, b) under any coupling."""
        one, other = self.of(s, a), self.of(s, b)
        return one + Interval(-other.high, -other.low)


@dataclass(frozen=True)
class VarianceSplit:
    """Var G = E[Var(G | start)] + Var(E[G | start]): within starts and between them."""

    within: float
    between: float


class StartSplit(ABC):
    """Variance split of a random start state."""

    @abstractmethod
    def split(self, i: int, j: int) -> VarianceSplit:
        """Variance split of the gap between alternatives i and j."""
