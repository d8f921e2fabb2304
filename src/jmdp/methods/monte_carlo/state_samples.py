"""Samples of the actions of each state: blocks for a pool, and samples that are simulated again on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jmdp.base.arrays import Integers
from jmdp.models.actors.actor import Actor
from jmdp.simulators.draws import Draws
from jmdp.simulators.rollouts import RolloutPlan, paired_draws
from jmdp.simulators.simulator import Simulator


@dataclass(frozen=True, eq=False)
class StateSamples:
    """Rollouts of each state, simulated on demand; the same ones each time."""

    simulator: Simulator
    actor: Actor
    plans: Sequence[RolloutPlan]

    def __call__(self, s: int, samples: int) -> Draws:
        """The first samples of state s."""
        return paired_draws(self.simulator, self.actor, self.plans[s], 0, samples)


@dataclass(frozen=True, eq=False)
class FirstSamples:
    """As many samples of each state as were kept."""

    draw: Callable[[int, int], Draws]
    sizes: Integers  # [S]

    def __call__(self, s: int) -> Draws:
        """The samples of state s."""
        return self.draw(s, int(self.sizes[s]))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of rollouts of a simulator, for a pool."""

    simulator: Simulator
    policy: Actor
    plans: Sequence[RolloutPlan]

    def __getstate__(self) -> tuple[Any, ...]:
        return self.simulator, self.policy, [plan.packed(self.simulator.pack) for plan in self.plans]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        simulator, policy, plans = state
        self.__init__(simulator, policy, [plan.packed(simulator.unpack) for plan in plans])  # type: ignore[misc]

    def __call__(self, plan: int, first: int, count: int) -> Draws:
        """Samples first … first + count − 1 of a plan."""
        return paired_draws(self.simulator, self.policy, self.plans[plan], first, count)
