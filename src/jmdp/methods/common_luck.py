"""A step of two branches, split by the luck they have in common.

Whatever the regime, two branches in *different* states are independent once the luck they share is fixed: nothing
(Local), the scenario (Synchronous), the policy's uniform number (policy_luck="shared"), or both. So the step of a pair
is Σ_j w_j Q_j ⊗ Q_j over the values j of the common luck, with Q_j the step of one branch given j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jmdp.arrays import Floats, Integers, cumulative_rows
from jmdp.coupling import Coupling
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class CommonLuck:
    """One value of the common luck, as two branches in different states feel it."""

    weight: float
    scenarios: Floats  # [S, K], each branch's own scenario probabilities given it
    choices: Floats  # [S, A], and its action probabilities


def common_luck(model: TabularJMDP, policy: TabularPolicy, coupling: Coupling) -> list[CommonLuck]:
    """Return the values of the luck that branches in different states share, with their weights."""
    choices = [(1.0, policy.probs)]
    if coupling.policy_luck == "shared":
        widths, actions = shared_choices(policy)
        one_hot = np.eye(policy.probs.shape[1])
        choices = [(float(w), one_hot[a]) for w, a in zip(widths, actions, strict=True)]
    return [CommonLuck(w * u, p, c) for w, p in shared_scenarios(model, coupling) for u, c in choices]


def shared_scenarios(model: TabularJMDP, coupling: Coupling) -> list[tuple[float, Floats]]:
    """Return the scenario luck that branches in different states share: weights, and ``[S, K]`` given each value."""
    if not coupling.shared_between_states:
        return [(1.0, model.prob)]
    _, K, _ = model.shape
    going = np.flatnonzero(~model.terminal)
    row = model.prob[going[0]] if going.size else np.eye(1, K)[0]
    return [(float(row[k]), np.broadcast_to(np.eye(K)[k], model.prob.shape)) for k in np.flatnonzero(row)]


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
