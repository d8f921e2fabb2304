"""Reward shaping: the value of the policy, and rewards replaced by their TD errors.

With v = r_π + γ P_π v, the fixed point of Eq. (13) averaged over actions, replace each reward by
d(s, k, a) = r + γ v(s') − v(s). The shaped return is Z − v(s); its policy mean is 0, so each of its moments is central
and no variance is the difference of two large numbers.

As γ approaches 1, v grows as g/(1 − γ) while the differences of its entries stay bounded. In a part of the model that
never ends, a common gain g is therefore subtracted from all rewards, and v = g/(1 − γ) + u. So

    d = (r − g) + γ u(s') − u(s)

has no large terms. u is kept in double-double precision, so that d keeps full float64 accuracy, and the remaining error
is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, Integers, Scale
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.double_double import DoubleDouble
from jmdp.methods.shared.policy_chain import policy_chain_solver
from jmdp.methods.shared.return_range import RewardUnits
from jmdp.methods.shared.same_state import StateClasses, happens
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

_MOST_REFINEMENTS = 30

_CENTRED = 3
"""Refinements after which the gain is updated; it is known to all its bits by then."""

_AT_ONCE = 8192
"""Outcomes processed together."""


@dataclass(frozen=True, eq=False)
class Shaped:
    """Values and TD errors of a model under a policy, for rewards scaled to size 1."""

    rewards: RewardUnits
    gain: Floats  # [S], g: subtracted from the rewards; 0 if γ < ½ or in parts of the model that can end
    relative: DoubleDouble  # [S], u = v − g/(1 − γ)
    value: DoubleDouble  # [S], v
    value_errors: Floats  # [S], errors of the double-double value
    td: Floats  # [S, K, A], d = r + γ v(s') − v(s)
    centred: Floats  # [S, K, A], δ = r + γ v(s') − q(s, a)
    td_errors: Floats  # [S], errors of td for outcomes of the policy, excluding the rounding of each entry
    centred_errors: Floats  # [S, A], errors of centred, likewise
    mean: Floats  # [S, A], q
    mean_errors: Floats  # [S, A]
    mean_rest: Floats  # [S, A], low word of q
    rest_errors: Floats  # [S, A], errors of mean + mean_rest
    classes: StateClasses

    @property
    def scale(self) -> Scale:
        """Scale by which rewards are divided."""
        return self.rewards.scale

    def gap_means(self) -> tuple[Floats, Floats]:
        """Differences of q between two actions of a state, on the original scale, and bounds on their errors."""
        value, error = dd.differences(DoubleDouble(self.mean, self.mean_rest), self.rest_errors)
        return self.scale.restore(value), self.scale.restore_error(error)

    @property
    def td_error(self) -> float:
        """Largest error of td and centred."""
        return max(float(self.td_errors.max()), float(self.centred_errors.max()))

    @property
    def mean_error(self) -> float:
        """Largest error of mean."""
        return float(self.mean_errors.max())


def shape_rewards(model: TabularJMDP, policy: TabularPolicy) -> Shaped:
    """Solve for the value by LU, refine it in double-double arithmetic, and bound the remaining error.

    |v − v*|(s) ≤ max |Σ p π d| / (1 − γ) over the states reachable from s: the policy-averaged TD error is the Bellman
    residual, and it does not require that rows of probabilities sum to exactly 1. If probabilities have a relative
    error ε (`TabularJMDP.prob_error`), the residual is off by ε Σ p π |δ| more, with δ = d − Σ p d for each action.
    """
    rewards = RewardUnits.of(model)
    reward = rewards.reward
    classes = StateClasses.of(model, policy)
    solve = policy_chain_solver(model, policy, model.discount, 1 - model.discount).forward
    size = np.where(model.reward == 0, 0.0, np.maximum(np.abs(reward), UNDERFLOW))  # rewards that underflowed are not 0
    scale = classes.reachable_max(np.where(happens(model, policy), size, 0.0).max(axis=(1, 2)))
    part = _lasting_parts(model, scale)
    gain, relative = _centred(
        model, part, np.zeros(len(scale)), dd.of(solve(np.einsum("sk,ska,sa->s", model.prob, reward, policy.probs)))
    )
    least = math.inf
    for count in range(_MOST_REFINEMENTS):
        td, change = td_errors(model, policy, reward, gain, relative)
        residual = float(np.divide(np.abs(change), scale, out=np.zeros_like(scale), where=scale > 0).max())
        if not residual < least / 2:
            break
        best, best_td, best_change, least = (gain, relative), td, np.abs(change), residual
        if residual <= 2.0**-80 * (1 - model.discount):  # an error of v too small to affect any result
            break
        relative = dd.add_float(relative, solve(change))
        if count < _CENTRED:
            gain, relative = _centred(model, part, gain, relative)
    (gain, relative), td = best, best_td
    noise = _noise(model, size, gain, relative, scale)
    rows = 1 + 8 * sum(model.shape[1:]) * ROUNDOFF  # rows sum to 1 only up to rounding
    drawn = np.where(policy.probs > 0, noise, 0.0).max(axis=1)
    common = _over_one_minus(gain, model.discount)
    value = dd.add(common, relative)
    rounded = np.where(gain == 0, 0.0, 8 * dd.RELATIVE_ERROR * (np.abs(common.high) + np.abs(relative.high)))
    mean, rest, centred = action_values(model, value, td)
    shifted = mean_shifts(model, centred)
    residual_error = drawn + (shifted * policy.probs).sum(axis=1) * rows
    error = classes.reachable_max(best_change * rows * (1 + 2.0**-40) + residual_error) / (1 - model.discount)
    possible = (model.prob > 0) & ~model.terminal[:, None]
    ahead = np.where(possible[:, :, None], error[model.next_state], 0.0).max(axis=1)
    ahead *= model.discount * (1 + 2.0**-40)
    rest_errors = (ahead + noise + rounded[:, None] + shifted) * (1 + 2.0**-40)
    return Shaped(
        rewards,
        gain,
        relative,
        value,
        error + rounded,
        td.high,
        centred,
        2 * error + 2 * drawn,
        2 * ahead + 2 * noise + shifted,
        mean,
        (np.abs(rest) + rest_errors) * (1 + 2.0**-40),
        rest,
        rest_errors,
        classes,
    )


def _lasting_parts(model: TabularJMDP, scale: Floats) -> Integers:
    """[S], number of the connected part of the model that a state is in; −1 if returns in it can end.

    Parts are connected by the possible outcomes of all actions. Returns end in a terminal state, and where no reward
    can follow: those values are exactly 0. If 1 − γ is rounded, no part counts.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    S = model.shape[0]
    possible = np.broadcast_to((model.prob > 0)[:, :, None], model.shape)
    rows = np.broadcast_to(np.arange(S)[:, None, None], model.shape)[possible]
    graph = coo_array((np.ones(rows.size, np.int8), (rows, model.next_state[possible])), shape=(S, S))
    count, label = connected_components(graph, directed=False)
    ends = np.zeros(count, bool)
    ends[label[model.terminal | (scale == 0)]] = True
    return np.where(ends[label] | (model.discount < 0.5), -1, label).astype(np.int64)


