"""The authors' chain and grid, and the paper's operator T_2 as they iterate it.

The settings are those of the authors' published scripts (github.com/egecky/jmdp), which the paper leaves out. The code
is ours.
"""

from __future__ import annotations

import numpy as np

import jmdp
from reproduction.findings import Floats

DISCOUNT = 0.99
LENGTH = 25
"""States of the chain."""
ROWS, COLUMNS = 7, 10
"""Size of the grid."""
GUST = 0.2
SWEEPS = 250
START = 0.1
"""Standard deviation of the moments before the first sweep."""
PAIRS, HORIZON = 500, 300
"""Paired rollouts of each gap, and their steps."""

_MOVES = {"U": (-1, 0), "R": (0, 1), "D": (1, 0), "L": (0, -1)}


def chain(length: int = LENGTH, discount: float = DISCOUNT) -> jmdp.TabularJMDP:
    """Both actions lead on, with rewards U and 1 − U of a fair bit U; the last state is absorbing with reward 1."""
    reward = np.tile([[0.0, 1.0], [1.0, 0.0]], (length, 1, 1))
    reward[-1] = 1.0
    following = np.minimum(np.arange(length) + 1, length - 1)
    after = np.broadcast_to(following[:, None, None], reward.shape)
    return jmdp.TabularJMDP(np.full((length, 2), 0.5), reward, after, discount)


def grid(rows: int = ROWS, columns: int = COLUMNS) -> jmdp.TabularJMDP:
    """A grid with gusts that move one cell down after the move; walls stop both.

    The goal, in the top right corner, is absorbing with reward 1 in each step. The step into it has reward 1 too.
    """
    row, column = np.divmod(np.arange(rows * columns), columns)
    after = np.empty((rows * columns, 2, len(_MOVES)), np.int64)
    for a, (down, right) in enumerate(_MOVES.values()):
        for gust in (0, 1):
            to_row = np.clip(np.clip(row + down, 0, rows - 1) + gust, 0, rows - 1)
            after[:, gust, a] = to_row * columns + np.clip(column + right, 0, columns - 1)
    goal = columns - 1
    after[goal] = goal
    return jmdp.TabularJMDP(
        np.tile([1 - GUST, GUST], (rows * columns, 1)), (after == goal).astype(np.float64), after, DISCOUNT,
        state_names=[f"{r},{c}" for r, c in zip(row, column, strict=True)], action_names=list(_MOVES),
    )  # fmt: skip


def right_then_up(model: jmdp.TabularJMDP, columns: int = COLUMNS) -> jmdp.TabularPolicy:
    """Right until the goal's column, then up."""
    column = np.arange(model.states.size) % columns
    return jmdp.TabularPolicy.deterministic(model, np.where(column < columns - 1, 1, 0))


class PaperOperator:
    """T_2 (Definition 5.1) on means [X] and second moments [X, X] of all coordinates x = (s, a).

    With `drawn_twice` the next actions of a repeated coordinate are averaged as if it drew two, Σ_ab π π M_Σ, as in the
    authors' scripts. The definition draws one: Σ_a π M_Σ(a, a). The two agree for deterministic policies.
    """

    def __init__(self, model: jmdp.TabularJMDP, policy: jmdp.TabularPolicy, *, drawn_twice: bool = False) -> None:
        self.model, self.probs, self.drawn_twice = model, policy.probs, drawn_twice
        S, _, A = model.shape
        step, (s, _, a) = np.zeros((S, A, S)), np.indices(model.shape)
        np.add.at(step, (s, a, model.next_state), model.prob[:, :, None])
        self._step = step.reshape(S * A, S)

    def __call__(self, mean: Floats, second: Floats) -> tuple[Floats, Floats]:
        """Return T_2 of the moments."""
        model, g = self.model, self.model.discount
        S, _, A = model.shape
        p, r, n, states = model.prob, model.reward, model.next_state, np.arange(S)
        v = (self.probs * mean.reshape(S, A)).sum(axis=1)
        by_state = second.reshape(S, A, S, A)
        W = np.einsum("sa,satb,tb->st", self.probs, by_state, self.probs, optimize=True)
        own = np.diag(W) if self.drawn_twice else np.einsum("sa,sasa->s", self.probs, by_state)
        later = g * v[n]
        new_mean = np.einsum("sk,ska->sa", p, r + later)
        # In different states both steps are independent.
        reward = np.einsum("sk,ska->sa", p, r).ravel()
        cross = np.outer(reward, g * self._step @ v)
        found = np.outer(reward, reward) + cross + cross.T + g**2 * self._step @ W @ self._step.T
        # In one state they are those of one scenario.
        product = r[..., :, None] * r[..., None, :] + r[..., :, None] * later[..., None, :]
        product = product + later[..., :, None] * r[..., None, :] + g**2 * W[n[..., :, None], n[..., None, :]]
        here = np.einsum("sk,skab->sab", p, product)
        here[:, np.arange(A), np.arange(A)] = np.einsum("sk,ska->sa", p, r**2 + 2 * r * later + g**2 * own[n])
        found.reshape(S, A, S, A)[states, :, states, :] = here
        return new_mean.ravel(), found

    def norm(self, mean: Floats, second: Floats) -> float:
        """‖M‖_λ (Eq. (20)), λ = 2/(1 − γ)."""
        return max(float(np.abs(mean).max()), (1 - self.model.discount) / 2 * float(np.abs(second).max()))

    def iterates(self, seed: int, sweeps: int = SWEEPS) -> list[tuple[Floats, Floats]]:
        """Moments before the first sweep, drawn from N(0, 0.1²), and after each."""
        rng, X = np.random.default_rng(seed), len(self._step)
        found = [(rng.normal(0.0, START, X), rng.normal(0.0, START, (X, X)))]
        for _ in range(sweeps):
            found.append(self(*found[-1]))
        return found

    def covariances(self, mean: Floats, second: Floats) -> Floats:
        """Covariances [S, A, A] of the returns of all actions in a state."""
        return self.in_states(second - np.outer(mean, mean))

    def in_states(self, second: Floats) -> Floats:
        """Second moments [S, A, A] of all actions in a state."""
        S, A = self.probs.shape
        return np.asarray(second.reshape(S, A, S, A)[np.arange(S), :, np.arange(S), :])
