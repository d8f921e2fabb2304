"""Values of the states and actions of an episode: what they are worth on average, with errors.

Exact values of a table, with certified errors.

Value functions fitted to the returns of episodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Booleans, Floats
from jmdp.base.luck import Shock, Usage
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.settings import short
from jmdp.errors import PolicyError, SettingsError
from jmdp.methods.shared.shaping import shape_rewards
from jmdp.models.actors.actor import Actor, numpy_of
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import Simulator

_POLICY_DRAWS = 1024
"""Draws by which the action probabilities of a random policy are estimated."""


@dataclass(frozen=True)
class Point:
    """A state of an episode, before its step t."""

    episode: int
    t: int
    state: Any
    taken: Any  # the action; None after the last step
    seed: int  # of rollouts from here
    remaining: int  # steps that count
    group: int  # of episodes whose values are fitted to the others


@dataclass(frozen=True)
class ReturnSpreads:
    """Where the errors of several random rollouts must allow for outcomes that were not seen, and their size."""

    least: float  # smallest return
    most: float
    spreads: Floats  # [A + 1], of the returns of each action, and of those averaged over the policy; 0 if few differ
    few_gaps: Booleans  # [A], whether fewer than 8 rollouts differ
    few_skill: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class StepValues:
    """Values at a point, of the reference policy. Errors are infinite if unknown."""

    action_values: Floats  # [A], q(s, b)
    action_errors: Floats  # [A]
    gap_errors: Floats  # [A], of q(s, b) − q(s, taken), jointly
    average: float  # Σ_b π(b | s) q(s, b)
    skill_error: float  # of q(s, taken) − average
    value: float  # v(s): equal to the average, unless it is that of a given function
    value_error: float
    samples: int  # rollouts or lookahead steps of each action; 0 if the values are exact
    steps: int  # simulated steps
    sampled: ReturnSpreads | None = None  # if several random rollouts were simulated

    @classmethod
    def ended(cls, actions: int) -> StepValues:
        """Values after the end: 0."""
        zeros = np.zeros(actions)
        return cls(
            action_values=zeros,
            action_errors=zeros,
            gap_errors=zeros,
            average=0.0,
            skill_error=0.0,
            value=0.0,
            value_error=0.0,
            samples=0,
            steps=0,
        )


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The actions whose values are found: those of the simulator, or the taken one, the reference's and given ones."""

    names: Sequence[str]  # [A]
    listed: Sequence[Any]  # discrete: all of them; otherwise the given ones
    discrete: bool
    own: bool  # not discrete: whether the reference's action is listed after the taken one

    def at(self, taken: Any, chosen: Any) -> list[Any]:
        """The actions [A] at a point, if this action was taken and the reference chooses that one."""
        if self.discrete:
            return list(self.listed)
        first = chosen if taken is None else taken  # after the last step no action is taken
        return [first, *([chosen] if self.own else []), *self.listed]

    def index(self, taken: Any) -> int:
        """Position of the taken action."""
        if not self.discrete:
            return 0
        if taken not in self.listed:
            raise SettingsError(
                f"Action {short(taken)} is taken by the reviewed or the reference policy, but actions is "
                f"{short(list(self.names), 200)}. Add it to actions."
            )
        return self.listed.index(taken)


def policy_shares(actor: Actor, observation: Any, alternatives: Alternatives, seed: int) -> tuple[Any, Floats, int]:
    """An action of the policy, the shares [A] of its actions, and how many draws they rest on (0: no randomness)."""
    usage = Usage()
    actions = actor.act([observation], [Shock.of_sample(seed, 0, usage).derived(b"shares")])
    draws = _POLICY_DRAWS if usage.used else 1
    if draws > 1:
        shocks = [Shock.of_sample(seed, i).derived(b"shares") for i in range(draws)]
        actions = actor.act([observation] * draws, shocks)
    shares = np.zeros(len(alternatives.names))
    if alternatives.discrete:
        for action in actions:
            shares[alternatives.index(action)] += 1 / draws
        return actions[0], shares / shares.sum(), 0 if draws == 1 else draws
    if len({digest_of(action) for action in actions[:16]}) > 1:
        raise SettingsError(
            "The reference policy is random and its actions are continuous. Give a policy without randomness as "
            "reference=…."
        )
    shares[1 if alternatives.own else 0] = 1.0
    return actions[0], shares, 0


