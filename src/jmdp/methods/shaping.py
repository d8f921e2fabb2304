"""Shape first: the value of the policy, and rewards replaced by their TD errors.

With v = r_π + γ P_π v, replace each reward by d(s, k, a) = r + γ v(s') − v(s). The shaped return is Z − v(s); its
policy mean is 0, so each of its moments is central and no variance is ever the difference of two large numbers.
Here v is carried in two words, so that d keeps its own last bits as γ nears 1. What is left of its error is bounded.

Rewards are first divided by the power of two just above their bound. That is exact, keeps every later square in
range, and makes results scale bit for bit with rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.arrays import Floats
from jmdp.evaluation import UNIT
from jmdp.methods import double_double as dd
from jmdp.methods.double_double import DoubleDouble
from jmdp.methods.policy_chain import policy_chain_solver
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

UNDERFLOW = 2.0**-900
"""More than all underflows of a run can add up to, on rewards of size 1."""

_MOST_REFINEMENTS = 30


@dataclass(frozen=True, eq=False)
class Shaped:
    """A model's values and TD errors under a policy, for rewards divided by 2**exponent."""

    exponent: int
    bound: float  # max |reward| / 2**exponent, in [½, 1), or 0
    value: DoubleDouble  # [S]
    td: Floats  # [S, K, A], d = r + γ v(s') − v(s)
    centred: Floats  # [S, K, A], δ = r + γ v(s') − q(s, a)
    td_error: float  # of td and centred, beyond the rounding of each entry itself
    mean: Floats  # [S, A], q
    mean_error: float


def shape(model: TabularJMDP, policy: TabularPolicy) -> Shaped:
    """Solve for the value by LU, refine in two words, and bound what is left.

    ‖v − v*‖∞ ≤ ‖Σ p π d‖∞ / (1 − γ): the policy-averaged TD error is the Bellman residual, and whether a row
    of probabilities sums to 1 exactly does not enter it.
    """
    exponent, bound, reward = unit_rewards(model)
    solve = policy_chain_solver(model, policy, model.discount, 1 - model.discount).forward
    _, K, A = model.shape
    value = dd.of(solve(np.einsum("sk,ska,sa->s", model.prob, reward, policy.probs)))
    best = math.inf
    for _ in range(_MOST_REFINEMENTS):
        td = _td(model, reward, value)
        change = _policy_mean(model, policy, td).high
        residual = float(np.abs(change).max())
        if not residual < best / 2:
            break
        kept, kept_td, best = value, td, residual
        largest = bound + 2 * float(np.abs(value.high).max())
        noise = (K * K + 64 * (K + A + 4)) * dd.RELATIVE_ERROR * largest + (UNDERFLOW if bound else 0.0)
        if residual <= 2.0**-80 * (1 - model.discount) * bound:  # an error of v that nothing later can see
            break
        value = dd.add_float(value, solve(change))
    value, td = kept, kept_td
    rows = 1 + 8 * (K + A) * UNIT  # the residual is of rows that sum to 1 up to rounding
    value_error = (best * rows * (1 + 2.0**-40) + noise) / (1 - model.discount)
    advantage = _advantage(model, td)
    mean = dd.add(_columns(value, 1), advantage).high
    centred = dd.add(td, dd.negative(_columns(advantage, 1))).high
    return Shaped(
        exponent,
        bound,
        value,
        td.high,
        centred,
        2 * value_error + 2 * noise,
        mean,
        (UNIT * float(np.abs(mean).max()) + value_error + noise) * (1 + 2.0**-40),
    )


def unit_rewards(model: TabularJMDP) -> tuple[int, float, Floats]:
    """Rewards divided by the power of two just above their bound: the exponent, the bound and the table then."""
    exponent = math.frexp(model.reward_bound)[1] if model.reward_bound else 0
    return exponent, math.ldexp(model.reward_bound, -exponent), np.ldexp(model.reward, -exponent)


def _columns(x: DoubleDouble, axis: int) -> DoubleDouble:
    return DoubleDouble(np.expand_dims(x.high, axis), np.expand_dims(x.low, axis))


def _advantage(model: TabularJMDP, td: DoubleDouble) -> DoubleDouble:
    """q − v = Σ_k p d / Σ_k p, where Σ_k p = 1 + θ is 1 only up to rounding: to first order in θ."""
    weighted = dd.total(dd.scale(td, model.prob[:, :, None]), axis=1)
    excess = dd.add(dd.total(dd.of(model.prob), axis=1), dd.of(-np.ones(1))).high
    return dd.add(weighted, dd.scale(weighted, -excess[:, None]))


def _td(model: TabularJMDP, reward: Floats, value: DoubleDouble) -> DoubleDouble:
    following = DoubleDouble(value.high[model.next_state], value.low[model.next_state])
    here = _columns(_columns(value, 1), 2)
    discounted = dd.scale(following, np.full(1, model.discount))
    return dd.add_float(dd.add(discounted, dd.negative(here)), reward)


def _policy_mean(model: TabularJMDP, policy: TabularPolicy, x: DoubleDouble) -> DoubleDouble:
    over_actions = dd.total(dd.scale(x, policy.probs[:, None, :]), axis=2)
    return dd.total(dd.scale(over_actions, model.prob), axis=1)
