"""Values by one step of lookahead: q(s, b) = E[r + γ v(s')] with a value function v.

v is a function of the observation: given, learned, or fitted to other episodes. The expectation is that of a table, or
the mean over fresh random numbers. In either case the luck r + γ v(s') − q(s, a) of a step has mean 0 whatever v is,
which is what makes the correction of returns by their luck unbiased.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats, certain
from jmdp.base.luck import Shock, Usage
from jmdp.base.settings import function, short, whole
from jmdp.errors import SettingsError
from jmdp.models.actors.actor import Actor, numpy_of
from jmdp.reviews.values import Point, Reference, StepValues
from jmdp.simulators.functions import TabularSimulator
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
        v: a function of the observation that returns a number, the expected return under the reference policy, or a
        `LearnedEvaluation`, whose action values are averaged over the policy. None: fitted to the returns of the other
        episodes of the review, by averages for observations that recur, otherwise by ridge regression on squares and
        products.
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
        whole(self, "samples", 1, 1_000_000)
        whole(self, "folds", 2, 1000)


def is_learned(values: object) -> bool:
    """Whether these are learned values. The module of their class is not imported for this: it needs JAX."""
    module = sys.modules.get("jmdp.methods.neural_gram.learned_evaluation")
    return isinstance(values, getattr(module, "LearnedEvaluation", ()))


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
        simulator, usage = self.reference.simulator, Usage()
        rewards: list[list[float]] = []
        seen: list[Any] = []
        at: list[tuple[int, int]] = []
        for i in range(self.samples):
            shock = Shock.of_sample(point.seed, i, usage).derived(b"environment", 0)
            rewards.append([])
            for b, action in enumerate(actions):
                outcome = simulator.step(point.state, action, shock)
                reward, after, over = finite_step(simulator, outcome, action, point.t)
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
    """Values of observations: the action values of a network, averaged over actions that the policy draws."""

    learned: Any  # `LearnedEvaluation`
    actor: Actor

    def __call__(self, observations: Sequence[Any]) -> Floats:
        """Values of these observations."""
        from jmdp.methods.neural_gram.network import outputs

        means = np.asarray(outputs(self.learned.network, np.stack([numpy_of(one) for one in observations]))[0])
        draws, rows = _POLICY_DRAWS if self.actor.needs_luck else 1, np.arange(len(observations))
        total = np.zeros(len(observations))
        for i in range(draws):
            shocks = [Shock.of_sample(i, int(row)).derived(b"values") for row in rows]
            total += means[rows, self.actor.act(observations, shocks)]
        return total / draws
