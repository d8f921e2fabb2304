"""One step of pairs of coordinates: transitions of two branches, distinct or merged, given shared randomness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.errors import CouplingError
from jmdp.methods.shared.policy_chain import averaged_step
from jmdp.methods.shared.shared_randomness import shared_choices, shared_scenarios
from jmdp.models.coupling import Coupling
from jmdp.models.outcomes import one_step
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MOST_CHOICES = 64
"""Maximum number of values of shared policy luck: the work grows with its square."""

_DENSE = 200
"""Maximum number of coordinates at which matrices are dense: sparse ones would be slower."""


@dataclass(frozen=True, eq=False)
class Luck:
    """Randomness shared by two branches in different states, which are independent given its value."""

    scenarios: list[tuple[float, Floats]]  # weights, and [S, K] given each value
    choices: list[tuple[float, Floats]]  # weights, and [S, A]

    @classmethod
    def of(cls, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling) -> Luck:
        """Shared randomness of a coupling in which branches in the same state share its scenario."""
        scenarios = shared_scenarios(model, coupling)
        if coupling.policy_luck == "independent":
            return cls(scenarios, [(1.0, policy.probs)])
        widths, actions = shared_choices(policy)
        if widths.size > _MOST_CHOICES:
            raise CouplingError(
                f"With policy_luck='shared' this policy has {widths.size} break points; LinearProjected supports at "
                f"most {_MOST_CHOICES}. Use ExactPairs(), or policy_luck='independent'."
            )
        one_hot = np.eye(policy.probs.shape[1])
        return cls(scenarios, [(float(w), one_hot[chosen]) for w, chosen in zip(widths, actions, strict=True)])

    def same_state(self) -> Floats:
        """Joint distribution ψ_ss [S, A, A] of two action draws in one state."""
        return np.asarray(sum(w * choice[:, :, None] * choice[:, None, :] for w, choice in self.choices))


class PairSteps:
    """One step of the distribution of pairs, from their coordinates to their next states: the P₂ of Eq. (66)."""

    def __init__(self, model: TabularJMDP, policy: TabularPolicy, luck: Luck) -> None:
        from scipy.sparse import csr_array

        S, _, A = model.shape
        self.model, self.policy, self.luck = model, policy, luck
        self.prob: Floats = model.prob * ~model.terminal[:, None]
        dense = S * A <= _DENSE
        self._steps: list[tuple[float, Any]] = [
            (p * w, _stored(averaged_step(model, scenarios, choice).T.tocsr(), dense))
            for p, scenarios in luck.scenarios
            for w, choice in luck.choices
        ]
        n = model.next_state
        entry = (n[:, :, :, None] * S + n[:, :, None, :])[:, :, ~np.eye(A, dtype=bool)]  # [S, K, A (A − 1)]
        self._targets, row = np.unique(entry, return_inverse=True)
        column = np.broadcast_to(np.arange(S * A * (A - 1)).reshape(S, 1, -1), entry.shape)
        chance = np.broadcast_to(self.prob[:, :, None], entry.shape)
        shape = (self._targets.size, S * A * (A - 1))
        self._parting = _stored(csr_array((chance.ravel(), (row.ravel(), column.ravel())), shape=shape), dense)
        self._other = ~np.eye(A, dtype=bool)
        self.one = one_step(self.prob, model.next_state)
        self._one = _stored(self.one.T.tocsr(), dense)
        self._same = luck.same_state()

    def __call__(self, between: Floats, same: Floats) -> tuple[Floats, Floats]:
        """Weights w P₂ after one step, from ρ [S, S] and same-state weights [S, A, A], in the same form."""
        arrived = np.zeros_like(between)
        for weight, step in self._steps:
            arrived += weight * (step @ np.ascontiguousarray((step @ between).T))
        arrived.ravel()[self._targets] += self._parting @ same[:, self._other].ravel()
        one = self._one @ np.einsum("saa->sa", same).ravel()
        return self.arrive(arrived, one)

    def arrive(self, arrived: Floats, one: Floats) -> tuple[Floats, Floats]:
        """Draw actions in the next states; pairs with an ended branch are dropped."""
        arrived[self.model.terminal], arrived[:, self.model.terminal] = 0.0, 0.0
        inside = arrived.diagonal()[:, None, None] * self._same
        np.einsum("saa->sa", inside)[...] += (one * ~self.model.terminal)[:, None] * self.policy.probs
        np.fill_diagonal(arrived, 0.0)
        return arrived, inside

    def from_extra(self, x: Integers, y: Integers, weight: Floats) -> tuple[Floats, Floats]:
        """Weights after one step of start pairs in different states."""
        from scipy.sparse import csr_array

        S = self.model.shape[0]
        arrived = np.zeros((S, S))
        for p, scenarios in self.luck.scenarios:
            step = one_step(scenarios * ~self.model.terminal[:, None], self.model.next_state)
            both = csr_array(step[x].multiply(weight[:, None])).T @ step[y]
            arrived += p * np.asarray(both.todense())
        return self.arrive(arrived, np.zeros(S))


def _stored(matrix: csr_array[np.float64], dense: bool) -> Any:
    return matrix.toarray() if dense else matrix
