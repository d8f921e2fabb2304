"""The arrays that kernels take, grouped: numba unpacks named tuples at no cost. Loads no compiler."""

from __future__ import annotations

from typing import NamedTuple

from jmdp.base.arrays import Booleans, Floats, Integers, cumulative_rows
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP


class BranchTables(NamedTuple):
    """What moves branches: a model, a policy and a coupling, for `branches`."""

    cumulative_prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    next_state: Integers  # [S, K, A]
    terminal: Booleans  # [S]
    cumulative_policy: Floats  # [S, A]
    in_state: bool  # branches in one state share its scenario
    between_states: bool  # so do branches in different states
    shared_policy_luck: bool

    @classmethod
    def of(cls, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, reward: Floats) -> BranchTables:
        """For these rewards [S, K, A] in place of the model's."""
        return cls(
            cumulative_rows(model.prob),
            reward,
            model.next_state,
            model.terminal,
            cumulative_rows(policy.probs),
            coupling.shared_in_a_state,
            coupling.shared_between_states,
            coupling.policy_luck == "shared",
        )


class Branches(NamedTuple):
    """Where branches stand after a step, and what happened to them on it; [branches] each."""

    state: Integers
    action: Integers
    gained: Floats
    scenario: Integers  # −1 in a terminal state
    shared: Booleans  # another branch before it stood on its coordinate


class SampledReturns(NamedTuple):
    """What `sample_returns` fills; [samples, branches] each, and totals of all rows."""

    returns: Floats
    ends: Integers
    gains: Integers
    exact: Booleans  # whether the return was added up without rounding
    totals: Floats  # [3], added to: steps taken, steps of branches that had met another, and the largest |reward|
