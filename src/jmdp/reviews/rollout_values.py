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
from jmdp.reviews.errors import mean_errors, unseen, with_unseen
from jmdp.reviews.values import Point, Reference, Sampled, StepValues
from jmdp.simulators.draws import Draws
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.rollouts import RolloutPlan, paired_draws

_FIRST = 2
"""Rollouts after which those of states without randomness end."""

_LARGER = 2.0
"""Ratio of spreads of returns from two steps above which outcomes of one are missing from the rollouts of the other."""

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
    same, size = bool(drawn == 0 and shares[mine] > 0 and certain(shares)), float(np.abs(returns).max())
    mixed = np.column_stack([returns, returns @ shares])
    errors, few = mean_errors(mixed, error, size)
    gap_errors, few_gaps = mean_errors(returns - returns[:, [mine]], error / max(1, A - 1), size)
    gap_errors[mine], few_gaps[mine] = 0.0, False
    (skill_error,), (few_skill,) = mean_errors(returns[:, [mine]] - mixed[:, A:], error, size)
    return StepValues(
        action_values=values,
        action_errors=errors[:A],
        gap_errors=gap_errors,
        average=average,
        skill_error=0.0 if same else float(skill_error) + unknown,
        value=average,
        value_error=float(errors[A]) + unknown,
        samples=len(returns),
        steps=draws.steps,
        sampled=Sampled(
            float(returns.min()),
            float(returns.max()),
            np.where(few, 0.0, np.ptp(mixed, axis=0)),
            few_gaps,
            bool(few_skill) and not same,
        )
        if draws.drew
        else None,
    )


def widened(values: Sequence[StepValues], seen: Sequence[Floats], confidence: float) -> list[StepValues]:
    """The values of a review; errors allow for outcomes that are possible elsewhere and were not observed (`unseen`).

    Their size is the largest spread of the returns from one step: those of rollouts, and those of the episode itself,
    `seen`. That returns from different steps differ in level shows nothing. They are allowed for where fewer than 8
    rollouts differ, and in the value of an action or state whose rollouts have less than half this spread. Gaps are
    smaller than returns because actions share their randomness, not because something was not seen. Without any spread
    nothing is known about it, and errors of equal rollouts are infinite.
    """
    spread = 0.0
    for one, other in zip(values, seen, strict=True):
        if one.sampled is not None:
            most, least = one.sampled.most, one.sampled.least
            here = float(other.max(initial=most)) - float(other.min(initial=least))
            spread = max(spread, here)
    spread = spread or math.inf
    return [_widened(one, spread, confidence) for one in values]


def _widened(values: StepValues, spread: float, confidence: float) -> StepValues:
    if values.sampled is None:
        return values
    found, n, error, A = values.sampled, values.samples, 1 - confidence, len(values.action_values)
    errors = np.append(values.action_errors, values.value_error)
    errors = with_unseen(errors, spread > _LARGER * found.spreads, spread, n, error)
    skill = with_unseen(np.array([values.skill_error]), np.array([found.few_skill]), spread, n, error)
    return replace(
        values,
        action_errors=errors[:A],
        gap_errors=with_unseen(values.gap_errors, found.few_gaps, spread, n, error / max(1, A - 1)),
        skill_error=float(skill[0]),
        value_error=float(errors[A]),
        sampled=None,
    )
