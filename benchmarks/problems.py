"""Models shared by several comparisons, and long model definitions. Random numbers have fixed seeds."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from jmdp import TabularJMDP, TabularPolicy
from jmdp.base.arrays import Floats


def random_model(states: int, scenarios: int, actions: int, discount: float) -> TabularJMDP:
    """Return a model without structure: random next states and rewards, every probability positive."""
    rng = np.random.default_rng(0)
    return TabularJMDP(
        rng.dirichlet(np.ones(scenarios), size=states),
        rng.random((states, scenarios, actions)),
        rng.integers(0, states, (states, scenarios, actions)),
        discount,
    )


def torus(side: int, discount: float) -> TabularJMDP:
    """Return a random walk on a torus with a drift to the right with probability ¼: recurrent, mixes in side² steps."""
    rng = np.random.default_rng(1)
    S = side * side
    row, column = np.divmod(np.arange(S), side)
    next_state = np.empty((S, 2, 4), np.int64)
    for a, (down, right) in enumerate([(-1, 0), (0, 1), (1, 0), (0, -1)]):
        for k, drift in enumerate((0, 1)):
            next_state[:, k, a] = (row + down) % side * side + (column + right + drift) % side
    return TabularJMDP(np.tile([0.75, 0.25], (S, 1)), rng.random((S, 2, 4)), next_state, discount)


def queue(places: int, discount: float) -> TabularJMDP:
    """Return a birth-death queue with slow or, at a cost, fast service, and waiting costs; it mixes slowly.

    Scenarios: an arrival; a service completed at either speed; a service completed only at the fast one; nothing.
    """
    length = np.arange(places)
    up, down = np.minimum(length + 1, places - 1), np.maximum(length - 1, 0)
    slow = np.stack([up, down, length, length], axis=1)
    fast = np.stack([up, down, down, length], axis=1)
    cost = np.stack([length / places, length / places + 0.1], axis=1)
    reward = np.repeat(-cost[:, None, :], 4, axis=1)
    return TabularJMDP(np.tile([0.3, 0.25, 0.1, 0.35], (places, 1)), reward, np.stack([slow, fast], axis=2), discount)


def neighbour_grid(side: int, actions: int, discount: float) -> TabularJMDP:
    """Return a torus where every scenario of an action leads to one of five adjacent cells; at least two actions.

    The first five outcomes of a state are a permutation of its five cells, so that under the uniform policy P_π
    has the same five nonzero entries per row for any number of actions.
    """
    rng = np.random.default_rng(2)
    S, K = side * side, 4
    row, column = np.divmod(np.arange(S), side)
    around = [(0, 0), (-1, 0), (0, 1), (1, 0), (0, -1)]
    cells = np.stack([(row + down) % side * side + (column + right) % side for down, right in around], axis=1)
    choice = rng.integers(0, 5, (S, K, actions))
    first = choice[:, :, :2].reshape(S, 2 * K)
    first[:, :5] = rng.permuted(np.tile(np.arange(5), (S, 1)), axis=1)
    choice[:, :, :2] = first.reshape(S, K, 2)
    next_state = np.take_along_axis(cells, choice.reshape(S, -1), axis=1).reshape(S, K, actions)
    return TabularJMDP(np.full((S, K), 1 / K), rng.random((S, K, actions)), next_state, discount)


def policy_chain(model: TabularJMDP, policy: TabularPolicy) -> tuple[csr_array[np.float64], Floats]:
    """Return P_π [S, S] in compressed rows with 32-bit indices, and r_π [S]; rows of terminal states are 0."""
    S, K, A = model.shape
    live = model.prob * ~model.terminal[:, None]
    weight = live[:, :, None] * policy.probs[:, None, :]
    rows, used = np.repeat(np.arange(S), K * A), weight.ravel() > 0
    entries = (weight.ravel()[used], (rows[used], model.next_state.ravel()[used]))
    step = csr_array(entries, shape=(S, S))
    step.sum_duplicates()
    step.indptr, step.indices = step.indptr.astype(np.int32), step.indices.astype(np.int32)
    return step, np.asarray((weight * model.reward).sum(axis=(1, 2)))
