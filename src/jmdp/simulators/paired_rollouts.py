"""Blocks of paired rollouts, simulated by a pool and joined in order."""

from __future__ import annotations

from dataclasses import dataclass

from jmdp.base.progress import count_bar
from jmdp.base.settings import short, whole_number
from jmdp.distribute.pool_setting import pool_of
from jmdp.distribute.pools import Pool
from jmdp.errors import PolicyError, SettingsError
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.pair_walks import PairWalks, WalkPlan, paired_actions
from jmdp.simulators.simulator import Simulator


@dataclass(frozen=True, eq=False)
class PairedRollouts:
    """Paired rollouts of a simulator: two actions from one state, then the policy, under shared randomness.

    Blocks are pure functions of the plan, the seed and their number, so results do not depend on the pool.
    """

    simulator: Simulator
    policy: Actor
    coupling: Coupling

    def __post_init__(self) -> None:
        paired_actions(self.simulator, self.coupling)
        if not isinstance(self.policy, Actor):
            raise PolicyError(f"policy is {short(self.policy)}. Use jmdp.as_policy(policy, simulator.actions).")

    def __call__(self, plan: WalkPlan, seed: int, block: int) -> PairWalks:
        """Simulate one block."""
        return plan.walk(self.simulator, self.policy, self.coupling, seed, block)

    def collect(
        self,
        plan: WalkPlan,
        *,
        seed: int,
        blocks: int,
        first: int = 0,
        pool: int | Pool | None = None,
        progress: bool = True,
    ) -> PairWalks:
        """Simulate blocks first … first + blocks − 1 of the paired rollouts with this seed, and concatenate them.

        A `pool` of workers, or a number of worker processes, simulates several blocks at the same time.
        """
        if not isinstance(plan, WalkPlan):
            raise SettingsError(f"plan is {short(plan)}. Give a jmdp.simulators.WalkPlan.")
        seed, first = whole_number("seed", seed, 0), whole_number("first", first, 0)
        numbers = range(first, first + whole_number("blocks", blocks, 1))
        found: list[PairWalks] = []
        with count_bar("blocks of rollouts", progress, 0, len(numbers)) as report, pool_of(pool) as workers:
            for walks in workers.ordered(self, ((plan, seed, block) for block in numbers)):
                found.append(walks)
                report(len(found))
        return PairWalks.joined(found)
