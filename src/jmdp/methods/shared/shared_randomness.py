"""Joint step of two branches in different states, conditioned on their shared randomness (luck).

Under every coupling, two branches in *different* states are independent given the randomness they share: none (Local),
the scenario (Synchronous), the policy's uniform number (policy_luck="shared"), or both. So the step of a pair is
Σ_j w_j Q_j ⊗ Q_j over the values j of the shared randomness, with Q_j the step of one branch given j.

One uniform number inverted through many different rows of π has as many pieces as there are different break points.
It is then cheaper to sum over pairs of actions: Σ_{a,b} ψ_ab(s, t) Q_a ⊗ Q_b, with ψ_ab(s, t) the length of the
interval on which the number selects action a in state s and action b in state t.
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
    """Transition matrix and mean TD error of one branch, given the shared part of its randomness."""

    step: csr_array[np.float64]  # [S, S]
    td: Floats  # [S]
    outcomes: int  # largest number of outcomes averaged in one state
    scenarios: Floats  # [S, K], given the shared randomness
    choices: Floats  # [S, A]


@dataclass(frozen=True, eq=False)
class JointStep:
    """Two branches that are independent given the randomness they share."""

    weight: float
    one: Branch
    other: Branch
    overlap: tuple[Floats, Floats] | None = None  # ψ as two arrays of intervals [S, 2]; None if ψ = 1

    def weights(self) -> float | Floats:
        """Weight of this joint step for each pair of states."""
        if self.overlap is None:
            return self.weight
        return self.weight * overlap(*self.overlap)


def joint_steps(
    model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, td: Floats, factor: Floats | None = None
) -> list[JointStep]:
    """Joint steps of two branches in different states, given TD errors [S, K, A].

    With a factor [S, K, A], each outcome of a step is multiplied by its factor.
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
    """Return the scenario randomness shared between states: weights, and probabilities ``[S, K]`` given each value."""
    if not coupling.shared_between_states:
        return [(1.0, model.prob)]
    _, K, _ = model.shape
    live = np.flatnonzero(~model.terminal)
    row = model.prob[live[0]] if live.size else np.eye(1, K)[0]
    alone = np.eye(K)
    return [(float(row[k]), np.broadcast_to(alone[k], model.prob.shape)) for k in np.flatnonzero(row)]


def shared_choices(policy: TabularPolicy) -> tuple[Floats, Integers]:
    """Return the pieces of [0, 1) on which a shared uniform number selects constant actions, and these actions.

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
    """Units of rounding by which break points of shared action draws can move mass, in a step of a pair of states.

    The error of each is 3A units; a pair of states has 2A of them, and each moves mass twice.
    """
    A = policy.probs.shape[1]
    return 12 * A * A if coupling.policy_luck == "shared" else 0


def action_intervals(policy: TabularPolicy) -> list[Floats]:
    """For each action, the interval [S, 2] of the uniform number on which each state takes it."""
    cumulative = cumulative_rows(policy.probs)
    edges = np.concatenate([np.zeros((cumulative.shape[0], 1)), cumulative], axis=1)
    return [edges[:, a : a + 2] for a in range(cumulative.shape[1])]


def overlap(one: Floats, other: Floats) -> Floats:
    """[S, S], length of the intersection of state s's interval in `one` and state t's interval in `other`."""
    low = np.maximum.outer(one[:, 0], other[:, 0])
    high = np.minimum.outer(one[:, 1], other[:, 1])
    return np.asarray(np.maximum(0.0, high - low))
