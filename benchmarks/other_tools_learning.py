"""Final scores of many trainings: tabular Q-learning with two step sizes on three environments of Gymnasium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers

STEP_SIZES = {"slow": 0.05, "fast": 0.3}
_DISCOUNT, _EXPLORE, _EPISODE = 0.99, 0.2, 200


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of a toy-text environment, each array [S, A, K], and the distribution of its start [S]."""

    prob: Floats
    after: Integers
    reward: Floats
    ends: npt.NDArray[np.bool_]
    start: Floats

    @classmethod
    def of(cls, env: Any) -> Outcomes:
        """Read the table of an environment; rare outcomes are padded with probability 0."""
        listed = env.unwrapped.P
        most = max(len(outcomes) for actions in listed.values() for outcomes in actions.values())
        padded = [
            [[*outcomes, *[(0.0, 0, 0.0, True)] * (most - len(outcomes))] for outcomes in actions.values()]
            for actions in listed.values()
        ]
        prob, after, reward, ends = np.moveaxis(np.array(padded, float), -1, 0)
        return cls(prob, after.astype(np.int64), reward, ends > 0, np.asarray(env.unwrapped.initial_state_distrib))

    def action_values(self, value: Floats) -> Floats:
        """Q [S, A] for values of the next states."""
        found = (self.prob * (self.reward + _DISCOUNT * value[self.after] * ~self.ends)).sum(axis=2)
        return np.asarray(found)

    def value(self, policy: Floats | None) -> float:
        """Value of a policy [S, A], or of the best one, from the start."""
        value = np.zeros(len(self.prob))
        for _ in range(3000):  # 0.99³⁰⁰⁰ < 1e-13
            q = self.action_values(value)
            value = q.max(axis=1) if policy is None else (policy * q).sum(axis=1)
        return float(self.start @ value)


def final_scores(runs: int, steps: int) -> dict[str, Floats]:
    """Scores [runs, tasks] by step size: 0 is the uniform policy and 1 is the best one. Run i has seed i."""
    import gymnasium

    envs = [
        gymnasium.make("FrozenLake-v1"),
        gymnasium.make("FrozenLake8x8-v1"),
        gymnasium.make("CliffWalking-v1", is_slippery=True),
    ]
    scores = {name: np.zeros((runs, len(envs))) for name in STEP_SIZES}
    for task, env in enumerate(envs):
        outcomes = Outcomes.of(env)
        S, A, _ = outcomes.prob.shape
        worst, best = outcomes.value(np.full((S, A), 1 / A)), outcomes.value(None)
        for name, step_size in STEP_SIZES.items():
            for run in range(runs):
                greedy = np.eye(A)[learned(outcomes, step_size, S * steps // 20, run).argmax(axis=1)]
                scores[name][run, task] = (outcomes.value(greedy) - worst) / (best - worst)
    return scores


def learned(outcomes: Outcomes, step_size: float, steps: int, seed: int) -> Floats:
    """Action values [S, A] after so many steps of Q-learning."""
    rng = np.random.default_rng(seed)
    states, actions, most = outcomes.prob.shape
    q, cumulative = np.ones((states, actions)), outcomes.prob.cumsum(axis=2)  # optimistic, so that all is explored
    uniforms, explore = rng.random((steps, 2)), rng.integers(0, actions, steps)
    state, since = -1, 0
    for t in range(steps):
        if state < 0 or since == _EPISODE:
            state, since = int(rng.choice(states, p=outcomes.start)), 0
        a = int(explore[t]) if uniforms[t, 0] < _EXPLORE else int(q[state].argmax())
        k = min(int(np.searchsorted(cumulative[state, a], uniforms[t, 1], side="right")), most - 1)
        after, over = int(outcomes.after[state, a, k]), bool(outcomes.ends[state, a, k])
        target = outcomes.reward[state, a, k] + (0.0 if over else _DISCOUNT * q[after].max())
        q[state, a] += step_size * (target - q[state, a])
        state, since = -1 if over else after, since + 1
    return q
