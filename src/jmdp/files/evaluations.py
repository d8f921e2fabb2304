"""Evaluations as saved objects.

A file has the numbers of an evaluation and, for a table, the question: model, policies and settings. Means,
covariances, their errors and gaps are read from the file. Covariances between states, moments of other coordinates and
distributions are computed again from the question when they are asked for, by the same method, hence with the same
result.

Empirical distributions in saved evaluations: the samples, or how they are drawn again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any

import numpy as np

from jmdp.base.arrays import Floats, Integers, refuse_large
from jmdp.base.interval import Estimate, Interval
from jmdp.base.settings import short
from jmdp.errors import UnavailableError
from jmdp.files import methods
from jmdp.files.types import KINDS, Kind, WrongFieldError
from jmdp.methods.evaluate import evaluate
from jmdp.methods.monte_carlo import MonteCarlo
from jmdp.methods.monte_carlo.monte_carlo import LONGEST
from jmdp.methods.monte_carlo.samples import SAMPLE_BYTES, FirstSamples, PolicySamples, StateSamples
from jmdp.methods.shared.return_range import PolicyRanges, ReturnRange
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.parts import (
    CrossCovariances,
    Distributions,
    Moments,
    PairBounds,
    Projection,
    Ranges,
    ReturnRanges,
    StartSplit,
)
from jmdp.results.result import EvaluationInput
from jmdp.simulators.rollouts.draws import Draws
from jmdp.statistics import anytime
from jmdp.statistics.drawn_evaluation import SampledDistributions, Stored, Within
from jmdp.statistics.means import IntervalRule
from jmdp.statistics.selection import Limits

_BANDS = {"fixed": anytime.fixed_slack, "anytime": anytime.distribution_slack, "certain": anytime.no_slack}
"""Widths of the band of a distribution, by name."""


class _Samples(ABC):
    """Samples of distributions, or how to draw them again."""

    @abstractmethod
    def distributions(self, saved: Evaluation) -> SampledDistributions:
        """The empirical distributions."""


@dataclass(frozen=True)
class Rollouts(_Samples):
    """Samples of each state, and what the intervals of their distributions depend on."""

    drawn: tuple[Draws, ...]
    limits: Limits
    band: str
    confidence: float
    within: tuple[float, float]  # range of returns

    def distributions(self, saved: Evaluation) -> SampledDistributions:
        """The empirical distributions."""
        shapes = {draws.returns.shape[1] for draws in self.drawn}
        if len(self.drawn) != len(saved.mean) or shapes != {saved.mean.shape[1]} or not 0 < self.confidence < 1:
            raise WrongFieldError("sampled", "samples of other states or actions than those of the evaluation")
        if self.band not in _BANDS:
            raise WrongFieldError("sampled.band", f"{short(self.band)} instead of one of: {', '.join(_BANDS)}")
        rule = IntervalRule(self.confidence, _BANDS[self.band])
        return SampledDistributions(Stored(self.drawn), self.limits, rule, Within(*self.within))


@dataclass(frozen=True)
class Redrawn(_Samples):
    """Samples of a table that are drawn again, state by state."""

    sizes: Integers  # [S], samples of each state
    horizon: int
    limits: Limits
    confidence: float

    def distributions(self, saved: Evaluation) -> SampledDistributions:
        """The empirical distributions."""
        asked, method = saved.asked, saved.method
        if asked is None or not isinstance(method, MonteCarlo) or not 1 <= self.horizon <= LONGEST:
            raise WrongFieldError("sampled", "samples of a table, in an evaluation of another kind")
        if self.sizes.shape != saved.mean.shape[:1] or self.sizes.min(initial=0) < 0 or not 0 < self.confidence < 1:
            raise WrongFieldError("sampled", "numbers of samples of other states than those of the evaluation")
        refuse_large("Samples of a state", SAMPLE_BYTES * float(self.sizes.max(initial=0)) * saved.mean.shape[1])
        model, coupling, seed = asked.model, saved.coupling, method.seed
        draw: Any
        support: ReturnRanges
        if asked.names is None:
            policy = asked.policies[0][0]
            draw = StateSamples.of_table(model, policy, coupling, self.horizon, seed)
            support = ReturnRange(model, policy)
        else:
            policies = {name: steps[0] for name, steps in zip(asked.names, asked.policies, strict=True)}
            draw = PolicySamples.of_table(model, policies, coupling, asked.start, self.horizon, seed)
            support = PolicyRanges([ReturnRange(model, policy) for policy in policies.values()], asked.start)
        rule = IntervalRule(self.confidence, anytime.fixed_slack)
        return SampledDistributions(FirstSamples(draw, self.sizes), self.limits, rule, support)


def saved_samples(evaluation: Evaluation) -> Rollouts | Redrawn | None:
    """What is saved of the distributions of an evaluation from samples; None if it has none."""
    known = evaluation.distributions
    if not isinstance(known, SampledDistributions):
        return None
    rule, draw = known.rule, known.draw
    if isinstance(draw, Stored) and isinstance(known.support, Within):
        band = next(name for name, slack in _BANDS.items() if rule.distribution_slack is slack)
        within = known.support.least, known.support.most
        return Rollouts(tuple(draw.drawn), known.limits, band, rule.confidence, within)
    if isinstance(draw, FirstSamples) and isinstance(draw.draw, (StateSamples, PolicySamples)):
        return Redrawn(np.asarray(draw.sizes), draw.draw.plans[0].horizon, known.limits, rule.confidence)
    return None


def _built(found: dict[str, Any]) -> Evaluation:
    """The evaluation of these fields."""
    parts, certified_cross, support, gap_moments, sampled, projected = (
        found.pop(name) for name in (*_MADE, "projection")
    )
    known = Evaluation(**found)
    again = Again(known)
    later: dict[str, Any] = {name: kind(again) for name, kind in _LATER.items() if name in parts}
    if "cross" in parts and not certified_cross:
        later["cross"] = _Cross(again)
    if "moments" in parts:
        if gap_moments is None:
            raise WrongFieldError("gap_moments", "nothing, though the evaluation has moments")
        later["moments"] = _Moments(again, gap_moments)
    if sampled is not None:
        later["distributions"] = sampled.distributions(known)
    elif known.outcome is Outcome.INTERRUPTED:
        later.pop("distributions", None)  # they would be those of the whole run
    if support is not None:
        later["ranges"] = _Ranges(support)
    if projected is not None:
        bounds = _Bounds(again, projected.pop("within_states"))
        later["projection"] = Projection(**projected, pairs=bounds, states=known.states, actions=known.actions)
    return replace(known, **later)


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


class Again:
    """The evaluation, computed again when it is first needed."""

    def __init__(self, saved: Evaluation) -> None:
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


def _computed(asked: EvaluationInput, saved: Evaluation) -> Evaluation:
    policies = [list(steps) if len(steps) > 1 else steps[0] for steps in asked.policies]
    policy: Any = policies[0] if asked.names is None else dict(zip(asked.names, policies, strict=True))
    method: Any = saved.method
    found: Evaluation = evaluate(
        asked.model,
        policy,
        saved.coupling,
        method,
        discount=None if asked.horizon is None else asked.discount,
        starts=asked.start,
        horizon=asked.horizon,
        terminal_value=asked.terminal_value,
        throw=False,
    )
    return found


def _later(path: str) -> Any:
    """A method of a part of the evaluation, which is computed again when it is called."""
    method = attrgetter(path)

    def call(self: _Part, *given: Any) -> Any:
        return method(self.again.evaluation)(*given)

    return call


@dataclass(frozen=True, eq=False)
class _Part:
    again: Again


class _Cross(_Part, CrossCovariances):
    certified = False
    cross_covariance = _later("cross.cross_covariance")


class _CertifiedCross(_Cross):
    certified = True
    cross_covariance_error = _later("cross.cross_covariance_error")


@dataclass(frozen=True, eq=False)
class _Moments(_Part, Moments):
    gaps: Floats  # [S, A, A, order + 1, 3]
    moment = _later("moments.moment")

    @property
    def order(self) -> int:
        return int(self.gaps.shape[3]) - 1

    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        return tuple(Estimate(*row) for row in self.gaps[s, a, b].tolist())


class _Distributions(_Part, Distributions):
    return_distribution = _later("distributions.return_distribution")
    gap_distribution = _later("distributions.gap_distribution")
    refined = _later("distributions.refined")


class _Start(_Part, StartSplit):
    split = _later("start.split")


@dataclass(frozen=True, eq=False)
class _Bounds(_Part, PairBounds):
    within: Floats  # [S, A, A]
    weight = _later("projection.pairs.weight")
    error_bound = _later("projection.pairs.error_bound")

    def within_states(self) -> Floats:
        return self.within


@dataclass(frozen=True, eq=False)
class _Ranges(Ranges):
    gaps: Floats  # [S, A, A, 2]

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        low, high = self.gaps[s, a, b].tolist()
        return Interval(low, high)


_NOT_SAVED = ("pairs", "states", "actions")
"""Fields of a projection that are those of the evaluation, or computed again."""

_LATER = {"cross": _CertifiedCross, "distributions": _Distributions, "start": _Start}

_PARTS = ("cross", "moments", "distributions", "start")

_MADE: dict[str, Callable[[Evaluation], Any]] = {
    "parts": lambda e: tuple(name for name in _PARTS if getattr(e, name) is not None),
    "certified_cross": lambda e: e.cross is not None and e.cross.certified,
    "support": _support,
    "gap_moments": _gap_moments,
    "sampled": saved_samples,
}
"""What is saved in place of the parts that are computed again."""

_BY_STATE = ("mean", "covariance", "certificate", "outcome", "coupling", "method", "states", "actions", "residuals")

KIND = Kind(
    Evaluation,
    dict.fromkeys(("covariance", "gap_mean", "gap_variance"), "S A A")
    | {"mean": "S A", "states": "S", "actions": "A", "residuals": "steps"}
    | {"support": "S A A ends", "gap_moments": "S A A order estimate"},
    names=(*_BY_STATE, "asked", *_MADE, "learning", "projection", "gap_mean", "gap_variance"),
    types={
        "method": Annotated[Any, methods.Methods()],
        "parts": tuple[str, ...],
        "certified_cross": bool,
        "support": Floats | None,  # interval that contains each gap
        "gap_moments": Floats | None,  # value, low and high of each
        "sampled": _Samples | None,
    },
    usual={"gap_mean": None, "gap_variance": None},
    made=_MADE,
    build=_built,
)

KINDS += [
    KIND,
    Kind(Rollouts),
    Kind(Redrawn, {"sizes": "S"}),
    Kind(
        Projection,
        {"mean_parameters": "d", "pair_parameters": "d d", "same_state_parameters": "e e"}
        | {"weights": "S A A", "ends": "S", "within_states": "S A A"},
        names=[*(f.name for f in fields(Projection) if f.name not in _NOT_SAVED), "within_states"],
        types={"within_states": Floats},
        axes_of_whole=True,
        made={"within_states": lambda projection: projection.pairs.within_states()},
        build=dict,
    ),
]
