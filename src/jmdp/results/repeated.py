"""Evaluations in which several alternatives are identical: equal policies under the same random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.interval import Estimate, Interval
from jmdp.base.labels import Labels
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.parts import CrossCovariances, Distributions, Moments, Ranges, StartSplit, VarianceSplit


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
class _Repeated(CrossCovariances, Moments, Distributions, Ranges, StartSplit):
    """A part of an evaluation, indexed by the alternatives of the new one."""

    part: Any
    columns: tuple[int, ...]

    @property
    def order(self) -> int:
        return int(self.part.order)

    def cross_covariance(self, s: int, i: int, t: int, j: int) -> float:
        return float(self.part.cross_covariance(s, self.columns[i], t, self.columns[j]))

    def cross_covariance_error(self, s: int, i: int, t: int, j: int) -> float:
        return float(self.part.cross_covariance_error(s, self.columns[i], t, self.columns[j]))

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        found: Estimate = self.part.moment([(s, self.columns[i]) for s, i in coordinates])
        return found

    def gap_moments(self, s: int, i: int, j: int) -> tuple[Estimate, ...]:
        if self.columns[i] == self.columns[j]:
            return tuple(Estimate.around(float(o == 0), 0.0) for o in range(self.order + 1))
        found: tuple[Estimate, ...] = self.part.gap_moments(s, self.columns[i], self.columns[j])
        return found

    def split(self, i: int, j: int) -> VarianceSplit:
        if self.columns[i] == self.columns[j]:
            return VarianceSplit(Estimate.around(0.0, 0.0), Estimate.around(0.0, 0.0))
        found: VarianceSplit = self.part.split(self.columns[i], self.columns[j])
        return found

    def return_distribution(self, s: int, i: int) -> Distribution:
        found: Distribution = self.part.return_distribution(s, self.columns[i])
        return found

    def gap_distribution(self, s: int, i: int, j: int) -> GapDistribution:
        if self.columns[i] == self.columns[j]:
            return GapDistribution.zero()
        found: GapDistribution = self.part.gap_distribution(s, self.columns[i], self.columns[j])
        return found

    def refined(self, gaps: Sequence[tuple[int, int, int]], tolerance: float) -> _Repeated:
        own = [(s, self.columns[i], self.columns[j]) for s, i, j in gaps if self.columns[i] != self.columns[j]]
        return replace(self, part=self.part.refined(own, tolerance)) if own else self

    def of_gap(self, s: int, i: int, j: int) -> Interval:
        if self.columns[i] == self.columns[j]:
            return Interval(0.0, 0.0)
        found: Interval = self.part.of_gap(s, self.columns[i], self.columns[j])
        return found
