"""What an evaluation may hold beyond means and covariances, each a small interface that methods implement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from jmdp.base.interval import Estimate, Interval
from jmdp.results.gaps.distribution import Distribution, GapDistribution


class MethodSettings(Protocol):
    """The method that made a result, as results see it: its settings, which print, and what its steps are called."""

    step_name: ClassVar[str]  # what `Evaluation.residuals` has one number for each of
    residual_name: ClassVar[str]


class CrossCovariances(Protocol):
    """Covariances between returns of different states, looked up one by one."""

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b))."""


@runtime_checkable
class CertifiedCrossCovariances(CrossCovariances, Protocol):
    """The same with bounds on their errors."""

    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of `cross_covariance`."""


class HigherMoments(Protocol):
    """Moments of any order up to `order`."""

    @property
    def order(self) -> int:
        """The highest there is."""

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """E[Π Z(x)] over at most `order` coordinates; one that is repeated is a power."""

    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        """Central moments of Z(s, a) − Z(s, b), a ≠ b, of orders 0, 1, …, `order`."""


class Distributions(Protocol):
    """Distributions of returns and of gaps, looked up one by one."""

    def return_distribution(self, s: int, a: int) -> Distribution:
        """The distribution of Z(s, a)."""

    def gap_distribution(self, s: int, a: int, b: int) -> GapDistribution:
        """The distribution of Z(s, a) − Z(s, b), a ≠ b."""


class Ranges(Protocol):
    """What returns and gaps can be at least and at most."""

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Where Z(s, a) − Z(s, b) is."""


@dataclass(frozen=True)
class VarianceSplit:
    """Var G = E[Var(G | start)] + Var(E[G | start]): within starts and between them."""

    within: float
    between: float


class StartSplit(Protocol):
    """What is known of a start that is drawn."""

    def split(self, i: int, j: int) -> VarianceSplit:
        """Of the gap of alternatives i and j."""
