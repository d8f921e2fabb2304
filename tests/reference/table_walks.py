"""Pairs of walks in a table, all at once in NumPy: the distribution of what `pair_walks` draws.

Walks begin in every state that goes on, as often in one as in another. Other random numbers, so never the same walks.
"""

from __future__ import annotations

import numpy as np

import jmdp
from jmdp.simulators.rollouts.pair_walks import PairWalks


def table_walks(
    model: jmdp.TabularJMDP,
    policy: jmdp.TabularPolicy,
    coupling: jmdp.Coupling,
    rng: np.random.Generator,
    *,
    visits: int,
    repeats: int,
    length: int,
) -> PairWalks:
    """`repeats` walks of this length from each of many visits; the policy's luck is independent."""
    assert coupling.policy_luck == "independent"
    assert coupling.shared_in_a_state
    A = model.actions.size
    visit = np.repeat(np.arange(visits), repeats)
    state = np.repeat(rng.choice(np.flatnonzero(~model.terminal), visits), repeats)[:, None].repeat(2, axis=1)
    first = rng.integers(A, size=visits)
    action = np.repeat(np.stack([first, (first + rng.integers(1, A, visits)) % A], axis=1), repeats, axis=0)
    N, L = len(visit), length
    same, ended = np.ones((N, L + 1), np.bool_), np.zeros((N, L + 1, 2), np.bool_)
    seen, taken, reward = np.zeros((N, L + 1, 2), np.int64), np.zeros((N, L + 1, 2), np.int64), np.zeros((N, L, 2))
    seen[:, 0], taken[:, 0] = state, action
    scenarios, choices = model.prob.cumsum(axis=1)[:, :-1], policy.probs.cumsum(axis=1)[:, :-1]
    for t in range(L):
        one = same[:, t] & (action[:, 0] == action[:, 1])
        luck, mind = rng.random((N, 2)), rng.random((N, 2))
        luck[:, 1] = np.where(same[:, t] | coupling.shared_between_states, luck[:, 0], luck[:, 1])
        mind[:, 1] = np.where(one, mind[:, 0], mind[:, 1])
        k = (luck[..., None] >= scenarios[state]).sum(axis=-1)
        over = ended[:, t]
        reward[:, t] = np.where(over, 0.0, model.reward[state, k, action])
        state = np.where(over, state, model.next_state[state, k, action])
        ended[:, t + 1] = over | model.terminal[state]
        action = np.where(ended[:, t + 1], 0, (mind[..., None] >= choices[state]).sum(axis=-1))
        same[:, t + 1] = one | ((state[:, 0] == state[:, 1]) & ~ended[:, t + 1].any(axis=1))
        seen[:, t + 1], taken[:, t + 1] = state, action
    return PairWalks(seen, taken, reward, ended, same, visit)
