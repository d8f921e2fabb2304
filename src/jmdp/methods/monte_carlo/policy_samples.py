"""Sampled returns of several policies of a table, from each state and from a random start state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.base.luck import Shock
from jmdp.methods.exact_pairs.policy_pairs import PolicyRanges
from jmdp.methods.monte_carlo.state_samples import seed_of
from jmdp.methods.monte_carlo.table_rollouts import CompiledTable
from jmdp.methods.shared.return_range import ReturnRange
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling
from jmdp.models.policy import Policies
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.draws import Draws
from jmdp.simulators.episodes import EpisodePlan, paired_episodes
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.starts import Starts


@dataclass(frozen=True, eq=False)
class PolicySamples:
    """Episodes of each state, simulated on demand; the same ones each time."""

    simulator: Simulator
    plans: Sequence[EpisodePlan]  # one for each state; then one for each start state, with other random numbers
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
            EpisodePlan(
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
        return paired_episodes(self.simulator, self.plans[s], 0, samples)

    def _from_start(self, start: Floats, samples: int) -> Draws:
        """Samples with a random start state each, which all policies share under any coupling."""
        rng = Shock.of_sample(self.seed, 0).derived(b"starts").generator()
        drawn = rng.choice(start.size, size=samples, p=start)
        parts, rows = [], []
        for s in np.unique(drawn):
            at = np.flatnonzero(drawn == s)
            parts.append(paired_episodes(self.simulator, self.plans[start.size + int(s)], 0, at.size))
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


@dataclass(frozen=True, eq=False)
class PolicySupport:
    """Ranges of returns and gaps, from each state and from the random start."""

    ranges: PolicyRanges
    start: Floats | None

    @classmethod
    def of_table(cls, model: TabularJMDP, policies: Policies, start: Floats | None) -> PolicySupport:
        """Ranges of the policies of a table."""
        return cls(PolicyRanges([ReturnRange(model, policy) for policy in policies.values()]), start)

    def is_over(self, s: int) -> bool:
        """True if no reward can follow from this state."""
        return all(self.ranges.is_over(t) for t in self._states(s))

    def of(self, s: int, i: int) -> Interval:
        """Interval that contains the return."""
        return Interval.hull(self.ranges.of(t, i) for t in self._states(s))

    def of_gap(self, s: int, i: int, j: int) -> Interval:
        """Interval that contains the gap."""
        return Interval.hull(self.ranges.of_gap(t, i, j) for t in self._states(s))

    def _states(self, s: int) -> list[int]:
        if self.start is None or s < self.start.size:
            return [s]
        found: list[int] = np.flatnonzero(self.start > 0).tolist()
        return found
