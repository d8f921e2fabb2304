"""Values by paired rollouts from each state of an episode.

Values by one step of lookahead: q(s, b) = E[r + γ v(s')] with a value function v.

v is a function of the observation: given, learned, or fitted to other episodes. The expectation is that of a table, or
the mean over fresh random numbers. In either case the luck r + γ v(s') − q(s, a) of a step has mean 0 whatever v is,
which is what makes the correction of returns by their luck unbiased.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats, certain
from jmdp.base.luck import STEP, Shock, Usage
from jmdp.base.settings import function, short, whole
from jmdp.errors import CouplingError, SettingsError, SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling, Local, Synchronous
from jmdp.reviews.decision import mean_errors, unseen, with_unseen
from jmdp.reviews.values import Point, Reference, ReturnSpreads, StepValues
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.rollouts.draws import Draws
from jmdp.simulators.rollouts.pair_walks import numbers_of
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.simulators.simulator import finite_step

_POLICY_DRAWS = 16
"""Actions that a random policy draws for the value of an observation."""

Function = Callable[[Sequence[Any]], Floats]
"""Values of a list of observations."""


@dataclass(frozen=True)
class LookaheadValues:
    """Values by one step of lookahead with a value function. They have no interval: v may be wrong.

    Parameters
    ----------
    values
        v: a function of the observation that returns a number, the expected return under the reference policy, or the
        result of `LearnedMoments` or `NeuralGram`, whose action values are averaged over the policy. None: fitted to
        the returns of the other episodes of the review, by averages for observations that recur, otherwise by ridge
        regression on squares and products.
    samples
        Lookahead steps of each action in each state; tables need none.
    folds
        Number of groups of episodes; the values of a group are fitted to the others.
    """

    values: Any = None
    samples: int = 16
    folds: int = 5

    def __post_init__(self) -> None:
        if not is_learned(self.values):
            function("values", self.values, SettingsError, optional=True)
        elif self.values.actions.kind == "policy":
            raise SettingsError("values has the returns of several policies. Learn those of actions, with one policy.")
        whole(self, "samples", 1, 1_000_000)
        whole(self, "folds", 2, 1000)


def is_learned(values: object) -> bool:
    """Whether these are learned values. The module of their class is not imported for this."""
    module = sys.modules.get("jmdp.methods.learned.learned_result")
    return isinstance(values, getattr(module, "LearnedResult", ()))


@dataclass(frozen=True)
class Called:
    """A function of one observation, applied to many."""

    function: Callable[[Any], Any]

    def __call__(self, observations: Sequence[Any]) -> Floats:
        """Values of these observations."""
        found = [self.function(observation) for observation in observations]
        try:
            values = np.array([float(value) for value in found])
        except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a torch tensor of several numbers
            values = np.array([np.nan])
        if not np.isfinite(values).all():
            raise SettingsError(f"values returned {short(found)}. Return a finite number for each observation.")
        return values


@dataclass(frozen=True, eq=False)
class Lookahead:
    """Values at a point by one step of lookahead; `functions` has one value function for each group of episodes."""

    reference: Reference
    functions: Sequence[Function]
    samples: int

    def __call__(self, point: Point) -> StepValues:
        """Simulate one step of each action with fresh random numbers."""
        simulator, actions = self.reference.simulator, self.reference.alternatives
        chosen, shares, _ = self.reference.shares(point)
        if point.remaining == 0:
            return StepValues.ended(len(chosen))
        value_of = self.functions[point.group % len(self.functions)]
        here = float(value_of([simulator.observe(point.state)])[0])
        if isinstance(simulator, TabularSimulator):
            values, samples = self._expected(simulator, point, value_of), 0
        else:
            values, samples = self._sampled(point, chosen, value_of)
        unknown = np.full(len(values), np.inf)
        mine = 0 if point.taken is None else actions.index(point.taken)
        same = bool(shares[mine] > 0 and certain(shares))
        return StepValues(
            action_values=values,
            action_errors=unknown,
            gap_errors=np.where(np.arange(len(values)) == mine, 0.0, np.inf),
            average=float(shares @ values),
            skill_error=0.0 if same else np.inf,
            value=here,
            value_error=np.inf,
            samples=samples,
            steps=samples * len(values),
        )

    def _expected(self, simulator: TabularSimulator, point: Point, value_of: Function) -> Floats:
        """E[r + γ v(s')] of each action, over the scenarios of a table."""
        model, s, at = simulator.model, int(point.state), list(self.reference.alternatives.listed)
        after = model.next_state[s][:, at]
        distinct, where = np.unique(after, return_inverse=True)
        ahead = np.where(model.terminal[distinct], 0.0, value_of([int(n) for n in distinct]))
        if point.remaining == 1:
            ahead = np.zeros_like(ahead)
        outcomes = model.reward[s][:, at] + model.discount * ahead[where.reshape(after.shape)]
        return np.asarray(model.prob[s] @ outcomes / model.prob[s].sum())

    def _sampled(self, point: Point, actions: Sequence[Any], value_of: Function) -> tuple[Floats, int]:
        """Means of r + γ v(s') of each action, and their number."""
        simulator, usage, history = self.reference.simulator, Usage(), self.reference.history(point)
        rewards: list[list[float]] = []
        seen: list[Any] = []
        at: list[tuple[int, int]] = []
        for i in range(self.samples):
            root = Shock.of_sample(point.seed, i, usage)
            shock = (root if history is None else history.given_to(root)).derived(STEP, 0)
            rewards.append([])
            for b, action in enumerate(actions):
                reward, after, over = finite_step(simulator, simulator.step, point.state, action, shock, point.t)
                rewards[-1].append(reward)
                if not over and point.remaining > 1:
                    seen.append(simulator.observe(after))
                    at.append((i, b))
            if not usage.used:  # nothing is random
                break
        returns = np.array(rewards)
        if seen:
            rows, columns = np.array(at).T
            returns[rows, columns] += self.reference.discount * value_of(seen)
        return returns.mean(axis=0), len(returns)


@dataclass(frozen=True, eq=False)
class LearnedFunction:
    """Values of observations: learned action values, averaged over actions that the policy draws."""

    learned: Any  # `LearnedResult`
    actor: Actor

    def __call__(self, observations: Sequence[Any]) -> Floats:
        """Values of these observations."""
        means = self.learned.means(np.stack([numbers_of(self.learned.simulator, one) for one in observations]))
        draws, rows = _POLICY_DRAWS if self.actor.needs_luck else 1, np.arange(len(observations))
        total = np.zeros(len(observations))
        for i in range(draws):
            shocks = [Shock.of_sample(i, int(row)).derived(b"values") for row in rows]
            total += means[rows, self.actor.act(observations, shocks)]
        return total / draws


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
        plan = BranchPlan.of_actions(
            self.reference.actor,
            state=point.state,
            actions=actions,
            coupling=self._coupling,
            discount=self.reference.discount,
            horizon=point.remaining,
            seed=point.seed,
            history=self.reference.history(point),
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

    def _draws(self, plan: BranchPlan) -> Draws:
        simulator = self.reference.simulator
        first = paired_draws(simulator, plan, 0, min(_FIRST, self.samples))
        if not first.drew or self.samples <= _FIRST:
            return first
        return Draws.joined([first, paired_draws(simulator, plan, _FIRST, self.samples - _FIRST)])


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
        sampled=ReturnSpreads(
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
