"""Evaluations made of others: with a random start state shared by all alternatives, or with alternatives repeated.

The start state s₀ ~ μ is drawn once for all policies. The return of a policy from "start" is its return from s₀, and

    E Z = Σ μ(s) E Z(s),    Cov(Z, Z̃) = Σ μ(s) Cov(Z(s), Z̃(s)) + Σ μ(s) (E Z(s) − E Z)(E Z̃(s) − E Z̃),

the covariance within starts plus the covariance between them. The certificate includes the rounding of all sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats, Integers
from jmdp.base.interval import Estimate, Interval
from jmdp.base.labels import Labels
from jmdp.errors import SettingsError
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.parts import CrossCovariances, Distributions, Moments, Ranges, StartSplit, VarianceSplit

_HIDDEN = 2.0**-1050
"""Bound on the total underflow of a weighted sum."""

START = "start"
"""Name of the additional state."""


def with_start(evaluation: Evaluation, start: Floats | None) -> Evaluation:
    """The evaluation with the additional state "start", distributed as `start` [S]; unchanged if `start` is None."""
    if start is None or evaluation.certificate is None:
        return evaluation
    row = StartRow(evaluation, start)
    mean, covariance, gaps = row.mean(), row.covariance(), row.gaps()
    return replace(
        evaluation,
        mean=np.concatenate([evaluation.mean, mean[None]]),
        covariance=np.concatenate([evaluation.covariance, covariance[None]]),
        gap_mean=np.concatenate([row.gap_means, gaps.mean[None]]),
        gap_variance=np.concatenate([row.gap_variances, gaps.variance[None]]),
        certificate=row.certificate(evaluation.certificate, gaps),
        states=start_labels(evaluation.states),
        start=row,
        cross=None if evaluation.cross is None else row,
        moments=None if evaluation.moments is None else row,
        distributions=None if evaluation.distributions is None else row,
        ranges=None if evaluation.ranges is None else row,
    )


def start_labels(states: Labels) -> Labels:
    """Labels of the states, followed by "start"."""
    names = [states.name(s) for s in range(states.size)]
    if START in names:
        raise SettingsError('A state of the model is named "start", which is reserved for starts=…. Rename the state.')
    return replace(states, size=states.size + 1, names=(*names, START))


class StartGaps(NamedTuple):
    """Means and variances of gaps from "start" with bounds on their errors, [P, P] each."""

    mean: Floats
    mean_error: Floats
    variance: Floats
    variance_error: Floats


class _Parts(CrossCovariances, Moments, Distributions, Ranges, StartSplit):
    """All parts of an evaluation that are computed on request."""


@dataclass(frozen=True, eq=False)
class StartRow(_Parts):
    """Moments, distributions and errors of the state "start", computed from those of each state."""

    evaluation: Evaluation  # without "start"
    start: Floats  # [S], probabilities; the sum is 1 up to rounding

    @cached_property
    def _states(self) -> Integers:
        return np.flatnonzero(self.start > 0)

    @cached_property
    def _weights(self) -> Floats:
        """[starts], probabilities; their exact sum is 1 up to a few units of rounding."""
        weights = self.start[self._states]
        return np.asarray(weights / math.fsum(weights))

    @cached_property
    def _units(self) -> float:
        """Relative error of a weighted sum, in addition to the errors of its terms."""
        return (self._states.size + 16) * 2 * ROUNDOFF

    def mean(self) -> Floats:
        """Mean returns from "start", [P]."""
        return np.asarray(self._weights @ self.evaluation.mean[self._states])

    def _deviation(self) -> tuple[Floats, Floats]:
        """Deviations of each start's means from their average, [starts, P], and error bounds of them."""
        values, mean = self.evaluation.mean[self._states], self.mean()
        deviation = values - mean
        error = self._mean_errors()[self._states] + self._start_mean_error() + ROUNDOFF * np.abs(deviation)
        return deviation, error * (1 + self._units)

    def _mean_errors(self) -> Floats:
        assert self.evaluation.certificate is not None
        return np.broadcast_to(self.evaluation.certificate.mean_error, self.evaluation.mean.shape)

    def _start_mean_error(self) -> Floats:
        """Error bounds of `mean`, [P]."""
        errors, sizes = self._mean_errors()[self._states], np.abs(self.evaluation.mean[self._states])
        hidden = np.where((errors + sizes).max(axis=0) > 0, _HIDDEN, 0.0)
        return np.asarray(self._weights @ (errors + self._units * sizes) * (1 + self._units) + hidden)

    def covariance(self) -> Floats:
        """Covariances from "start", within plus between starts, [P, P]."""
        deviation, _ = self._deviation()
        within = np.einsum("s,sij->ij", self._weights, self.evaluation.covariance[self._states])
        products = deviation[:, :, None] * deviation[:, None, :]  # first: a tiny weight times a deviation may underflow
        return np.asarray(within + np.einsum("s,sij->ij", self._weights, products))

    def certificate(self, certificate: Certificate, gaps: StartGaps) -> Certificate:
        """Certificate of all states and of "start"."""
        shape = self.evaluation.covariance.shape
        deviation, off = self._deviation()
        products = np.abs(deviation[:, :, None]) * off[:, None, :]
        spread = products + products.transpose(0, 2, 1) + off[:, :, None] * off[:, None, :]
        sizes = np.abs(self.evaluation.covariance[self._states]) + np.abs(deviation[:, :, None] * deviation[:, None, :])
        varies = (np.abs(deviation) + off).max(axis=0) > 0
        rounding = self._average(self._units * sizes) + np.where(np.logical_and.outer(varies, varies), _HIDDEN, 0.0)

        def errors(name: str) -> Floats:
            return np.broadcast_to(getattr(certificate, name), shape)

        covariance = self._average(errors("covariance_error")[self._states] + spread) + rounding
        kept = None if certificate.correlation_error is None else np.full((1, *shape[1:]), 2.0)
        return replace(
            certificate,
            mean_error=np.concatenate([self._mean_errors(), self._start_mean_error()[None]]),
            covariance_error=np.concatenate([errors("covariance_error"), covariance[None] * (1 + self._units)]),
            gap_mean_error=np.concatenate([self._gap_mean_errors, gaps.mean_error[None]]),
            gap_variance_error=np.concatenate([self._gap_variance_errors, gaps.variance_error[None]]),
            correlation_error=None if kept is None else np.concatenate([errors("correlation_error"), kept]),
        )

    @cached_property
    def gap_means(self) -> Floats:
        """[S, P, P], means of gaps from each state."""
        known, mean = self.evaluation.gap_mean, self.evaluation.mean
        return mean[:, :, None] - mean[:, None, :] if known is None else known

    @cached_property
    def gap_variances(self) -> Floats:
        """[S, P, P], variances of gaps from each state."""
        known, covariance = self.evaluation.gap_variance, self.evaluation.covariance
        own = np.einsum("saa->sa", covariance)
        return np.maximum(own[:, :, None] + own[:, None, :] - 2 * covariance, 0.0) if known is None else known

    @cached_property
    def _gap_mean_errors(self) -> Floats:
        """[S, P, P], errors of `gap_means`."""
        assert self.evaluation.certificate is not None
        errors = np.broadcast_to(self.evaluation.certificate.gap_mean_error, self.gap_means.shape)
        if self.evaluation.gap_mean is not None:
            return errors
        return np.where(errors > 0, errors + ROUNDOFF * np.abs(self.gap_means), 0.0)

    @cached_property
    def _gap_variance_errors(self) -> Floats:
        """[S, P, P], errors of `gap_variances`."""
        assert self.evaluation.certificate is not None
        errors = np.broadcast_to(self.evaluation.certificate.gap_variance_error, self.gap_variances.shape)
        if self.evaluation.gap_variance is not None:
            return errors
        own = np.einsum("saa->sa", self.evaluation.covariance)
        size = own[:, :, None] + own[:, None, :] + 2 * np.abs(self.evaluation.covariance)
        return np.where(errors > 0, errors + 4 * ROUNDOFF * size, 0.0)

    def gaps(self) -> StartGaps:
        """Gaps from "start", summed from the gaps of each start: returns may be much larger than their gaps."""
        gaps, off = self.gap_means[self._states], self._gap_mean_errors[self._states]
        within, wrong = self.gap_variances[self._states], self._gap_variance_errors[self._states]
        equal = ((gaps == 0) & (off == 0) & (within == 0) & (wrong == 0)).all(axis=0)
        mean = np.einsum("s,sij->ij", self._weights, gaps)
        mean_error = self._average(off + self._units * np.abs(gaps)) + _HIDDEN
        deviation = gaps - mean
        slip = off + mean_error + ROUNDOFF * np.abs(deviation)
        spread = within + deviation * deviation
        variance = np.einsum("s,sij->ij", self._weights, spread)
        variance_error = self._average(wrong + self._units * spread + 2 * np.abs(deviation) * slip + slip * slip)
        return StartGaps(
            np.where(equal, 0.0, mean),
            np.where(equal, 0.0, mean_error),
            np.where(equal, 0.0, variance),
            np.where(equal, 0.0, (variance_error + _HIDDEN) * (1 + self._units)),
        )

    def _average(self, terms: Floats) -> Floats:
        """Upper bound on Σ μ terms over the nonnegative terms [starts, P, P]."""
        return np.asarray(np.einsum("s,sij->ij", self._weights, terms) * (1 + self._units))

    def split(self, i: int, j: int) -> VarianceSplit:
        """Variance of the gap between alternatives i and j, within and between starts, with intervals."""
        gaps = [self.evaluation.gap(self.evaluation.states[s], i, j) for s in self._states]
        mean = self._mixed([Estimate.within(gap.mean, gap.mean_interval) for gap in gaps])
        within = self._mixed([Estimate.within(gap.variance, gap.variance_interval) for gap in gaps])
        squares = []
        for gap in gaps:
            deviation = (gap.mean_interval or Interval(-math.inf, math.inf)) + Interval(-mean.high, -mean.low)
            wide = deviation.power(2)
            apart = gap.mean - float(mean)
            squares.append(Estimate(apart * apart, wide.low, wide.high))
        return VarianceSplit(within, self._mixed(squares))

    def _mixed(self, estimates: Sequence[Estimate]) -> Estimate:
        """Weighted sum of the estimates of each start, with its interval."""
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(np.nan_to_num(self._weights @ np.array(estimates, np.float64)))
        wide = Interval(0.0, 0.0)
        for weight, estimate in zip(self._weights.tolist(), estimates, strict=True):
            wide += Interval.around(weight, 4 * ROUNDOFF * weight) * estimate.interval
        return Estimate(min(max(value, wide.low), wide.high), wide.low, wide.high)

    def _is_start(self, s: int) -> bool:
        return s == self.evaluation.states.size

    def cross_covariance(self, s: int, i: int, t: int, j: int) -> float:
        """As `Evaluation.cross_covariance`, of states other than "start"."""
        assert self.evaluation.cross is not None
        self._refuse_start(s, t)
        return self.evaluation.cross.cross_covariance(s, i, t, j)

    def cross_covariance_error(self, s: int, i: int, t: int, j: int) -> float:
        """Bound on the error of `cross_covariance`; infinite if unknown."""
        self._refuse_start(s, t)
        return math.inf if self.evaluation.cross is None else self.evaluation.cross.cross_covariance_error(s, i, t, j)

    def _refuse_start(self, s: int, t: int) -> None:
        if self._is_start(s) or self._is_start(t):
            raise SettingsError('Covariances of "start" and another state are unavailable. Use one of them only.')

    @property
    def order(self) -> int:
        """The highest order of moments."""
        assert self.evaluation.moments is not None
        return self.evaluation.moments.order

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """As `Evaluation.moment`; either all coordinates or none are at "start"."""
        moments = self.evaluation.moments
        assert moments is not None
        at_start = [self._is_start(s) for s, _ in coordinates]
        if not any(at_start):
            return moments.moment(coordinates)
        if not all(at_start):
            raise SettingsError('Joint moments of "start" and another state are unavailable. Use one of them only.')
        return self._mixed([moments.moment([(int(s), i) for _, i in coordinates]) for s in self._states])

    def gap_moments(self, s: int, i: int, j: int) -> tuple[Estimate, ...]:
        """Central moments of the gap; for "start", those of a mixture: Σ μ Σ_r C(o, r) (g(s) − g)^{o−r} M_r(s)."""
        moments = self.evaluation.moments
        assert moments is not None
        if not self._is_start(s):
            return moments.gap_moments(s, i, j)
        own = [moments.gap_moments(int(t), i, j) for t in self._states]
        gaps = [self.evaluation.gap(self.evaluation.states[t], i, j) for t in self._states]
        means = [Estimate.within(gap.mean, gap.mean_interval) for gap in gaps]
        mean = self._mixed(means)
        shifts = [Estimate.within(float(x) - float(mean), x.interval + Interval(-mean.high, -mean.low)) for x in means]
        found = [Estimate.around(1.0, 0.0), Estimate.around(0.0, 0.0)]
        for o in range(2, moments.order + 1):
            terms = [_shifted(shift, known, o) for shift, known in zip(shifts, own, strict=True)]
            mixed = self._mixed(terms)
            low = max(mixed.low, 0.0) if o % 2 == 0 else mixed.low
            found.append(Estimate(max(float(mixed), low), low, mixed.high))
        return tuple(found)

    def return_distribution(self, s: int, i: int) -> Distribution:
        """Distribution of the return of alternative i."""
        known = self.evaluation.distributions
        assert known is not None
        if not self._is_start(s):
            return known.return_distribution(s, i)
        parts = [known.return_distribution(int(t), i) for t in self._states]
        support = Interval.hull(part.support for part in parts)
        return Distribution(*self._mixture(parts), self._slack(parts), support, parts[0].confidence)

    def gap_distribution(self, s: int, i: int, j: int) -> GapDistribution:
        """Distribution of the gap between alternatives i and j."""
        known = self.evaluation.distributions
        assert known is not None
        if not self._is_start(s):
            return known.gap_distribution(s, i, j)
        parts = [known.gap_distribution(int(t), i, j) for t in self._states]
        tied = self._mixed([Estimate.within(part.tied.low, part.tied) for part in parts])
        chance = Interval(max(tied.low, 0.0), min(tied.high, 1.0))
        support = Interval.hull(part.support for part in parts)
        return GapDistribution(*self._mixture(parts), self._slack(parts), support, parts[0].confidence, tied=chance)

    def refined(self, gaps: Sequence[tuple[int, int, int]], tolerance: float) -> StartRow:
        """Distributions of these gaps; that of "start" follows from those of the possible start states."""
        known = self.evaluation.distributions
        assert known is not None
        needed = [(int(t), i, j) for s, i, j in gaps for t in (self._states if self._is_start(s) else [s])]
        return replace(self, evaluation=replace(self.evaluation, distributions=known.refined(needed, tolerance)))

    def _mixture(self, parts: Sequence[Distribution]) -> tuple[Floats, Floats, Floats, Floats]:
        """Ends, values and masses of the mixture of the parts."""
        masses = [weight * part.mass for weight, part in zip(self._weights, parts, strict=True)]
        low, high, value = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("low", "high", "value")
        )
        return low, high, value, np.concatenate(masses)

    def _slack(self, parts: Sequence[Distribution]) -> float:
        return float(self._weights @ [part.slack for part in parts]) * (1 + self._units) + self._units

    def of_gap(self, s: int, i: int, j: int) -> Interval:
        """Interval that contains the gap."""
        ranges = self.evaluation.ranges
        assert ranges is not None
        return Interval.hull(ranges.of_gap(int(t), i, j) for t in (self._states if self._is_start(s) else [s]))


