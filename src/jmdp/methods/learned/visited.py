"""Visited states with the returns of all actions under shared randomness: the data of `LearnedMoments`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.base.luck import Shock
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.results.calibration import Calibration
from jmdp.simulators.rollouts.pair_walks import numbers_of, states_of_episodes
from jmdp.simulators.rollouts.rollouts import RolloutPlan, paired_draws
from jmdp.simulators.simulator import Simulator

SPACING = 8
"""Steps of the policy between two states of a block."""

BLOCK = 8
"""States of a block."""

_FIRST_WITHIN = 40
"""The first state of a block is visited within this many steps, so that blocks do not all begin at a start."""

_MOST_PAIRS = 6
"""Pairs of actions of a state that are compared with predictions."""


@dataclass(frozen=True, eq=False)
class VisitedStates(arrays.FrozenArrays):
    """Observations of visited states, and the returns of all actions in each of them."""

    observation: npt.NDArray[np.generic]  # [N, …]
    returns: Floats  # [N, n, A]

    @classmethod
    def joined(cls, parts: list[VisitedStates]) -> VisitedStates:
        """Concatenate blocks."""
        names = ("observation", "returns")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class VisitPlan:
    """Simulation of blocks of visited states; each is a pure function of the seed and its number."""

    simulator: Simulator
    actor: Actor
    coupling: Coupling
    discount: float
    horizon: int
    seed: int

    def __call__(self, block: int, rollouts: int) -> VisitedStates:
        """Simulate one block."""
        root = Shock.of_sample(self.seed, block)
        states = states_of_episodes(self.simulator, self.actor, root.derived(b"starts"), BLOCK, SPACING, _FIRST_WITHIN)
        assert self.simulator.actions is not None
        actions, seen, returns = list(range(self.simulator.actions.size)), [], []
        for i, state in enumerate(states):
            plan = RolloutPlan(
                state=state,
                actions=actions,
                coupling=self.coupling,
                discount=self.discount,
                horizon=self.horizon,
                seed=root.derived(b"rollouts", i).seed(),
            )
            seen.append(np.array(numbers_of(self.simulator, self.simulator.observe(state))))
            returns.append(paired_draws(self.simulator, self.actor, plan, 0, rollouts).returns)
        return VisitedStates(np.stack(seen), np.stack(returns))


def calibration_of(
    visited: VisitedStates, mean: Floats, covariance: Floats, reference: Floats, seed: int
) -> Calibration:
    """Compare predictions for visited states with their returns: at most six pairs of actions of a state.

    `reference` [A, A] are the gap variances that the verdict compares with.
    """
    N, _, A = visited.returns.shape
    draw = Shock.of_sample(seed, 0).derived(b"compared pairs").generator()
    pairs = np.stack(np.triu_indices(A, 1), axis=1)
    count = min(_MOST_PAIRS, len(pairs))
    chosen: Integers = np.concatenate([pairs[draw.permutation(len(pairs))[:count]] for _ in range(N)])
    i, (a, b) = np.repeat(np.arange(N), count), chosen.T
    returns = np.stack([visited.returns[i, :, a], visited.returns[i, :, b]], axis=2)
    return record_of(mean[i], covariance[i], chosen, i, returns, seed, reference=reference[a, b])


def record_of(
    mean: Floats, covariance: Floats, pairs: Integers, state: Integers, returns: Floats, seed: int, **more: Any
) -> Calibration:
    """Compare moments [M, A] and [M, A, A] with returns [M, n, 2] of a pair of actions each, and with `more`."""
    i, (a, b) = np.arange(len(pairs)), pairs.T
    own = covariance[i, a, a] + covariance[i, b, b]
    return Calibration(
        state=state,
        first=a,
        second=b,
        mean=mean[i, a] - mean[i, b],
        variance=np.maximum(own - 2 * covariance[i, a, b], 0.0),
        independent=own,
        returns=returns,
        seed=seed,
        **more,
    )
