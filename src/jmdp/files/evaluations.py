"""Evaluations as saved objects.

A file has the numbers of an evaluation and, for a table, the question: model, policies and settings. Means,
covariances, their errors and gaps are read from the file. Covariances between states, moments of other coordinates and
distributions are computed again from the question when they are asked for, by the same method, hence with the same
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate, Interval
from jmdp.base.labels import Labels
from jmdp.errors import UnavailableError
from jmdp.evaluate import evaluate
from jmdp.files import methods, schema
from jmdp.files.distributions import SAMPLED, Redrawn, Rollouts, saved_samples
from jmdp.files.kinds import Kind, Object
from jmdp.files.types import FLAG, NUMBER, TEXT, WHOLE, Array, LabelsOf, Listed, Optional, WrongFieldError
from jmdp.models.coupling import Coupling
from jmdp.results.asked import Asked
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.learning_curve import LearningCurve
from jmdp.results.outcome import Outcome
from jmdp.results.parts import CertifiedCrossCovariances, Distributions, VarianceSplit
from jmdp.results.projection import Projection

_PARTS = ("cross", "moments", "distributions", "start")


@dataclass(frozen=True, kw_only=True)
class SavedEvaluation:
    """The fields of an evaluation that a file contains."""

    mean: Floats
    covariance: Floats
    certificate: Certificate | None
    outcome: Outcome
    coupling: Coupling
    method: Any
    states: Labels
    actions: Labels
    residuals: Floats
    asked: Asked | None
    parts: tuple[str, ...]  # that the evaluation had
    certified_cross: bool
    support: Floats | None  # [S, A, A, ends], interval that contains each gap
    gap_moments: Floats | None  # [S, A, A, order + 1, (value, low, high)]
    sampled: Rollouts | Redrawn | None  # samples of the distributions, or how to draw them
    learning: LearningCurve | None
    projection: dict[str, Any] | None
    gap_mean: Floats | None
    gap_variance: Floats | None

    @classmethod
    def of(cls, evaluation: Evaluation) -> SavedEvaluation:
        """The parts of an evaluation that are saved."""
        kept = {f.name: getattr(evaluation, f.name) for f in fields(cls) if hasattr(evaluation, f.name)}
        return cls(
            **kept
            | {
                "parts": tuple(name for name in _PARTS if getattr(evaluation, name) is not None),
                "certified_cross": isinstance(evaluation.cross, CertifiedCrossCovariances),
                "support": _support(evaluation),
                "gap_moments": _gap_moments(evaluation),
                "sampled": saved_samples(evaluation),
                "projection": None if evaluation.projection is None else _projection(evaluation.projection),
            }
        )

    def restored(self) -> Evaluation:
        """The evaluation."""
        again = Again(self)
        later: dict[str, Any] = {name: kind(again) for name, kind in _LATER.items() if name in self.parts}
        if "cross" in self.parts and not self.certified_cross:
            later["cross"] = _Cross(again)
        if "moments" in self.parts:
            if self.gap_moments is None:
                raise WrongFieldError("gap_moments", "nothing, though the evaluation has moments")
            later["moments"] = _Moments(again, self.gap_moments)
        if self.sampled is not None:
            later["distributions"] = self.sampled.distributions(self)
        elif self.outcome is Outcome.INTERRUPTED:
            later.pop("distributions", None)  # they would be those of the whole run
        kept = {f.name: getattr(self, f.name) for f in fields(Evaluation) if hasattr(self, f.name)}
        ranges = None if self.support is None else _Support(self.support)
        projection = None
        if self.projection is not None:
            known = {name: value for name, value in self.projection.items() if name != "within_states"}
            bounds = _Bounds(again, self.projection["within_states"])
            projection = Projection(**known, pairs=bounds, states=self.states, actions=self.actions)
        return Evaluation(**kept | later | {"ranges": ranges, "projection": projection})


def _support(evaluation: Evaluation) -> Floats | None:
    if evaluation.ranges is None:
        return None
    S, A = evaluation.mean.shape
    found = np.zeros((S, A, A, 2))
    for s, a, b in np.ndindex(S, A, A):
        wide = evaluation.ranges.of_gap(s, a, b)
        found[s, a, b] = wide.low, wide.high
    return found


def _gap_moments(evaluation: Evaluation) -> Floats | None:
    if evaluation.moments is None:
        return None
    S, A = evaluation.mean.shape
    found = np.zeros((S, A, A, evaluation.moments.order + 1, 3))
    for s, a, b in np.ndindex(S, A, A):
        if a != b:
            found[s, a, b] = [(float(x), x.low, x.high) for x in evaluation.moments.gap_moments(s, a, b)]
    return found


_PROJECTED = {
    "features": WHOLE,
    "kappa": NUMBER,
    "contraction": NUMBER,
    "mean_contraction": NUMBER,
    "beta": Optional(NUMBER),
    "mean_bound": Optional(NUMBER),
    "norm_bound": Optional(NUMBER),
    "weights": Optional(Array("<f8", "S A A")),
    "mean_parameters": Array("<f8", "d"),
    "pair_parameters": Array("<f8", "d d"),
    "same_state_parameters": Optional(Array("<f8", "e e")),
    "constrained": FLAG,
    "ends": Array("|b1", "S"),
    "within_states": Array("<f8", "S A A"),
}


class _Fields(dict[str, Any]):
    """Fields as attributes, for `Object`."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def _projection(projection: Projection) -> dict[str, Any]:
    bounds = {"within_states": projection.pairs.within_states()}
    return _Fields({name: getattr(projection, name) for name in _PROJECTED if name not in bounds} | bounds)


