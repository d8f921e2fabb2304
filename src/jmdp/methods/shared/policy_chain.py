"""Markov chain of states under a policy: its transition matrix, and discounted sums along it.

Joint step of two branches in different states, conditioned on their shared randomness (luck).

Under every coupling, two branches in *different* states are independent given the randomness they share: none (Local),
the scenario (Synchronous), the policy's uniform number (policy_luck="shared"), or both. So the step of a pair is
Σ_j w_j Q_j ⊗ Q_j over the values j of the shared randomness, with Q_j the step of one branch given j.

One uniform number inverted through many different rows of π has as many pieces as there are different break points.
It is then cheaper to sum over pairs of actions: Σ_{a,b} ψ_ab(s, t) Q_a ⊗ Q_b, with ψ_ab(s, t) the length of the
interval on which the number selects action a in state s and action b in state t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats, Integers, cumulative_rows
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def averaged_step(
    model: TabularJMDP, scenarios: Floats, choices: Floats, factor: Floats | None = None
) -> csr_array[np.float64]:
    """Transition matrix [S, S] of a branch: Σ_k Σ_a scenarios · choices · 1{next_state}; 0 from terminal states.

    With a factor [S, K, A], each outcome is multiplied by its factor.
    """
    from scipy.sparse import coo_array

    S, K, A = model.shape
    weight = scenarios[:, :, None] * choices[:, None, :] * ~model.terminal[:, None, None]
    rows = np.broadcast_to(np.arange(S)[:, None, None], (S, K, A))
    if factor is not None:
        weight = weight * factor
    used = weight != 0
    step = coo_array((weight[used], (rows[used], model.next_state[used])), shape=(S, S)).tocsr()
    step.sum_duplicates()
    return step


@dataclass(frozen=True)
class ChainSolver:
    """(I − discount × P_π)⁻¹ and its transpose in float64, for iterative refinement."""

    forward: Callable[[Floats], Floats]
    transposed: Callable[[Floats], Floats]


def policy_chain_solver(
    model: TabularJMDP,
    policy: TabularPolicy,
    discount: float,
    one_minus_discount: float,
    factor: Floats | None = None,
) -> ChainSolver:
    """Factorise I − discount × P_π; a factor [S, K, A] ≤ 1 multiplies outcomes in other states."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import splu

    step = averaged_step(model, model.prob, policy.probs)
    leaves = step - diags_array(step.diagonal())
    # 1 − γ P(s, s) as (1 − γ) + γ (probability of leaving s): without subtraction, 1 − γ keeps its accuracy.
    stays = np.where(model.terminal, 1.0, one_minus_discount + discount * leaves.sum(axis=1))
    if factor is not None:
        step = averaged_step(model, model.prob, policy.probs, factor)
        leaves = step - diags_array(step.diagonal())
    # A diagonally dominant M-matrix needs no pivoting; an ordering for A + Aᵀ then has the least fill-in.
    try:
        factors = splu(
            (diags_array(stays) - discount * leaves).tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # singular in float64: fall back to value iteration
        return ChainSolver(lambda b: b, lambda b: b)
    return ChainSolver(lambda b: np.asarray(factors.solve(b)), lambda b: np.asarray(factors.solve(b, "T")))  # type: ignore[call-overload]


def discounted_total(
    model: TabularJMDP,
    policy: TabularPolicy,
    solver: ChainSolver,
    gain: Floats,
    discount: float,
    one_minus_discount: float,
) -> Floats:
    """Upper bound on the solution y [S] of y = gain + discount × P_π y, for gains ≥ 0.

    The solution is computed, refined, and increased by its error. The bound is valid for any solver; an accurate one
    makes it tight.
    """
    _, K, A = model.shape
    prob = model.prob * ~model.terminal[:, None]

    def ahead(y: Floats) -> Floats:
        per_action = np.einsum("sk,ska->sa", prob, y[model.next_state])
        return np.asarray(gain + discount * (per_action * policy.probs).sum(axis=1))

    y = np.zeros(model.shape[0])
    for _ in range(2):
        y = np.maximum(y + solver.forward(ahead(y) - y), 0.0)
    residual = float(np.abs(ahead(y) - y).max())
    relative = 4 * (K + A + 4) * ROUNDOFF + 2 * model.prob_error
    rounding = relative * (float(gain.max()) + float(y.max()))
    return np.asarray((y + (residual + rounding) / one_minus_discount) * (1 + 8 * ROUNDOFF))


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
