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
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.starts import Starts

BLOCK = 8
"""States of a block."""

_WITHIN, _LATER = 40, 8
"""The state number i of a block is visited after 8 i to 8 i + 39 steps. Each has an episode of its own.

States of one episode are alike: with eight of each episode, intervals were half as wide as they should be.
"""

_MOST_COMPARED = 4
"""Actions that are simulated in a held-out state."""

ROLLOUTS = 4
"""Rollouts of each action in a state that regressions are fitted to."""

_DEFAULT_STATES, _MOST_STATES = 2_000, 200_000
"""Largest number of states, by default and with `max_steps`."""

FEWEST_BLOCKS = 8


def blocks_within(max_steps: int | None, actions: int, horizon: int) -> int:
    """Number of blocks whose rollouts have at most so many steps, or the default number; at least eight."""
    steps = ROLLOUTS * actions * horizon * BLOCK
    if max_steps is None:
        return max(FEWEST_BLOCKS, min(_DEFAULT_STATES // BLOCK, default_steps(horizon) // steps))
    return max(FEWEST_BLOCKS, min(_MOST_STATES // BLOCK, max_steps // steps))


def default_steps(horizon: int) -> int:
    """Number of steps that are simulated by default, for rollouts of this length."""
    return 4 * (72_000 + 1_536 * horizon)


@dataclass(frozen=True, eq=False)
class VisitedStates(arrays.FrozenArrays):
    """Observations of visited states, and the returns of some or all actions (or policies) in each of them."""

    observation: npt.NDArray[np.generic]  # [N, …]
    actions: Integers  # [N, m], the simulated actions or policies
    returns: Floats  # [N, n, m]

    @classmethod
    def joined(cls, parts: list[VisitedStates]) -> VisitedStates:
        """Concatenate blocks."""
        names = ("observation", "actions", "returns")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class VisitPlan:
    """Simulation of blocks of visited states; each is a pure function of the seed and its number.

    One policy visits states, in which its actions are simulated. Several policies visit states in turn, in which all of
    them are simulated from the first step on.
    """

    simulator: Simulator
    actors: tuple[Actor, ...]
    coupling: Coupling
    discount: float
    horizon: int
    seed: int

    @property
    def alternatives(self) -> int:
        """Number of actions, or of policies if there are several."""
        if len(self.actors) > 1:
            return len(self.actors)
        assert self.simulator.actions is not None
        return self.simulator.actions.size

    def __call__(self, block: int, rollouts: int, held_out: bool = False, first: int = 0) -> VisitedStates:
        """Simulate rollouts first … first + rollouts − 1 of one block; in held-out states at most four actions."""
        root = Shock.of_sample(self.seed, block)
        starts = [root.derived(b"starts", i) for i in range(BLOCK)]
        states = [
            states_of_episodes(self.simulator, self._visiting(block + i), start, 1, 1, _WITHIN, _LATER * i)[0]
            for i, start in enumerate(starts)
        ]
        A, seen, compared, returns = self.alternatives, [], [], []
        for i, state in enumerate(states):
            chosen = np.arange(A)
            if held_out and A > _MOST_COMPARED:
                chosen = np.sort(root.derived(b"actions", i).generator().permutation(A)[:_MOST_COMPARED])
            seen.append(np.array(numbers_of(self.simulator, self.simulator.observe(state))))
            compared.append(chosen)
            seed = root.derived(b"rollouts", i).seed()
            returns.append(self._returns(state, chosen.tolist(), seed, first, rollouts))
        return VisitedStates(np.stack(seen), np.stack(compared), np.stack(returns))

    def _visiting(self, number: int) -> Actor:
        return self.actors[number % len(self.actors)]

    def _returns(self, state: Any, chosen: list[int], seed: int, first: int, count: int) -> Floats:
        """Returns [count, chosen] of these actions or policies from a state."""
        settings: Any = {
            "coupling": self.coupling,
            "discount": self.discount,
            "horizon": self.horizon,
            "seed": seed,
        }
        if len(self.actors) == 1:
            plan = BranchPlan.of_actions(self.actors[0], state=state, actions=chosen, **settings)
        else:
            starts = Starts([state], np.ones(1), [""])
            plan = BranchPlan(starts=starts, actors=[self.actors[i] for i in chosen], **settings)
        return paired_draws(self.simulator, plan, first, count).returns


def calibration_of(
    visited: VisitedStates, mean: Floats, covariance: Floats, reference: Floats, seed: int
) -> Calibration:
    """Compare predictions for visited states with their returns, for all pairs of simulated actions.

    `reference` [A, A] are the gap variances that the verdict compares with.
    """
    N, m = visited.actions.shape
    one, other = np.triu_indices(m, 1)
    i, one, other = np.repeat(np.arange(N), len(one)), np.tile(one, N), np.tile(other, N)
    a, b = visited.actions[i, one], visited.actions[i, other]
    returns = np.stack([visited.returns[i, :, one], visited.returns[i, :, other]], axis=2)
    return record_of(mean[i], covariance[i], np.stack([a, b], axis=1), i, returns, seed, reference=reference[a, b])


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
