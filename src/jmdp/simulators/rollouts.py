"""Paired rollouts: every action from one state, under the randomness that the coupling shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jmdp.base.luck import Shock, Usage
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.batched_states import has_many_steps
from jmdp.simulators.branch_numbers import BranchNumbers
from jmdp.simulators.draws import Draws
from jmdp.simulators.lockstep_rollouts import LockstepRollouts
from jmdp.simulators.simulator import Simulator


@dataclass(frozen=True, kw_only=True, eq=False)
class RolloutPlan(BranchNumbers):
    """Settings of paired rollouts: each action from one state, then the policy for the rest of `horizon` steps."""

    state: Any
    actions: Sequence[Any]
    coupling: Coupling
    discount: float
    horizon: int
    seed: int

    def __post_init__(self) -> None:
        self._number(len(self.actions))

    def packed(self, pack: Callable[[Any], Any]) -> RolloutPlan:
        """The plan with its state packed or unpacked."""
        return replace(self, state=pack(self.state))


def paired_draws(simulator: Simulator, actor: Actor, plan: RolloutPlan, first: int, count: int) -> Draws:
    """Returns of the plan's actions in samples first … first + count − 1.

    Each sample is a pure function of the seed, its number and the plan's actions. Branch i takes actions[i], then
    follows the policy. Branches with equal states and actions under shared randomness merge: they are simulated once
    from there on.
    """
    step_by_step = count == 1 and has_many_steps(simulator)  # for `check_repeatable`
    compiled = None if step_by_step else simulator.compiled_draws(actor, plan)
    if compiled is not None:
        return compiled(first, count)
    usage, rows, parts = Usage(), rollouts_at_once(simulator, len(plan.actions)), []
    for start in range(first, first + count, rows):
        samples = range(start, min(start + rows, first + count))
        roots = [Shock.of_sample(plan.seed, number, usage) for number in samples]
        parts.append(LockstepRollouts(simulator, actor, plan, roots).run())
    return Draws.joined(parts)


def rollouts_at_once(simulator: Simulator, branches: int) -> int:
    """Number of samples with this many branches that are simulated in lockstep."""
    return max(1, simulator.lanes // branches)


def enough_steps(discount: float, lost: float) -> int:
    """Smallest horizon T ≥ 1 with γ^T/(1 − γ) ≤ lost."""
    if discount == 0:
        return 1
    return max(1, math.ceil(math.log(lost * (1 - discount)) / math.log(discount)))
