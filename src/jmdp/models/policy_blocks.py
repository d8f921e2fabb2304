"""Several policies in one table: the model once for each policy, as blocks of states.

State i · block + s is state s of the model under policy i. A branch never leaves its block, so following the policy of
the whole table from there is following policy i from s. Blocks of one state are one *place*: branches there meet the
same scenario wherever the coupling shares it within a state. They are different states all the same, so branches of
different policies never become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP, with_discount

Number = TypeVar("Number", np.float64, np.int64, np.bool_)

_ALIGNED = 8
"""Blocks have a multiple of so many states, as compiled sweeps take them; what is added is terminal."""


@dataclass(frozen=True, eq=False)
class PolicyBlocks:
    """A table of several models of one shape, and where the blocks are."""

    model: TabularJMDP
    states: int  # S, of each model
    block: int  # from a state of one block to that of the next

    @classmethod
    def of(cls, models: Sequence[TabularJMDP]) -> PolicyBlocks:
        """Models that differ in rewards at most, one for each policy."""
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
        return cls(with_discount(table, models[0].discount), S, block)

    def policy(self, policies: Sequence[TabularPolicy]) -> TabularPolicy:
        """The policy of the whole table that follows each in its block."""
        return TabularPolicy(_stacked([policy.probs for policy in policies], self.block - self.states))

    @property
    def count(self) -> int:
        """How many policies there are."""
        return self.model.shape[0] // self.block

    def at(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """[S, P], of values of all states of the table."""
        return np.asarray(values.reshape(self.count, self.block)[:, : self.states].T)

    def within_states(self, own: Floats, between: Floats) -> Floats:
        """[S, P, P]: `own` [states of the table] for a policy with itself, entries of a table of pairs for two."""
        found = np.empty((self.states, self.count, self.count))
        for i, j in np.ndindex(self.count, self.count):
            x, y = (np.arange(self.states) + self.place(0, policy) for policy in (i, j))
            found[:, i, j] = own[x] if i == j else between[x, y]
        return found

    def place(self, s: int, i: int) -> int:
        """The state of the table for state s under policy i."""
        return i * self.block + s

    def keep_between(self, table: Floats) -> None:
        """Put 0 into a table of pairs where both states are of one block."""
        for first in range(0, len(table), self.block):
            table[first : first + self.block, first : first + self.block] = 0.0

    def mirror(self, table: Floats, sign: float = 1.0) -> None:
        """Fill a table of pairs above its diagonal with ± what is below, block by block."""
        for first in range(self.block, len(table), self.block):
            table[:first, first : first + self.block] = sign * table[first : first + self.block, :first].T

    def pairs(self) -> tuple[Integers, Integers]:
        """All pairs of states at one place, the one of the later policy first; terminal states are left out."""
        goes_on = np.flatnonzero(~self.model.terminal[: self.block])
        later, earlier = np.tril_indices(self.count, -1)
        one, other = (goes_on + self.block * of[:, None] for of in (later, earlier))
        return one.ravel(), other.ravel()


def _stacked(parts: Sequence[Floats], more: int) -> Floats:
    """One after the other, each with so many more rows."""
    return np.concatenate([np.concatenate([part, np.repeat(part[:1], more, axis=0)]) for part in parts])