@dataclass(frozen=True, eq=False)
class Reference:
    """The policy whose values are used, in a simulator."""

    simulator: Simulator
    actor: Actor
    alternatives: Alternatives
    discount: float
    confidence: float
    probs: Floats | None = None  # [S, A] if the policy is a table
    outside: RecordedLuck | None = None  # blocks of other periods than the reviewed ones, for expectations

    def history(self, point: Point) -> RecordedLuck | None:
        """Resampled histories from this point on."""
        return None if self.outside is None else self.outside.later(point.t)

    def shares(self, point: Point) -> tuple[list[Any], Floats, int]:
        """The actions at a point, the policy's shares of them, and the number of draws these rest on."""
        if self.probs is not None:
            return self.alternatives.at(point.taken, None), self._known_shares(self.probs[int(point.state)]), 0
        seen = self.simulator.observe(point.state)
        chosen, shares, draws = policy_shares(self.actor, seen, self.alternatives, point.seed)
        return self.alternatives.at(point.taken, chosen), shares, draws

    def _known_shares(self, row: Floats) -> Floats:
        """Probabilities of the actions; all that the policy may take must be among them."""
        shares = np.zeros(len(self.alternatives.names))
        for action in np.flatnonzero(row).tolist():
            shares[self.alternatives.index(action)] = row[action]
        return shares


_UP = 1 + 2.0**-40
"""Covers the rounding of an error that is itself computed in floats."""


@dataclass(frozen=True, eq=False)
class ExactTable:
    """Values of all states of a table; its settings are none."""

    reference: Reference
    probs: Floats  # [S, A], the reference policy
    value: Floats  # [S], v
    value_errors: Floats  # [S]
    mean: Floats  # [S, A], q
    errors: Floats  # [S, A]

    @classmethod
    def of(cls, reference: Reference, model: TabularJMDP, probs: Floats) -> ExactTable:
        """Solve for the values of this policy."""
        shaped = shape_rewards(model, TabularPolicy(probs))
        scale = shaped.scale
        value, mean = scale.restore(shaped.value.high), scale.restore(shaped.mean)
        value_errors = scale.restore_error((shaped.value_errors + np.abs(shaped.value.low)) * _UP)
        return cls(reference, probs, value, value_errors, mean, scale.restore_error(shaped.mean_errors))

    def __call__(self, point: Point) -> StepValues:
        """Values at a point.

        v is that of the solution, not the average of the rounded q: rows of a policy sum to 1 only up to rounding. It
        equals q if the policy has one action here.
        """
        s, alternatives = int(point.state), self.reference.alternatives
        at = list(alternatives.listed)
        taken = np.flatnonzero(self.probs[s])
        only = int(taken[0]) if taken.size == 1 else None
        value, error = (
            (self.value[s], self.value_errors[s]) if only is None else (self.mean[s, only], self.errors[s, only])
        )
        q, errors = self.mean[s, at], self.errors[s, at]
        mine = 0 if point.taken is None else alternatives.index(point.taken)
        rounding = 8 * ROUNDOFF * (np.abs(q) + abs(q[mine]))
        gap_errors = (errors + errors[mine] + rounding) * _UP
        skill_error = (errors[mine] + error + 8 * ROUNDOFF * (abs(q[mine]) + abs(value))) * _UP
        return StepValues(
            action_values=q,
            action_errors=errors,
            gap_errors=np.where(np.arange(len(at)) == mine, 0.0, gap_errors),
            average=float(value),
            skill_error=0.0 if at[mine] == only else float(skill_error),
            value=float(value),
            value_error=float(error),
            samples=0,
            steps=0,
        )


_MOST_SQUARED = 40
"""Entries of an observation up to which squares and products are features too."""

_RECURS = 3.0
"""Average number of visits from which on observations have values of their own."""


