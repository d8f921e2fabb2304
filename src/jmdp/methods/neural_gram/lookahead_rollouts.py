"""Lookahead: short rollouts from given states, and joint moments that combine them with the network.

Replay buffer of paired rollouts, from which training batches are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.methods.neural_gram.lookahead import Lookahead
from jmdp.methods.neural_gram.losses import Batch, Scales
from jmdp.methods.neural_gram.network import Features, GramNetwork, covariances, outputs
from jmdp.models.actors.actor import Actor, numpy_of
from jmdp.models.coupling import Coupling
from jmdp.simulators.digests import digest_of
from jmdp.simulators.rollouts.pair_walks import PairWalks
from jmdp.simulators.simulator import Simulator, finite_step

_LEAST = 1e-6
"""If γ^length is smaller, differences of discounted sums lose their accuracy."""


class PairReplay:
    """Random segments of paired rollouts, up to `steps` steps long. The draw depends only on the root and a number.

    If every visited state has at least two rollouts, half of a batch consists of pairs of segments at the start of two
    independent rollouts from one visited state. The other half starts at any step.
    """

    def __init__(self, walks: PairWalks, discount: float, steps: int, root: Shock) -> None:
        self._walks, self._discount, self._steps, self._root = walks, discount, steps, root
        N, L = walks.reward.shape[:2]
        weights = discount ** np.arange(L)
        self._sums = np.zeros((N, L + 1, 2))  # cumulative discounted rewards
        np.cumsum(walks.reward * weights[None, :, None], axis=1, out=self._sums[:, 1:])
        _, self._first, self._walks_per_visit = np.unique(walks.visit, return_index=True, return_counts=True)
        self._in_pairs = bool(self._walks_per_visit.min() > 1)

    def scales(self) -> tuple[float, Scales]:
        """Return the mean of returns and the units of the losses, extrapolated from whole rollouts."""
        returns, L = self._sums[:, -1], self._walks.length
        rest = 1 - self._discount ** (2 * L)
        gap = returns[:, 0] - returns[:, 1]
        if self._in_pairs:
            mate = np.repeat(self._first, self._walks_per_visit)
            mate = np.where(mate == np.arange(len(gap)), mate + 1, mate)
            variance = float(((returns - returns[mate]) ** 2).mean() / 2)
            gap_variance = float(((gap - gap[mate]) ** 2).mean() / 2)
        else:
            variance, gap_variance = float(returns.var()), float(gap.var())
        mean = float(returns.mean()) / (1 - self._discount**L)
        units = [value / rest or 1.0 for value in (variance, gap_variance, float((gap**2).mean()))]
        return mean, Scales(*units)

    def batches(self, number: int, count: int, size: int) -> Batch:
        """Return `count` batches of `size` segments each, arrays ``[count, size, ...]``; `number` seeds the draw."""
        rng = self._root.derived(b"batches", number).generator()
        doubled = np.zeros((count, size), np.bool_)
        rows = rng.integers(len(self._walks), size=(count, size))
        t = rng.integers(self._walks.length, size=(count, size))
        if self._in_pairs:
            half = size // 4 * 2
            visit = rng.integers(len(self._first), size=(count, half // 2))
            one = rng.integers(self._walks_per_visit[visit])
            other = (one + 1 + rng.integers(self._walks_per_visit[visit] - 1)) % self._walks_per_visit[visit]
            rows[:, :half:2], rows[:, 1:half:2] = self._first[visit] + one, self._first[visit] + other
            t[:, :half], doubled[:, :half] = 0, True
        return self.parts(rows, t, doubled)

    def parts(self, rows: Integers, t: Integers, doubled: Booleans, steps: int | None = None) -> Batch:
        """Return the segments of the rollouts `rows` that start at the steps `t`."""
        walks = self._walks
        end = np.minimum(t + (self._steps if steps is None else steps), walks.length)
        if self._discount**walks.length > _LEAST:
            reward = (self._sums[rows, end] - self._sums[rows, t]) / (self._discount**t)[..., None]
        else:  # the quotient above would divide two tiny numbers
            reward = np.zeros((*t.shape, 2))
            for k in range(int((end - t).max(initial=0))):
                at = np.minimum(t + k, walks.length - 1)
                reward += np.where((t + k < end)[..., None], self._discount**k * walks.reward[rows, at], 0.0)
        return Batch(
            walks.observation[rows, t],
            walks.action[rows, t].astype(np.int32),
            walks.same[rows, t],
            reward.astype(np.float32),
            (self._discount ** (end - t)).astype(np.float32),
            walks.observation[rows, end],
            walks.action[rows, end].astype(np.int32),
            walks.same[rows, end],
            walks.ended[rows, end],
            doubled,
            ~walks.ended[rows, t],
        )

    def pairs(self, steps: int | None = None) -> Batch | None:
        """Return segments at the start of two rollouts of each visited state; None if there is only one rollout.

        `steps` is the length of the segments, by default that of `batches`.
        """
        if not self._in_pairs:
            return None
        rows = (self._first[:, None] + np.arange(2)).ravel()
        return self.parts(rows, np.zeros_like(rows), np.ones(rows.size, np.bool_), steps)

    @property
    def length(self) -> int:
        """Steps of a whole rollout."""
        return self._walks.length


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
                step = finite_step(self._simulator, go, states[i][b], int(action[i, b]), shock, t)
                reward, states[i][b], ended[i, b] = step
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