def _centred(model: TabularJMDP, part: Integers, gain: Floats, relative: DoubleDouble) -> tuple[Floats, DoubleDouble]:
    """Gains and relative values of about the same v, such that relative values are around 0 in each part."""
    lasts = part >= 0
    if not lasts.any():
        return gain, relative
    total, count = np.bincount(part[lasts], relative.high[lasts]), np.bincount(part[lasts])
    middle = (total / np.maximum(count, 1))[np.where(lasts, part, 0)]
    moved = np.where(lasts, gain + (1 - model.discount) * middle, gain)
    return moved, dd.add_float(relative, (gain - moved) / (1 - model.discount))


def _over_one_minus(gain: Floats, discount: float) -> DoubleDouble:
    """g / (1 − γ); 1 − γ is exact where g is not 0."""
    below = np.full(1, 1 - discount)
    high = gain / below
    rest = dd.add_float(dd.scale(dd.of(-high), below), gain)
    return dd.add_float(dd.of(high), rest.high / below)


def _noise(model: TabularJMDP, reward_size: Floats, gain: Floats, relative: DoubleDouble, scale: Floats) -> Floats:
    """[S, A], double-double rounding error of a TD error, of its mean over scenarios, and of q.

    Fewer than 2 (K + A + 8) operations follow one another, and row sums other than 1 are accounted for to first order.
    0 where no reward is possible: all of these are then exactly 0.
    """
    _, K, A = model.shape
    size = np.abs(relative.high)
    possible = ((model.prob > 0) & ~model.terminal[:, None])[:, :, None]
    most = np.where(possible, reward_size + 2 * size[model.next_state], 0.0).max(axis=1)
    most = most + (2 * size + np.abs(gain))[:, None]
    earns = np.where(possible, reward_size + scale[model.next_state], 0.0).max(axis=1) + scale[:, None] > 0
    return np.where(earns, (K * K + 8 * (K + A + 8)) * dd.RELATIVE_ERROR * most + UNDERFLOW, 0.0)