def _shifted(shift: Estimate, known: Sequence[Estimate], o: int) -> Estimate:
    """E[(G − g + shift)^o] from the central moments of G, with g = E[G]."""
    value, wide = np.float64(0.0), Interval(0.0, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        for r in range(o + 1):
            times = float(math.comb(o, r))
            value += times * np.float64(shift) ** (o - r) * float(known[r])
            wide += Interval(times, times) * shift.interval.power(o - r) * known[r].interval
    return Estimate(min(max(float(np.nan_to_num(value)), wide.low), wide.high), wide.low, wide.high)


def repeated(evaluation: Evaluation, names: Labels, columns: Sequence[int]) -> Evaluation:
    """Evaluation whose alternative i is alternative columns[i] of the given one; identical ones have gap exactly 0."""
    at = np.asarray(columns)
    certificate = None if evaluation.certificate is None else _certificate(evaluation, evaluation.certificate, at)
    parts: dict[str, Any] = {
        name: None if getattr(evaluation, name) is None else _Repeated(getattr(evaluation, name), tuple(columns))
        for name in ("cross", "moments", "distributions", "ranges", "start")
    }
    return replace(
        evaluation,
        mean=evaluation.mean[:, at],
        covariance=_pairs(evaluation.covariance, at),
        gap_mean=None if evaluation.gap_mean is None else _pairs(evaluation.gap_mean, at),
        gap_variance=None if evaluation.gap_variance is None else _pairs(evaluation.gap_variance, at),
        certificate=certificate,
        actions=names,
        **parts,
    )


def _pairs(values: Floats, at: Integers) -> Floats:
    """Values [S, P, P] of the selected pairs of values [S, A, A]."""
    return values[:, at[:, None], at]


def _certificate(evaluation: Evaluation, certificate: Certificate, at: Integers) -> Certificate:
    shape, differ = evaluation.covariance.shape, at[:, None] != at
    pairs = {
        name: _pairs(np.broadcast_to(getattr(certificate, name), shape), at)
        for name in ("covariance_error", "gap_mean_error", "gap_variance_error")
    }
    correlation = certificate.correlation_error
    return replace(
        certificate,
        mean_error=np.broadcast_to(certificate.mean_error, shape[:2])[:, at],
        covariance_error=pairs["covariance_error"],
        gap_mean_error=pairs["gap_mean_error"] * differ,
        gap_variance_error=pairs["gap_variance_error"] * differ,
        correlation_error=None if correlation is None else _pairs(correlation, at) * differ,
    )


@dataclass(frozen=True, eq=False)
class _Repeated(_Parts):
    """A part of an evaluation, indexed by the alternatives of the new one."""

    part: _Parts  # or one of them
    columns: tuple[int, ...]

    @property
    def order(self) -> int:
        return self.part.order

    def cross_covariance(self, s: int, i: int, t: int, j: int) -> float:
        return float(self.part.cross_covariance(s, self.columns[i], t, self.columns[j]))

    def cross_covariance_error(self, s: int, i: int, t: int, j: int) -> float:
        return float(self.part.cross_covariance_error(s, self.columns[i], t, self.columns[j]))

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        return self.part.moment([(s, self.columns[i]) for s, i in coordinates])

    def gap_moments(self, s: int, i: int, j: int) -> tuple[Estimate, ...]:
        if self.columns[i] == self.columns[j]:
            return tuple(Estimate.around(float(o == 0), 0.0) for o in range(self.order + 1))
        return self.part.gap_moments(s, self.columns[i], self.columns[j])

    def split(self, i: int, j: int) -> VarianceSplit:
        if self.columns[i] == self.columns[j]:
            return VarianceSplit(Estimate.around(0.0, 0.0), Estimate.around(0.0, 0.0))
        return self.part.split(self.columns[i], self.columns[j])

    def return_distribution(self, s: int, i: int) -> Distribution:
        return self.part.return_distribution(s, self.columns[i])

    def gap_distribution(self, s: int, i: int, j: int) -> GapDistribution:
        if self.columns[i] == self.columns[j]:
            return GapDistribution.zero()
        return self.part.gap_distribution(s, self.columns[i], self.columns[j])

    def refined(self, gaps: Sequence[tuple[int, int, int]], tolerance: float) -> _Repeated:
        own = [(s, self.columns[i], self.columns[j]) for s, i, j in gaps if self.columns[i] != self.columns[j]]
        found: Any = self.part.refined(own, tolerance) if own else self.part
        return replace(self, part=found)

    def of_gap(self, s: int, i: int, j: int) -> Interval:
        if self.columns[i] == self.columns[j]:
            return Interval(0.0, 0.0)
        return self.part.of_gap(s, self.columns[i], self.columns[j])
