"""A step of two branches in different states, split by the luck they have in common.

Whatever the coupling, two branches in *different* states are independent once the luck they share is fixed: nothing
(Local), the scenario (Synchronous), the policy's uniform number (policy_luck="shared"), or both. So the step of a pair
is Σ_j w_j Q_j ⊗ Q_j over the values j of the common luck, with Q_j the step of one branch given j.

One uniform number inverted through many different rows of π has as many values as there are different break
points. Then it is cheaper to go through pairs of actions: Σ_{a,b} ψ_ab(s, t) Q_a ⊗ Q_b, with ψ_ab(s, t) the length on
which the number means action a in state s and action b in state t.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import Floats, Integers, cumulative_rows
from jmdp.methods.shared.policy_chain import averaged_step
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Branch:
    """One branch given some of its luck: where it goes, and what it gains on average."""

    step: csr_array[np.float64]  # [S, S]
    td: Floats  # [S]
    outcomes: int  # most outcomes that are averaged in one state
    scenarios: Floats  # [S, K], given the luck
    choices: Floats  # [S, A]


@dataclass(frozen=True, eq=False)
class JointStep:
    """Two branches given the luck they share: apart from it they are independent."""

    weight: float
    one: Branch
    other: Branch
    overlap: tuple[Floats, Floats] | None = None  # ψ as two rows of intervals [S, 2], or None where it is 1

    def weights(self) -> float | Floats:
        """The weight of this piece for each pair of states."""
        if self.overlap is None:
            return self.weight
        return self.weight * overlap(*self.overlap)


def joint_steps(
    model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, td: Floats, factor: Floats | None = None
) -> list[JointStep]:
    """The step of two branches in different states, given TD errors [S, K, A].

    With a factor [S, K, A], each outcome of a step counts that many times.
    """
    return [
        joint
        for weight, scenarios in shared_scenarios(model, coupling)
        for joint in _given(model, policy, coupling, td, factor, weight, scenarios)
    ]


def _given(
    model: TabularJMDP,
    policy: TabularPolicy,
    coupling: Coupling,
    td: Floats,
    factor: Floats | None,
    weight: float,
    scenarios: Floats,
) -> Iterator[JointStep]:
    def branch(choices: Floats) -> Branch:
        mean = np.einsum("sk,ska,sa->s", scenarios, td, choices)
        outcomes = (scenarios > 0).sum(axis=1) * (choices > 0).sum(axis=1)
        return Branch(averaged_step(model, scenarios, choices, factor), mean, int(outcomes.max()), scenarios, choices)

    if coupling.policy_luck == "independent":
        both = branch(policy.probs)
        yield JointStep(weight, both, both)
        return
    S, A = policy.probs.shape
    one_hot = np.eye(A)
    widths, actions = shared_choices(policy)
    if widths.size <= A * A:
        for width, chosen in zip(widths, actions, strict=True):
            both = branch(one_hot[chosen])
            yield JointStep(weight * float(width), both, both)
        return
    always = [branch(np.broadcast_to(one_hot[a], (S, A))) for a in range(A)]
    intervals = action_intervals(policy)
    for a in range(A):
        for b in range(A):
            yield JointStep(weight, always[a], always[b], (intervals[a], intervals[b]))


def shared_scenarios(model: TabularJMDP, coupling: Coupling) -> list[tuple[float, Floats]]:
    """Return the scenario luck that branches in different states share: weights, and ``[S, K]`` given each value."""
    if not coupling.shared_between_states:
        return [(1.0, model.prob)]
    _, K, _ = model.shape
    live = np.flatnonzero(~model.terminal)
    row = model.prob[live[0]] if live.size else np.eye(1, K)[0]
    alone = np.eye(K)
    return [(float(row[k]), np.broadcast_to(alone[k], model.prob.shape)) for k in np.flatnonzero(row)]


def shared_choices(policy: TabularPolicy) -> tuple[Floats, Integers]:
    """One uniform number inverted through π in every state: pieces of [0, 1) and the actions taken on each.

    Returns
    -------
    widths
        ``[J]``, lengths of the pieces on which no state's action changes.
    actions
        ``[J, S]``.
    """
    cumulative = cumulative_rows(policy.probs)
    edges = np.unique(np.concatenate([[0.0], cumulative.ravel()]))
    actions = np.stack([np.searchsorted(row, edges[:-1], side="right") for row in cumulative], axis=1)
    return np.diff(edges), actions


def break_point_units(policy: TabularPolicy, coupling: Coupling) -> int:
    """Units of rounding that break points of shared policy luck can move mass by, in a step of a pair of states.

    Each is off by 3A units; a pair of states has 2A of them, and each moves mass twice.
    """
    A = policy.probs.shape[1]
    return 12 * A * A if coupling.policy_luck == "shared" else 0


def action_intervals(policy: TabularPolicy) -> list[Floats]:
    """For each action, the interval [S, 2] of the uniform number on which each state takes it."""
    cumulative = cumulative_rows(policy.probs)
    edges = np.concatenate([np.zeros((cumulative.shape[0], 1)), cumulative], axis=1)
    return [edges[:, a : a + 2] for a in range(cumulative.shape[1])]


def overlap(one: Floats, other: Floats) -> Floats:
    """[S, S], the length that the interval of state s in `one` and of state t in `other` have in common."""
    low = np.maximum.outer(one[:, 0], other[:, 0])
    high = np.minimum.outer(one[:, 1], other[:, 1])
    return np.asarray(np.maximum(0.0, high - low))
