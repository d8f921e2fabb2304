"""Protocols of the optional parts of an evaluation, beyond means and covariances, that methods implement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from jmdp.base.interval import Estimate, Interval
from jmdp.results.gaps.distribution import Distribution, GapDistribution


class MethodSettings(Protocol):
    """Settings of the method that computed a result, and the names of its steps and residuals."""

    step_name: ClassVar[str]  # `Evaluation.residuals` has one entry per step
    residual_name: ClassVar[str]


class CrossCovariances(Protocol):
    """Covariances between returns of different states, computed on request."""

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b))."""


@runtime_checkable
class CertifiedCrossCovariances(CrossCovariances, Protocol):
    """Covariances between returns of different states, with error bounds."""

    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of `cross_covariance`."""


class HigherMoments(Protocol):
    """Moments of any order up to `order`."""

    @property
    def order(self) -> int:
        """The highest available order."""

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """E[Π Z(x)] over at most `order` coordinates; a repeated coordinate is a power."""

    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        """Central moments of Z(s, a) − Z(s, b), a ≠ b, of orders 0, 1, …, `order`."""


class Distributions(Protocol):
    """Distributions of returns and of gaps, computed on request."""

    def return_distribution(self, s: int, a: int) -> Distribution:
        """The distribution of Z(s, a)."""

    def gap_distribution(self, s: int, a: int, b: int) -> GapDistribution:
        """The distribution of Z(s, a) − Z(s, b), a ≠ b."""

    def refined(self, gaps: Sequence[tuple[int, int, int]], tolerance: float) -> Distributions:
        """Distributions of these gaps (s, a, b), to another tolerance."""


class Ranges(Protocol):
    """Ranges of gaps."""

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Interval that contains Z(s, a) − Z(s, b)."""


@dataclass(frozen=True)
class VarianceSplit:
    """Var G = E[Var(G | start)] + Var(E[G | start]): within starts and between them."""

    within: float
    between: float


class StartSplit(Protocol):
    """Variance split of a random start state."""

    def split(self, i: int, j: int) -> VarianceSplit:
        """Variance split of the gap between alternatives i and j."""