def mean_shifts(model: TabularJMDP, centred: Floats) -> Floats:
    """[S, A], effect of the error of the probabilities on means over scenarios: ε E|δ|, for centred δ [S, K, A].

    Both the probabilities and what they should be sum to 1, so a constant has no effect.
    """
    if not model.prob_error:
        return np.zeros((model.shape[0], model.shape[2]))
    prob = model.prob * ~model.terminal[:, None]
    return np.asarray(model.prob_error * (1 + 2.0**-20) * np.einsum("sk,ska->sa", prob, np.abs(centred)))


def _blocks(model: TabularJMDP) -> Iterator[slice]:
    """Slices of a few states, so that their intermediate results stay in the cache."""
    S, K, A = model.shape
    at_once = max(1, _AT_ONCE // (K * A))
    return (slice(first, first + at_once) for first in range(0, S, at_once))


def td_errors(
    model: TabularJMDP, policy: TabularPolicy, reward: Floats, gain: Floats, relative: DoubleDouble
) -> tuple[DoubleDouble, Floats]:
    """r − g + γ u(s') − u(s) [S, K, A] as double-doubles, and its mean over scenarios and the policy's actions [S]."""
    td, mean = DoubleDouble(np.empty(model.shape), np.empty(model.shape)), np.empty(model.shape[0])
    for block in _blocks(model):
        n = model.next_state[block]
        discounted = dd.scale(relative.at(n), np.full(1, model.discount))
        here = relative.at(np.s_[block, None, None])
        gained = dd.difference(reward[block], gain[block, None, None])
        part = dd.add(dd.add(discounted, dd.negative(here)), gained)
        td.high[block], td.low[block] = part
        over_actions = dd.total(dd.scale(part, policy.probs[block, None, :]), axis=2)
        mean[block] = dd.total(dd.scale(over_actions, model.prob[block]), axis=1).high
    return td, mean


def action_values(model: TabularJMDP, value: DoubleDouble, td: DoubleDouble) -> tuple[Floats, Floats, Floats]:
    """q [S, A], its low word [S, A], and the TD errors centred at q [S, K, A].

    q − v = Σ_k p d / Σ_k p, to first order in θ, where Σ_k p = 1 + θ is 1 only up to rounding.
    """
    S, _, A = model.shape
    mean, lost, centred = np.empty((S, A)), np.empty((S, A)), np.empty(model.shape)
    for block in _blocks(model):
        part, prob = td.at(block), model.prob[block]
        weighted = dd.total(dd.scale(part, prob[:, :, None]), axis=1)
        row_sum_error = dd.add_float(dd.total(dd.of(prob), axis=1), -np.ones(1)).high
        advantage = dd.add(weighted, dd.scale(weighted, -row_sum_error[:, None]))
        here = value.at(np.s_[block, None])
        mean[block], lost[block] = dd.add(here, advantage)
        negative = dd.negative(advantage.at(np.s_[:, None]))
        centred[block] = dd.add(part, negative).high
    return mean, lost, centred
