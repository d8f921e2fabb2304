"""What comes back: joint moments of the returns, how far to trust them, and how the method ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import ROUNDOFF, Floats
from jmdp.base.interval import ANYWHERE, Estimate, Interval
from jmdp.base.labels import Label, Labels
from jmdp.base.rounding import at_most
from jmdp.errors import UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.gaps.gap import Gap
from jmdp.results.learning_curve import LearningCurve
from jmdp.results.projection import Projection

if TYPE_CHECKING:
    import xarray

    from jmdp.methods.method import Method


class Outcome(Enum):
    """How a method or a comparison ended."""

    CONVERGED = "the tolerance is met"
    STALLED = "rounding keeps the error above the tolerance; more sweeps cannot help"
    SWEEPS_EXHAUSTED = "max_sweeps is used up before the tolerance is met"
    INTERRUPTED = "interrupted before it was done"
    BUDGET_EXHAUSTED = "the budget is used up before the answer is as sure as asked"
    SAMPLED = "all samples asked for were drawn"
    BEST_FOUND = "one action is better on average than every other"
    PRECISE = "every mean gap is known to the precision asked for"
    ONE_FUTURE = "only one future was seen: all rollouts of each action gave the same return"
    TRAINED = "learned; in held-out states, variances of gaps are better than a constant"
    NOT_BETTER = "learned, but in held-out states variances of gaps are not better than a constant"
    NOTHING_VARIED = "learned, but no gap varied in held-out states: there is nothing to judge it by"
    NOT_JUDGED = "learned, and not judged: no states were held out"

    @property
    def successful(self) -> bool:
        """Whether it ended as asked. A network that was trained did, however useful it is."""
        return self not in _UNSUCCESSFUL


_UNSUCCESSFUL = (
    Outcome.STALLED,
    Outcome.SWEEPS_EXHAUSTED,
    Outcome.INTERRUPTED,
    Outcome.BUDGET_EXHAUSTED,
    Outcome.ONE_FUTURE,
)


@dataclass(frozen=True, eq=False)
class Certificate(arrays.FrozenArrays):
    """How far the numbers can be from the truth.

    "exact": nothing is off. "certified": every error is at most the stated bound, rounding included, always.
    "statistical": each error is at most the stated bound with probability `confidence`, entry by entry; bias from
    truncated rollouts is inside the bound. With `large_sample` that is so for many samples of a distribution whose
    tails are not too heavy, and for no distribution in general: an outcome too rare to be drawn is not in the bound.

    Errors are one number for all entries, or an array of one for each; infinite where nothing is known. Those of
    `ExactPairs` are one for each: what a state cannot reach does not widen its intervals.
    """

    kind: Literal["exact", "certified", "statistical"]
    mean_error: float | Floats  # of mean: one, or [S, A]
    covariance_error: float | Floats  # of covariance: [S, A, A], or one, which then holds between states too
    gap_mean_error: float | Floats  # of mean[s, a] − mean[s, b]: one, or [S, A, A]
    gap_variance_error: float | Floats  # of Var(Z(s, a) − Z(s, b)): one, or [S, A, A]
    discount: float  # of the model it speaks of, and its largest reward
    reward_bound: float
    confidence: float | None = None
    correlation_error: Floats | None = None  # [S, A, A], where it is known better than from the covariances
    assumption: str | None = None  # what a statistical certificate takes for granted of steps not simulated
    large_sample: bool = False  # are the errors approximations for many samples?

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                arrays.frozen(value)

    @classmethod
    def certified(
        cls, mean_error: float | Floats, covariance_error: float | Floats, discount: float, reward_bound: float
    ) -> Certificate:
        """Bounds on errors of means and covariances, one each or [S, A] and [S, A, A], and what follows for gaps."""
        exact = not (np.any(mean_error) or np.any(covariance_error))
        gap_mean, gap_variance = gap_errors(mean_error, covariance_error)
        kind: Literal["exact", "certified"] = "exact" if exact else "certified"
        return cls(kind, mean_error, covariance_error, gap_mean, gap_variance, discount, reward_bound)


def gap_errors(mean_error: float | Floats, covariance_error: float | Floats) -> tuple[float | Floats, float | Floats]:
    """What errors of means [S, A] and covariances [S, A, A] add up to in gaps' means and variances; or one each."""
    if not isinstance(mean_error, np.ndarray) or not isinstance(covariance_error, np.ndarray):
        return 2 * mean_error, 4 * covariance_error
    own, up = np.einsum("saa->sa", covariance_error), 1 + 2.0**-50  # the sums are rounded
    gap_mean = (mean_error[:, :, None] + mean_error[:, None, :]) * up
    return gap_mean, (own[:, :, None] + own[:, None, :] + 2 * covariance_error) * up


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


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(arrays.FrozenArrays):
    """Joint moments of the returns Z(s, a) of one policy under one coupling."""

    mean: Floats  # [S, A]
    covariance: Floats  # [S, A, A], Cov(Z(s, a), Z(s, b))
    certificate: Certificate | None
    outcome: Outcome
    coupling: Coupling
    method: Method
    states: Labels
    actions: Labels
    residuals: Floats  # [sweeps], in the method's own norm, nan where not measured; empty where nothing is swept
    cross: CrossCovariances | None = None
    moments: HigherMoments | None = None
    distributions: Distributions | None = None
    ranges: Ranges | None = None
    projection: Projection | None = None
    learning: LearningCurve | None = None

    def __post_init__(self) -> None:
        for array in (self.mean, self.covariance, self.residuals):
            arrays.frozen(array)

    @cached_property
    def correlation(self) -> Floats:
        """[S, A, A], correlation of Z(s, a) and Z(s, b).

        nan where a variance is not certainly positive, or where it has no interval and is 0 up to rounding.
        """
        error = 0.0 if self.certificate is None else self.certificate.covariance_error
        floor = np.einsum("saa->sa", np.broadcast_to(error, self.covariance.shape))
        with np.errstate(over="ignore"):
            floor = np.where(np.isinf(floor), np.square(2.0**-46 * self.mean), floor)
        variance = np.einsum("saa->sa", self.covariance)
        std = np.sqrt(np.where(variance > floor, variance, np.nan))
        rho: Floats = np.clip(self.covariance / (std[:, :, None] * std[:, None, :]), -1, 1)
        np.einsum("saa->sa", rho)[...] = np.where(np.isnan(std), np.nan, 1.0)
        arrays.frozen(rho)
        return rho

    def cross_covariance(self, s: Label, a: Label, t: Label, b: Label) -> float:
        """Cov(Z(s, a), Z(t, b)) for any two states."""
        i, x, j, y = self.states.index(s), self.actions.index(a), self.states.index(t), self.actions.index(b)
        if i == j:
            return float(self.covariance[i, x, y])
        if self.cross is None:
            raise UnavailableError(
                f"{type(self.method).__name__} gives covariances within a state only. "
                "ExactPairs(), JIPE() and Incremental(seed=…) give them between states too."
            )
        return self.cross.cross_covariance(i, x, j, y) if i < j else self.cross.cross_covariance(j, y, i, x)

    def second_moment(self, s: Label, a: Label, t: Label, b: Label) -> float:
        """E[Z(s, a) Z(t, b)], the paper's Σ(s, a, t, b)."""
        i, x, j, y = self.states.index(s), self.actions.index(a), self.states.index(t), self.actions.index(b)
        return self.cross_covariance(i, x, j, y) + float(self.mean[i, x] * self.mean[j, y])

    def moment(self, *coordinates: tuple[Label, Label]) -> Estimate:
        """E[Z(x) Z(y) …] for coordinates x = (state, action); one that is repeated is a power of its one return.

        ``moment((s, a), (s, a), (s, b))`` is E[Z(s, a)² Z(s, b)], the paper's n-th order joint moment (section 5).
        """
        at = [(self.states.index(s), self.actions.index(a)) for s, a in coordinates]
        if not at:
            return Estimate.around(1.0, 0.0)
        if self.moments is not None and len(at) <= self.moments.order:
            return self.moments.moment(at)
        if len(at) > 2:
            raise UnavailableError(
                f"This evaluation has no moments of order {len(at)}. ExactPairs(order={len(at)}) gives them for two "
                f"coordinates, JIPE(order={len(at)}) for any."
            )
        low, high = -math.inf, math.inf
        if len(at) == 1:
            mean = self.mean_interval(*at[0])
            value = float(self.mean[at[0]])
            return Estimate(value, low, high) if mean is None else Estimate(value, mean.low, mean.high)
        (s, a), (t, b) = at
        value = self.second_moment(s, a, t, b)
        one, other = self.mean_interval(s, a), self.mean_interval(t, b)
        if self.certificate is not None and one is not None and other is not None:
            covariance = Interval.around(
                self.cross_covariance(s, a, t, b), self._covariance_error(self.certificate, s, a, t, b)
            )
            both = covariance + one * other
            low, high = both.low, both.high
        return Estimate(value, low, high)

    def _covariance_error(self, certificate: Certificate, s: int, a: int, t: int, b: int) -> float:
        if self.projection is not None:
            return self.projection.error_bound(s, a, t, b)
        errors = np.asarray(certificate.covariance_error)
        if errors.ndim == 0:
            return float(errors)
        if s == t:
            return float(errors[s, a, b])
        if isinstance(self.cross, CertifiedCrossCovariances):
            return self.cross.cross_covariance_error(s, a, t, b)
        return math.inf  # the errors are of covariances within a state only

    def return_distribution(self, s: Label, a: Label) -> Distribution:
        """Return the distribution of the return Z(s, a)."""
        i, x = self.states.index(s), self.actions.index(a)
        return self._distributions().return_distribution(i, x)

    def _distributions(self) -> Distributions:
        if self.distributions is None:
            raise UnavailableError(
                f"{type(self.method).__name__} gives moments and no distribution. "
                "ExactDistribution() gives them with a certificate, MonteCarlo(seed=…) from samples."
            )
        return self.distributions

    def mean_interval(self, s: Label, a: Label) -> Interval | None:
        """Interval of E[Z(s, a)], or None without a certificate."""
        at = self.states.index(s), self.actions.index(a)
        return self._interval(self.mean, at, "mean_error")

    def covariance_interval(self, s: Label, a: Label, b: Label) -> Interval | None:
        """Interval of Cov(Z(s, a), Z(s, b)), or None where nothing is known of it."""
        at = self.states.index(s), self.actions.index(a), self.actions.index(b)
        found = self._interval(self.covariance, at, "covariance_error")
        return None if found is None or math.isinf(found.width) else found

    def cross_covariance_interval(self, s: Label, a: Label, t: Label, b: Label) -> Interval | None:
        """Interval of Cov(Z(s, a), Z(t, b)) for any two states, or None without a certificate."""
        if self.certificate is None:
            return None
        i, x, j, y = self.states.index(s), self.actions.index(a), self.states.index(t), self.actions.index(b)
        return Interval.around(self.cross_covariance(i, x, j, y), self._covariance_error(self.certificate, i, x, j, y))

    def _interval(self, values: Floats, at: tuple[int, ...], error: str) -> Interval | None:
        if self.certificate is None:
            return None
        errors = np.broadcast_to(getattr(self.certificate, error), values.shape)
        return Interval.around(float(values[at]), float(errors[at]))

    def gap(self, s: Label, a: Label, b: Label) -> Gap:
        """Return the gap Z(s, a) − Z(s, b) under the shared luck."""
        i, x, y = self.states.index(s), self.actions.index(a), self.actions.index(b)
        va, vb, cab = (float(self.covariance[i, p, q]) for p, q in ((x, x), (y, y), (x, y)))
        mean = float(self.mean[i, x] - self.mean[i, y])
        variance = max(0.0, va + vb - 2 * cab)
        means = variances = correlations = None
        if x == y:
            variance, means, variances = 0.0, Interval(0.0, 0.0), Interval(0.0, 0.0)
        elif self.certificate is not None:
            shape = self.covariance.shape
            mean_error = float(np.broadcast_to(self.certificate.gap_mean_error, shape)[i, x, y])
            variance_error = float(np.broadcast_to(self.certificate.gap_variance_error, shape)[i, x, y])
            # The subtractions above are rounded too.
            means = Interval.around(mean, mean_error + ROUNDOFF * abs(mean) if mean_error else 0.0)
            size = va + vb + 2 * abs(cab)
            wide = Interval.around(variance, variance_error + 4 * ROUNDOFF * size if variance_error else 0.0)
            variances = None if math.isinf(variance_error) else Interval(max(0.0, wide.low), wide.high)
            correlations = self._correlation_interval(i, x, y)
        return Gap(
            self.states.name(i),
            self.actions.name(x),
            self.actions.name(y),
            self.coupling,
            mean,
            variance,
            float(self.correlation[i, x, y]),
            means,
            variances,
            correlations,
            None if self.certificate is None else self.certificate.confidence,
            self.certificate is not None and self.certificate.large_sample and x != y,
            self._gap_support(i, x, y),
            self._gap_moments(i, x, y, variance, variances),
            partial(self._gap_distribution, i, x, y),
        )

    def _gap_distribution(self, i: int, x: int, y: int) -> GapDistribution:
        return GapDistribution.zero() if x == y else self._distributions().gap_distribution(i, x, y)

    def _gap_support(self, i: int, x: int, y: int) -> Interval:
        """Return where the gap lies: by what can happen, or for no return is larger than B/(1 − γ)."""
        if self.ranges is not None:
            return self.ranges.of_gap(i, x, y)
        if self.certificate is None:
            return ANYWHERE
        bound = 2 * self.certificate.reward_bound / (1 - self.certificate.discount) * (1 + 2.0**-50)
        bound = math.nextafter(bound, math.inf) if bound else 0.0  # it may be subnormal
        return Interval(-bound, bound)

    def _gap_moments(self, i: int, x: int, y: int, variance: float, variances: Interval | None) -> tuple[Estimate, ...]:
        """Central moments of a gap of all orders there are."""
        order = 2 if self.moments is None else self.moments.order
        if x == y:
            return tuple(Estimate.around(float(n == 0), 0.0) for n in range(order + 1))
        if self.moments is not None:
            return self.moments.gap_moments(i, x, y)
        wide = Interval(0.0, math.inf) if variances is None else variances
        return Estimate.around(1.0, 0.0), Estimate.around(0.0, 0.0), Estimate(variance, wide.low, wide.high)

    def _correlation_interval(self, i: int, x: int, y: int) -> Interval | None:
        va, vb, c = (self.covariance_interval(i, *pair) for pair in ((x, x), (y, y), (x, y)))
        if self.certificate is None or va is None or vb is None or c is None:
            return None
        if va.low <= 0 or vb.low <= 0:
            return Interval(-1.0, 1.0)
        if self.certificate.correlation_error is not None:
            middle, error = float(self.correlation[i, x, y]), float(self.certificate.correlation_error[i, x, y])
            return _clipped(middle, error) if self.certificate.confidence is None else _fisher(middle, error)
        corners = [e / math.sqrt(v) / math.sqrt(w) for e in (c.low, c.high) for v in (va.low, va.high)
                   for w in (vb.low, vb.high)]  # fmt: skip
        low, high = Interval.around(min(corners), 4 * ROUNDOFF), Interval.around(max(corners), 4 * ROUNDOFF)
        return Interval(max(-1.0, low.low), min(1.0, high.high))

    def to_xarray(self) -> xarray.Dataset:
        """Mean, covariance and correlation with their labels and errors, as an xarray Dataset."""
        import xarray

        def names(labels: Labels) -> list[str] | list[int]:
            return list(range(labels.size)) if labels.names is None else list(labels.names)

        square = ("state", "action", "action_2")
        errors: dict[str, tuple[tuple[str, ...], Floats]] = {}
        if self.certificate is not None:
            errors["mean_error"] = (square[:2], np.broadcast_to(self.certificate.mean_error, self.mean.shape))
            errors["covariance_error"] = (
                square,
                np.broadcast_to(self.certificate.covariance_error, self.covariance.shape),
            )
        return xarray.Dataset(
            {
                "mean": (("state", "action"), self.mean),
                "covariance": (square, self.covariance),
                "correlation": (square, self.correlation),
                **errors,
            },
            {"state": names(self.states), "action": names(self.actions), "action_2": names(self.actions)},
            {
                "coupling": repr(self.coupling),
                "method": repr(self.method),
                "outcome": self.outcome.name,
                "certificate": "none" if self.certificate is None else self.certificate.kind,
            },
        )

    def __repr__(self) -> str:
        S, A = self.mean.shape
        lines = [
            f"Evaluation of {S} states × {A} actions, {self.outcome.name}: {self.outcome.value}",
            f"  coupling     {self.coupling}",
            f"  method       {self.method}",
        ]
        if self.residuals.size:
            name, what = f"{self.method.step_name}s", self.method.residual_name
            lines.append(f"  {name:<12} {self.residuals.size}, last {what} {self.residuals[-1]:.3g}")
        if self.certificate is None:
            lines.append("  certificate  none")
        else:
            c = self.certificate
            sure = "" if c.confidence is None else f", each at {100 * c.confidence:g}% confidence"
            sure += " (large-sample)" if c.large_sample else ""
            lines.append(f"  certificate  {c.kind}{sure}")
            for name, values, errors in (
                ("means", self.mean, c.mean_error),
                ("covariances", self.covariance, c.covariance_error),
            ):
                off = "no interval" if np.isinf(errors).all() else f"off by at most {at_most(float(np.max(errors)), 2)}"
                lines.append(f"    {name:<12} up to {at_most(float(np.abs(values).max()))}, {off}")
            if c.assumption is not None:
                lines.append(f"    assuming that {c.assumption}")
        if self.projection is not None:
            known, pairs = self.projection.guaranteed_pairs
            lines.append(f"  projection   κ {self.projection.kappa:.3g}, guaranteed for {known} of {pairs} gaps")
        return "\n".join(lines)


def _clipped(correlation: float, error: float) -> Interval:
    wide = Interval.around(correlation, error)
    return Interval(max(-1.0, wide.low), min(1.0, wide.high))


def _fisher(correlation: float, error: float) -> Interval:
    """Interval of a sampled correlation with this error, on Fisher's scale, where it is nearly symmetric."""
    if abs(correlation) >= 1 or error == 0 or error > 1 - correlation * correlation:  # beyond what that scale is for
        return _clipped(correlation, error)
    middle, radius = math.atanh(correlation), error / (1 - correlation * correlation)
    flat = _clipped(correlation, error)  # Fisher's scale never reaches ±1, where actions that share all their luck are
    return Interval(min(flat.low, math.tanh(middle - radius)), max(flat.high, math.tanh(middle + radius)))
