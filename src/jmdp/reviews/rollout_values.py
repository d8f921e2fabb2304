"""Values by paired rollouts from each state of an episode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from jmdp.base.arrays import Floats, certain
from jmdp.base.settings import whole
from jmdp.errors import CouplingError, SimulatorError
from jmdp.models.coupling import Coupling, Local, Synchronous
from jmdp.reviews.errors import mean_errors, unseen
from jmdp.reviews.values import Point, Reference, Sampled, StepValues
from jmdp.simulators.draws import Draws
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.rollouts import RolloutPlan, paired_draws

_FIRST = 2
"""Rollouts after which those of states without randomness end."""

_SURE = 4.0
"""Standard errors of the estimated shares of a random policy that are allowed for."""


@dataclass(frozen=True)
class RolloutValues:
    """Values by rollouts: each action from each reviewed state, followed by the reference policy.

    All actions share the random numbers of a rollout, which are not those of the reviewed episode. If nothing is random
    from a state on, one rollout of each action is exact, and no more are simulated.

    Parameters
    ----------
    samples
        Rollouts of each action from each reviewed state.
    """

    samples: int = 128

    def __post_init__(self) -> None:
        whole(self, "samples", 2, 1_000_000)


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Values at a point from rollouts."""

    reference: Reference
    samples: int

    def __call__(self, point: Point) -> StepValues:
        """Simulate and summarise."""
        actions, shares, drawn = self.reference.shares(point)
        if point.remaining == 0:
            return StepValues.ended(len(actions))
        plan = RolloutPlan(
            state=point.state,
            actions=actions,
            coupling=self._coupling,
            discount=self.reference.discount,
            horizon=point.remaining,
            seed=point.seed,
        )
        draws = self._draws(plan)
        mine = 0 if point.taken is None else self.reference.alternatives.index(point.taken)
        return summary(draws, mine, shares, drawn, self.reference.confidence)

    @cached_property
    def _coupling(self) -> Coupling:
        """All branches share random numbers; `Local` is for tables whose states have different scenarios."""
        shared = Synchronous(policy_luck="shared")
        if isinstance(self.reference.simulator, TabularSimulator):
            try:
                shared.check_fits(self.reference.simulator.model)
            except CouplingError:
                return Local(policy_luck="shared")
        return shared

    def _draws(self, plan: RolloutPlan) -> Draws:
        simulator, actor = self.reference.simulator, self.reference.actor
        first = paired_draws(simulator, actor, plan, 0, min(_FIRST, self.samples))
        if not first.drew or self.samples <= _FIRST:
            return first
        return Draws.joined([first, paired_draws(simulator, actor, plan, _FIRST, self.samples - _FIRST)])


def summary(draws: Draws, mine: int, shares: Floats, drawn: int, confidence: float) -> StepValues:
    """Means of returns [n, A] and their errors; `mine` was taken, and the policy has these shares of the actions."""
    returns = draws.returns if draws.drew else draws.returns[:1]
    if not np.isfinite(returns).all() or not math.isfinite(float(returns.max()) - float(returns.min())):
        raise SimulatorError("The sum of the rewards of a rollout is too large for a float. Scale the rewards down.")
    values = returns.mean(axis=0)
    average, A = float(shares @ values), len(values)
    between = math.sqrt(max(0.0, float(shares @ (values - average) ** 2)) / drawn) if drawn else 0.0
    error, width = 1 - confidence, float(values.max() - values.min())
    unknown = math.hypot(_SURE * between, unseen(width, drawn, error)) if drawn else 0.0  # shares are estimates
    gaps = returns - returns[:, [mine]]
    same = bool(drawn == 0 and shares[mine] > 0 and certain(shares))
    skill_errors = mean_errors((returns[:, mine] - returns @ shares)[:, None], error)
    return StepValues(
        action_values=values,
        action_errors=mean_errors(returns, error),
        gap_errors=mean_errors(gaps, error / max(1, A - 1)),
        average=average,
        skill_error=0.0 if same else float(skill_errors[0]) + unknown,
        value=average,
        value_error=float(mean_errors((returns @ shares)[:, None], error)[0]) + unknown,
        samples=len(returns),
        steps=draws.steps,
        sampled=Sampled(float(returns.min()), float(returns.max()), same) if draws.drew else None,
    )


def widened(
    values: Sequence[StepValues], taken: Sequence[int], seen: Sequence[Floats], confidence: float
) -> list[StepValues]:
    """The values of a review, whose errors allow for outcomes that were not observed (`unseen`).

    Their size is the largest spread of the returns from one step: those of rollouts, and those of the episode itself,
    `seen`. Where all rollouts of a step were equal, other steps show what is possible; that returns from different
    steps differ in level shows nothing. Gaps too may be as large as this, though those that were observed may all be
    small. Without any spread nothing is known about it, and the errors are infinite.
    """
    spread = 0.0
    for one, other in zip(values, seen, strict=True):
        if one.sampled is not None:
            most, least = one.sampled.most, one.sampled.least
            here = float(other.max(initial=most)) - float(other.min(initial=least))
            spread = max(spread, here)
    spread = spread or math.inf
    return [_widened(one, mine, spread, confidence) for one, mine in zip(values, taken, strict=True)]


def _widened(values: StepValues, mine: int, spread: float, confidence: float) -> StepValues:
    if values.sampled is None:
        return values
    error, A = 1 - confidence, len(values.action_values)
    one, several = (unseen(spread, values.samples, part) for part in (error, error / max(1, A - 1)))
    gap_errors = np.hypot(values.gap_errors, several)
    gap_errors[mine] = 0.0
    return replace(
        values,
        action_errors=np.hypot(values.action_errors, one),
        gap_errors=gap_errors,
        skill_error=0.0 if values.sampled.same else math.hypot(values.skill_error, one),
        value_error=math.hypot(values.value_error, one),
        sampled=None,
    )
