"""Markov chain of states under a policy: its transition matrix, and discounted sums along it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats
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
