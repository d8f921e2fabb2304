"""Rollouts of scenario tables by a compiled kernel, with the same interface as those of any simulator.

Episodes of several policies on a scenario table, simulated by a compiled kernel.

Samples of the actions of each state: blocks for a pool, and samples that are simulated again on demand.

Sampled returns of several policies of a table, from each state and from a random start state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats, Integers, cumulative_rows, refuse_large
from jmdp.base.luck import Shock
from jmdp.methods.kernels.tables import BranchTables, PolicyTables, SampledReturns, Unsigned
from jmdp.methods.monte_carlo.plain_branches import PlainBranches
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling
from jmdp.models.policy import Policies, TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.rollouts.draws import Draws, EpisodeDraws, exact_gains
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.starts import Starts


class CompiledTable(TabularSimulator):
    """Simulator of a scenario table, with compiled rollouts if the policy is a table too."""

    def program(self, plan: BranchPlan) -> Callable[[int, int], Draws] | None:
        """Samples by the kernels, if all policies can be written as tables."""
        S, _, A = self.model.shape
        tables = [actor.table(S, A) for actor in (plan.actors if plan.actions is None else plan.actors[:1])]
        known = [table for table in tables if table is not None]
        if len(known) < len(tables):
            return None
        return (TableEpisodes if plan.actions is None else _TableRollouts)(self.model, known, plan).draw


def compiled(simulator: Simulator) -> Simulator:
    """Compiled form of a table, else the simulator itself; subclasses are not compiled, as they may override steps."""
    return CompiledTable(simulator.model) if type(simulator) is TabularSimulator else simulator


class _TableRollouts:
    """Rollouts of a table: in plain Python at first, by the kernel once a process needs many. Both give the same."""

    plain_steps: ClassVar[int] = 2_000_000
    """Steps that this process may still simulate in plain Python, in all as long as loading numba takes; then 0."""

    def __init__(self, model: TabularJMDP, policies: Sequence[Floats], plan: BranchPlan) -> None:
        assert plan.actions is not None
        self._plan, policy = plan, TabularPolicy(policies[0])
        self._start = model.states.position(plan.state)
        self._actions = np.array([model.actions.position(action) for action in plan.actions])
        self._tables = BranchTables.of(model, policy, plan.coupling, model.reward)
        self._root = Shock.of_sample(plan.seed, 0).derived(b"table")
        self._plain = PlainBranches(self._tables)

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
        few = whole.returns.size * self._plan.horizon <= _TableRollouts.plain_steps
        generator, fill = self._root.generator(), self._fill_plainly if few else self._fill
        for block in range(start, stop):
            self._root.derived(b"block", block, self._plan.subset).restart(generator)
            fill(generator, _rows(whole, (block - start) * BLOCK, BLOCK))
        _TableRollouts.plain_steps = _TableRollouts.plain_steps - int(whole.totals[:2].sum()) if few else 0
        asked = _rows(whole, first - start * BLOCK, count)
        steps, shared, largest = whole.totals
        gains = exact_gains(asked.gains, asked.returns, asked.exact)
        return Draws(asked.returns, asked.ends, gains, float(largest), int(steps), int(shared), True)

    def _fill_plainly(self, generator: np.random.Generator, block: SampledReturns) -> None:
        plan = self._plan
        self._plain.sample_returns(generator, plan.discount, plan.horizon, self._start, self._actions, block)

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


BLOCK = 64
"""Samples that share one generator. A sample depends only on the seed and its number."""

STEPS_A_CALL = 5_000_000
"""Maximum steps of one call of the kernel: a fraction of a second."""

SAMPLE_BYTES, KEY_BYTES = 64.0, 140.0
"""Memory of one return of a sample with its fingerprint and temporaries, and of the random keys of a sample."""


class TableEpisodes:
    """Episodes of policies [S, A] of a table."""

    def __init__(self, model: TabularJMDP, policies: Sequence[Floats], plan: BranchPlan) -> None:
        self._plan = plan
        self._root = Shock.of_sample(plan.seed, 0).derived(b"table episodes")
        self._tables = PolicyTables(
            cumulative_rows(model.prob),
            model.reward,
            model.next_state,
            model.terminal,
            np.stack([cumulative_rows(probabilities) for probabilities in policies]),
            np.array([model.states.position(state) for state in plan.starts.states]),
            plan.starts.cumulative,
            plan.coupling.shared_in_a_state,
            plan.coupling.shared_between_states,
            plan.coupling.policy_luck == "shared",
        )

    def draw(self, first: int, count: int) -> EpisodeDraws:
        """Samples first … first + count − 1."""
        from jmdp.methods.kernels.branches import policy_returns

        plan = self._plan
        shape = (count, len(plan.actors))
        refuse_large(f"{count:,} samples of {shape[1]} policies", (KEY_BYTES + SAMPLE_BYTES * shape[1]) * count)
        keys = self.keys(first, count)
        starts = np.tile(plan.start_numbers(first, count)[:, None], shape[1])
        returns, ends, gains = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.int64)
        exact, totals = np.empty(shape, np.bool_), np.zeros(3)
        rows = max(1, STEPS_A_CALL // (plan.horizon * shape[1]))
        for row in range(0, count, rows):  # in parts, because an interrupt is noticed only between calls
            part = slice(row, row + rows)
            out = SampledReturns(returns[part], ends[part], gains[part], exact[part], totals)
            policy_returns(self._tables, keys[part], plan.discount, plan.horizon, starts[part], out)
        steps, _, largest = totals
        gains = exact_gains(gains, returns, exact)
        return EpisodeDraws(returns, ends, gains, float(largest), int(steps), 0, True, starts, count)

    def keys(self, first: int, count: int) -> Unsigned:
        """[count, 3], keys of start, steps and policies; separate keys for the parts that the plan lists as fresh."""
        start, stop = first // BLOCK, -(-(first + count) // BLOCK)
        generator, blocks = self._root.generator(), []
        for block in range(start, stop):
            self._root.derived(b"block", block, self._plan.subset).restart(generator)
            blocks.append(generator.integers(2**64, size=(BLOCK, 5), dtype=np.uint64))
        columns = [0, 3 if "steps" in self._plan.fresh else 1, 4 if "policies" in self._plan.fresh else 2]
        return np.ascontiguousarray(np.concatenate(blocks)[first - start * BLOCK :][:count, columns])


@dataclass(frozen=True, eq=False)
class StateSamples:
    """Rollouts of each state, simulated on demand; the same ones each time."""

    simulator: Simulator
    plans: Sequence[BranchPlan]

    def __call__(self, s: int, samples: int) -> Draws:
        """The first samples of state s."""
        return paired_draws(self.simulator, self.plans[s], 0, samples)

    @classmethod
    def of_table(
        cls, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, horizon: int, seed: int
    ) -> StateSamples:
        """Rollouts of each state of a table."""
        settings = {"coupling": coupling, "discount": model.discount, "horizon": horizon}
        actor, (S, _, A) = as_policy(policy, model.actions), model.shape
        return cls(CompiledTable(model), rollout_plans(actor, A, range(S), seed, **settings))


def rollout_plans(actor: Actor, actions: int, states: Sequence[Any], seed: int, **settings: Any) -> list[BranchPlan]:
    """Rollouts of all actions from each state, each with its own random numbers."""
    return [
        BranchPlan.of_actions(actor, state=state, actions=range(actions), seed=seed_of(seed, s), **settings)
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
    plans: Sequence[BranchPlan]

    def __getstate__(self) -> tuple[Any, ...]:
        return self.simulator, [plan.packed(self.simulator.pack) for plan in self.plans]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        simulator, plans = state
        self.__init__(simulator, [plan.packed(simulator.unpack) for plan in plans])  # type: ignore[misc]

    def __call__(self, plan: int, first: int, count: int) -> Draws:
        """Samples first … first + count − 1 of a plan."""
        return paired_draws(self.simulator, self.plans[plan], first, count)


@dataclass(frozen=True, eq=False)
class PolicySamples:
    """Episodes of each state, simulated on demand; the same ones each time."""

    simulator: Simulator
    plans: Sequence[BranchPlan]  # one for each state; then one for each start state, with other random numbers
    start: Floats | None  # [S]
    seed: int

    @classmethod
    def of_table(
        cls,
        model: TabularJMDP,
        policies: Policies,
        coupling: Coupling,
        start: Floats | None,
        horizon: int,
        seed: int,
    ) -> PolicySamples:
        """Episodes of the policies of a table."""
        S, actors = model.shape[0], [as_policy(policy, model.actions) for policy in policies.values()]
        plans = [
            BranchPlan(
                starts=Starts([s % S], np.ones(1), [model.states.name(s % S)]),
                actors=actors,
                coupling=coupling,
                discount=model.discount,
                horizon=horizon,
                seed=seed_of(seed, s),
            )
            for s in range(S if start is None else 2 * S)
        ]
        return cls(CompiledTable(model), plans, start, seed)

    def __call__(self, s: int, samples: int) -> Draws:
        """The first samples of state s, or of the random start if s is the number of states."""
        if self.start is not None and s == self.start.size:
            return self._from_start(self.start, samples)
        return paired_draws(self.simulator, self.plans[s], 0, samples)

    def _from_start(self, start: Floats, samples: int) -> Draws:
        """Samples with a random start state each, which all policies share under any coupling."""
        rng = Shock.of_sample(self.seed, 0).derived(b"starts").generator()
        drawn = rng.choice(start.size, size=samples, p=start)
        parts, rows = [], []
        for s in np.unique(drawn):
            at = np.flatnonzero(drawn == s)
            parts.append(paired_draws(self.simulator, self.plans[start.size + int(s)], 0, at.size))
            rows.append(at)
        joined, order = Draws.joined(parts), np.argsort(np.concatenate(rows), kind="stable")
        return Draws(
            joined.returns[order],
            joined.ends[order],
            joined.gains[order],
            joined.largest_reward,
            joined.steps,
            joined.shared_steps,
            joined.drew,
        )
