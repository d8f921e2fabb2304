"""The chain of states that a policy makes: its steps, and discounted sums along it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from jmdp.arrays import Floats
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def averaged_step(model: TabularJMDP, scenarios: Floats, choices: Floats) -> csr_array[np.float64]:
    """[S, S], where a branch goes: Σ_k Σ_a scenarios · choices · 1{next_state}; nowhere from a terminal state."""
    from scipy.sparse import coo_array

    S, K, A = model.shape
    weight = scenarios[:, :, None] * choices[:, None, :] * ~model.terminal[:, None, None]
    rows = np.broadcast_to(np.arange(S)[:, None, None], (S, K, A))
    used = weight > 0
    step = coo_array((weight[used], (rows[used], model.next_state[used])), shape=(S, S)).tocsr()
    step.sum_duplicates()
    return step


def policy_chain_solver(
    model: TabularJMDP, policy: TabularPolicy, discount: float, one_minus_discount: float
) -> Callable[[Floats], Floats]:
    """(I − discount × P_π)⁻¹ in float64: a factorisation, good enough to refine with."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import splu

    step = averaged_step(model, model.prob, policy.probs)
    leaves = step - diags_array(step.diagonal())
    # 1 − γ P(s, s) as (1 − γ) + γ (what leaves s): nothing is subtracted, so 1 − γ survives however small it is.
    stays = np.where(model.terminal, 1.0, one_minus_discount + discount * leaves.sum(axis=1))
    # An M-matrix with dominant diagonal needs no pivoting, and then an order for A + Aᵀ fills in least.
    symmetric = {"SymmetricMode": True}
    try:
        factors = splu(
            (diags_array(stays) - discount * leaves).tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options=symmetric,
        )
    except RuntimeError:  # singular to float64: fall back on value iteration
        return lambda residual: residual
    return lambda residual: np.asarray(factors.solve(residual))
