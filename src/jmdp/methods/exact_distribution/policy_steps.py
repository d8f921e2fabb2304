"""Steps of the gaps of several policies: pairs of states in blocks of different policies (`policy_blocks`)."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from jmdp.base.arrays import Booleans, Integers
from jmdp.base.scale import Scale
from jmdp.methods.exact_distribution.steps import DistributionSteps, OutcomeList, joined
from jmdp.methods.shared.same_place import joint_actions
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.policy_blocks import PolicyBlocks


class PolicySteps(DistributionSteps):
    """Steps whose alternatives are policies: their returns and gaps are those of policy-drawn branches."""

    def __init__(
        self,
        blocks: PolicyBlocks,
        policy: TabularPolicy,
        coupling: Coupling,
        scale: Scale,
        allowed_bytes: float,
        *,
        every_pair: bool = False,
    ) -> None:
        self._blocks = blocks
        self._joint = joint_actions(policy, coupling)
        super().__init__(blocks.model, policy, coupling, scale, allowed_bytes, every_pair=every_pair)

    def return_row(self, s: int, i: int) -> int:
        """Row of `given` for policy i from a non-terminal state."""
        return self._at(int(np.searchsorted(self._starts, s)) * self._blocks.count + i)

    def gap_row(self, s: int, i: int, j: int) -> int:
        """Row of `given` for policies i < j."""
        at = int(np.searchsorted(self._starts, s))
        return self._at(self._returns + at * len(self.actions) + self.actions.index((i, j)))

    def rows_of(self, states: Integers) -> Booleans:
        """Rows of `given` of these states, True or False."""
        asked = np.isin(self._starts, states)
        return np.concatenate([np.repeat(asked, self._blocks.count), np.repeat(asked, len(self.actions))])

    @property
    def _starts(self) -> Integers:
        """Non-terminal states of the first block."""
        return np.asarray(self.states[self.states < self._blocks.block])

    def _drawn_pairs(self) -> tuple[Integers, Integers]:
        one, other = super()._drawn_pairs()
        block_of = np.append(self.states // self._blocks.block, -1)
        kept = (block_of[one] != block_of[other]) | (one == self.end)
        return one[kept], other[kept]

    def _alternatives(self) -> tuple[list[OutcomeList], list[OutcomeList]]:
        P, per_block = self._blocks.count, self._starts.size
        self.actions = list(combinations(range(P), 2))
        returns = [self._drawn(i * per_block + s, self.end) for s in range(per_block) for i in range(P)]
        gaps = [self._drawn(i * per_block + s, j * per_block + s) for s in range(per_block) for i, j in self.actions]
        return returns, gaps

    def _drawn(self, i: int, j: int) -> OutcomeList:
        """Two branches of different policies; at the same place they may share its scenario and nothing else."""
        coupling, block = self._coupling, self._blocks.block
        within = coupling.shared_in_a_state and not coupling.shared_between_states
        if not within or self.end in (i, j) or self.states[i] % block != self.states[j] % block:
            return self._apart(i, j)
        s, t = self.states[i], self.states[j]
        joint = self._joint(np.array([s]), np.array([t]))[0]
        pi = self._policy.probs
        # Every possible outcome is listed, even if its probability underflows.
        listed = joint > 0 if coupling.policy_luck == "shared" else np.logical_and.outer(pi[s] > 0, pi[t] > 0)
        a, b = np.nonzero(listed)
        return joined([self._together((i, int(x)), (j, int(y)), float(joint[x, y])) for x, y in zip(a, b, strict=True)])
