"""An evaluation from rollouts of a simulator: what was drawn, summed up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats, Integers
from jmdp.base.interval import ANYWHERE, Interval
from jmdp.base.labels import Labels
from jmdp.base.rounding import at_most
from jmdp.errors import SettingsError, SimulatorError
from jmdp.models.coupling import Coupling
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.parts import MethodSettings
from jmdp.results.samples.sample_moments import sample_moments
from jmdp.results.samples.sampled_distributions import SampledDistributions, fixed_slack
from jmdp.simulators.simulator import Draws, Simulator


def drawn_evaluation(
    draws: Sequence[Draws],
    *,
    method: MethodSettings,
    coupling: Coupling,
    states: Labels,
    actions: Labels,
    discount: float,
    limits: Limits,
    confidence: float,
    quantile: float = 0.0,
    distribution_slack: Callable[[int, float], float] = fixed_slack,
    mean_errors: Callable[[Floats, Floats], Floats] | None = None,
    within: Interval = ANYWHERE,
) -> Evaluation:
    """Moments and distributions of what was drawn in each state. What a horizon cuts off is in the intervals.

    `quantile` gives intervals of means and covariances at a number of samples fixed before; `mean_errors` gives
    those of means alone: no interval of a variance holds whenever one stops unless returns are known to be `within`
    a range.
    """
    e, ranges, means_only = limits.exponent, Within(within.low, within.high), mean_errors is not None
    found = [
        sample_moments(
            np.ldexp(drawn.returns, -e),
            quantile,
            0.0 if math.isinf(limits.cut) else math.ldexp(limits.cut, -e),
            drawn.open_returns,
            drawn.open_gaps,
            math.ldexp(limits.rounding, -e),
            mean_errors,
        )
        for drawn in draws
    ]
    if math.isinf(limits.cut):
        found = [one.with_unknown(drawn.open_returns, drawn.open_gaps) for one, drawn in zip(found, draws, strict=True)]

    def stacked(name: str, power: int) -> Floats:
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.ldexp(np.stack([getattr(one, name) for one in found]), power * e))

    certificate = Certificate(
        kind="statistical",
        mean_error=stacked("mean_error", 1),
        covariance_error=math.inf if means_only else stacked("covariance_error", 2),
        gap_mean_error=stacked("gap_mean_error", 1),
        gap_variance_error=math.inf if means_only else stacked("gap_variance_error", 2),
        discount=discount,
        reward_bound=limits.bound,
        confidence=confidence,
        correlation_error=None if means_only else stacked("correlation_error", 0),
        assumption=limits.assumption,
        large_sample=True,
    )
    return Evaluation(
        mean=stacked("mean", 1),
        covariance=stacked("covariance", 2),
        certificate=certificate,
        outcome=Outcome.SAMPLED,
        coupling=coupling,
        method=method,
        states=states,
        actions=actions,
        residuals=np.zeros(0),
        distributions=SampledDistributions(
            Kept(draws), limits.cut, limits.rounding, ranges, confidence, distribution_slack
        ),
        ranges=ranges,
    )


@dataclass(frozen=True)
class Limits:
    """What is not seen of returns: the steps after the horizon, and rounding in those before."""

    bound: float  # the largest |reward|
    cut: float  # what the steps not taken can amount to in one return
    rounding: float
    exponent: int  # returns and cut, divided by 2**exponent, are at most 1
    assumption: str | None = None  # what `cut` rests on, unless rewards are known to be bounded

    @classmethod
    def of(cls, draws: Sequence[Draws], discount: float, horizon: int, reward_bound: float | None) -> Limits:
        """From what was drawn. Without a `reward_bound`, rewards to come are taken to be no larger than those met.

        With discount 1 the horizon is part of the question, and nothing is cut off. Where rollouts were cut, all
        rewards were 0 and no bound is known, nothing is known of what is to come.
        """
        largest = max(float(np.abs(drawn.returns).max()) for drawn in draws)
        if not math.isfinite(largest):
            raise SimulatorError("A return is too large for a float. Scale the rewards down, by 1e-100 say.")
        met = max(drawn.largest_reward for drawn in draws)
        if reward_bound is not None and met > reward_bound:
            raise SettingsError(f"reward_bound is {reward_bound!r}, but a reward of size {met!r} was met.")
        bound = met if reward_bound is None else float(reward_bound)
        most = bound * horizon if discount == 1 else bound / (1 - discount)
        cut, assumption = 0.0, None
        if bound and 0 < discount < 1:
            cut = math.nextafter(discount**horizon * most, math.inf)
        if reward_bound is None and 0 < discount < 1 and any(drawn.open_returns.any() for drawn in draws):
            if bound == 0:
                cut = math.inf
            else:
                assumption = f"rewards after step {horizon} are no larger than {at_most(met)}, the largest met"
        scale = max(largest, cut if math.isfinite(cut) else 0.0)
        exponent = math.frexp(scale)[1] if scale else 0
        return cls(bound, cut, (horizon + 64) * ROUNDOFF * most, exponent, assumption)


def known_reward_bound(simulator: Simulator, states: Sequence[Any], given: float | None) -> float | None:
    """The largest |reward| from these states on: the simulator's own if it knows it, else the one given."""
    known = [simulator.largest_reward_from(state) for state in states]
    bounds = [bound for bound in known if bound is not None]
    if len(bounds) < len(known):
        return given
    if given is not None and given < max(bounds):
        raise SettingsError(
            f"reward_bound is {given!r}, but rewards of size {max(bounds)!r} can be met from here. Leave it out: "
            f"{simulator!r} knows its own."
        )
    return max(bounds)


@dataclass(frozen=True)
class Kept:
    """What was drawn in each state, for distributions."""

    draws: Sequence[Draws]

    def __call__(self, s: int) -> tuple[Floats, Integers, Integers]:
        """Returns, ends and gains."""
        return self.draws[s].returns, self.draws[s].ends, self.draws[s].gains


@dataclass(frozen=True)
class Within:
    """All returns are in [least, most]."""

    least: float
    most: float

    def is_over(self, s: int) -> bool:
        """A state that is asked about goes on."""
        return False

    def of(self, s: int, a: int) -> Interval:
        """Where Z(s, a) is."""
        return Interval(self.least, self.most)

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Where Z(s, a) − Z(s, b) is."""
        width = 0.0 if a == b else math.nextafter(self.most - self.least, math.inf)
        return Interval(-width, width)
