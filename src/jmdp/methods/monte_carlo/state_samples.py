"""Samples of the actions of each state: blocks for a pool, and samples that are simulated again on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jmdp.base.arrays import Integers
from jmdp.base.luck import Shock
from jmdp.methods.monte_carlo.table_rollouts import CompiledTable
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
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

    @classmethod
    def of_table(
        cls, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, horizon: int, seed: int
    ) -> StateSamples:
        """Rollouts of each state of a table."""
        simulator = CompiledTable(model)
        plans = rollout_plans(simulator, range(model.shape[0]), coupling, model.discount, horizon, seed)
        return cls(simulator, as_policy(policy, model.actions), plans)


def rollout_plans(
    simulator: Simulator, states: Sequence[Any], coupling: Coupling, discount: float, horizon: int, seed: int
) -> list[RolloutPlan]:
    """One plan for each state, each with its own random numbers."""
    assert simulator.actions is not None
    return [
        RolloutPlan(
            state=state,
            actions=range(simulator.actions.size),
            coupling=coupling,
            discount=discount,
            horizon=horizon,
            seed=seed_of(seed, s),
        )
        for s, state in enumerate(states)
    ]


def seed_of(seed: int, state: int) -> int:
    """A seed for each state, so that their randomness is independent."""
    return Shock.of_sample(seed, state).derived(b"state").seed()


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