class Again:
    """The evaluation, computed again when it is first needed."""

    def __init__(self, saved: SavedEvaluation) -> None:
        self._saved = saved

    @cached_property
    def evaluation(self) -> Evaluation:
        """The evaluation with all its parts."""
        saved, asked = self._saved, self._saved.asked
        if asked is None or isinstance(saved.method, methods.SavedMethod):
            raise UnavailableError(
                "The file does not have this, and it cannot be computed again: the file contains no simulator, no "
                "function and no model without a table. Evaluate again."
            )
        if saved.outcome is Outcome.INTERRUPTED:
            raise UnavailableError(
                "The file does not have this, because the evaluation was interrupted. Evaluate again."
            )
        found = _computed(asked, saved)
        if found.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        same = found.outcome is saved.outcome and all(
            getattr(found, name).tobytes() == getattr(saved, name).tobytes()
            for name in ("mean", "covariance", "residuals")
        )
        if not same:
            raise UnavailableError(
                "The file does not have this, and computed again the evaluation has other numbers: versions of "
                "packages or the machine have changed. Evaluate again."
            )
        return found


def _computed(asked: Asked, saved: SavedEvaluation) -> Evaluation:
    policies = [list(steps) if len(steps) > 1 else steps[0] for steps in asked.policies]
    policy: Any = policies[0] if asked.names is None else dict(zip(asked.names, policies, strict=True))
    found: Evaluation = evaluate(
        asked.model,
        policy,
        saved.coupling,
        saved.method,
        discount=None if asked.horizon is None else asked.discount,
        start=asked.start,
        horizon=asked.horizon,
        terminal_value=asked.terminal_value,
        throw=False,
    )
    return found


@dataclass(frozen=True, eq=False)
class _Cross:
    again: Again

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        return float(self.again.evaluation.cross.cross_covariance(s, a, t, b))  # type: ignore[union-attr]


class _CertifiedCross(_Cross):
    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        return float(self.again.evaluation.cross.cross_covariance_error(s, a, t, b))  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class _Moments:
    again: Again
    gaps: Floats  # [S, A, A, order + 1, 3]

    @property
    def order(self) -> int:
        return int(self.gaps.shape[3]) - 1

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        return self.again.evaluation.moments.moment(coordinates)  # type: ignore[union-attr]

    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        return tuple(Estimate(*row) for row in self.gaps[s, a, b].tolist())


@dataclass(frozen=True, eq=False)
class _Distributions:
    again: Again

    def return_distribution(self, s: int, a: int) -> Distribution:
        return self.again.evaluation.distributions.return_distribution(s, a)  # type: ignore[union-attr]

    def gap_distribution(self, s: int, a: int, b: int) -> GapDistribution:
        return self.again.evaluation.distributions.gap_distribution(s, a, b)  # type: ignore[union-attr]

    def refined(self, gaps: Sequence[tuple[int, int, int]], tolerance: float) -> Distributions:
        return self.again.evaluation.distributions.refined(gaps, tolerance)  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class _Start:
    again: Again

    def split(self, i: int, j: int) -> VarianceSplit:
        return self.again.evaluation.start.split(i, j)  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class _Bounds:
    again: Again
    within: Floats  # [S, A, A]

    def weight(self, s: int, a: int, t: int, b: int) -> float:
        return self.again.evaluation.projection.pairs.weight(s, a, t, b)  # type: ignore[union-attr]

    def error_bound(self, s: int, a: int, t: int, b: int) -> float:
        return self.again.evaluation.projection.pairs.error_bound(s, a, t, b)  # type: ignore[union-attr]

    def within_states(self) -> Floats:
        return self.within


@dataclass(frozen=True, eq=False)
class _Support:
    gaps: Floats  # [S, A, A, 2]

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        low, high = self.gaps[s, a, b].tolist()
        return Interval(low, high)


_LATER = {"cross": _CertifiedCross, "distributions": _Distributions, "start": _Start}

_FIELDS = {
    "mean": Array("<f8", "S A"),
    "covariance": Array("<f8", "S A A"),
    "certificate": Optional(schema.CERTIFICATE),
    "outcome": schema.OUTCOME,
    "coupling": schema.COUPLING,
    "method": schema.METHOD,
    "states": LabelsOf("S"),
    "actions": LabelsOf("A"),
    "residuals": Array("<f8", "steps"),
    "asked": Optional(schema.ASKED),
    "parts": Listed(TEXT),
    "certified_cross": FLAG,
    "support": Optional(Array("<f8", "S A A ends")),
    "gap_moments": Optional(Array("<f8", "S A A order estimate")),
    "sampled": Optional(SAMPLED),
    "learning": Optional(schema.LEARNING),
    "projection": Optional(Object(lambda: {"Projection": Kind(_Fields, _PROJECTED, _Fields, axes_of_whole=True)})),
    "gap_mean": Optional(Array("<f8", "S A A")),
    "gap_variance": Optional(Array("<f8", "S A A")),
}

KIND = Kind(SavedEvaluation, _FIELDS, usual={"gap_mean": None, "gap_variance": None})
