"""Parts of an evaluation that some methods provide: covariances between states, higher moments, distributions, ranges.

They are computed on request. The base class of methods, as results know them.

Diagnostics of a projected method: the norm of the fit, its contraction factor and the resulting error bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate, Interval
from jmdp.base.labels import Label, Labels
from jmdp.base.rounding import at_most
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


class PairBounds(ABC):
    """Weights of pairs of coordinates and error bounds of their moments, computed on request."""

    @abstractmethod
    def weight(self, s: int, a: int, t: int, b: int) -> float:
        """w(x, y); 0 if the fit ignores the pair."""

    @abstractmethod
    def error_bound(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of Cov(Z(s, a), Z(t, b)); infinite if unavailable."""

    @abstractmethod
    def within_states(self) -> Floats:
        """Error bounds of pairs in one state, [S, A, A]."""


@dataclass(frozen=True, eq=False, repr=False)
class Projection(arrays.FrozenArrays):
    """Weights and error bounds of a fit in linear features.

    ‖f‖²_w = Σ w(x, y) f(x, y)² over pairs of coordinates, ‖f‖²_ν = Σ ν(x) f(x)². A fitted table M̂ with Bellman residual
    M̂ − T M̂ has an error of at most ‖M̂ − T M̂‖/(1 − κ) in these norms (compare Theorem B.4; docs/projection.md). Bounds
    are None if the fit is from samples.
    """

    features: int  # columns of φ, and of ψ if there is a kernel for pairs in one state
    kappa: float  # contraction factor of the projected operator
    contraction: float  # c: ‖P₂ f‖²_w ≤ c ‖f‖²_w
    mean_contraction: float  # the same of P_π in ‖·‖_ν
    beta: float | None  # of the norm max(‖μ‖_ν, β ‖Σ‖_w) that κ is for; None if the mean is solved first
    mean_bound: float | None  # on ‖μ̂ − μ‖_ν
    norm_bound: float | None  # on the ‖·‖_w error of the fitted covariance or second moment
    weights: Floats | None  # [S, A, A], w((s, a), (s, b)); None if the fit is from samples
    mean_parameters: Floats  # [d], θ
    pair_parameters: Floats  # [d, d], Θ
    same_state_parameters: Floats | None  # [e, e], Λ
    constrained: bool  # True if the unconstrained fit is not positive semidefinite
    pairs: PairBounds
    ends: arrays.Booleans  # [S], terminal states, where every return is 0
    states: Labels
    actions: Labels

    def __post_init__(self) -> None:
        self.freeze()

    def _indices(self, s: Label, a: Label, t: Label, b: Label) -> tuple[int, int, int, int]:
        return self.states.index(s), self.actions.index(a), self.states.index(t), self.actions.index(b)

    def weight(self, s: Label, a: Label, t: Label, b: Label) -> float:
        """w((s, a), (t, b)), the weight of this pair in the fit; nan if the fit is from samples."""
        return self.pairs.weight(*self._indices(s, a, t, b))

    def error_bound(self, s: Label, a: Label, t: Label, b: Label) -> float:
        """Bound on the error of Cov(Z(s, a), Z(t, b)), rounding included; infinite if unavailable."""
        at = self._indices(s, a, t, b)
        return 0.0 if self.ends[at[0]] or self.ends[at[2]] else self.pairs.error_bound(*at)

    def guaranteed(self, s: Label, a: Label, t: Label, b: Label) -> bool:
        """True if this pair has a finite error bound."""
        return math.isfinite(self.error_bound(s, a, t, b))

    @property
    def guaranteed_pairs(self) -> tuple[int, int]:
        """Number of pairs (s, a), (s, b), a ≠ b, with a finite error bound, and number of all such pairs."""
        a, b = np.triu_indices(self.actions.size, 1)
        known = np.isfinite(self.pairs.within_states()[~self.ends][:, a, b])
        return int(known.sum()), known.size

    def __repr__(self) -> str:
        known, pairs = self.guaranteed_pairs
        bound = "from samples, no error bound"
        if self.norm_bound is not None:
            bound = f"error at most {at_most(self.norm_bound, 2)} in ‖·‖_w"
        return (
            f"Projection({self.features} features, κ {self.kappa:.3g}, {bound}, "
            f"guaranteed for {known} of {pairs} pairs of actions)"
        )
