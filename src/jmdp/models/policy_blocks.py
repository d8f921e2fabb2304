"""Several policies in one table: one copy of the model for each policy, as blocks of states.

State i · block + s is state s of the model under policy i. A branch never leaves its block, so the policy of the whole
table from there is policy i from s. The copies of one state in all blocks form one *place*: branches there receive the
same scenario if the coupling shares scenarios within a state. They are nevertheless different states, so branches of
different policies never merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP, changed

Number = TypeVar("Number", np.float64, np.int64, np.bool_)

_ALIGNED = 8
"""Block sizes are multiples of this, as compiled sweeps require; the added states are terminal."""


@dataclass(frozen=True, eq=False)
class PolicyBlocks:
    """Table that combines several models of one shape as blocks of states."""

    model: TabularJMDP
    states: int  # number of states S of each model
    block: int  # distance between copies of a state in consecutive blocks

    @classmethod
    def of(cls, models: Sequence[TabularJMDP]) -> PolicyBlocks:
        """Combine one model for each policy; they may differ in rewards only."""
        S = models[0].shape[0]
        block = -(-S // _ALIGNED) * _ALIGNED
        more = block - S
        following = [
            np.concatenate([model.next_state, np.zeros((more, *model.next_state.shape[1:]), np.int64)]) + i * block
            for i, model in enumerate(models)
        ]
        table = TabularJMDP(
            _stacked([model.prob for model in models], more),
            _stacked([model.reward for model in models], more),
            np.concatenate(following),
            0.0,
            np.concatenate([np.append(model.terminal, np.ones(more, bool)) for model in models]),
        )
        table = changed(table, discount=models[0].discount, prob_error=models[0].prob_error)
        return cls(table, S, block)

    def policy(self, policies: Sequence[TabularPolicy]) -> TabularPolicy:
        """Policy of the whole table that follows each policy in its block."""
        return TabularPolicy(_stacked([policy.probs for policy in policies], self.block - self.states))

    @property
    def count(self) -> int:
        """Number of policies."""
        return self.model.shape[0] // self.block

    def at(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Rearrange values of all states of the table to [S, P]."""
        return np.asarray(values.reshape(self.count, self.block)[:, : self.states].T)

    def within_states(self, own: Floats, between: Floats) -> Floats:
        """Array [S, P, P]: `own` [states of the table] on the diagonal, otherwise entries of a table of pairs."""
        found = np.empty((self.states, self.count, self.count))
        for i, j in np.ndindex(self.count, self.count):
            x, y = (np.arange(self.states) + self.place(0, policy) for policy in (i, j))
            found[:, i, j] = own[x] if i == j else between[x, y]
        return found

    def place(self, s: int, i: int) -> int:
        """State of the table that is state s under policy i."""
        return i * self.block + s

    def keep_between(self, table: Floats) -> None:
        """Set a table of pairs to 0 where both states are in the same block."""
        for first in range(0, len(table), self.block):
            table[first : first + self.block, first : first + self.block] = 0.0

    def mirror(self, table: Floats, sign: float = 1.0) -> None:
        """Fill a table of pairs above its diagonal with ± the transposed entries below, block by block."""
        for first in range(self.block, len(table), self.block):
            table[:first, first : first + self.block] = sign * table[first : first + self.block, :first].T

    def pairs(self) -> tuple[Integers, Integers]:
        """All pairs of non-terminal states at one place; the first state is that of the later policy."""
        goes_on = np.flatnonzero(~self.model.terminal[: self.block])
        later, earlier = np.tril_indices(self.count, -1)
        one, other = (goes_on + self.block * of[:, None] for of in (later, earlier))
        return one.ravel(), other.ravel()


def _stacked(parts: Sequence[Floats], more: int) -> Floats:
    """Concatenate arrays, each padded with this number of rows."""
    return np.concatenate([np.concatenate([part, np.repeat(part[:1], more, axis=0)]) for part in parts])
