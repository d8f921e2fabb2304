"""Rollouts of scenario tables by a compiled kernel, with the same interface as those of any simulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jmdp.base.arrays import refuse_large
from jmdp.base.luck import Shock
from jmdp.methods.kernels.tables import BranchTables, SampledReturns
from jmdp.methods.monte_carlo.table_episodes import BLOCK, SAMPLE_BYTES, STEPS_A_CALL, TableEpisodes
from jmdp.models.actors.actor import Actor
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.draws import Draws, exact_gains
from jmdp.simulators.episodes import EpisodeDraws, EpisodePlan
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.rollouts import RolloutPlan
from jmdp.simulators.simulator import Simulator


class CompiledTable(TabularSimulator):
    """Simulator of a scenario table, with compiled rollouts if the policy is a table too."""

    def compiled_draws(self, actor: Actor, plan: RolloutPlan) -> Callable[[int, int], Draws] | None:
        """Rollouts by the kernel, if the policy can be written as a table."""
        S, _, A = self.model.shape
        probabilities = actor.table(S, A)
        return None if probabilities is None else _TableRollouts(self.model, TabularPolicy(probabilities), plan).draw

    def compiled_episodes(self, plan: EpisodePlan) -> Callable[[int, int], EpisodeDraws] | None:
        """Episodes by the kernel, if all policies can be written as tables."""
        S, _, A = self.model.shape
        tables = [actor.table(S, A) for actor in plan.actors]
        known = [table for table in tables if table is not None]
        return TableEpisodes(self.model, known, plan).draw if len(known) == len(tables) else None


def compiled(simulator: Simulator) -> Simulator:
    """Compiled form of a table, else the simulator itself; subclasses are not compiled, as they may override steps."""
    return CompiledTable(simulator.model) if type(simulator) is TabularSimulator else simulator


class _TableRollouts:
    """Tables in the layout of the kernel."""

    def __init__(self, model: TabularJMDP, policy: TabularPolicy, plan: RolloutPlan) -> None:
        self._plan = plan
        self._start = model.states.position(plan.state)
        self._actions = np.array([model.actions.position(action) for action in plan.actions])
        self._tables = BranchTables.of(model, policy, plan.coupling, model.reward)
        self._root = Shock.of_sample(plan.seed, 0).derived(b"table")

    def draw(self, first: int, count: int) -> Draws:
        """Samples first … first + count − 1, cut from the blocks that contain them."""
        start, stop = first // BLOCK, -(-(first + count) // BLOCK)
        shape = ((stop - start) * BLOCK, self._actions.size)
        refuse_large(f"{count:,} samples of {shape[1]} actions", SAMPLE_BYTES * shape[0] * shape[1])
        whole = SampledReturns(
            np.empty(shape),
            np.empty(shape, np.int64),
            np.empty(shape, np.int64),
            np.empty(shape, np.bool_),
            np.zeros(3),
        )
        generator = self._root.generator()
        for block in range(start, stop):
            self._root.derived(b"block", block, self._plan.subset).restart(generator)
            self._fill(generator, _rows(whole, (block - start) * BLOCK, BLOCK))
        asked = _rows(whole, first - start * BLOCK, count)
        steps, shared, largest = whole.totals
        gains = exact_gains(asked.gains, asked.returns, asked.exact)
        return Draws(asked.returns, asked.ends, gains, float(largest), int(steps), int(shared), True)

    def _fill(self, generator: np.random.Generator, block: SampledReturns) -> None:
        """Simulate a block in parts, because an interrupt is noticed only between calls of the kernel."""
        from jmdp.methods.kernels.branches import sample_returns

        plan = self._plan
        rows = max(1, STEPS_A_CALL // (plan.horizon * self._actions.size))
        for row in range(0, BLOCK, rows):
            part = _rows(block, row, rows)
            sample_returns(generator, self._tables, plan.discount, plan.horizon, self._start, self._actions, part)


def _rows(out: SampledReturns, first: int, count: int) -> SampledReturns:
    return out._replace(**{name: getattr(out, name)[first : first + count] for name in out._fields if name != "totals"})
