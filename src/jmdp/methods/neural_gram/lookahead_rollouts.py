"""Lookahead: short rollouts from given states, and joint moments that combine them with the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.methods.neural_gram.lookahead import Lookahead
from jmdp.methods.neural_gram.network import Features, GramNetwork, covariances, outputs
from jmdp.models.actors.actor import Actor, numpy_of
from jmdp.models.coupling import Coupling
from jmdp.simulators.digests import digest_of
from jmdp.simulators.pair_walks import PairWalks
from jmdp.simulators.simulator import Simulator, finite_step


@dataclass(frozen=True, eq=False)
class LookaheadRollouts:
    """Rollouts of k steps from V states, n per state, in which B actions share their randomness."""

    observation: npt.NDArray[Any]  # [V, ...]
    action: Integers  # [V, B]
    returns: Floats  # [V, n, B], discounted rewards of these steps
    discount: float  # γ^k, the weight of later rewards
    end_observation: npt.NDArray[Any]  # [V, n, B, ...]
    end_action: Integers  # [V, n, B]
    ended: Booleans  # [V, n, B], the episode is over
    same_state: Booleans  # [V, n, B, B], whether two branches end in the same state

    @classmethod
    def of_walks(cls, walks: PairWalks, steps: int, discount: float) -> LookaheadRollouts:
        """Make them from the first steps of stored rollouts of two actions."""
        visits = len(np.unique(walks.visit))
        repeats = len(walks) // visits

        def grouped(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return array.reshape(visits, repeats, *array.shape[1:])

        weights = discount ** np.arange(steps)
        same = grouped(walks.same[:, steps])
        pairs = np.where(np.eye(2, dtype=np.bool_), True, same[:, :, None, None])
        return cls(
            observation=walks.observation[::repeats, 0, 0],
            action=walks.action[::repeats, 0],
            returns=grouped((walks.reward[:, :steps] * weights[None, :, None]).sum(axis=1)),
            discount=discount**steps,
            end_observation=grouped(walks.observation[:, steps]),
            end_action=grouped(walks.action[:, steps]),
            ended=grouped(walks.ended[:, steps]),
            same_state=pairs,
        )

    def moments(self, network: GramNetwork, equivalent_rollouts: float) -> tuple[Floats, Floats]:
        """Means [V, B] and positive semidefinite covariances [V, B, B].

        With Y = Σ_{t<k} γ^t R_t + γ^k q(x_k), the means are those of Y. The simulated covariances are those of Y plus
        γ^{2k} times the network's at the final states. They are averaged with the network's covariances at the initial
        states, which are weighted like `equivalent_rollouts` rollouts.
        """
        n = self.returns.shape[1]
        mean, features = _of_coordinates(network, self.end_observation, self.end_action)
        drawn = self.returns + self.discount * np.where(self.ended, 0.0, mean)
        average = drawn.mean(axis=1)
        off = drawn - average[:, None]
        follows = ~(self.ended[..., :, None] | self.ended[..., None, :])
        one = self.same_state & (self.end_action[..., :, None] == self.end_action[..., None, :])
        later = (follows * covariances(features, self.same_state, one)).mean(axis=1)
        found = np.einsum("vnb,vnc->vbc", off, off) / (n - 1) + self.discount**2 * later
        start = np.broadcast_to(self.observation[:, None], (*self.action.shape, *self.observation.shape[1:]))
        _, features = _of_coordinates(network, start, self.action)
        learned = covariances(features, True, self.action[..., :, None] == self.action[..., None, :])
        return average, (equivalent_rollouts * learned + (n - 1) * found) / (equivalent_rollouts + n - 1)


def _of_coordinates(network: GramNetwork, observation: npt.NDArray[Any], action: Integers) -> tuple[Floats, Features]:
    """Means and features of coordinates […, B] with observations […, B, …]."""
    flat = observation.reshape(action.size, *observation.shape[action.ndim :])
    mean, features = outputs(network, flat)
    at = np.arange(action.size), action.ravel()
    chosen = Features(*(part[at].reshape(*action.shape, *part.shape[2:]) for part in features))
    return mean[at].reshape(action.shape), chosen


class LookaheadSimulation:
    """Simulator of all actions from one state, with the randomness shared as the coupling defines."""

    def __init__(self, simulator: Simulator, actor: Actor, coupling: Coupling, actions: Labels) -> None:
        self._simulator, self._actor, self._coupling, self._actions = simulator, actor, coupling, actions
        own_luck = actor.needs_luck and coupling.policy_luck == "independent"
        self._places_matter = own_luck or not coupling.shared_between_states

    def run(self, state: Any, lookahead: Lookahead, discount: float) -> LookaheadRollouts:
        """Return rollouts from this state; they depend on no randomness but the lookahead's seed."""
        n, A = lookahead.repeats, self._actions.size
        roots = [Shock.of_sample(lookahead.seed, i) for i in range(n)]
        states = [[state] * A for _ in range(n)]
        action = np.tile(np.arange(A), (n, 1))
        returns, ended = np.zeros((n, A)), np.zeros((n, A), np.bool_)
        for t in range(lookahead.steps):
            branches = [(int(i), int(b)) for i, b in np.argwhere(~ended)]
            shocks = []
            for i, b in branches:
                shock, later = self._shocks(roots[i], t, states[i][b], int(action[i, b]), b)
                go = self._simulator.advance if t else self._simulator.step
                outcome = go(states[i][b], int(action[i, b]), shock)
                reward, states[i][b], ended[i, b] = finite_step(self._simulator, outcome, int(action[i, b]), t)
                returns[i, b] += discount**t * reward
                shocks.append(later)
            asked = [(at, shock) for at, shock in zip(branches, shocks, strict=True) if not ended[at]]
            if asked:
                seen = [self._simulator.observe(states[i][b]) for (i, b), _ in asked]
                chosen = self._actor.act(seen, [shock for _, shock in asked])
                for (at, _), choice in zip(asked, chosen, strict=True):
                    action[at] = self._actions.position(choice)
        observation = np.stack([self._seen(one) for row in states for one in row])
        return LookaheadRollouts(
            observation=self._seen(state)[None],
            action=np.arange(A)[None],
            returns=returns[None],
            discount=discount**lookahead.steps,
            end_observation=observation.reshape(1, n, A, *observation.shape[1:]),
            end_action=action[None],
            ended=ended[None],
            same_state=np.stack([self._same_state(row) for row in states])[None],
        )

    def _shocks(self, root: Shock, t: int, state: Any, action: int, branch: int) -> tuple[Shock, Shock]:
        """Shocks of the environment in this step and of the policy after it."""
        place = self._simulator.digest(state) if self._places_matter else b""
        later = self._coupling.policy_shock(root, t, place + digest_of(action), branch)
        return self._coupling.environment_shock(root, t, place, branch), later

    def _seen(self, state: Any) -> npt.NDArray[Any]:
        return np.asarray(numpy_of(self._simulator.observe(state)))

    def _same_state(self, states: list[Any]) -> Booleans:
        """Whether two branches are in the same state, [B, B]."""
        digests = np.array([self._simulator.digest(state).hex() for state in states])
        return np.asarray(digests[:, None] == digests)
