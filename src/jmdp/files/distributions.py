"""Empirical distributions in saved evaluations: the samples, or how they are drawn again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jmdp.base.arrays import Floats, Integers, refuse_large
from jmdp.base.settings import short
from jmdp.files import schema
from jmdp.files.kinds import Kind, Object
from jmdp.files.types import NUMBER, TEXT, WHOLE, Array, Listed, Tuple, WrongFieldError
from jmdp.methods.monte_carlo import MonteCarlo
from jmdp.methods.monte_carlo.monte_carlo import LONGEST
from jmdp.methods.monte_carlo.policy_samples import PolicySamples, PolicySupport
from jmdp.methods.monte_carlo.state_samples import FirstSamples, StateSamples
from jmdp.methods.monte_carlo.table_episodes import SAMPLE_BYTES
from jmdp.methods.shared.return_range import ReturnRange
from jmdp.models.coupling import Coupling
from jmdp.results.asked import Asked
from jmdp.results.evaluation import Evaluation
from jmdp.simulators.draws import Draws
from jmdp.statistics import anytime
from jmdp.statistics.drawn_evaluation import SampledDistributions, Stored, Within
from jmdp.statistics.limits import Limits
from jmdp.statistics.means import IntervalRule

_BANDS = {"fixed": anytime.fixed_slack, "anytime": anytime.distribution_slack, "certain": anytime.no_slack}
"""Widths of the band of a distribution, by name."""


class _Saved(Protocol):
    """The part of a `SavedEvaluation` that its distributions depend on."""

    @property
    def mean(self) -> Floats: ...
    @property
    def asked(self) -> Asked | None: ...
    @property
    def coupling(self) -> Coupling: ...
    @property
    def method(self) -> Any: ...


@dataclass(frozen=True)
class Rollouts:
    """Samples of each state, and what the intervals of their distributions depend on."""

    drawn: tuple[Draws, ...]
    limits: Limits
    band: str
    confidence: float
    within: tuple[float, float]  # range of returns

    def distributions(self, saved: _Saved) -> SampledDistributions:
        """The empirical distributions."""
        shapes = {draws.returns.shape[1] for draws in self.drawn}
        if len(self.drawn) != len(saved.mean) or shapes != {saved.mean.shape[1]} or not 0 < self.confidence < 1:
            raise WrongFieldError("sampled", "samples of other states or actions than those of the evaluation")
        if self.band not in _BANDS:
            raise WrongFieldError("sampled.band", f"{short(self.band)} instead of one of: {', '.join(_BANDS)}")
        rule = IntervalRule(self.confidence, _BANDS[self.band])
        return SampledDistributions(Stored(self.drawn), self.limits, rule, Within(*self.within))


@dataclass(frozen=True)
class Redrawn:
    """Samples of a table that are drawn again, state by state."""

    sizes: Integers  # [S], samples of each state
    horizon: int
    limits: Limits
    confidence: float

    def distributions(self, saved: _Saved) -> SampledDistributions:
        """The empirical distributions."""
        asked, method = saved.asked, saved.method
        if asked is None or not isinstance(method, MonteCarlo) or not 1 <= self.horizon <= LONGEST:
            raise WrongFieldError("sampled", "samples of a table, in an evaluation of another kind")
        if self.sizes.shape != saved.mean.shape[:1] or self.sizes.min(initial=0) < 0 or not 0 < self.confidence < 1:
            raise WrongFieldError("sampled", "numbers of samples of other states than those of the evaluation")
        refuse_large("Samples of a state", SAMPLE_BYTES * float(self.sizes.max(initial=0)) * saved.mean.shape[1])
        model, coupling, seed = asked.model, saved.coupling, method.seed
        draw: Any
        support: Any
        if asked.names is None:
            policy = asked.policies[0][0]
            draw = StateSamples.of_table(model, policy, coupling, self.horizon, seed)
            support = ReturnRange(model, policy)
        else:
            policies = {name: steps[0] for name, steps in zip(asked.names, asked.policies, strict=True)}
            draw = PolicySamples.of_table(model, policies, coupling, asked.start, self.horizon, seed)
            support = PolicySupport.of_table(model, policies, asked.start)
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


_ROLLOUTS = {
    "drawn": Listed(schema.DRAWS),
    "limits": schema.LIMITS,
    "band": TEXT,
    "confidence": NUMBER,
    "within": Tuple(NUMBER, 2),
}
_REDRAWN = {"sizes": Array("<i8", "S"), "horizon": WHOLE, "limits": schema.LIMITS, "confidence": NUMBER}

SAMPLED = Object(lambda: {"Rollouts": Kind(Rollouts, _ROLLOUTS), "Redrawn": Kind(Redrawn, _REDRAWN)})
