"""Values of the states and actions of an episode: what they are worth on average, with errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import Booleans, Floats
from jmdp.base.luck import Shock, Usage
from jmdp.base.settings import short
from jmdp.errors import SettingsError
from jmdp.models.actors.actor import Actor
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import Simulator

_POLICY_DRAWS = 1024
"""Draws by which the action probabilities of a random policy are estimated."""


@dataclass(frozen=True)
class Point:
    """A state of an episode, before its step t."""

    episode: int
    t: int
    state: Any
    taken: Any  # the action; None after the last step
    seed: int  # of rollouts from here
    remaining: int  # steps that count
    group: int  # of episodes whose values are fitted to the others


@dataclass(frozen=True)
class Sampled:
    """Where the errors of several random rollouts must allow for outcomes that were not seen, and their size."""

    least: float  # smallest return
    most: float
    spreads: Floats  # [A + 1], of the returns of each action, and of those averaged over the policy; 0 if few differ
    few_gaps: Booleans  # [A], whether fewer than 8 rollouts differ
    few_skill: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class StepValues:
    """Values at a point, of the reference policy. Errors are infinite if unknown."""

    action_values: Floats  # [A], q(s, b)
    action_errors: Floats  # [A]
    gap_errors: Floats  # [A], of q(s, b) − q(s, taken), jointly
    average: float  # Σ_b π(b | s) q(s, b)
    skill_error: float  # of q(s, taken) − average
    value: float  # v(s): equal to the average, unless it is that of a given function
    value_error: float
    samples: int  # rollouts or lookahead steps of each action; 0 if the values are exact
    steps: int  # simulated steps
    sampled: Sampled | None = None  # if several random rollouts were simulated

    @classmethod
    def ended(cls, actions: int) -> StepValues:
        """Values after the end: 0."""
        zeros = np.zeros(actions)
        return cls(
            action_values=zeros,
            action_errors=zeros,
            gap_errors=zeros,
            average=0.0,
            skill_error=0.0,
            value=0.0,
            value_error=0.0,
            samples=0,
            steps=0,
        )


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The actions whose values are found: those of the simulator, or the taken one, the reference's and given ones."""

    names: Sequence[str]  # [A]
    listed: Sequence[Any]  # discrete: all of them; otherwise the given ones
    discrete: bool
    own: bool  # not discrete: whether the reference's action is listed after the taken one

    def at(self, taken: Any, chosen: Any) -> list[Any]:
        """The actions [A] at a point, if this action was taken and the reference chooses that one."""
        if self.discrete:
            return list(self.listed)
        first = chosen if taken is None else taken  # after the last step no action is taken
        return [first, *([chosen] if self.own else []), *self.listed]

    def index(self, taken: Any) -> int:
        """Position of the taken action."""
        if not self.discrete:
            return 0
        if taken not in self.listed:
            raise SettingsError(
                f"Action {short(taken)} is taken by the reviewed or the reference policy, but actions is "
                f"{short(list(self.names), 200)}. Add it to actions."
            )
        return self.listed.index(taken)


def policy_shares(actor: Actor, observation: Any, alternatives: Alternatives, seed: int) -> tuple[Any, Floats, int]:
    """An action of the policy, the shares [A] of its actions, and how many draws they rest on (0: no randomness)."""
    usage = Usage()
    actions = actor.act([observation], [Shock.of_sample(seed, 0, usage).derived(b"shares")])
    draws = _POLICY_DRAWS if usage.used else 1
    if draws > 1:
        shocks = [Shock.of_sample(seed, i).derived(b"shares") for i in range(draws)]
        actions = actor.act([observation] * draws, shocks)
    shares = np.zeros(len(alternatives.names))
    if alternatives.discrete:
        for action in actions:
            shares[alternatives.index(action)] += 1 / draws
        return actions[0], shares / shares.sum(), 0 if draws == 1 else draws
    if len({digest_of(action) for action in actions[:16]}) > 1:
        raise SettingsError(
            "The reference policy is random and its actions are continuous. Give a policy without randomness as "
            "reference=…."
        )
    shares[1 if alternatives.own else 0] = 1.0
    return actions[0], shares, 0


@dataclass(frozen=True, eq=False)
class Reference:
    """The policy whose values are used, in a simulator."""

    simulator: Simulator
    actor: Actor
    alternatives: Alternatives
    discount: float
    confidence: float
    probs: Floats | None = None  # [S, A] if the policy is a table

    def shares(self, point: Point) -> tuple[list[Any], Floats, int]:
        """The actions at a point, the policy's shares of them, and the number of draws these rest on."""
        if self.probs is not None:
            return self.alternatives.at(point.taken, None), self._known_shares(self.probs[int(point.state)]), 0
        seen = self.simulator.observe(point.state)
        chosen, shares, draws = policy_shares(self.actor, seen, self.alternatives, point.seed)
        return self.alternatives.at(point.taken, chosen), shares, draws

    def _known_shares(self, row: Floats) -> Floats:
        """Probabilities of the actions; all that the policy may take must be among them."""
        shares = np.zeros(len(self.alternatives.names))
        for action in np.flatnonzero(row).tolist():
            shares[self.alternatives.index(action)] = row[action]
        return shares