@dataclass(frozen=True, eq=False)
class Averages:
    """Average return of each observation that was seen, and of all of them for others."""

    means: dict[Hashable, float]
    overall: float

    def __call__(self, observations: Sequence[Any]) -> Floats:
        """Values of these observations."""
        return np.array([self.means.get(key_of(one), self.overall) for one in observations])


@dataclass(frozen=True, eq=False)
class Ridge:
    """Ridge regression on standardised entries of observations and, if there are few, their squares and products."""

    centre: Floats
    scale: Floats
    weights: Floats
    overall: float
    low: float
    high: float  # values are cut to the range of the returns

    def __call__(self, observations: Sequence[Any]) -> Floats:
        """Values of these observations."""
        rows = _rows(observations)
        if rows is None or rows.shape[1] != len(self.centre):
            return np.full(len(observations), self.overall)
        features = _features(rows, self.centre, self.scale)
        return np.clip(self.overall + features @ self.weights, self.low, self.high)


def key_of(observation: Any) -> Hashable:
    """Key by which equal observations are recognised."""
    return observation if isinstance(observation, (int, str)) else digest_of(observation)


def fitted(observations: Sequence[Any], returns: Floats) -> Averages | Ridge:
    """Value function fitted to these returns, each from an observation on."""
    keys = [key_of(one) for one in observations]
    overall = float(returns.mean())
    if len(keys) >= _RECURS * len(set(keys)) or _rows(observations) is None:
        return _averages(keys, returns, overall)
    return _ridge(observations, returns, overall)


def _averages(keys: Sequence[Hashable], returns: Floats, overall: float) -> Averages:
    sums: dict[Hashable, list[float]] = {}
    for key, earned in zip(keys, returns.tolist(), strict=True):
        total = sums.setdefault(key, [overall, 1.0])  # one visit with the average return, so that few visits count less
        total[0] += earned
        total[1] += 1
    return Averages({key: total / n for key, (total, n) in sums.items()}, overall)


def _ridge(observations: Sequence[Any], returns: Floats, overall: float) -> Ridge:
    """Regression whose penalty has the smallest error of generalised cross-validation."""
    rows = _rows(observations)
    assert rows is not None
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    features = _features(rows, centre, scale)
    u, s, vt = np.linalg.svd(features, full_matrices=False)
    along, n = u.T @ (returns - overall), len(returns)
    best: tuple[float, Floats] = (np.inf, np.zeros(features.shape[1]))
    for penalty in n * 10.0 ** np.arange(-6.0, 3.0):
        kept = s**2 / (s**2 + penalty)
        residual = float(((returns - overall) ** 2).sum() - (along**2 * (2 * kept - kept**2)).sum())
        score = residual / max(1e-12, 1 - kept.sum() / n) ** 2
        if score < best[0]:
            best = score, vt.T @ (along * s / (s**2 + penalty))
    return Ridge(centre, scale, best[1], overall, float(returns.min()), float(returns.max()))


def _rows(observations: Sequence[Any]) -> Floats | None:
    """The numbers in each observation, [n, d]; None if they are no numbers, or differ in number."""
    try:
        rows = [
            np.concatenate([numpy_of(part).astype(np.float64).ravel() for part in _parts(one)]) for one in observations
        ]
        return np.stack(rows) if np.isfinite(rows[0]).all() else None
    except (ValueError, TypeError, PolicyError):
        return None


def _parts(observation: Any) -> list[Any]:
    """The arrays of an observation that is a dictionary or a tuple."""
    if isinstance(observation, Mapping):
        return [part for key in sorted(observation, key=str) for part in _parts(observation[key])]
    if isinstance(observation, (tuple, list)):
        return [part for one in observation for part in _parts(one)]
    return [observation]


def _features(rows: Floats, centre: Floats, scale: Floats) -> Floats:
    z = np.clip((rows - centre) / scale, -10, 10)
    if z.shape[1] > _MOST_SQUARED:
        return np.asarray(z)
    i, j = np.triu_indices(z.shape[1])
    return np.hstack([z, z[:, i] * z[:, j]])
